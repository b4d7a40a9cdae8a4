package record

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"
)

// An old message, as it is written: nothing in the project writes them but these tests.
type oldMessage struct {
	offset     Offset
	magic      byte
	attributes byte
	time       int64
	key, value []byte
}

func (m oldMessage) append(dst []byte) []byte {
	sized := func(dst, b []byte) []byte {
		if b == nil {
			return append(dst, 0xff, 0xff, 0xff, 0xff)
		}
		return append(binary.BigEndian.AppendUint32(dst, uint32(len(b))), b...)
	}
	body := []byte{m.magic, m.attributes}
	if m.magic > 0 {
		body = binary.BigEndian.AppendUint64(body, uint64(m.time))
	}
	body = sized(sized(body, m.key), m.value)
	dst = binary.BigEndian.AppendUint64(dst, uint64(m.offset))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(body)+4))
	return append(binary.BigEndian.AppendUint32(dst, crc32.ChecksumIEEE(body)), body...)
}

// wrap puts messages into one compressed message.
func wrap(t testing.TB, outer oldMessage, c Codec, inner ...oldMessage) Entry {
	t.Helper()
	var set []byte
	for _, m := range inner {
		set = m.append(set)
	}
	value, err := Compress(nil, set, c, DefaultLevel)
	if err != nil {
		t.Fatal(err)
	}
	outer.value, outer.attributes = value, outer.attributes|byte(c)
	return outer.append(nil)
}

func TestWrappers(t *testing.T) {
	v0 := func(o Offset, value string) oldMessage { return oldMessage{offset: o, value: []byte(value)} }
	v1 := func(o Offset, value string) oldMessage {
		return oldMessage{offset: o, magic: 1, time: 100 + int64(o), key: []byte{}, value: []byte(value)}
	}
	for _, q := range []struct {
		name  string
		codec Codec
		outer oldMessage
		inner []oldMessage
		want  string
	}{
		{"magic 0: offsets are whole", Gzip, oldMessage{offset: 12}, []oldMessage{v0(10, "a"), v0(12, "b")}, "10@-1 12@-1"},
		{"magic 0, snappy", Snappy, oldMessage{offset: 12}, []oldMessage{v0(10, "a"), v0(12, "b")}, "10@-1 12@-1"},
		{"magic 1: offsets count from 0", LZ4, oldMessage{offset: 12, magic: 1, time: 102}, []oldMessage{v1(0, "a"), v1(1, "b"), v1(2, "c")}, "10@100 11@101 12@102"},
		{"magic 1: compaction left gaps", Gzip, oldMessage{offset: 12, magic: 1, time: 104}, []oldMessage{v1(1, "a"), v1(4, "c")}, "9@101 12@104"},
		{"magic 1: the broker's time", Gzip, oldMessage{offset: 1, magic: 1, time: 7, attributes: AttrLogAppendTime}, []oldMessage{v1(0, "a"), v1(1, "b")}, "0@7 1@7"},
	} {
		e := wrap(t, q.outer, q.codec, q.inner...)
		if err := e.Check(); err != nil {
			t.Errorf("%s: %v", q.name, err)
		}
		var r Reader
		if err := r.ResetEntry(e, 1<<20); err != nil {
			t.Errorf("%s: %v", q.name, err)
		}
		var got []string
		for r.Next() {
			got = append(got, fmt.Sprintf("%d@%d", r.Record().Offset, r.Record().Timestamp))
		}
		if s := strings.Join(got, " "); s != q.want || r.Err() != nil {
			t.Errorf("%s: %s, %v, want %s", q.name, s, r.Err(), q.want)
		}
		if e.LastOffset() != q.outer.offset || e.BaseOffset() != q.outer.offset || e.Codec() != q.codec {
			t.Errorf("%s: last offset %d, codec %v", q.name, e.LastOffset(), e.Codec())
		}
	}
}

