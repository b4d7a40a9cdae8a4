package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"strconv"
	"strings"
	"testing"
)

// Batches as clients have sent them: base offset 0, time 1000 ms, no producer, and right checksums unless said.
var fixtures = map[string]string{
	// one record: null key, value a
	"F1": "000000000000000000000039ffffffff02ebf1884b00000000000000000000000003e800000000000003e8ffffffffffffffffffffffffffff000000010e00000001026100",
	// key k, value v, header h with null value
	"F2": "00000000000000000000003dffffffff025786924900000000000000000000000003e800000000000003e8ffffffffffffffffffffffffffff0000000116000000026b027602026801",
	// two records, header says three
	"F4": "000000000000000000000041ffffffff02bac99ab500000000000200000000000003e800000000000003e8ffffffffffffffffffffffffffff000000030e000000010261000e00000201026200",
	// two records, header says one
	"F5": "000000000000000000000041ffffffff027750570700000000000000000000000003e800000000000003e8ffffffffffffffffffffffffffff000000010e000000010261000e00000201026200",
	// one record, header says 2147483647
	"F6": "000000000000000000000039ffffffff02b7e2a60d00007ffffffe00000000000003e800000000000003e8ffffffffffffffffffffffffffff7fffffff0e00000001026100",
	// record count -1
	"F7": "000000000000000000000039ffffffff02cb5014a100000000000000000000000003e800000000000003e8ffffffffffffffffffffffffffffffffffff0e00000001026100",
	// header count -1
	"F8": "000000000000000000000039ffffffff02199a0b4800000000000000000000000003e800000000000003e8ffffffffffffffffffffffffffff000000010e00000001026101",
	// control bit
	"F10": "000000000000000000000042ffffffff0254df6f3200200000000000000000000003e800000000000003e8ffffffffffffffffffffffffffff000000012000000008000000010c00000000000000",
	// key length that never ends
	"F11": "000000000000000000000043ffffffff020d93248300000000000000000000000003e800000000000003e8ffffffffffffffffffffffffffff0000000122000000ffffffffffffffffffff01026100",
	// maximum timestamp lies (year 33658)
	"F12": "000000000000000000000039ffffffff0217d8945a00000000000000000000000003e800038d7ea4c67fffffffffffffffffffffffffffffff000000010e00000001026100",
	// snappy, raw
	"F13": "00000000000000000000003bffffffff02484f63ab00020000000000000000000003e800000000000003e8ffffffffffffffffffffffffffff00000001081c0e00000001026100",
	// snappy, xerial framing
	"F14": "00000000000000000000004fffffffff024717825600020000000000000000000003e800000000000003e8ffffffffffffffffffffffffffff0000000182534e415050590000000001000000010000000a081c0e00000001026100",
	// gzip bit, payload is not gzip
	"F15": "000000000000000000000039ffffffff02821f2ac500010000000000000000000003e800000000000003e8ffffffffffffffffffffffffffff00000001deadbeefdeadbeef",
	// key length -5
	"F16": "000000000000000000000039ffffffff021db5ebad00000000000000000000000003e800000000000003e8ffffffffffffffffffffffffffff000000010e00000009026100",
	// one bit flipped
	"F17": "000000000000000000000039ffffffff02ebf1884b00000000000000000000000003e800000000000003e8ffffffffffffffffffffffffffff000000010e00000001026000",
	// LogAppendTime bit
	"F18": "000000000000000000000039ffffffff0298695f4900080000000000000000000003e800000000000003e8ffffffffffffffffffffffffffff000000010e00000001026100",
}

func fixture(t testing.TB, name string) Batch { return unhex(t, fixtures[name]) }

// with changes a copy of b and makes the checksum right.
func with(b Batch, change func(b Batch)) Batch {
	b = bytes.Clone(b)
	change(b)
	b.sum()
	return b
}

// carrying is b with other records, as they would be sent.
func carrying(b Batch, c Codec, payload []byte) Batch {
	b = append(bytes.Clone(b[:HeaderSize]), payload...)
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-LogOverhead))
	binary.BigEndian.PutUint16(b[21:], uint16(b.Attributes()&^AttrCodecMask|int16(c)))
	b.sum()
	return b
}

