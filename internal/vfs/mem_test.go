package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, f File, s string, off int64) {
	t.Helper()
	if n, err := f.WriteAt([]byte(s), off); n != len(s) || err != nil {
		t.Fatalf("WriteAt = %d, %v", n, err)
	}
}

// outcomes gathers what AfterCrash makes of m, over many seeds.
func outcomes(m *Mem, look func(after *Mem) string) map[string]int {
	seen := map[string]int{}
	for seed := range uint64(400) {
		seen[look(m.AfterCrash(seed))]++
	}
	return seen
}

func wantOutcomes(t *testing.T, what string, got map[string]int, want ...string) {
	t.Helper()
	for _, w := range want {
		if got[w] == 0 {
			t.Errorf("%s: never %q", what, w)
		}
		delete(got, w)
	}
	for g := range got {
		t.Errorf("%s: %q, which cannot be", what, g)
	}
}

func contentOr(fsys FS, name string) string {
	b, err := ReadFile(fsys, name)
	if err != nil {
		return fmt.Sprint(errors.Unwrap(err))
	}
	return string(b)
}

// I1: synced bytes stay; I3: of the others anything may.
func TestCrashOfBytes(t *testing.T) {
	m := NewMem()
	f := create(t, m, "f", "synced")
	must(t, f.Sync())
	must(t, m.SyncDir("."))
	write(t, f, "-AB", 6)
	seen := map[string]int{}
	nonsense := 0
	for seed := range uint64(400) {
		s := content(t, m.AfterCrash(seed), "f")
		if !strings.HasPrefix(s, "synced") || len(s) > 9 {
			t.Fatalf("seed %d: %q", seed, s)
		}
		if again := content(t, m.AfterCrash(seed), "f"); again != s {
			t.Fatalf("seed %d: %q, and asked again %q", seed, s, again)
		}
		if rest := s[6:]; strings.Trim(rest, "-AB\x00") != "" {
			nonsense++
		} else {
			seen[rest]++
		}
	}
	for _, s := range []string{"", "-", "-A", "-AB", "\x00\x00\x00", "-\x00\x00", "-A\x00", "\x00AB", "\x00\x00B"} {
		if seen[s] == 0 {
			t.Errorf("never %q", s)
		}
	}
	if nonsense == 0 {
		t.Error("never nonsense")
	}
}

func TestCrashOfOverwritesAndTruncations(t *testing.T) {
	m := NewMem()
	f := create(t, m, "f", "abcdef")
	must(t, f.Sync())
	must(t, m.SyncDir("."))
	write(t, f, "X", 1)
	write(t, f, "Y", 4)
	read := func(after *Mem) string { return content(t, after, "f") }
	wantOutcomes(t, "two overwrites", outcomes(m, read), "abcdef", "aXcdef", "abcdYf", "aXcdYf")

	m = NewMem()
	f = create(t, m, "f", "abcdef")
	must(t, f.Sync())
	must(t, m.SyncDir("."))
	must(t, f.Truncate(2))
	wantOutcomes(t, "truncation", outcomes(m, read), "abcdef", "ab")
	if _, err := m.Stat("f"); !errors.Is(err, ErrCrashed) {
		t.Errorf("the old file system answers: %v", err)
	}
}

