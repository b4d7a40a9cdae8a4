package record

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"testing"
)

func TestFindTime(t *testing.T) {
	entries := map[string]Entry{}
	for c := None; c <= Zstd; c++ {
		b := NewBuilder()
		b.BaseOffset, b.Codec = 100, c
		b.AddAt(0, at(50))
		b.AddAt(3, Record{Timestamp: 90, Value: make([]byte, 3*windowBytes), Headers: []Header{{"h", nil}}})
		b.AddAt(4, at(70))
		b.AddAt(9, at(95))
		batch, err := b.Batch(nil)
		if err != nil {
			t.Fatal(err)
		}
		entries[c.String()] = batch
	}
	old := func(delta Offset, ms int64) oldMessage { return oldMessage{magic: 1, offset: delta, time: ms} }
	entries["magic 1"] = wrap(t, oldMessage{magic: 1, offset: 109}, Gzip, old(0, 50), old(3, 90), old(4, 70), old(9, 95))
	for name, e := range entries {
		for _, q := range []struct {
			from         Offset
			ms           int64
			offset, time int64
		}{
			{0, 0, 100, 50},
			{0, 50, 100, 50},
			{0, 51, 103, 90},
			{101, 0, 103, 90},
			{104, 0, 104, 70},
			{104, 80, 109, 95},
			{0, 95, 109, 95},
			{0, 96, -1, -1},
			{110, 0, -1, -1},
			{0, math.MinInt64, 100, 50},
		} {
			offset, ms, err := e.FindTime(q.from, q.ms, 1<<20)
			if err != nil || int64(offset) != q.offset || ms != q.time {
				t.Errorf("%s: from %d at %d: offset %d, time %d, %v; want %d, %d", name, q.from, q.ms, offset, ms, err, q.offset, q.time)
			}
		}
	}
	for c := Gzip; c <= Zstd; c++ {
		_, _, err := entries[c.String()].FindTime(0, 96, 1000)
		if _, large := errors.AsType[*TooLargeError](err); !large {
			t.Errorf("%v: beyond the bound: %v", c, err)
		}
	}
	stamped := Batch(bytes.Clone(entries["zstd"]))
	stamped.SetMaxTimestamp(500, true)
	if offset, ms, err := Entry(stamped).FindTime(101, 400, 1<<20); offset != 103 || ms != 500 || err != nil {
		t.Errorf("the broker's time: offset %d, time %d, %v", offset, ms, err)
	}
	for name, payload := range hostile() {
		for _, c := range []Codec{None, Gzip} {
			b := compressed(t, carrying(fixture(t, "F1"), None, payload), c)
			if offset, _, err := Entry(b).FindTime(0, math.MaxInt64, 1<<20); err == nil && name != "bytes after the value" {
				t.Errorf("%s, %v: offset %d, nothing found wrong", name, c, offset)
			} else if _, format := errors.AsType[*FormatError](err); err != nil && !format {
				t.Errorf("%s, %v: %T %v", name, c, err, fmt.Sprint(err))
			}
		}
	}
}