// compressed is b with its records compressed by c.
func compressed(t testing.TB, b Batch, c Codec) Batch {
	t.Helper()
	payload, err := Compress(nil, b.Payload(), c, DefaultLevel)
	if err != nil {
		t.Fatal(err)
	}
	return carrying(b, c, payload)
}

// lenient are rules that every sound batch keeps to.
func lenient() Rules {
	return Rules{Partition: "orders-3", Now: 5000, TimestampBeforeMaxMs: math.MaxInt64, TimestampAfterMaxMs: math.MaxInt64, MaxBytes: 1 << 20}
}

func TestFixtures(t *testing.T) {
	const broken = FaultInvalid
	for _, q := range []struct {
		name    string
		fault   Fault // 0: accepted
		message string
		zipped  Fault // with the same records gzipped
	}{
		{"F1", 0, "", 0},
		{"F2", 0, "", 0},
		{"F4", broken, "Incorrect declared batch size, premature EOF reached", broken},
		{"F5", broken, "Incorrect declared batch size, records still remaining in file", broken},
		{"F6", broken, "Incorrect declared batch size, premature EOF reached", broken},
		{"F7", broken, "Invalid reported count for record batch: -1 in topic partition orders-3", broken},
		{"F8", broken, "Found invalid number of record headers -1", broken},
		{"F10", broken, "Clients are not allowed to write control records in topic partition orders-3", broken},
		{"F11", broken, "Found invalid record structure", broken},
		{"F12", 0, "", 0},
		{"F13", 0, "", -1},
		{"F14", 0, "", -1},
		{"F15", broken, "The records in topic partition orders-3 cannot be inflated: gzip: unexpected EOF", -1},
		{"F16", 0, "", 0}, // Kafka takes any negative length for null
		{"F17", FaultCorrupt, "Record is corrupt (stored crc = 3958474827) in topic partition orders-3.", 0},
		{"F18", 0, "", 0},
	} {
		b := fixture(t, q.name)
		wantFault(t, q.name, b, lenient(), q.fault, q.message)
		if q.zipped >= 0 {
			wantFault(t, q.name+" gzipped", compressed(t, b, Gzip), lenient(), q.zipped, q.message)
		}
	}
}

// wantFault validates b and looks at the outcome: a fault and its message, or with none a batch that is sound.
func wantFault(t *testing.T, name string, b Batch, rules Rules, fault Fault, message string) Verdict {
	t.Helper()
	was := bytes.Clone(b)
	v, err := Validate(b, rules, nil)
	if fault == 0 {
		if err != nil {
			t.Errorf("%s: refused: %v", name, err)
			return v
		}
		if !v.Batch.ChecksumValid() || v.Batch.MaxTimestamp() != v.MaxTimestamp {
			t.Errorf("%s: checksum valid %v, max timestamp %d in the header, %d in the verdict", name, v.Batch.ChecksumValid(), v.Batch.MaxTimestamp(), v.MaxTimestamp)
		}
		return v
	}
	var invalid *InvalidError
	switch {
	case !errors.As(err, &invalid):
		t.Errorf("%s: got %v, want fault %d: %s", name, err, fault, message)
	case invalid.Fault != fault || message != "" && invalid.Message != message:
		t.Errorf("%s: got fault %d: %s\nwant %d: %s", name, invalid.Fault, invalid.Message, fault, message)
	case !bytes.Equal(b, was):
		t.Errorf("%s: refused, but changed", name)
	}
	return v
}