// I2: a name is durable once its directory is synced, and a synced file's name is not.
func TestCrashOfNames(t *testing.T) {
	list := func(after *Mem) string {
		entries, err := after.ReadDir(".")
		if err != nil {
			return err.Error()
		}
		s := ""
		for _, e := range entries {
			s += e.Name() + "=" + contentOr(after, e.Name()) + " "
		}
		return s
	}
	start := func() *Mem {
		m := NewMem()
		for _, s := range []string{"a", "b"} {
			must(t, create(t, m, s, s).Sync())
		}
		must(t, m.SyncDir("."))
		return m
	}
	m := start()
	must(t, create(t, m, "c", "c").Sync())
	wantOutcomes(t, "create", outcomes(m, list), "a=a b=b ", "a=a b=b c=c ")

	m = start()
	must(t, m.Remove("a"))
	wantOutcomes(t, "remove", outcomes(m, list), "a=a b=b ", "b=b ")

	m = start()
	must(t, m.Rename("a", "b"))
	wantOutcomes(t, "rename", outcomes(m, list), "a=a b=b ", "b=a ")

	m = start()
	must(t, m.Rename("a", "x"))
	must(t, m.Rename("x", "y"))
	wantOutcomes(t, "renamed twice", outcomes(m, list), "a=a b=b ", "b=b x=a ", "b=b y=a ")

	m = start()
	must(t, m.Rename("a", "x"))
	must(t, m.Remove("b"))
	must(t, m.SyncDir("."))
	wantOutcomes(t, "synced", outcomes(m, list), "x=a ")

	m = NewMem()
	must(t, m.MkdirAll("d/e", 0o755))
	must(t, create(t, m, "d/e/f", "f").Sync())
	must(t, m.SyncDir("d/e"))
	must(t, m.SyncDir("d"))
	wantOutcomes(t, "directories above that are not synced", outcomes(m, func(after *Mem) string { return contentOr(after, "d/e/f") }),
		"f", syscall.ENOENT.Error())
	m = NewMem()
	must(t, m.MkdirAll("d/e", 0o755))
	must(t, create(t, m, "d/e/f", "f").Sync())
	for _, d := range []string{".", "d", "d/e"} {
		must(t, m.SyncDir(d))
	}
	wantOutcomes(t, "all synced", outcomes(m, func(after *Mem) string { return contentOr(after, "d/e/f") }), "f")

	// A file that moves between directories is in one of them, also when a later move is synced before an earlier one.
	m = NewMem()
	for _, d := range []string{"a", "b", "c"} {
		must(t, m.MkdirAll(d, 0o755))
	}
	must(t, create(t, m, "a/f", "f").Sync())
	must(t, m.SyncDir("."))
	must(t, m.SyncDir("a"))
	must(t, m.Rename("a/f", "b/f"))
	must(t, m.Rename("b/f", "c/f"))
	must(t, m.SyncDir("c"))
	must(t, m.SyncDir("a"))
	wantOutcomes(t, "moved twice", outcomes(m, func(after *Mem) string {
		return names(t, after, "a") + "|" + names(t, after, "b") + "|" + names(t, after, "c")
	}), "||f")
}

func TestCrashRemovesLocksAndKeepsCapacity(t *testing.T) {
	m := NewMem()
	m.SetCapacity(100)
	_, err := m.Lock("l")
	must(t, err)
	must(t, create(t, m, "f", strings.Repeat("x", 60)).Sync())
	must(t, m.SyncDir("."))
	m = m.AfterCrash(1)
	_, err = m.Lock("l")
	must(t, err)
	if u, err := m.Usage("."); u != (Usage{100, 40}) || err != nil {
		t.Errorf("Usage %+v, %v", u, err)
	}
}

// WriteFile leaves the old content or the new, wherever the power goes, and the new once it returned.
func TestWriteFileCrashes(t *testing.T) {
	const old, new = "the old content", "and the new, which is longer"
	for n := 1; ; n++ {
		m := NewMem()
		must(t, m.MkdirAll("d", 0o755))
		must(t, m.SyncDir("."))
		must(t, WriteFile(m, "d/f", []byte(old)))
		m.CrashAfter(n)
		err := WriteFile(m, "d/f", []byte(new))
		got := outcomes(m, func(after *Mem) string { return contentOr(after, "d/f") })
		if err == nil {
			wantOutcomes(t, "returned", got, new)
			if n != 6 {
				t.Errorf("WriteFile took %d steps: create, write, sync, rename and sync of the directory were expected", n-1)
			}
			return
		}
		if !errors.Is(err, ErrCrashed) {
			t.Fatalf("step %d: %v", n, err)
		}
		for s := range got {
			if s != old && s != new {
				t.Errorf("step %d: %q", n, s)
			}
		}
	}
}

func TestCrashAfter(t *testing.T) {
	m := NewMem()
	f := create(t, m, "f", "")
	m.CrashAfter(2)
	write(t, f, "one", 0)
	if _, err := f.ReadAt(make([]byte, 1), 0); err != nil {
		t.Errorf("a read counts: %v", err)
	}
	_, err := f.WriteAt([]byte("two"), 3)
	wantError(t, "the last", err, ErrCrashed)
	_, err = f.ReadAt(make([]byte, 1), 0)
	_, statErr := m.Stat("f")
	_, listErr := m.ReadDir(".")
	_, openErr := m.OpenFile("f", os.O_RDONLY, 0)
	_, lockErr := m.Lock("f")
	_, usageErr := m.Usage(".")
	_, sizeErr := f.Size()
	for i, err := range []error{err, statErr, listErr, openErr, lockErr, usageErr, sizeErr, f.Sync(), f.Truncate(0), m.SyncDir("."), m.Rename("f", "g"),
		m.Remove("f"), m.RemoveAll("f"), m.MkdirAll("d", 0o755), m.Chtimes("f", time.Now())} {
		wantError(t, fmt.Sprint(i), err, ErrCrashed)
	}
	must(t, f.Close())
	m = NewMem()
	m.CrashAfter(0)
	wantError(t, "at once", m.MkdirAll("d", 0o755), ErrCrashed)
	m = NewMem()
	m.CrashAfter(1)
	m.CrashAfter(-1)
	must(t, m.MkdirAll("a/b/c", 0o755))
}

