package record

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

var codecs = []Codec{Gzip, Snappy, LZ4, Zstd}

// samples are payloads of many sizes and kinds.
func samples() map[string][]byte {
	noise := make([]byte, 200_000)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	return map[string][]byte{
		"empty":      {},
		"a byte":     {7},
		"text":       []byte(strings.Repeat("the quick brown fox ", 20)),
		"a block":    bytes.Repeat([]byte("0123456789abcdef"), lz4BlockBytes/16),
		"and one":    append(bytes.Repeat([]byte("0123456789abcdef"), snappyBlockBytes/16), 'x'),
		"noise":      noise,
		"long":       bytes.Repeat([]byte("a record like all the others, but for its end. "), 30_000),
		"half noise": append(bytes.Clone(noise), make([]byte, 1<<20)...),
	}
}

func TestCodecsRoundTrip(t *testing.T) {
	levels := map[Codec][]int{Gzip: {DefaultLevel, -1, 1, 9}, Snappy: {DefaultLevel}, LZ4: {DefaultLevel, 1, 17}, Zstd: {DefaultLevel, -131072, 6, 22}}
	for name, src := range samples() {
		for _, c := range codecs {
			for _, level := range levels[c] {
				packed, err := Compress([]byte("before"), src, c, level)
				if err != nil {
					t.Fatalf("%s: %v at %d: %v", name, c, level, err)
				}
				if !bytes.HasPrefix(packed, []byte("before")) {
					t.Errorf("%s: %v at %d: what was before is gone", name, c, level)
				}
				packed = packed[len("before"):]
				got, err := Decompress([]byte("so far"), packed, c, len(src))
				if err != nil || !bytes.Equal(got[len("so far"):], src) || !bytes.HasPrefix(got, []byte("so far")) {
					t.Errorf("%s: %v at %d: %d bytes come back as %d, %v", name, c, level, len(src), len(got)-6, err)
				}
				var large *TooLargeError
				if len(src) > 0 {
					if got, err := Decompress([]byte("so far"), packed, c, len(src)-1); !errors.As(err, &large) || large.Limit != len(src)-1 || string(got) != "so far" {
						t.Errorf("%s: %v at %d: one byte over the limit: %v", name, c, level, err)
					}
				}
			}
		}
	}
}

// What other implementations write is read, and what is written here they read.
func TestCodecsOfOthers(t *testing.T) {
	for name, src := range samples() {
		var z, l bytes.Buffer
		zw, lw := gzip.NewWriter(&z), lz4.NewWriter(&l)
		zw.Name, zw.Comment, zw.Extra = "name", "comment", []byte("extra")
		if _, err := zw.Write(src); err != nil || zw.Close() != nil {
			t.Fatal(err)
		}
		if _, err := lw.Write(src); err != nil || lw.Close() != nil {
			t.Fatal(err)
		}
		e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		single, err := zstd.NewWriter(nil, zstd.WithSingleSegment(true), zstd.WithEncoderConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		skippable := append([]byte("\x50\x2a\x4d\x18\x03\x00\x00\x00abc"), e.EncodeAll(src, nil)...)
		for _, q := range []struct {
			c      Codec
			name   string
			packed []byte
		}{
			{Gzip, "named", z.Bytes()},
			{Snappy, "raw", s2.EncodeSnappy(nil, src)},
			{LZ4, "content checksum, 4 MiB blocks", l.Bytes()},
			{Zstd, "at once", e.EncodeAll(src, nil)},
			{Zstd, "single segment", single.EncodeAll(src, nil)},
			{Zstd, "behind a skippable frame", skippable},
		} {
			if len(src) == 0 && q.c == Zstd {
				continue // these write nothing at all
			}
			got, err := Decompress(nil, q.packed, q.c, len(src))
			if err != nil || !bytes.Equal(got, src) {
				t.Errorf("%s: %v %s: %d bytes, %v", name, q.c, q.name, len(got), err)
			}
		}
		theirs := map[Codec]func(io.Reader) (io.Reader, error){
			Gzip: func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) },
			LZ4:  func(r io.Reader) (io.Reader, error) { return lz4.NewReader(r), nil },
			Zstd: func(r io.Reader) (io.Reader, error) { return zstd.NewReader(r, zstd.WithDecoderConcurrency(1)) },
		}
		for c, open := range theirs {
			packed, err := Compress(nil, src, c, DefaultLevel)
			if err != nil {
				t.Fatal(err)
			}
			r, err := open(bytes.NewReader(packed))
			if err != nil {
				t.Fatalf("%s: %v: %v", name, c, err)
			}
			if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, src) {
				t.Errorf("%s: %v is read elsewhere as %d bytes, %v", name, c, len(got), err)
			}
		}
	}
}

