package classic

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/quire-log/quire/internal/record"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// One entry of each kind, byte for byte, made by zlib and by hand.
var goldenEntries = []struct {
	name     string
	bytes    string
	magic    byte
	codec    record.Codec
	messages []string
}{
	{"magic 0", "0000000a 00 3610a686 68656c6c6f", 0, record.None, []string{"hello"}},
	{"magic 0, empty", "00000005 00 00000000", 0, record.None, []string{""}},
	{"magic 1", "0000000b 01 00 3610a686 68656c6c6f", 1, record.None, []string{"hello"}},
	{
		"magic 1, gzip", "00000036 01 01 414614f2" +
			"1f8b0800000000000203636060e06664301358d696919a9393cfc0c0c0c9c890965d2156995f0a00ba16dc821c000000",
		1, record.Gzip, []string{"hello", "you"},
	},
	{
		"magic 1, snappy", "0000002b 01 02 bfb064de" +
			"82534e4150505900 00000001 00000001 00000011 0f 38 0000000b 01 00 3610a686 68656c6c6f",
		1, record.Snappy, []string{"hello"},
	},
}

func messagesOf(e Entry) (all []string, err error) {
	err = e.Messages(1<<20, func(p []byte) error {
		all = append(all, string(p))
		return nil
	})
	return all, err
}

func TestEntryBytes(t *testing.T) {
	for _, g := range goldenEntries {
		t.Run(g.name, func(t *testing.T) {
			b := unhex(t, g.bytes)
			e, err := FirstEntry(append(slices.Clone(b), 1, 2, 3))
			if err != nil || len(e) != len(b) {
				t.Fatalf("%d bytes, %v; want %d", len(e), err, len(b))
			}
			codec, err := e.Codec()
			if err != nil || codec != g.codec || e.Magic() != g.magic {
				t.Errorf("magic %d, codec %v, %v", e.Magic(), codec, err)
			}
			if err := e.Check(); err != nil {
				t.Error(err)
			}
			got, err := messagesOf(e)
			if err != nil || !slices.Equal(got, g.messages) {
				t.Errorf("messages %q, %v; want %q", got, err, g.messages)
			}
			again := appendEntry(nil, Message{Magic: g.magic, Codec: g.codec, Payload: e.Payload()})
			if hex.EncodeToString(again) != hex.EncodeToString(b) {
				t.Errorf("written:\n%x, want\n%x", again, b)
			}
		})
	}
}