func TestBrokenWrappers(t *testing.T) {
	good := oldMessage{magic: 1, value: []byte("v")}
	flipped := wrap(t, oldMessage{magic: 1}, Gzip, good)
	nested := good
	nested.attributes = byte(Gzip)
	other := good
	other.magic = 0
	torn, err := Compress(nil, good.append(nil)[:20], Gzip, DefaultLevel)
	if err != nil {
		t.Fatal(err)
	}
	wrongCRC := good.append(nil)
	wrongCRC[len(wrongCRC)-1] ^= 1
	badInner, err := Compress(nil, wrongCRC, Gzip, DefaultLevel)
	if err != nil {
		t.Fatal(err)
	}
	message := func(codec Codec, value []byte) Entry {
		return oldMessage{magic: 1, attributes: byte(codec), value: value}.append(nil)
	}
	flipped[len(flipped)-1] ^= 1
	for name, e := range map[string]Entry{
		"nothing inside":             wrap(t, oldMessage{magic: 1}, Gzip),
		"null":                       message(Gzip, nil),
		"not gzip":                   message(Gzip, []byte("no such thing")),
		"zstd, which came later":     message(Zstd, []byte("x")),
		"codec 7":                    message(7, []byte("x")),
		"a wrapper inside":           wrap(t, oldMessage{magic: 1}, Gzip, nested),
		"another magic inside":       wrap(t, oldMessage{magic: 1}, Gzip, other),
		"half a message inside":      message(Gzip, torn),
		"a wrong checksum inside":    message(Gzip, badInner),
		"a wrong checksum of gzip's": flipped,
	} {
		var r Reader
		err := r.ResetEntry(e, 1<<20)
		for err == nil && r.Next() {
		}
		if err == nil && r.Err() == nil {
			t.Errorf("%s: nothing found wrong", name)
		}
	}
	var r Reader
	large := wrap(t, oldMessage{magic: 1}, Gzip, oldMessage{magic: 1, value: make([]byte, 5000)})
	if err := r.ResetEntry(large, 4000); err == nil {
		t.Error("more than the bound is inflated")
	}
	if err := r.ResetEntry(large, 6000); err != nil || !r.Next() || len(r.Record().Value) != 5000 {
		t.Errorf("within the bound: %v", err)
	}
}

func TestBrokenMessages(t *testing.T) {
	resum := func(e Entry) Entry {
		binary.BigEndian.PutUint32(e[messageCRC:], e.computeCRC())
		return e
	}
	for _, magic := range []byte{0, 1} {
		good := Entry(oldMessage{magic: magic, key: []byte("key"), value: []byte("value")}.append(nil))
		key := messageTime + 8*int(magic)
		for name, at := range map[string]int{"key": key + 3, "value": key + 4 + 3 + 3} {
			for _, size := range []byte{0, 200} {
				e := Entry(append([]byte(nil), good...))
				e[at] = size
				if err := resum(e).Check(); err == nil {
					t.Errorf("magic %d: a %s of %d bytes passes", magic, name, size)
				}
				var r Reader
				if err := r.ResetEntry(e, 0); err == nil && r.Next() {
					t.Errorf("magic %d: a %s of %d bytes is read", magic, name, size)
				}
			}
		}
	}
}

func TestFirstEntry(t *testing.T) {
	good := unhex(t, messageV1)
	short := func(magic byte, size int) []byte {
		b := make([]byte, 100)
		b[11], b[magicOffset] = byte(size), magic
		return b
	}
	for _, q := range []struct {
		name string
		src  []byte
		want string // of the error; "" for none
	}{
		{"whole", good, ""},
		{"and more", append(good[:len(good):len(good)], 1, 2, 3), ""},
		{"nothing", nil, "unexpected EOF"},
		{"no magic yet", good[:MinEntry-1], "unexpected EOF"},
		{"cut off", good[:len(good)-1], "unexpected EOF"},
		{"zeros", make([]byte, 100), "entry length 0, less than 14"},
		{"negative length", append([]byte("12345678\xff\xff\xff\xfe"), make([]byte, 100)...), "entry length -2, less than 14"},
		{"magic 3", short(3, 60), "unknown magic 3"},
		{"magic -1", short(0xff, 60), "unknown magic -1"},
		{"too short for magic 1", short(1, 21), "entry of magic 1 and length 21, less than 22"},
		{"too short for magic 2", short(2, 48), "entry of magic 2 and length 48, less than 49"},
		{"short as magic 0 may be", short(0, 14), ""},
	} {
		e, err := FirstEntry(q.src)
		if fmt.Sprint(err) != q.want && !(err == nil && q.want == "") {
			t.Errorf("%s: %v, want %q", q.name, err, q.want)
		}
		if err == nil && int64(len(e)) != must(EntrySize(q.src)) {
			t.Errorf("%s: %d bytes", q.name, len(e))
		}
	}
	for _, b := range [][]byte{unhex(t, messageV0), short(2, 48), make([]byte, 61)} {
		if _, err := FirstBatch(b); err == nil {
			t.Errorf("taken for a batch: %x", b)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
