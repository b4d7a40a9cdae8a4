package golden

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// files.txt has sha256, size and name of every file.
func TestUnpack(t *testing.T) {
	dir := Unpack(t, "plain-killed")
	list, err := os.Open(Shared(t, "golden", "plain-killed", "files.txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer list.Close()
	n := 0
	for s := bufio.NewScanner(list); s.Scan(); n++ {
		words := strings.Fields(s.Text())
		b, err := os.ReadFile(filepath.Join(dir, words[2]))
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != words[0] {
			t.Errorf("%s: %d bytes, not those of files.txt (%s)", words[2], len(b), words[1])
		}
	}
	if n == 0 {
		t.Error("files.txt is empty")
	}
}
