package storage

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quire-log/quire/internal/golden"
	"github.com/quire-log/quire/internal/record"
)

// recordsOf reads the offsets of all records.
func recordsOf(t testing.TB, l *Log) (all []Offset) {
	t.Helper()
	for next := l.StartOffset(); next < l.EndOffset(); {
		d, err := l.Read(next, ReadOptions{MaxBytes: 1 << 20, Limit: l.EndOffset(), MinOneBatch: true})
		if err != nil {
			t.Fatal(err)
		}
		if d.Size == 0 {
			return all
		}
		var buf bytes.Buffer
		if _, err := d.Regions[0].WriteTo(&buf); err != nil {
			t.Fatal(err)
		}
		d.Release()
		if err := eachEntry(buf.Bytes(), func(_ int64, e record.Entry) error {
			var r record.Reader
			if err := r.ResetEntry(e, 1<<20); err != nil {
				return err
			}
			for r.Next() {
				all = append(all, r.Record().Offset)
			}
			next = e.LastOffset() + 1
			return r.Err()
		}); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// What is counted in a compacted log is what a reader finds, from every offset to every other.
func TestCountRecords(t *testing.T) {
	w := cleaning(t, nil)
	w.bubble(func(t *testing.T) {
		w.watermarks()
		m := w.start()
		m.Start()
		l := created(t, m, "orders")
		batch := func(from, n, keys int) {
			t.Helper()
			b := record.NewBuilder()
			for i := range n {
				b.Add(record.Record{Timestamp: time.Now().UnixMilli(), Key: fmt.Appendf(nil, "k%d", (from*7+i*i)%keys), Value: []byte("v")})
			}
			bytes, err := b.Batch(nil)
			if err == nil {
				_, err = l.Append(bytes, AppendOptions{LeaderEpoch: 1})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		for round := range 4 {
			for i := range 12 {
				batch(round*12+i, 1+i%5, 9+40*(i%3))
			}
			if err := l.Roll(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(3 * time.Second)
			synctest.Wait()
		}
		batch(0, 5, 9)
		all, end := recordsOf(t, l), l.EndOffset()
		if int64(len(all)) == int64(end) {
			t.Fatal("nothing was cleaned")
		}
		if n, exact, _, err := l.CountRecords(0, end, 10); err != nil || exact || n != int64(end) {
			t.Errorf("%d, exact %v, %v", n, exact, err)
		}
		for from := Offset(0); from <= end; from++ {
			for to := from; to <= end; to++ {
				want := int64(0)
				for _, o := range all {
					if o >= from && o < to {
						want++
					}
				}
				if n, exact, _, err := l.CountRecords(from, to, 1<<20); err != nil || !exact || n != want {
					t.Fatalf("from %d to %d: %d, exact %v, %v; want %d", from, to, n, exact, err, want)
				}
			}
		}
		// Whole segments are remembered: no byte of them is looked through again.
		if n, exact, _, err := l.CountRecords(0, end, 0); err != nil || !exact || n != int64(len(all)) {
			t.Errorf("remembered: %d, exact %v, %v; want %d", n, exact, err, len(all))
		}
		plain := created(t, m, "plain")
		fill(t, plain, 10)
		if n, exact, _, err := plain.CountRecords(-5, 99, 0); err != nil || !exact || n != 10 {
			t.Errorf("plain: %d, exact %v, %v", n, exact, err)
		}
	})
}

// Of message sets offsets are counted, and it is said so each time, also where a count was remembered.
func TestCountRecordsOfMessageSets(t *testing.T) {
	root := golden.Unpack(t, "old-formats")
	l := openGolden(t, filepath.Join(root, "data"), "v1-compacted-0", cleanerConfigs(t, "old-formats"), nil)
	defer l.Abandon()
	for _, look := range []string{"first", "second"} {
		if n, exact, _, err := l.CountRecords(0, l.EndOffset(), 1<<20); err != nil || exact {
			t.Errorf("%s look: %d, exact %v, %v", look, n, exact, err)
		}
	}
}