func TestFailNth(t *testing.T) {
	m := NewMem()
	f := create(t, m, "f", "abc")
	ops := map[string]bool{}
	m.FailNth(1<<30, syscall.EIO, func(op, name string) bool { ops[op] = true; return false })
	m.FailNth(2, syscall.EIO, func(op, name string) bool { return op == "write" && name == "f" })
	write(t, f, "d", 3)
	n, err := f.WriteAt([]byte("e"), 4)
	if n != 0 {
		t.Errorf("failed write took %d", n)
	}
	wantError(t, "second write", err, syscall.EIO)
	write(t, f, "E", 4)
	if got := content(t, m, "f"); got != "abcdE" {
		t.Errorf("content %q", got)
	}
	for _, tt := range []struct {
		op string
		do func() error
	}{
		{"open", func() error { _, err := m.OpenFile("f", os.O_RDONLY, 0); return err }},
		{"create", func() error { _, err := m.OpenFile("g", rw, 0o644); return err }},
		{"read", func() error { _, err := f.ReadAt(make([]byte, 1), 0); return err }},
		{"truncate", func() error { return f.Truncate(1) }},
		{"sync", f.Sync},
		{"syncdir", func() error { return m.SyncDir(".") }},
		{"rename", func() error { return m.Rename("f", "g") }},
		{"remove", func() error { return m.Remove("f") }},
		{"mkdir", func() error { return m.MkdirAll("d", 0o755) }},
	} {
		m.FailNth(1, syscall.EIO, func(op, name string) bool { return op == tt.op })
		wantError(t, tt.op, tt.do(), syscall.EIO)
		if !ops[tt.op] && tt.op != "write" {
			t.Errorf("%s was not seen by the first rule", tt.op)
		}
	}
	if got := names(t, m, "."); got != "f" {
		t.Errorf("failed operations left %q", got)
	}
}

// After a failed sync the bytes are not on the disk, though the next one succeeds.
func TestFailedSyncLosesBytes(t *testing.T) {
	m := NewMem()
	f := create(t, m, "f", "safe")
	must(t, f.Sync())
	must(t, m.SyncDir("."))
	write(t, f, "gone", 4)
	m.FailNth(1, syscall.EIO, func(op, name string) bool { return op == "sync" })
	wantError(t, "sync", f.Sync(), syscall.EIO)
	must(t, f.Sync())
	if got := content(t, m, "f"); got != "safegone" {
		t.Errorf("before the crash: %q", got)
	}
	wantOutcomes(t, "after it", outcomes(m, func(after *Mem) string { return content(t, after, "f") }), "safe")
}

func TestCapacity(t *testing.T) {
	m := NewMem()
	m.SetCapacity(10)
	f := create(t, m, "f", "123456")
	n, err := f.WriteAt([]byte("7890abc"), 6)
	if n != 4 {
		t.Errorf("wrote %d of what fits 4", n)
	}
	wantError(t, "write beyond", err, syscall.ENOSPC)
	if got := content(t, m, "f"); got != "1234567890" {
		t.Errorf("content %q", got)
	}
	write(t, f, "X", 0) // overwriting needs no room
	g := create(t, m, "g", "")
	n, err = g.WriteAt([]byte("y"), 0)
	if n != 0 || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("full: %d, %v", n, err)
	}
	must(t, f.Truncate(8))
	write(t, g, "yz", 0)
	if u, _ := m.Usage("."); u != (Usage{10, 0}) {
		t.Errorf("Usage %+v", u)
	}
	// Room comes back with the last handle, not with the name.
	must(t, m.Remove("f"))
	if u, _ := m.Usage("."); u.Usable != 0 {
		t.Errorf("Usage %+v, though the file is open", u)
	}
	must(t, f.Close())
	if u, _ := m.Usage("."); u.Usable != 8 {
		t.Errorf("Usage %+v after Close", u)
	}
	must(t, WriteFile(m, "h", []byte("1234")))
	must(t, WriteFile(m, "h", []byte("5678"))) // needs both at once
	if err := WriteFile(m, "h", []byte("123456")); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("WriteFile without room: %v", err)
	}
	if got := names(t, m, "."); got != "g h" || content(t, m, "h") != "5678" {
		t.Errorf("after that: %q, %q", got, content(t, m, "h"))
	}
	m.SetCapacity(-1)
	write(t, g, strings.Repeat("x", 100), 0)
}

