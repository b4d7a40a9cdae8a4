package storage

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"testing"

	"github.com/quire-log/quire/internal/record"
)

// oddBatch is an uncompressed batch whose records, each of them given by a key, a value, and an offset delta, come in any order. Nobody
// demands one of those who produce.
func oddBatch(t *testing.T, last int32, records ...string) []byte {
	t.Helper()
	b := record.NewBuilder()
	b.Add(record.Record{Timestamp: 1, Key: []byte("k"), Value: []byte("v")})
	out, err := b.Batch(nil)
	if err != nil {
		t.Fatal(err)
	}
	one := out[record.HeaderSize:]
	out = slices.Clone(out[:record.HeaderSize])
	for _, r := range records {
		rec := slices.Clone(one)
		rec[3], rec[5], rec[7] = (r[2]-'0')<<1, r[0], r[1]
		out = append(out, rec...)
	}
	binary.BigEndian.PutUint32(out[8:], uint32(len(out)-record.LogOverhead))
	binary.BigEndian.PutUint32(out[23:], uint32(last))
	binary.BigEndian.PutUint32(out[57:], uint32(len(records)))
	binary.BigEndian.PutUint32(out[17:], crc32.Checksum(out[21:], crc32.MakeTable(crc32.Castagnoli)))
	return out
}

// A batch whose records are not in the order of their offsets, or claim offsets of others, does not keep its log from being cleaned, and
// costs nobody a record. Kafka gives up a log with such a batch until the next start.
func TestCleanOddBatches(t *testing.T) {
	for _, c := range []struct {
		last    int32
		records []string // key, value, offset delta
		want    string
		again   string // once c is written again, and all but that was clean
	}{
		{2, []string{"a12", "b10", "c11"}, "1:c1 2:a1 4:b3 6:d3", "2:a1 4:b3 6:d3 7:c4"}, // b is written again
		{2, []string{"a12", "a10", "c11"}, "2:a1 0:a1 1:c1 4:b3 6:d3", "0:a1 2:a1 4:b3 6:d3 7:c4"},
		{2, []string{"a12", "b10", "b11"}, "2:a1 4:b3 6:d3", "2:a1 4:b3 6:d3 7:c4"},
		{2, []string{"x14", "b10", "b11"}, "4:x1 0:b1 1:b1 4:b3 6:d3", "4:x1 0:b1 1:b1 4:b3 6:d3 7:c4"}, // x claims b's offset: all of that batch stays
		{2, []string{"d14", "y11", "b10"}, "4:d1 1:y1 0:b1 4:b3 6:d3", "4:d1 1:y1 0:b1 4:b3 6:d3 7:c4"}, // d is written again: not so the b at the offset that it claimed
	} {
		for _, way := range []int{0, 1} {
			cfg := testConfig()
			cfg.Compact, cfg.Delete = true, false
			l := openTest(t, newMem(t), cfg)
			put := func(b []byte) {
				t.Helper()
				binary.BigEndian.PutUint64(b, uint64(l.EndOffset()))
				if _, err := l.AppendAsFollower(b); err != nil {
					t.Fatal(err)
				}
			}
			put(oddBatch(t, c.last, c.records...))
			put(oddBatch(t, 0, "b20"))
			put(oddBatch(t, 1, "b30", "d21"))
			put(oddBatch(t, 0, "d30"))
			first := Offset(0)
			for n, want := range []string{c.want, c.again} {
				if n > 0 {
					put(oddBatch(t, 0, "c40"))
				}
				if err := l.Roll(); err != nil {
					t.Fatal(err)
				}
				if err := l.Flush(); err != nil {
					t.Fatal(err)
				}
				round := cleanRound{memory: 1 << 20, load: 0.9, fromBeginning: way == 0, fromEnd: way == 1}
				end, _, err := round.run(t.Context(), l, first, l.EndOffset(), 1000)
				if err != nil {
					t.Fatalf("%v: %v", c.records, err)
				}
				first = end
				got := ""
				eachRecord(t, l, func(r *record.Record) { got += fmt.Sprintf(" %d:%s%s", r.Offset, r.Key, r.Value) })
				if got != " "+want {
					t.Errorf("%v, way %d, cleaning %d:%s, want %s", c.records, way, n, got, want)
				}
			}
			l.Abandon()
		}
	}
}
