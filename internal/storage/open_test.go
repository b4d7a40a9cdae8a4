package storage

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/vfs"
)

// run is one-record batches at the offsets.
func run(offsets ...Offset) (all []byte) {
	for _, o := range offsets {
		b := batch(1, 1000+int64(o))
		b.SetBaseOffset(o)
		all = append(all, b...)
	}
	return all
}

func between(from, to Offset) (all []Offset) {
	for o := from; o < to; o++ {
		all = append(all, o)
	}
	return all
}

func writeTest(t testing.TB, fsys vfs.FS, name string, content []byte) {
	t.Helper()
	f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(content, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// offsetsOf reads the offsets of all batches from the log start.
func offsetsOf(t testing.TB, l *Log) []Offset {
	t.Helper()
	all, err := readOffsets(l)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func readOffsets(l *Log) (all []Offset, _ error) {
	for next := l.StartOffset(); next < l.EndOffset(); {
		d, err := l.Read(next, ReadOptions{MaxBytes: 1 << 20, Limit: l.EndOffset(), MinOneBatch: true})
		if err != nil {
			return all, err
		}
		if d.Size == 0 {
			return all, nil
		}
		var buf bytes.Buffer
		_, err = d.Regions[0].WriteTo(&buf)
		d.Release()
		if err != nil {
			return all, err
		}
		if err := eachEntry(buf.Bytes(), func(_ int64, e record.Entry) error {
			all = append(all, e.BaseOffset())
			next = e.LastOffset() + 1
			return nil
		}); err != nil {
			return all, err
		}
	}
	return all, nil
}

// What an interrupted deletion or compaction left beside segments 0, 10 and 20 is removed or completed.
func TestLeftovers(t *testing.T) {
	name := func(base Offset, suffix string) string { return fileName(base, suffix) }
	for _, q := range []struct {
		what  string
		files map[string][]byte
		want  []Offset
	}{
		{"half a compaction", map[string][]byte{name(0, ".log.cleaned"): run(0)}, between(0, 30)},
		{"a whole one", map[string][]byte{name(0, ".log.swap"): run(17, 18, 19), name(0, ".index.swap"): nil, name(0, ".timeindex.swap"): nil},
			append([]Offset{17, 18, 19}, between(20, 30)...)},
		{"a whole one, whose input is gone in part", map[string][]byte{name(0, ".log.swap"): run(17, 18, 19), name(10, ".log"): nil},
			append([]Offset{17, 18, 19}, between(20, 30)...)},
		{"a deleted segment", map[string][]byte{name(10, ".log.deleted"): run(10), name(10, ".snapshot.deleted"): nil}, between(0, 30)},
		{"indexes without a log", map[string][]byte{name(15, ".index"): nil, name(15, ".txnindex"): nil}, between(0, 30)},
		{"half a compaction beside a whole one", map[string][]byte{name(0, ".log.cleaned"): run(0), name(10, ".log.swap"): run(17, 18, 19)}, between(0, 30)},
		{"a stray snapshot", map[string][]byte{name(7, ".snapshot"): appendSnapshot(nil, nil)}, between(0, 30)},
		{"what is not ours", map[string][]byte{".hidden": nil, "notes.txt": nil, "12.log": nil}, between(0, 30)},
	} {
		for _, clean := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, clean %v", q.what, clean), func(t *testing.T) {
				mem := newMem(t)
				const dir = "/data/orders-3/"
				if err := mem.MkdirAll(dir, 0o755); err != nil {
					t.Fatal(err)
				}
				for base := Offset(0); base < 30; base += 10 {
					writeTest(t, mem, dir+fileName(base, logSuffix), run(between(base, base+10)...))
				}
				for n, content := range q.files {
					writeTest(t, mem, dir+n, content)
				}
				o := testOptions(mem, testConfig())
				o.Clean = clean
				l, err := OpenLog(o)
				if err != nil {
					t.Fatal(err)
				}
				if got := offsetsOf(t, l); !slices.Equal(got, q.want) {
					t.Errorf("offsets %v, want %v", got, q.want)
				}
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
				entries, err := mem.ReadDir(dir)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range entries {
					n := e.Name()
					if strings.HasSuffix(n, cleanedSuffix) || strings.HasSuffix(n, swapSuffix) || strings.HasSuffix(n, deletedSuffix) || strings.HasPrefix(n, fileName(15, "")) || n == fileName(7, snapshotSuffix) {
						t.Errorf("%s is still there", n)
					}
				}
				for _, n := range slices.Collect(maps.Keys(q.files)) {
					if _, err := mem.Stat(dir + n); err != nil && !strings.HasPrefix(n, "0") {
						t.Errorf("%s was removed", n)
					}
				}
			})
		}
	}
}