// What is written begins as Kafka's begins.
func TestFramesLookLikeKafkas(t *testing.T) {
	for _, size := range []int{1, 100, 1000, 100_000, 3_000_000} {
		src := bytes.Repeat([]byte{'a'}, size)
		for c, want := range map[Codec]string{
			Gzip:   "1f8b0800000000000 0ff",
			Snappy: "82534e41505059 00 00000001 00000001",
			LZ4:    "04224d18 60 40 82",
			Zstd:   "28b52ffd 00",
		} {
			packed, err := Compress(nil, src, c, DefaultLevel)
			if err != nil {
				t.Fatal(err)
			}
			if want := unhex(t, want); !bytes.HasPrefix(packed, want) {
				t.Errorf("%v of %d bytes begins %x, want %x", c, size, packed[:min(20, len(packed))], want)
			}
		}
	}
	raw, err := Compress(nil, []byte("abc"), LZ4, DefaultLevel)
	if want := unhex(t, "04224d18 60 40 82  03000080 616263  00000000"); err != nil || !bytes.Equal(raw, want) {
		t.Errorf("a block that does not shrink: %x, want it stored: %x", raw, want)
	}
	empty, err := Compress(nil, nil, Snappy, DefaultLevel)
	if err != nil || string(empty) != xerialHeader {
		t.Errorf("empty snappy: %x", empty)
	}
}

func TestXXH32(t *testing.T) {
	for in, want := range map[string]uint32{
		"":    0x02cc5d05,
		"a":   0x550d7456,
		"abc": 0x32d153ff,
		"Nobody inspects the spammish repetition": 0xe2293b2f,
	} {
		if got := sumXXH32([]byte(in)); got != want {
			t.Errorf("xxh32 of %q: %08x, want %08x", in, got, want)
		}
		var x xxh32
		x.reset()
		for i := range in {
			x.write([]byte{in[i]})
		}
		if got := x.sum(); got != want {
			t.Errorf("xxh32 of %q byte by byte: %08x, want %08x", in, got, want)
		}
	}
}