// What is only truncated to takes no room, on a disk or in memory.
func TestSparse(t *testing.T) {
	m := NewMem()
	m.SetCapacity(100)
	files := make([]File, 1000)
	for i := range files {
		files[i] = create(t, m, fmt.Sprint(i), "")
		must(t, files[i].Truncate(10<<30))
	}
	if u, _ := m.Usage("."); u.Usable != 100 {
		t.Errorf("Usage %+v", u)
	}
	write(t, files[7], "end", 5<<30)
	p := make([]byte, 5)
	if n, err := files[7].ReadAt(p, 5<<30-1); n != 5 || err != nil || string(p) != "\x00end\x00" {
		t.Errorf("read %q, %v", p[:n], err)
	}
	must(t, files[7].Sync())
	must(t, m.SyncDir("."))
	after := m.AfterCrash(3)
	f, err := after.OpenFile("7", os.O_RDWR, 0)
	must(t, err)
	if size, err := f.Size(); size != 10<<30 || err != nil {
		t.Errorf("size after the crash %d, %v", size, err)
	}
	if _, err := f.ReadAt(p, 5<<30-1); err != nil || string(p) != "\x00end\x00" {
		t.Errorf("after the crash %q, %v", p, err)
	}
}

// Any run of operations gives a Mem's file the content that it gives a slice of bytes, and a sync makes it crash-proof.
func TestMemAgainstSlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := NewMem()
		f, err := m.OpenFile("f", rw, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.SyncDir("."); err != nil {
			t.Fatal(err)
		}
		var model, synced []byte
		pos := rapid.Custom(func(t *rapid.T) int {
			return max(0, rapid.IntRange(0, 4).Draw(t, "page")*pageSize+rapid.IntRange(-3, 3).Draw(t, "near"))
		})
		grow := func(n int) {
			if n > len(model) {
				model = append(model, make([]byte, n-len(model))...)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"write": func(t *rapid.T) {
				off, data := pos.Draw(t, "off"), bytes.Repeat([]byte{rapid.Byte().Draw(t, "byte")}, 1+pos.Draw(t, "len"))
				if _, err := f.WriteAt(data, int64(off)); err != nil {
					t.Fatal(err)
				}
				grow(off + len(data))
				copy(model[off:], data)
			},
			"truncate": func(t *rapid.T) {
				size := pos.Draw(t, "size")
				if err := f.Truncate(int64(size)); err != nil {
					t.Fatal(err)
				}
				grow(size)
				model = model[:size:size]
			},
			"sync": func(t *rapid.T) {
				if err := f.Sync(); err != nil {
					t.Fatal(err)
				}
				synced = bytes.Clone(model)
			},
			"": func(t *rapid.T) {
				got := make([]byte, len(model)+1)
				n, err := f.ReadAt(got, 0)
				if n != len(model) || err != io.EOF || !bytes.Equal(got[:n], model) {
					t.Fatalf("read %d bytes, %v, want %d", n, err, len(model))
				}
			},
		})
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
		synced = bytes.Clone(model)
		var used int64
		for seed := range uint64(3) {
			after := m.AfterCrash(seed)
			if b, err := ReadFile(after, "f"); err != nil || !bytes.Equal(b, synced) {
				t.Fatalf("seed %d: %d bytes, %v, want %d", seed, len(b), err, len(synced))
			}
			used = after.used
		}
		if used != m.used || used > int64(len(model)) {
			t.Fatalf("%d bytes used, %d after the crash, of %d", m.used, used, len(model))
		}
	})
}

func TestMemConcurrently(t *testing.T) {
	m := NewMem()
	f := create(t, m, "shared", "")
	var group sync.WaitGroup
	for g := range 8 {
		group.Go(func() {
			for i := range 200 {
				name := fmt.Sprintf("d%d/%d", g, i%5)
				if err := m.MkdirAll(fmt.Sprintf("d%d", g), 0o755); err != nil {
					t.Error(err)
				}
				if err := WriteFile(m, name, []byte(name)); err != nil {
					t.Error(err)
				}
				if _, err := f.WriteAt([]byte{byte(g)}, int64(g*200+i)); err != nil {
					t.Error(err)
				}
				if _, err := f.ReadAt(make([]byte, 1), int64(g*200+i)); err != nil {
					t.Error(err)
				}
				if i%50 == 49 {
					if err := f.Sync(); err != nil {
						t.Error(err)
					}
				}
				if i%5 == 4 {
					if err := m.RemoveAll(fmt.Sprintf("d%d", g)); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	group.Wait()
	if size, err := f.Size(); size != 1600 || err != nil {
		t.Errorf("size %d, %v", size, err)
	}
	if m.used != 1600 {
		t.Errorf("%d bytes used", m.used)
	}
}

func TestMemOpenWithoutParent(t *testing.T) {
	_, err := NewMem().OpenFile("d/f", rw, 0o644)
	wantError(t, "open", err, fs.ErrNotExist)
}
