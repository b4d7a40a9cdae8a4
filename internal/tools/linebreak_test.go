package tools

import (
	"bufio"
	"os"
	"strings"
	"testing"
)

// Each pair of lines in the file is a text and where Java's iterator cuts it.
func TestBreakLine(t *testing.T) {
	f, err := os.Open("testdata/linebreak.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		text := strings.ReplaceAll(lines.Text(), `\t`, "\t")
		if !lines.Scan() {
			t.Fatalf("no answer for %q", text)
		}
		want := strings.ReplaceAll(lines.Text(), `\t`, "\t")
		var got strings.Builder
		for _, piece := range breakLine(text) {
			got.WriteString("⟨" + piece + "⟩")
		}
		if got.String() != want {
			t.Errorf("%q\n got %s\nwant %s", text, got.String(), want)
		}
	}
}