func TestBadEntries(t *testing.T) {
	for _, c := range []struct{ name, bytes, want string }{
		{"nothing", "", "the entry ends at byte 9 of 0"},
		{"within the length", "000000", "the entry ends at byte 9 of 3"},
		{"within the header", "0000000a 00 3610", "the entry ends at byte 9 of 7"},
		{"within the payload", "0000000a 00 3610a686 6865", "the entry ends at byte 14 of 11"},
		{"zeros", "00000000 00 00000000 00", "impossible length 0"},
		{"zeros, few", "00000000", "impossible length 0"},
		{"length below a header", "00000004 00 00000000", "impossible length 4"},
		{"length below magic 1's header", "00000005 01 00 000000", "impossible length 5"},
		{"negative length", "ffffffff 00 00000000", "impossible length -1"},
		{"huge length", "7fffffff 00 00000000", "the entry ends at byte 2147483651 of 9"},
		{"unknown magic", "0000000a 02 3610a686 68656c6c6f", "unknown magic 2"},
	} {
		_, err := FirstEntry(unhex(t, c.bytes))
		if err == nil || err.Error() != c.want {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
	for _, c := range []struct{ name, bytes, want string }{
		{"crc", "0000000a 00 3610a687 68656c6c6f", "crc 3610a686, want 3610a687"},
		{"codec", "0000000b 01 03 3610a686 68656c6c6f", "unknown codec 3 in attributes 0x03"},
	} {
		e, err := FirstEntry(unhex(t, c.bytes))
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Check(); err == nil || err.Error() != c.want {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
}

// What inflates is bounded, in bytes and in depth, and looked at.
func TestMessagesInside(t *testing.T) {
	entry := func(m Message, err error) Entry {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return appendEntry(nil, m)
	}
	zeros := entry(Pack(record.Gzip, make([]byte, 1<<20)))
	var large *record.TooLargeError
	if err := zeros.Messages(1<<16, func([]byte) error { return nil }); !errors.As(err, &large) {
		t.Errorf("a payload that inflates to a megabyte: %v", err)
	}
	wrap := func(run []byte) Entry {
		packed, err := record.Compress(nil, run, record.Snappy, record.DefaultLevel)
		return entry(Message{Magic: 1, Codec: record.Snappy, Payload: packed}, err)
	}
	e := Entry(appendEntry(nil, Message{Payload: []byte("deep")}))
	for range nestingMax {
		e = wrap(e)
	}
	if got, err := messagesOf(e); err != nil || !slices.Equal(got, []string{"deep"}) {
		t.Errorf("%d deep: %q, %v", nestingMax, got, err)
	}
	if _, err := messagesOf(wrap(e)); err != errNesting {
		t.Errorf("deeper: %v", err)
	}
	run := appendEntry(nil, Message{Payload: []byte("good")})
	run = append(run, appendEntry(nil, Message{Payload: []byte("bad")})...)
	run[len(run)-1]++
	got, err := messagesOf(wrap(run))
	var inner *InnerError
	if !errors.As(err, &inner) || inner.Pos != 13 || len(got) != 1 {
		t.Errorf("a bad entry inside: %q, %v", got, err)
	}
	if _, err := messagesOf(wrap(run[:15])); !errors.As(err, &inner) || inner.Pos != 13 {
		t.Errorf("a torn entry inside: %v", err)
	}
	if _, err := Pack(record.LZ4, nil); err == nil {
		t.Error("packed by lz4")
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]Offset{
		"00000000000.kafka": 0, "00000000000000000042.kafka": 42, "7.kafka": 7, "9223372036854775807.kafka": 1<<63 - 1,
		"9223372036854775808.kafka": -1, ".kafka": -1, "0.log": -1, "-1.kafka": -1, "+1.kafka": -1, "1.kafka.deleted": -1,
	} {
		got, ok := parseFileName(name)
		if ok != (want >= 0) || ok && got != want {
			t.Errorf("%s = %d, %t; want %d", name, got, ok, want)
		}
	}
	if got := fileName(152); got != "00000000152.kafka" {
		t.Error(got)
	}
	if got := fileName(123456789012345); got != "123456789012345.kafka" {
		t.Error(got)
	}
	for name, want := range map[string]TopicPartition{
		"my_topic_0": {"my_topic", 0}, "my_topic-1": {"my_topic", 1}, "a-b_12": {"a-b", 12}, "a_1-0": {"a_1", 0}, "x__3": {"x_", 3},
		"t_01": {}, "t": {}, "t_": {}, "_0": {}, "0": {}, "t0": {}, "t_4294967296": {}, ".._0": {}, "": {},
	} {
		got, ok := ParseDirName(name)
		if ok != (want != TopicPartition{}) || got != want {
			t.Errorf("%q = %v, %t", name, got, ok)
		}
	}
}

func FuzzEntry(f *testing.F) {
	for _, g := range goldenEntries {
		f.Add(unhex(f, g.bytes))
	}
	f.Add(unhex(f, "7fffffff01000000000000"))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := FirstEntry(b)
		if err != nil {
			if e != nil {
				t.Fatal("an entry and an error")
			}
			return
		}
		if len(e) > len(b) || len(e) != lengthSize+int(binary.BigEndian.Uint32(e)) {
			t.Fatalf("%d of %d bytes", len(e), len(b))
		}
		codec, codecErr := e.Codec()
		if e.Check() != nil || codecErr != nil {
			return
		}
		// A valid entry without spare attribute bits is what writing its parts gives.
		if e.Attributes()&^codecMask == 0 {
			if again := appendEntry(nil, Message{e.Magic(), codec, e.Payload()}); string(again) != string(e) {
				t.Fatalf("%x written again: %x", []byte(e), again)
			}
		}
		total := 0
		_ = e.Messages(1<<20, func(p []byte) error {
			total += len(p)
			return nil
		})
		if codec != record.None && total > 1<<20 {
			t.Fatalf("%d bytes inflated", total)
		}
	})
}
