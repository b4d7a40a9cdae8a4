package classic

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/quire-log/quire/internal/vfs"
)

// A model is a log as a slice in memory.
type model struct {
	first   Offset
	entries []modelEntry
}

type modelEntry struct {
	offset Offset
	bytes  Entry
}

func (m *model) end() Offset {
	if n := len(m.entries); n > 0 {
		return m.entries[n-1].offset + Offset(len(m.entries[n-1].bytes))
	}
	return m.first
}

func (m *model) add(messages ...Message) {
	for _, msg := range messages {
		m.entries = append(m.entries, modelEntry{m.end(), appendEntry(nil, msg)})
	}
}

// at is the index of the entry at offset, len(entries) for the end; false: none begins there.
func (m *model) at(offset Offset) (int, bool) {
	if offset == m.end() {
		return len(m.entries), true
	}
	return slices.BinarySearchFunc(m.entries, offset, func(e modelEntry, o Offset) int { return cmpOffset(e.offset, o) })
}

func drawMessage(t *rapid.T) Message {
	payload := []byte(rapid.StringN(0, 40, 60).Draw(t, "payload"))
	m := Message{Magic: byte(rapid.IntRange(0, 1).Draw(t, "magic")), Payload: payload}
	if rapid.IntRange(0, 5).Draw(t, "nested") == 0 {
		m.Payload = appendEntry(nil, m) // looks like an entry
	}
	return m
}

// A log is what the slice says, whatever is done to it.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mem := vfs.NewMem()
		c := Config{
			SegmentBytes: int64(rapid.IntRange(1, 400).Draw(t, "segment")), MessageBytesMax: 100,
			FlushMessages: int64(rapid.IntRange(0, 4).Draw(t, "flush")),
		}
		open := func() *Log {
			l, err := Open(Options{FS: mem, Dir: testDir, Partition: testPartition, Config: c, Cut: func(c Cut) { t.Errorf("told %v", c) }})
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		l := open()
		defer func() { _ = l.Close() }()
		var m model
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				var messages []Message
				for range rapid.IntRange(0, 5).Draw(t, "messages") {
					messages = append(messages, drawMessage(t))
				}
				first, err := l.Append(messages...)
				if err != nil || first != m.end() {
					t.Fatalf("appended at %d, %v; want %d", first, err, m.end())
				}
				m.add(messages...)
			},
			"read": func(t *rapid.T) {
				offset := Offset(rapid.Int64Range(int64(m.first)-2, int64(m.end())+2).Draw(t, "offset"))
				if len(m.entries) > 0 && rapid.Bool().Draw(t, "good") {
					offset = m.entries[rapid.IntRange(0, len(m.entries)-1).Draw(t, "entry")].offset
				}
				chunk, most := rapid.IntRange(1, 200).Draw(t, "chunk"), rapid.IntRange(0, 200).Draw(t, "most")
				set, err := l.Read(offset, ReadOptions{Bytes: chunk, BytesMax: most})
				i, ok := m.at(offset)
				if !ok {
					var outside *OutOfRangeError
					if !errors.As(err, &outside) || outside.First != m.first || outside.Last != m.end() {
						t.Fatalf("read at %d: %v", offset, err)
					}
					return
				}
				most = max(most, chunk)
				if i < len(m.entries) && len(m.entries[i].bytes) > most {
					var small *ChunkTooSmallError
					if !errors.As(err, &small) || small.Entry != int64(len(m.entries[i].bytes)) || small.Max != most {
						t.Fatalf("read at %d with %d to %d: %v", offset, chunk, most, err)
					}
					return
				}
				if err != nil || i < len(m.entries) && len(set.Bytes()) == 0 {
					t.Fatalf("read at %d with %d to %d: %d bytes, %v", offset, chunk, most, len(set.Bytes()), err)
				}
				if len(set.Bytes()) > most {
					t.Fatalf("read %d bytes, at most %d", len(set.Bytes()), most)
				}
				for at, e := range set.All() {
					if at != m.entries[i].offset || string(e) != string(m.entries[i].bytes) || e.Check() != nil {
						t.Fatalf("read at %d: entry at %d is %x, want %d: %x", offset, at, []byte(e), m.entries[i].offset, []byte(m.entries[i].bytes))
					}
					i++
				}
			},
			"send": func(t *rapid.T) {
				i := rapid.IntRange(0, len(m.entries)).Draw(t, "entry")
				offset := m.end()
				if i < len(m.entries) {
					offset = m.entries[i].offset
				}
				n := rapid.IntRange(1, 300).Draw(t, "bytes")
				send, err := l.Send(offset, int32(n))
				if err != nil {
					t.Fatal(err)
				}
				defer send.Close()
				var got strings.Builder
				if written, err := send.WriteTo(&got); err != nil || written != send.Size() {
					t.Fatalf("sent %d of %d, %v", written, send.Size(), err)
				}
				var want []byte
				for _, e := range m.entries[i:] {
					want = append(want, e.bytes...)
				}
				body := got.String()[sendHeaderSize:]
				if len(body) > n || len(body) == 0 && len(want) > 0 || !strings.HasPrefix(string(want), body) {
					t.Fatalf("sent at %d, at most %d: %x", offset, n, body)
				}
			},
			"delete": func(t *rapid.T) {
				segs, err := l.Segments()
				if err != nil {
					t.Fatal(err)
				}
				n := rapid.IntRange(-1, len(segs)).Draw(t, "segments")
				gone, err := l.DeleteSegments(func([]SegmentInfo) int { return n })
				if err != nil || len(gone) != max(0, min(n, len(segs)-1)) {
					t.Fatalf("%d of %d went, %v", len(gone), n, err)
				}
				if len(gone) > 0 {
					m.first = segs[len(gone)].Base
					i, _ := m.at(m.first)
					m.entries = m.entries[i:]
				}
			},
			"reopen": func(t *rapid.T) {
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
				l = open()
			},
			"": func(t *rapid.T) {
				if l.FirstOffset() != m.first || l.EndOffset() != m.end() {
					t.Fatalf("[%d, %d], want [%d, %d]", l.FirstOffset(), l.EndOffset(), m.first, m.end())
				}
			},
		})
	})
}

