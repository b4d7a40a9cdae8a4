package tools

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quire-log/quire/internal/golden"
	"github.com/quire-log/quire/internal/vfs"
)

func runVerify(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = quireVerify(Env{Stdout: &out, Stderr: &errs}, args)
	return code, out.String(), errs.String()
}

// Of what Kafka wrote and stopped cleanly, every byte is good.
func TestVerifyGoldens(t *testing.T) {
	for _, name := range golden.Names(t) {
		if name == "plain-torn" || name == "plain-killed" {
			continue
		}
		dirs, err := filepath.Glob(filepath.Join(golden.Unpack(t, name), "*", "meta.properties"))
		if err != nil {
			t.Fatal(err)
		}
		for _, meta := range dirs {
			if code, stdout, stderr := runVerify(filepath.Dir(meta)); code != 0 || !strings.HasSuffix(stdout, ": all good\n") || stderr != "" {
				t.Errorf("%s: code %d\n%s%s", name, code, stdout, stderr)
			}
		}
	}
}

// The first bad byte of each file that was damaged by hand.
func TestVerifyTorn(t *testing.T) {
	dir := filepath.Join(golden.Unpack(t, "plain-torn"), "data")
	code, stdout, _ := runVerify(dir)
	stdout = strings.ReplaceAll(stdout, dir+"/", "")
	want := `from-gzip-0/00000000000000000000.log: byte 97: the file ends 2130702224 bytes before this batch of 2130706444 does: a write that was cut short, or a bad length (good up to offset 0)
from-lz4-0/00000000000000009999.index: its segment's 00000000000000009999.log is missing
from-snappy-0/00000000000000000777.snapshot: byte 0: crc 48674bc7, want 01020304
idempotent-0/00000000000000000000.log: byte 1127: the file ends 53 bytes before this batch of 83 does: a write that was cut short, or a bad length (good up to offset 30)
load-0/00000000000000000000.log: byte 133091: the file ends 7 bytes before this batch of 1804 does: a write that was cut short, or a bad length (good up to offset 620)
load-1/00000000000000000000.log: byte 134727: zeros where a batch should begin: room that was never written to (good up to offset 626)
load-2/00000000000000000000.log: byte 72598: the checksum of the batch is 8d420cfc, and not that of its bytes (good up to offset 352)
load-preallocated-0/00000000000000000000.log: byte 382136: zeros where a batch should begin: room that was never written to (good up to offset 1820)
load-zstd-0/00000000000000000000.log: byte 35608: the file ends 241 bytes before this batch of 268 does: a write that was cut short, or a bad length (good up to offset 1940)
out-of-order-0/00000000000000000000.log: byte 1033: the batch begins at offset 3, though the one before it ends at 17 (good up to offset 17)
segments-time-0/00000000000000000108.index: byte 0: it points at position 256, where no batch begins
shapes-0/00000000000000000000.log: byte 146: the checksum of the batch is 81c62c97, and not that of its bytes (good up to offset 1)
30 partitions, 39 segments, 892 batches, 13901 records in 2.7 MiB: 12 files damaged
`
	if code != exitBad || stdout != want {
		t.Errorf("code %d, printed\n%s", code, stdout)
	}
}

// A byte that changed is found, in the batch that holds it.
func TestVerifyFindsEveryByte(t *testing.T) {
	dir := filepath.Join(golden.Unpack(t, "plain-clean"), "data", "three-2")
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("no logs: %v", err)
	}
	whole, err := os.ReadFile(logs[0])
	if err != nil {
		t.Fatal(err)
	}
	seed := rand.Uint64()
	lot := rand.New(rand.NewPCG(seed, 0))
	for range 50 {
		at := lot.IntN(len(whole))
		// Which batch it is in, by the lengths in the heads.
		from := 0
		for {
			size := 12 + int(uint32(whole[from+8])<<24|uint32(whole[from+9])<<16|uint32(whole[from+10])<<8|uint32(whole[from+11]))
			if at < from+size {
				break
			}
			from += size
		}
		if at-from < 16 {
			continue // no checksum covers offset, length and epoch
		}
		damaged := slices.Clone(whole)
		damaged[at] ^= 1 << lot.IntN(8)
		if err := os.WriteFile(logs[0], damaged, 0o644); err != nil {
			t.Fatal(err)
		}
		code, stdout, _ := runVerify(dir)
		pos := from
		if at == from+16 {
			pos = at // the magic says what the rest is
		}
		if want := fmt.Sprintf("%s: byte %d: ", logs[0], pos); code != exitBad || !strings.HasPrefix(stdout, want) && !strings.HasPrefix(stdout, fmt.Sprintf("%s: byte %d: ", logs[0], from)) {
			t.Errorf("seed %d: byte %d changed in the batch at %d: code %d\n%s", seed, at, from, code, stdout)
		}
	}
}

func TestVerifyRefuses(t *testing.T) {
	dir := t.TempDir()
	for _, args := range [][]string{nil, {"--frob", dir}, {filepath.Join(dir, "none")}, {dir}} {
		if code, stdout, stderr := runVerify(args...); code != exitMisuse || stdout != "" || stderr == "" {
			t.Errorf("%v: code %d, printed %q %q", args, code, stdout, stderr)
		}
	}
	if code, stdout, _ := runVerify("--help"); code != 0 || !strings.HasPrefix(stdout, "Example:\n") {
		t.Errorf("help: code %d\n%s", code, stdout)
	}
	// A node's lock keeps it out.
	if err := os.MkdirAll(filepath.Join(dir, "orders-0"), 0o755); err != nil {
		t.Fatal(err)
	}
	if code, stdout, _ := runVerify(dir); code != 0 || stdout != "1 partition, 0 segments, 0 batches, 0 records in 0 B: all good\n" {
		t.Errorf("an empty partition: code %d\n%s", code, stdout)
	}
	lock, err := vfs.OS().Lock(filepath.Join(dir, ".lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if code, _, stderr := runVerify(dir); code != exitMisuse || !strings.Contains(stderr, "in use by a node") {
		t.Errorf("locked: code %d\n%s", code, stderr)
	}
}

func TestProgressLine(t *testing.T) {
	if got, want := progressLine(512, 1024, "orders-0"), "[===============               ]  50% of 1.0 KiB  orders-0"; got != want {
		t.Errorf("line %q, want %q", got, want)
	}
}
