package storage

import (
	"bytes"
	"encoding/hex"
	"os"
	"testing"
	"time"

	"github.com/quire-log/quire/internal/vfs"
)

func TestWindowBytes(t *testing.T) {
	b := appendWindow(nil, []producerWindow{{4000, 3, []sentBatch{{8, 147, 2, 1767225600010}, {11, 150, 2, 1767225600020}}}})
	got, want := hex.EncodeToString(b), "0001"+"CRC"+"00000001"+"0000000000000fa0"+"0003"+"02"+
		"00000008"+"0000000000000093"+"00000002"+"0000019b76daa80a"+"0000000b"+"0000000000000096"+"00000002"+"0000019b76daa814"
	want = want[:4] + got[4:12] + want[7:]
	if got != want {
		t.Errorf("window = %s\nwant     %s", got, want)
	}
	if all, err := parseWindow(b); err != nil || len(all) != 1 {
		t.Errorf("read: %v, %v", all, err)
	}
	b[20] ^= 1
	if _, err := parseWindow(b); err == nil {
		t.Error("a flipped bit is not noticed")
	}
}

func FuzzWindow(f *testing.F) {
	f.Add(appendWindow(nil, nil))
	f.Add(appendWindow(nil, []producerWindow{{4000, 3, []sentBatch{{8, 147, 2, 7}, {11, 150, 2, 9}}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if all, err := parseWindow(b); err == nil && !bytes.Equal(appendWindow(nil, all), b) {
			t.Errorf("read %x, write %x", b, appendWindow(nil, all))
		}
	})
}

// A clean stop forgets no batch of a window; a file that does not fit the log is not believed, and goes.
func TestWindowSurvivesCleanStop(t *testing.T) {
	fsys := vfs.NewMem()
	open := func(clean bool) *Log {
		o := testOptions(fsys, testConfig())
		o.Clean = clean
		l, err := OpenLog(o)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	known := func(l *Log) int { return len(l.producers.byID[7].sent) }
	l := open(false)
	for n := range int32(7) {
		if _, err := l.Append(txnBatch(t, 7, 0, n), AppendOptions{Origin: FromCoordinator}); err != nil {
			t.Fatal(err)
		}
	}
	restart := func(what string, want int) {
		t.Helper()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		l = open(true)
		if got := known(l); got != want {
			t.Errorf("%s: %d batches known, want %d", what, got, want)
		}
	}
	restart("clean stop", 5)
	restart("nobody wrote", 5)
	dir, end := l.Dir(), l.EndOffset()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	name := dir + "/" + fileName(end, windowSuffix)
	f, err := fsys.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	other := appendWindow(nil, []producerWindow{{7, 0, []sentBatch{{0, 0, 0, 1}, {1, 1, 0, time.Now().UnixMilli() + 5}}}})
	if err = f.Truncate(0); err == nil {
		_, err = f.WriteAt(other, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	l = open(true)
	defer l.Close()
	if got := known(l); got != 1 {
		t.Errorf("of another log: %d batches known, want the snapshot's", got)
	}
	if _, err := fsys.Stat(name); err == nil {
		t.Error("a file that does not count is left")
	}
}