func TestSnappyFramings(t *testing.T) {
	raw := s2.EncodeSnappy(nil, []byte("hello"))
	block := append([]byte{0, 0, 0, byte(len(raw))}, raw...)
	frame := append([]byte(xerialHeader), block...)
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	for name, q := range map[string]struct {
		src  []byte
		want string
		ok   bool
	}{
		"raw":                     {raw, "hello", true},
		"framed":                  {frame, "hello", true},
		"framed, two blocks":      {join(frame, block), "hellohello", true},
		"two frames":              {join(frame, frame), "hellohello", true},
		"framed, no block":        {[]byte(xerialHeader), "", true},
		"later version":           {join([]byte(xerialMagic+"\x00\x00\x00\x02\x00\x00\x00\x01"), block), "hello", true},
		"version 0":               {join([]byte(xerialMagic+"\x00\x00\x00\x00\x00\x00\x00\x01"), block), "", false},
		"empty":                   {nil, "", false},
		"half a header":           {[]byte(xerialHeader[:12]), "", false},
		"half a length":           {frame[:len(xerialHeader)+2], "", false},
		"half a block":            {frame[:len(frame)-2], "", false},
		"negative length":         {join([]byte(xerialHeader), []byte{0xff, 0xff, 0xff, 0xff}, raw), "", false},
		"second frame cut off":    {join(frame, frame[:9]), "", false},
		"more after the block":    {join(raw, []byte{0}), "", false},
		"claims 2 GiB":            {[]byte("\xff\xff\xff\xff\x07\x00a"), "", false},
		"claims 4 GiB":            {[]byte("\xff\xff\xff\xff\x0f\x00a"), "", false},
		"copy before the start":   {[]byte("\x08\x00a\x0d\x05"), "", false},
		"copy from offset 0 (S2)": {[]byte("\x08\x00a\x0d\x00"), "", false},
		"literal cut off":         {[]byte("\x05\x10a"), "", false},
	} {
		got, err := Decompress(nil, q.src, Snappy, 100)
		if string(got) != q.want || (err == nil) != q.ok {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestLZ4Frames(t *testing.T) {
	body := bytes.Repeat([]byte("abcd"), 50_000)
	frame := func(options ...lz4.Option) []byte {
		var out bytes.Buffer
		w := lz4.NewWriter(&out)
		if err := w.Apply(options...); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(body); err != nil || w.Close() != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	sized := lz4.SizeOption(uint64(len(body)))
	change := func(f []byte, at int, to byte) []byte {
		f = bytes.Clone(f)
		f[at] = to
		return f
	}
	// The header's own checksum made right, so that what was changed is what is looked at.
	summed := func(f []byte, end int) []byte {
		f[end] = byte(sumXXH32(f[4:end]) >> 8)
		return f
	}
	plain := frame(lz4.ChecksumOption(false))
	checked, big := frame(), frame(sized)
	for name, q := range map[string]struct {
		src  []byte
		want string // of the error; "" for none
	}{
		"default":                {checked, ""},
		"content size":           {big, ""},
		"block checksums":        {frame(lz4.BlockChecksumOption(true)), ""},
		"64 KiB blocks":          {frame(lz4.BlockSizeOption(lz4.Block64Kb)), ""},
		"4 MiB blocks":           {frame(lz4.BlockSizeOption(lz4.Block4Mb)), ""},
		"all of them":            {frame(sized, lz4.BlockChecksumOption(true), lz4.BlockSizeOption(lz4.Block256Kb)), ""},
		"no checksum":            {plain, ""},
		"bytes after the frame":  {append(bytes.Clone(plain), "more"...), ""}, // Kafka does not look at them
		"empty":                  {nil, "lz4: not a frame"},
		"not a frame":            {change(plain, 0, 5), "lz4: not a frame"},
		"version 2":              {summed(change(plain, 4, 0xa0), 6), "lz4: frame version 2"},
		"dependent blocks":       {summed(change(plain, 4, 0x40), 6), "lz4: blocks that depend on each other"},
		"a dictionary":           {summed(change(plain, 4, 0x61), 6), "lz4: flags 61, block descriptor 70"},
		"reserved bits":          {summed(change(plain, 5, 0x71), 6), "lz4: flags 60, block descriptor 71"},
		"block size 3":           {summed(change(plain, 5, 0x30), 6), "lz4: flags 60, block descriptor 30"},
		"header checksum":        {change(plain, 6, plain[6]+1), fmt.Sprintf("lz4: header checksum %02x, want %02x", plain[6]+1, plain[6])},
		"content checksum":       {change(checked, len(checked)-1, checked[len(checked)-1]+1), "lz4: content checksum"},
		"content size too small": {summed(change(big, 6, 0x3f), 14), "lz4: more than its content size"},
		"content size too large": {summed(change(big, 6, 0x41), 14), "lz4: 1 bytes less than its content size"},
		"block larger than said": {summed(change(frame(lz4.BlockSizeOption(lz4.Block4Mb), lz4.ChecksumOption(false)), 5, 0x40), 6), "lz4: "},
		"half":                   {plain[:len(plain)/2], "lz4: block of "},
		"no end mark":            {plain[:len(plain)-4], "lz4: ends before its end mark"},
		"header cut off":         {big[:12], "lz4: ends within its header"},
		"header alone":           {plain[:7], "lz4: ends before its end mark"},
	} {
		got, err := Decompress(nil, q.src, LZ4, len(body))
		switch {
		case q.want == "" && (err != nil || !bytes.Equal(got, body)):
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		case q.want != "" && (err == nil || !strings.HasPrefix(err.Error(), q.want)):
			t.Errorf("%s: %v, want %s", name, err, q.want)
		}
	}
	wrong := change(plain, 6, plain[6]+1)
	if got, err := decompressLegacyLZ4(nil, wrong, len(body)); err != nil || !bytes.Equal(got, body) {
		t.Errorf("magic 0: %d bytes, %v", len(got), err)
	}
	if _, err := Decompress(nil, wrong, LZ4, len(body)); err == nil {
		t.Error("magic 0's leniency stays with a pooled inflater")
	}
}

func TestZstdWindows(t *testing.T) {
	noise := samples()["noise"]
	wide := func(size int) []byte {
		e, err := zstd.NewWriter(nil, zstd.WithWindowSize(64<<20), zstd.WithEncoderConcurrency(1), zstd.WithSingleSegment(false))
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		e.Reset(&out)
		for n := 0; n < size; n += len(noise) {
			if _, err := e.Write(noise); err != nil {
				t.Fatal(err)
			}
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	for _, size := range []int{400_000, 3_000_000, 12_000_000} {
		got, err := Decompress(nil, wide(size), Zstd, size)
		if err != nil || len(got) != size {
			t.Errorf("%d bytes in a window of 64 MiB: %d, %v", size, len(got), err)
		}
	}
	// A window beyond 128 MiB, which Java does not follow either.
	huge := wide(400_000)
	huge[5] = 18 << 3 // 256 MiB
	if _, err := Decompress(nil, huge, Zstd, 1<<20); err == nil {
		t.Error("a window of 256 MiB is followed")
	}
}

// A bomb passes validation, or is refused, without its content ever being in memory; and no inflater leaves a goroutine.
func TestBombs(t *testing.T) {
	size := 96 << 20
	if raceEnabled {
		size = 16 << 20
	}
	bombs := map[string]Batch{}
	for _, c := range []Codec{Gzip, LZ4, Zstd} {
		w, err := openDeflater(c, DefaultLevel, nil)
		if err != nil {
			t.Fatal(err)
		}
		write := func(p []byte) {
			if _, err := w.Write(p); err != nil {
				t.Fatal(err)
			}
		}
		value := appendVarints(nil, int64(size))
		write(appendVarints(nil, int64(4+len(value)+size+1)))
		write([]byte{0, 0, 0, 1})
		write(value)
		zeros := make([]byte, 1<<20)
		for range size / len(zeros) {
			write(zeros)
		}
		write([]byte{0})
		payload, err := w.finish()
		if err != nil {
			t.Fatal(err)
		}
		bombs[c.String()] = carrying(fixture(t, "F1"), c, payload)
	}
	goroutines := runtime.NumGoroutine()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var wait sync.WaitGroup
	inflated := 0
	for name, b := range bombs {
		for _, to := range []Codec{b.Codec(), LZ4} {
			inflated += size
			wait.Go(func() {
				rules := lenient()
				rules.MaxBytes, rules.Recompress, rules.Codec, rules.Level = 10<<20, true, to, DefaultLevel
				v, err := Validate(bytes.Clone(b), rules, nil)
				if err != nil || !v.Batch.ChecksumValid() || v.Batch.Codec() != to {
					t.Errorf("%s to %v: %v", name, to, err)
				}
			})
		}
	}
	wait.Wait()
	runtime.ReadMemStats(&after)
	// All that was ever allocated, so the heap did not grow by more. Buffers cost some; what was inflated would cost ten times that.
	if allocated := int(after.TotalAlloc - before.TotalAlloc); !raceEnabled && allocated > min(64<<20, inflated/4) {
		t.Errorf("%d MiB were allocated to look at %d MiB", allocated>>20, inflated>>20)
	}
	// One that has nothing left to do may still have to be given the time to end.
	for deadline := time.Now().Add(time.Minute); runtime.NumGoroutine() > goroutines; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, before %d", runtime.NumGoroutine(), goroutines)
		}
	}
	for name, b := range bombs {
		rules := lenient()
		rules.MaxBytes, rules.InflateMax = 10<<20, size
		wantFault(t, name+" over the bound", b, rules, FaultTooLarge, "")
	}
}

func appendVarints(dst []byte, values ...int64) []byte {
	for _, v := range values {
		dst = binary.AppendVarint(dst, v)
	}
	return dst
}