// hostile are records of one batch that no reader can tell apart.
func hostile() map[string][]byte {
	record := func(b ...byte) []byte { return append(binary.AppendVarint(nil, int64(len(b))), b...) }
	most := binary.AppendVarint(nil, math.MaxInt32)
	long := binary.AppendVarint(nil, 100_000) // longer than the window
	return map[string][]byte{
		"no records":               {},
		"length beyond the batch":  {0x7e, 0, 0, 0, 1, 2, 'a', 0},
		"length of 2 GiB":          append(most[:len(most):len(most)], 0, 0, 0, 1, 2, 'a', 0),
		"negative length":          {0x03, 0, 0, 0, 1, 2, 'a', 0},
		"long, and nothing":        append([]byte{}, long...),
		"long, and attributes":     append(long[:len(long):len(long)], 0),
		"long, and half a head":    append(long[:len(long):len(long)], 0, 0xff),
		"long, and a head":         append(long[:len(long):len(long)], 0, 0, 0),
		"long, and half a key":     append(long[:len(long):len(long)], 0, 0, 0, 20, 'k'),
		"long, key longer":         append(append(long[:len(long):len(long)], 0, 0, 0), most...),
		"long, headers missing":    append(append(append(long[:len(long):len(long)], 0, 0, 0, 1), appendVarints(nil, 99_980)...), make([]byte, 99_980)...),
		"long, bytes left over":    append(long[:len(long):len(long)], make([]byte, 100_000)...),
		"length 0":                 {0x00},
		"length that never ends":   {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
		"length cut off":           {0xff},
		"attributes alone":         record(0),
		"time that never ends":     record(0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 1, 2, 'a', 0),
		"key beyond the record":    record(0, 0, 0, 20, 'k', 1, 0),
		"value beyond the record":  record(0, 0, 0, 1, 20, 'v', 0),
		"no header count":          record(0, 0, 0, 1, 2, 'a'),
		"header count of 2 GiB":    record(append([]byte{0, 0, 0, 1, 2, 'a'}, most...)...),
		"header without key":       record(0, 0, 0, 1, 2, 'a', 2, 1, 2, 'v'),
		"header key beyond record": record(0, 0, 0, 1, 2, 'a', 2, 40, 'h', 0),
		"bytes after the value":    record(0, 0, 0, 1, 2, 'a', 0, 9, 9),
	}
}

func TestHostileRecords(t *testing.T) {
	for name, payload := range hostile() {
		for c := None; c <= Zstd; c++ {
			plain := carrying(fixture(t, "F1"), None, payload)
			b := plain
			if c != None {
				b = compressed(t, plain, c)
			}
			wantFault(t, fmt.Sprintf("%s, %v", name, c), b, lenient(), FaultInvalid, "")
			var r Reader
			err := r.Reset(b, 1<<20)
			for err == nil && r.Next() {
			}
			if err == nil && r.Err() == nil {
				t.Errorf("%s, %v: the reader finds nothing wrong", name, c)
			}
		}
	}
}

func TestHeaderRules(t *testing.T) {
	f1 := fixture(t, "F1")
	small := lenient()
	small.MaxBytes = len(f1) - 1
	for _, q := range []struct {
		name    string
		b       Batch
		rules   Rules
		fault   Fault
		message string
	}{
		{"empty", nil, lenient(), FaultCorrupt, ""},
		{"half a header", f1[:40], lenient(), FaultCorrupt, ""},
		{"half a record", f1[:len(f1)-3], lenient(), FaultCorrupt, ""},
		{"length too large", with(f1, func(b Batch) { b[11]++ }), lenient(), FaultCorrupt, ""},
		{"length too small", with(f1, func(b Batch) { b[11]-- }), lenient(), FaultInvalid, ""},
		{"length -1", with(f1, func(b Batch) { copy(b[8:], "\xff\xff\xff\xff") }), lenient(), FaultCorrupt, ""},
		{"magic 1", with(f1, func(b Batch) { b[magicOffset] = 1 }), lenient(), FaultInvalid, ""},
		{"magic 3", with(f1, func(b Batch) { b[magicOffset] = 3 }), lenient(), FaultInvalid, ""},
		{"base offset 7", with(f1, func(b Batch) { b[7] = 7 }), lenient(), FaultInvalid,
			"The baseOffset of the record batch in the append to orders-3 should be 0, but it is 7"},
		{"one byte too long", f1, small, FaultTooLarge,
			"The record batch size in the append to orders-3 is 69 bytes which exceeds the maximum configured value of 68)."},
		{"codec 5", with(f1, func(b Batch) { b[22] = 5 }), lenient(), FaultUnsupportedCodec, "Unknown compression type id: 5"},
		{"last offset delta 5", with(f1, func(b Batch) { b[26] = 5 }), lenient(), FaultInvalid,
			"Inconsistent batch offset range [0, 5] and count of records 1 in topic partition orders-3"},
		{"last offset delta -1", with(f1, func(b Batch) { copy(b[23:], "\xff\xff\xff\xff") }), lenient(), FaultInvalid,
			"Batch has an invalid offset range: [0, -1] in topic partition orders-3"},
		{"count 0", with(f1, func(b Batch) { b[60] = 0 }), lenient(), FaultInvalid,
			"Invalid reported count for record batch: 0 in topic partition orders-3"},
		{"producer without sequence", with(f1, func(b Batch) { copy(b[43:], make([]byte, 10)) }), lenient(), FaultInvalid,
			"Invalid sequence number -1 in record batch with producerId 0 in topic partition orders-3"},
		{"transactional control batch", with(f1, func(b Batch) { b[22] = 0x30 }), lenient(), FaultInvalid,
			"Clients are not allowed to write control records in topic partition orders-3"},
	} {
		wantFault(t, q.name, q.b, q.rules, q.fault, q.message)
	}
}

// batchOf builds a batch from a client.
func batchOf(t testing.TB, c Codec, records ...Record) Batch {
	t.Helper()
	b := NewBuilder()
	b.LeaderEpoch, b.Codec = -1, c
	for _, r := range records {
		b.Add(r)
	}
	batch, err := b.Batch(nil)
	if err != nil {
		t.Fatal(err)
	}
	return batch
}

func at(ms int64) Record { return Record{Timestamp: ms, Key: []byte("k"), Value: []byte("v")} }

func TestLyingMaxTimestamp(t *testing.T) {
	for _, name := range []string{"F12", "F18"} {
		v := wantFault(t, name, fixture(t, name), lenient(), 0, "")
		if v.MaxTimestamp != 1000 || v.Rewritten || v.Batch.IsLogAppendTime() {
			t.Errorf("%s: %+v", name, v)
		}
		if want := fixture(t, "F1"); !bytes.Equal(v.Batch, want) {
			t.Errorf("%s: stored as\n%x, want\n%x", name, []byte(v.Batch), []byte(want))
		}
	}
	v := wantFault(t, "out of order", batchOf(t, LZ4, at(10), at(30), at(20), at(30)), lenient(), 0, "")
	if v.MaxTimestamp != 30 || v.OffsetOfMax != 1 {
		t.Errorf("out of order: max %d at %d", v.MaxTimestamp, v.OffsetOfMax)
	}
	v = wantFault(t, "no times", batchOf(t, None, at(-1), at(-1)), lenient(), 0, "")
	if v.MaxTimestamp != -1 || v.OffsetOfMax != 0 {
		t.Errorf("no times: max %d at %d", v.MaxTimestamp, v.OffsetOfMax)
	}
}

func TestLogAppendTime(t *testing.T) {
	for c := None; c <= Zstd; c++ {
		rules := lenient()
		rules.LogAppendTime, rules.TimestampBeforeMaxMs = true, 1 // the broker's own time is not limited
		sent := batchOf(t, c, at(1), at(2), at(3))
		payload := bytes.Clone(sent.Payload())
		v := wantFault(t, c.String(), sent, rules, 0, "")
		if v.MaxTimestamp != rules.Now || v.OffsetOfMax != 0 || v.Rewritten || !v.Batch.IsLogAppendTime() || !bytes.Equal(v.Batch.Payload(), payload) {
			t.Errorf("%v: %+v", c, v)
		}
		var r Reader
		if err := r.Reset(v.Batch, 1<<20); err != nil {
			t.Fatal(err)
		}
		for r.Next() {
			if r.Record().Timestamp != rules.Now {
				t.Errorf("%v: a record of time %d", c, r.Record().Timestamp)
			}
		}
	}
	rules := lenient()
	rules.LogAppendTime = true
	wantFault(t, "client's bit on a topic of append times", fixture(t, "F18"), rules, FaultTimestamp, "One or more records have been rejected due to invalid timestamp")
	timeless := with(batchOf(t, None, at(-1)), func(b Batch) { b[22] |= AttrLogAppendTime })
	wantFault(t, "client's bit without a time", timeless, lenient(), FaultTimestamp, "One or more records have been rejected due to invalid timestamp")
}

func TestRecordErrors(t *testing.T) {
	const now, hour = 1_000_000_000, 3_600_000
	keyless := func(ms int64) Record { return Record{Timestamp: ms} }
	rules := lenient()
	rules.Now, rules.TimestampBeforeMaxMs, rules.TimestampAfterMaxMs, rules.Compacted = now, hour, hour, true
	for _, q := range []struct {
		name    string
		records []Record
		fault   Fault
		message string
		blamed  string
	}{
		{"times", []Record{at(now), at(now - 2*hour), at(-1), at(now - 3*hour), at(now + hour + 1), at(now + hour), at(now - hour)}, FaultTimestamp,
			"One or more records have been rejected due to invalid timestamp",
			"[{1 Timestamp 992800000 of message with offset 1 is out of range. The timestamp should be within [996400000, 1003600000]}" +
				" {3 Timestamp 989200000 of message with offset 3 is out of range. The timestamp should be within [996400000, 1003600000]}" +
				" {4 Timestamp 1003600001 of message with offset 4 is out of range. The timestamp should be within [996400000, 1003600000]}]"},
		{"keys", []Record{at(now), keyless(now)}, FaultInvalid,
			"One or more records have been rejected due to 1 record errors in total, and only showing the first three errors at most: " +
				"[RecordError(batchIndex=1, message='Compacted topic cannot accept message without key in topic partition orders-3')]",
			"[{1 Compacted topic cannot accept message without key in topic partition orders-3}]"},
		{"many keys", []Record{keyless(now), keyless(now), keyless(now), keyless(now)}, FaultInvalid,
			"One or more records have been rejected due to 4 record errors in total, and only showing the first three errors at most: [" +
				"RecordError(batchIndex=0, message='Compacted topic cannot accept message without key in topic partition orders-3'), " +
				"RecordError(batchIndex=1, message='Compacted topic cannot accept message without key in topic partition orders-3'), " +
				"RecordError(batchIndex=2, message='Compacted topic cannot accept message without key in topic partition orders-3')]", ""},
		{"a key is looked at before a time", []Record{keyless(1), at(1)}, FaultTimestamp,
			"One or more records have been rejected due to invalid timestamp",
			"[{0 Compacted topic cannot accept message without key in topic partition orders-3}" +
				" {1 Timestamp 1 of message with offset 1 is out of range. The timestamp should be within [996400000, 1003600000]}]"},
	} {
		for c := None; c <= Zstd; c++ {
			b := batchOf(t, c, q.records...)
			wantFault(t, q.name, b, rules, q.fault, q.message)
			_, err := Validate(b, rules, nil)
			var invalid *InvalidError
			if errors.As(err, &invalid) && q.blamed != "" && fmt.Sprint(invalid.Records) != q.blamed {
				t.Errorf("%s, %v: blamed\n%v, want\n%s", q.name, c, invalid.Records, q.blamed)
			}
		}
	}
	wantFault(t, "all times allowed", batchOf(t, None, at(math.MinInt64+1), at(1)), lenient(), 0, "")
	limited := lenient()
	limited.TimestampAfterMaxMs = hour
	wantFault(t, "a time so early that its age wraps", batchOf(t, None, at(math.MinInt64+1)), limited, FaultTimestamp, "")
}

func TestRecordErrorsAreBounded(t *testing.T) {
	records := make([]Record, 20_000)
	rules := lenient()
	rules.Compacted = true
	_, err := Validate(batchOf(t, Gzip, records...), rules, nil)
	var invalid *InvalidError
	if !errors.As(err, &invalid) || len(invalid.Records) != maxRecordErrors || !strings.Contains(invalid.Message, "20000 record errors in total") {
		t.Errorf("%d records named: %.80s", len(invalid.Records), invalid.Message)
	}
}

func TestRecompress(t *testing.T) {
	var records []Record
	for i := range 100 {
		records = append(records, Record{Timestamp: 1000 + int64(i), Key: []byte{byte(i)}, Value: bytes.Repeat([]byte{byte(i)}, 1+i*7),
			Headers: []Header{{"h", nil}, {"", []byte{}}, {"h", []byte{1}}}})
	}
	records[7].Value = bytes.Repeat([]byte("longer than the window "), windowBytes/16)
	for from := None; from <= Zstd; from++ {
		for to := None; to <= Zstd; to++ {
			name := fmt.Sprintf("%v to %v", from, to)
			sent := batchOf(t, from, records...)
			sent.SetLeaderEpoch(-1)
			rules := lenient()
			rules.Recompress, rules.Codec, rules.Level = true, to, DefaultLevel
			v := wantFault(t, name, bytes.Clone(sent), rules, 0, "")
			if v.Rewritten != (from != to) || v.Batch.Codec() != to {
				t.Errorf("%s: rewritten %v, codec %v", name, v.Rewritten, v.Batch.Codec())
			}
			if got, want := text(t, v.Batch), text(t, sent); got != want {
				t.Errorf("%s: reads\n%.300s, want\n%.300s", name, got, want)
			}
			rules.MaxBytes = len(v.Batch) - 1
			if from != to && len(sent) < len(v.Batch) {
				wantFault(t, name+", too large after", bytes.Clone(sent), rules, FaultTooLarge, "")
			}
		}
	}
}

// text is what a reader makes of a batch, long keys and values by their checksum.
func text(t testing.TB, b Batch) string {
	t.Helper()
	brief := func(b []byte) string {
		switch {
		case b == nil:
			return "null"
		case len(b) > 40:
			return fmt.Sprintf("%d:%08x", len(b), crc32.ChecksumIEEE(b))
		}
		return strconv.Quote(string(b))
	}
	var s strings.Builder
	var r Reader
	if err := r.Reset(b, 1<<30); err != nil {
		t.Fatal(err)
	}
	for r.Next() {
		rec := r.Record()
		fmt.Fprintf(&s, "%d @%d %s=%s", rec.Offset, rec.Timestamp, brief(rec.Key), brief(rec.Value))
		for _, h := range rec.Headers {
			fmt.Fprintf(&s, " %s:%s", brief([]byte(h.Key)), brief(h.Value))
		}
		s.WriteByte('\n')
	}
	if r.Err() != nil {
		t.Fatal(r.Err())
	}
	return s.String()
}

func TestTooLargeAfterRecompression(t *testing.T) {
	rules := lenient()
	rules.Recompress, rules.MaxBytes = true, 2000
	for to := None; to <= LZ4; to++ {
		rules.Codec = to
		noise := make([]byte, 1<<20)
		if to != None {
			for i := range noise {
				noise[i] = byte(i * i >> 7 * i >> 3)
			}
		}
		// A record is wrong at the end: that comes before its size.
		b := compressed(t, batchOf(t, None, Record{Value: noise}), Zstd)
		if len(b) > rules.MaxBytes {
			b = compressed(t, batchOf(t, None, Record{Value: make([]byte, 1<<20)}), Zstd)
			rules.MaxBytes = len(b)
		}
		wantFault(t, to.String(), b, rules, FaultTooLarge, "")
		rules.Compacted = true
		wantFault(t, to.String()+", keyless", b, rules, FaultInvalid, "")
		rules.Compacted = false
	}
}

func TestWrongDeltasAreNumberedAnew(t *testing.T) {
	for _, long := range []bool{false, true} {
		for c := None; c <= Zstd; c++ {
			b := NewBuilder()
			b.Codec, b.ProducerID, b.ProducerEpoch, b.BaseSequence = c, 9, 1, 4
			value := []byte("v")
			if long {
				value = make([]byte, 2*windowBytes)
			}
			b.AddAt(0, Record{Timestamp: 1000, Value: value, Headers: []Header{{"a", nil}}})
			b.AddAt(70, Record{Timestamp: 1001, Key: []byte("k"), Value: value})
			b.AddAt(100000, Record{Timestamp: 1002, Value: value})
			sent, err := b.Batch(nil)
			if err != nil {
				t.Fatal(err)
			}
			sent = with(sent, func(b Batch) { copy(b[23:], "\x00\x00\x00\x02") })
			want := batchOf(t, None, Record{Timestamp: 1000, Value: value, Headers: []Header{{"a", nil}}},
				Record{Timestamp: 1001, Key: []byte("k"), Value: value}, Record{Timestamp: 1002, Value: value})
			v := wantFault(t, c.String(), sent, lenient(), 0, "")
			if v.Batch == nil {
				continue
			}
			if !v.Rewritten || v.Batch.Codec() != c || v.Batch.BaseSequence() != 4 || v.Batch.ProducerID() != 9 || v.Batch.ProducerEpoch() != 1 {
				t.Fatalf("%v: rewritten %v, %x", c, v.Rewritten, []byte(v.Batch[:HeaderSize]))
			}
			if got, want := text(t, v.Batch), text(t, want); got != want {
				t.Errorf("%v: reads\n%.200s, want\n%.200s", c, got, want)
			}
		}
	}
}