// Wherever a crash strikes, what was flushed is there, at most FlushMessages less one more are lost, and what is left are the
// messages that were appended, in order, at their offsets.
func TestCrashAnywhere(t *testing.T) {
	const seeds, lives, flushMessages = 500, 3, 4
	for seed := range uint64(seeds) {
		rng := rand.New(rand.NewPCG(seed, 4))
		mem := newMem(t)
		c := Config{SegmentBytes: 300, MessageBytesMax: 200, FlushMessages: flushMessages}
		// All that was ever appended by offset: what a crash took, another append may have put something else in place of.
		var m model
		acked := 0         // messages whose append returned, counted from m.entries[0]
		deleted := m.first // what was let go; a crash may bring it back
		check := func(l *Log, life int) {
			t.Helper()
			end := l.EndOffset()
			if end > m.end() {
				t.Fatalf("seed %d, life %d: ends at %d, beyond %d", seed, life, end, m.end())
			}
			kept, ok := m.at(end)
			if !ok {
				t.Fatalf("seed %d, life %d: ends at %d, within an entry", seed, life, end)
			}
			if lost := acked - kept; lost >= flushMessages {
				t.Fatalf("seed %d, life %d: %d acknowledged messages are lost", seed, life, lost)
			}
			if first := l.FirstOffset(); first > deleted {
				t.Fatalf("seed %d, life %d: begins at %d, let go was up to %d", seed, life, first, deleted)
			}
			r := l.NewReader(l.FirstOffset(), Fail, ReadOptions{Bytes: 100, BytesMax: 1000})
			from := l.FirstOffset()
			for {
				set, err := r.Next()
				if err != nil {
					t.Fatalf("seed %d, life %d: %v", seed, life, err)
				}
				if len(set.Bytes()) == 0 {
					break
				}
				if set.First != from && set.First > deleted {
					t.Fatalf("seed %d, life %d: a hole from %d to %d", seed, life, from, set.First)
				}
				for at, e := range set.All() {
					i, ok := m.at(at)
					if !ok || string(m.entries[i].bytes) != string(e) {
						t.Fatalf("seed %d, life %d: entry at %d is %q", seed, life, at, e)
					}
				}
				from = set.Next()
			}
			if from != end {
				t.Fatalf("seed %d, life %d: read to %d of %d", seed, life, from, end)
			}
			m.entries = m.entries[:kept]
			acked = kept
		}
		n := 0
		for life := range lives {
			mem.CrashAfter(rng.IntN(150))
			l, err := Open(Options{FS: mem, Dir: testDir, Partition: testPartition, Config: c})
			if err == nil {
				check(l, life)
			}
			for err == nil {
				switch rng.IntN(20) {
				case 0:
					err = l.Flush()
				case 1:
					keep := rng.IntN(3)
					segs, serr := l.Segments()
					if serr != nil {
						err = serr
						break
					}
					if len(segs) > keep {
						deleted = max(deleted, segs[max(0, len(segs)-1-keep)].Base)
					}
					_, err = l.DeleteSegments(func(s []SegmentInfo) int { return len(s) - 1 - keep })
				default:
					var batch []Message
					for range 1 + rng.IntN(2) {
						n++
						batch = append(batch, Message{Magic: byte(n % 2), Payload: fmt.Appendf(nil, "%d %s", n, strings.Repeat("x", rng.IntN(60)))})
					}
					m.add(batch...)
					if _, err = l.Append(batch...); err == nil {
						acked = len(m.entries)
					}
				}
			}
			if !errors.Is(err, vfs.ErrCrashed) {
				t.Fatalf("seed %d, life %d: %v", seed, life, err)
			}
			if l != nil {
				_ = l.Close()
			}
			mem = mem.AfterCrash(seed)
		}
		l, err := Open(Options{FS: mem, Dir: testDir, Partition: testPartition, Config: c})
		if err != nil {
			t.Fatalf("seed %d: the log does not open: %v", seed, err)
		}
		check(l, lives)
		if err := l.Close(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		l, err = Open(Options{FS: mem, Dir: testDir, Partition: testPartition, Config: c, Cut: func(c Cut) { t.Errorf("seed %d: after a clean stop %v", seed, c) }})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		check(l, lives+1)
		_ = l.Close()
	}
}

// A directory may hold anything: it opens or is refused, reads never fail but as they say, and nothing is written outside it.
func FuzzDirectory(f *testing.F) {
	run := appendEntry(appendEntry(nil, Message{Payload: []byte("a")}), Message{Magic: 1, Payload: []byte("b")})
	f.Add("0.kafka", run, "00000000021.kafka", run)
	f.Add("0.kafka", run, "5.kafka", run)
	f.Add("9223372036854775807.kafka", run, "1.kafka", []byte{})
	f.Add("00000000000.kafka", append(slices.Clone(run), 0, 0, 0), "0.kafka", run)
	f.Add("x.kafka", run, "1.kafka", make([]byte, 40))
	f.Fuzz(func(t *testing.T, name1 string, data1 []byte, name2 string, data2 []byte) {
		mem := vfs.NewMem()
		if err := mem.MkdirAll(testDir, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, f := range []struct {
			name string
			data []byte
		}{{name1, data1}, {name2, data2}} {
			if strings.ContainsAny(f.name, "/") || f.name == "" || f.name == "." || f.name == ".." || f.name == lockName {
				return
			}
			if err := writeFile(mem, testDir+"/"+f.name, f.data); err != nil {
				return
			}
		}
		scanned := 0
		s, err := Scan(mem, testDir)
		if err == nil {
			for s.Next() {
				if s.Item().Err == nil {
					scanned++
				}
			}
			if s.Err() != nil {
				t.Fatal(s.Err())
			}
			_ = s.Close()
		}
		l, openErr := Open(Options{FS: mem, Dir: testDir, Partition: testPartition, Config: Config{SegmentBytes: 100, MessageBytesMax: 100, FlushInterval: time.Hour}})
		if (openErr == nil) != (err == nil) {
			t.Fatalf("scanning: %v, opening: %v", err, openErr)
		}
		if openErr != nil {
			return
		}
		defer l.Close()
		read := 0
		r := l.NewReader(l.FirstOffset(), Fail, ReadOptions{Bytes: 10, BytesMax: 1 << 20})
		for {
			set, err := r.Next()
			var corrupt *CorruptError
			if err != nil && !errors.As(err, &corrupt) {
				t.Fatal(err)
			}
			if err != nil || len(set.Bytes()) == 0 {
				break
			}
			for _, e := range set.All() {
				if e.Check() != nil {
					t.Fatal("an invalid entry")
				}
				read++
			}
		}
		if read > scanned {
			t.Fatalf("%d entries read, %d scanned", read, scanned)
		}
		end := l.EndOffset()
		first, err := l.Append(Message{Payload: []byte("more")})
		if err != nil {
			if errors.Is(err, errOffsetsEnd) {
				return
			}
			t.Fatal(err)
		}
		if set, err := l.Read(first, ReadOptions{Bytes: 100}); err != nil || first != end || len(set.Bytes()) != 13 {
			t.Fatalf("appended at %d of %d, read %d bytes, %v", first, end, len(set.Bytes()), err)
		}
	})
}
