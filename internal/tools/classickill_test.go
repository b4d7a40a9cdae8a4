package tools

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quire-log/quire/internal/classic"
	"github.com/quire-log/quire/internal/vfs"
	"github.com/quire-log/quire/quiretest"
)

// importArgs has the test binary be `quire classic import`, so that it can be killed.
const importArgs = "QUIRE_TEST_CLASSIC_IMPORT"

func init() {
	if args := os.Getenv(importArgs); args != "" {
		os.Exit(classicCommand(Env{Stdin: strings.NewReader(""), Stdout: os.Stdout, Stderr: os.Stderr}, strings.Split(args, "\n")))
	}
}

// An import that is killed again and again, at any instant, imports every message once, in order.
func TestClassicImportKilled(t *testing.T) {
	address := quiretest.Start(t).Addr()
	dir := filepath.Join(t.TempDir(), "my_topic_0")
	l, err := classic.Open(classic.Options{
		FS: vfs.OS(), Dir: dir, Partition: classic.TopicPartition{Topic: "my_topic"}, Config: classic.Config{SegmentBytes: 1 << 20, MessageBytesMax: 1 << 20},
	})
	if err != nil {
		t.Fatal(err)
	}
	var want []imported
	for n := range 500 {
		value := fmt.Sprintf("%d %s", n, strings.Repeat("x", 30_000))
		offset, err := l.Append(classic.Message{Payload: []byte(value)})
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, imported{value, fmt.Sprint(offset), ""})
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// One that nobody disturbs tells how long to let the others live.
	run := func(topic string, life time.Duration) (done bool) {
		t.Helper()
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), importArgs+"="+strings.Join([]string{"import", dir, "--topic", topic, "--bootstrap-server", address}, "\n"))
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var killer *time.Timer
		if life > 0 {
			killer = time.AfterFunc(life, func() { _ = cmd.Process.Kill() })
		}
		err := cmd.Wait()
		killed := killer != nil && !killer.Stop()
		if err != nil && !killed {
			t.Fatalf("%v\n%s", err, out.String())
		}
		return err == nil
	}
	begin := time.Now()
	run("whole", 0)
	whole := time.Since(begin)
	kills := 0
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d, %v undisturbed", seed, whole)
	topics := []string{"whole", "a", "b", "c"}
	for _, topic := range topics[1:] {
		for range 10 {
			if run(topic, whole/5+time.Duration(random.Int64N(int64(whole)/2))) {
				break
			}
			kills++
		}
		run(topic, 0)
	}
	for _, topic := range topics {
		if got := readImported(t, address, topic, 0); !slices.Equal(got, want) {
			t.Errorf("%s: %d messages, want %d", topic, len(got), len(want))
		}
	}
	t.Logf("killed %d times", kills)
}