// Deleted files wait for file.delete.delay.ms, and a log that is closed before leaves them to the next start.
func TestDeletedFilesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := newMem(t)
		cfg := testConfig()
		cfg.FileDeleteDelayMs = 60_000
		l := openTest(t, mem, cfg)
		exists := func() bool {
			_, err := mem.Stat("/data/orders-3/" + fileName(0, logSuffix) + deletedSuffix)
			return err == nil
		}
		if _, err := l.Append(batch(1, 1000), AppendOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := l.Roll(); err != nil {
			t.Fatal(err)
		}
		if _, err := l.DeleteRecords(1); err != nil {
			t.Fatal(err)
		}
		if n, err := l.DeleteOldSegments(1); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		time.Sleep(59 * time.Second)
		synctest.Wait()
		if !exists() {
			t.Error("unlinked before its time")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if exists() {
			t.Error("still there after its time")
		}
		if _, err := l.Append(batch(1, 1000), AppendOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// Producers that wrote nothing for as long as the expiry are forgotten, but for those with an open transaction.
func TestProducersExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig()
		cfg.ProducerExpirationMs = 86_400_000
		l := openTest(t, newMem(t), cfg)
		defer l.Abandon()
		now := time.Now().UnixMilli()
		for id, change := range [][]func(*record.Builder){{by(0, 0, 0)}, {by(1, 0, 0), transactional}} {
			if _, err := l.Append(batch(1, now, change...), AppendOptions{}); err != nil {
				t.Fatal(id, err)
			}
		}
		time.Sleep(24*time.Hour - time.Millisecond)
		l.ExpireProducers()
		if got := len(l.Producers()); got != 2 {
			t.Errorf("%d producers a moment before", got)
		}
		time.Sleep(time.Millisecond)
		l.ExpireProducers()
		if got := infoStrings(l); len(got) != 1 || !strings.HasPrefix(got[0], "{1 ") {
			t.Errorf("producers left: %v", got)
		}
	})
}

// Whatever bytes a .log has, the log opens, and what it shows is sound.
func FuzzOpen(f *testing.F) {
	f.Add(run(0, 1, 2), false)
	f.Add(append(run(0, 5), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), true)
	f.Add(append(run(0), record.AppendEndTxnMarker(nil, 3, 0, false, 1, 1000)...), true)
	f.Fuzz(func(t *testing.T, content []byte, clean bool) {
		mem := vfs.NewMem()
		if err := mem.MkdirAll("/data/orders-3", 0o755); err != nil {
			t.Fatal(err)
		}
		writeTest(t, mem, "/data/orders-3/"+fileName(0, logSuffix), content)
		if clean {
			writeTest(t, mem, "/data/orders-3/"+fileName(0, indexSuffix), nil)
		}
		o := testOptions(mem, testConfig())
		o.Clean = clean
		l, err := OpenLog(o)
		if err != nil {
			t.Fatal(err)
		}
		end := l.EndOffset()
		if _, err := l.Append(batch(1, 1000), AppendOptions{}); err != nil {
			t.Fatal(err)
		}
		// A clean start trusts what it finds. Then a reader may meet a batch that lies, and is told so.
		got, err := readOffsets(l)
		if lies := new(CorruptError); !clean || !errors.As(err, &lies) {
			if err != nil || len(got) == 0 || got[len(got)-1] != end {
				t.Fatalf("offsets %v, %v, the last should be %d", got, err, end)
			}
		}
		if _, err := l.OffsetForTime(1); err != nil && !clean {
			t.Logf("time: %v", err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
