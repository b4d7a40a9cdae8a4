package vfs

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// both runs a test on the operating system's files and on their twin: what it asserts is what Mem must imitate.
func both(t *testing.T, test func(t *testing.T, fsys FS, dir string)) {
	t.Run("OS", func(t *testing.T) { test(t, OS(), t.TempDir()) })
	t.Run("Mem", func(t *testing.T) {
		m := NewMem()
		if err := m.MkdirAll("/a/dir", 0o755); err != nil {
			t.Fatal(err)
		}
		test(t, m, "/a/dir")
	})
}

const rw = os.O_RDWR | os.O_CREATE

func create(t *testing.T, fsys FS, name, content string) File {
	t.Helper()
	f, err := fsys.OpenFile(name, rw, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if _, err := f.WriteAt([]byte(content), 0); err != nil {
		t.Fatal(err)
	}
	return f
}

func content(t *testing.T, fsys FS, name string) string {
	t.Helper()
	b, err := ReadFile(fsys, name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func names(t *testing.T, fsys FS, dir string) string {
	t.Helper()
	list, err := fsys.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, e := range list {
		b.WriteString(e.Name())
		if e.IsDir() {
			b.WriteByte('/')
		}
		b.WriteByte(' ')
	}
	return strings.TrimSpace(b.String())
}

// wantError checks an error's identity, and that it names the file in the one type that FS promises.
func wantError(t *testing.T, what string, err, want error) {
	t.Helper()
	var pe *fs.PathError
	if !errors.Is(err, want) || !errors.As(err, &pe) {
		t.Errorf("%s: error %v (%T), want a PathError of %v", what, err, err, want)
	}
}

func TestErrors(t *testing.T) {
	both(t, func(t *testing.T, fsys FS, dir string) {
		create(t, fsys, dir+"/file", "x")
		if err := fsys.MkdirAll(dir+"/sub/deep", 0o755); err != nil {
			t.Fatal(err)
		}
		open := func(name string, flag int) error {
			f, err := fsys.OpenFile(dir+name, flag, 0o644)
			if err == nil {
				_ = f.Close()
			}
			return err
		}
		_, statErr := fsys.Stat(dir + "/none")
		_, listErr := fsys.ReadDir(dir + "/none")
		_, listFileErr := fsys.ReadDir(dir + "/file")
		_, usageErr := fsys.Usage(dir + "/none")
		long := "/" + strings.Repeat("n", 256)
		for _, tt := range []struct {
			what      string
			err, want error
		}{
			{"open missing", open("/none", os.O_RDWR), fs.ErrNotExist},
			{"create in missing", open("/none/file", rw), fs.ErrNotExist},
			{"create exclusively", open("/file", rw|os.O_EXCL), fs.ErrExist},
			{"create below a file", open("/file/x", rw), syscall.ENOTDIR},
			{"create with a long name", open(long, rw), syscall.ENAMETOOLONG},
			{"open directory to write", open("/sub", os.O_RDWR), syscall.EISDIR},
			{"stat missing", statErr, fs.ErrNotExist},
			{"list missing", listErr, fs.ErrNotExist},
			{"list file", listFileErr, syscall.ENOTDIR},
			{"usage of missing", usageErr, fs.ErrNotExist},
			{"mkdir below a file", fsys.MkdirAll(dir+"/file/x", 0o755), syscall.ENOTDIR},
			{"mkdir over a file", fsys.MkdirAll(dir+"/file", 0o755), syscall.ENOTDIR},
			{"mkdir with a long name", fsys.MkdirAll(dir+long, 0o755), syscall.ENAMETOOLONG},
			{"remove missing", fsys.Remove(dir + "/none"), fs.ErrNotExist},
			{"remove full directory", fsys.Remove(dir + "/sub"), syscall.ENOTEMPTY},
			{"rename missing", fsys.Rename(dir+"/none", dir+"/new"), fs.ErrNotExist},
			{"rename into missing", fsys.Rename(dir+"/file", dir+"/none/file"), fs.ErrNotExist},
			{"rename file over directory", fsys.Rename(dir+"/file", dir+"/sub"), fs.ErrExist},
			{"rename directory over file", fsys.Rename(dir+"/sub", dir+"/file"), syscall.ENOTDIR},
			{"rename directory into itself", fsys.Rename(dir+"/sub", dir+"/sub/deep/sub"), syscall.EINVAL},
			{"chtimes of missing", fsys.Chtimes(dir+"/none", time.Now()), fs.ErrNotExist},
			{"sync missing directory", fsys.SyncDir(dir + "/none"), fs.ErrNotExist},
		} {
			wantError(t, tt.what, tt.err, tt.want)
		}
		if got, want := names(t, fsys, dir), "file sub/"; got != want {
			t.Errorf("after all that: %q, want %q", got, want)
		}
		if err := fsys.RemoveAll(dir + "/none"); err != nil {
			t.Errorf("RemoveAll of what is not there: %v", err)
		}
	})
}

func TestReadAndWrite(t *testing.T) {
	both(t, func(t *testing.T, fsys FS, dir string) {
		f := create(t, fsys, dir+"/f", "hello")
		check := func(want string) {
			t.Helper()
			size, err := f.Size()
			if err != nil || size != int64(len(want)) {
				t.Errorf("size %d, %v, want %d", size, err, len(want))
			}
			if got := content(t, fsys, dir+"/f"); got != want {
				t.Errorf("content %q, want %q", got, want)
			}
		}
		write := func(s string, off int64) {
			t.Helper()
			if n, err := f.WriteAt([]byte(s), off); n != len(s) || err != nil {
				t.Fatalf("WriteAt = %d, %v", n, err)
			}
		}
		truncate := func(size int64) {
			t.Helper()
			if err := f.Truncate(size); err != nil {
				t.Fatal(err)
			}
		}
		check("hello")
		write("J", 0)
		check("Jello")
		write("end", 7)
		check("Jello\x00\x00end")
		truncate(3)
		check("Jel")
		truncate(5)
		check("Jel\x00\x00")
		write("", 100)
		check("Jel\x00\x00")
		big := strings.Repeat("0123456789", 2000)
		write(big, 3)
		check("Jel" + big)
		truncate(9000)
		truncate(9010)
		check(("Jel" + big)[:9000] + strings.Repeat("\x00", 10))
		truncate(0)
		check("")

		p := make([]byte, 4)
		if n, err := f.ReadAt(p, 0); n != 0 || err != io.EOF {
			t.Errorf("ReadAt of nothing = %d, %v", n, err)
		}
		write("abc", 0)
		if n, err := f.ReadAt(p, 1); n != 2 || err != io.EOF || string(p[:2]) != "bc" {
			t.Errorf("ReadAt over the end = %d %q, %v", n, p[:n], err)
		}
		if n, err := f.ReadAt(p[:2], 1); n != 2 || err != nil {
			t.Errorf("ReadAt up to the end = %d, %v", n, err)
		}
		if n, err := f.ReadAt(p, 1<<40); n != 0 || err != io.EOF {
			t.Errorf("ReadAt far behind = %d, %v", n, err)
		}
		if _, err := f.ReadAt(p, -1); err == nil {
			t.Error("ReadAt before the file: no error")
		}
		if _, err := f.WriteAt(p, -1); err == nil {
			t.Error("WriteAt before the file: no error")
		}
		wantError(t, "Truncate(-1)", f.Truncate(-1), syscall.EINVAL)
		if err := f.Sync(); err != nil {
			t.Error(err)
		}
		if f.Name() != dir+"/f" {
			t.Errorf("Name = %q", f.Name())
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		_, readErr := f.ReadAt(p, 0)
		_, writeErr := f.WriteAt(p, 0)
		_, sizeErr := f.Size()
		for _, err := range []error{readErr, writeErr, sizeErr, f.Truncate(0), f.Sync(), f.Close()} {
			if !errors.Is(err, fs.ErrClosed) {
				t.Errorf("after Close: %v", err)
			}
		}
		r, err := fsys.OpenFile(dir+"/f", os.O_RDONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		_, writeErr = r.WriteAt(p, 0)
		wantError(t, "write of what is open to read", writeErr, syscall.EBADF)
		wantError(t, "truncation of what is open to read", r.Truncate(1), syscall.EINVAL)
		w, err := fsys.OpenFile(dir+"/f", os.O_WRONLY|os.O_TRUNC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		check2, err := fsys.Stat(dir + "/f")
		if err != nil || check2.Size() != 0 {
			t.Errorf("after O_TRUNC: %v, %v", check2, err)
		}
		_, readErr = w.ReadAt(p, 0)
		wantError(t, "read of what is open to write", readErr, syscall.EBADF)
	})
}

func TestNames(t *testing.T) {
	both(t, func(t *testing.T, fsys FS, dir string) {
		do := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		want := func(sub, want string) {
			t.Helper()
			if got := names(t, fsys, dir+sub); got != want {
				t.Errorf("%s has %q, want %q", sub, got, want)
			}
		}
		do(fsys.MkdirAll(dir+"/b/c", 0o755))
		do(fsys.MkdirAll(dir+"/b", 0o755))
		f := create(t, fsys, dir+"/b/z", "zzz")
		create(t, fsys, dir+"/b/a", "aaa")
		want("/b", "a c/ z")
		do(fsys.Rename(dir+"/b/a", dir+"/b/a"))
		do(fsys.Rename(dir+"/b/a", dir+"/b/z"))
		want("/b", "c/ z")
		if got := content(t, fsys, dir+"/b/z"); got != "aaa" {
			t.Errorf("renamed over: %q", got)
		}
		p := make([]byte, 3)
		if _, err := f.ReadAt(p, 0); err != nil || string(p) != "zzz" {
			t.Errorf("open file whose name was taken: %q, %v", p, err)
		}
		do(fsys.Rename(dir+"/b", dir+"/d"))
		want("", "d/")
		want("/d", "c/ z")
		do(fsys.SyncDir(dir))
		info, err := fsys.Stat(dir + "/d/z")
		if err != nil || info.Name() != "z" || info.IsDir() || info.Size() != 3 {
			t.Errorf("Stat = %v, %v", info, err)
		}
		info, err = fsys.Stat(dir + "/d")
		if err != nil || !info.IsDir() {
			t.Errorf("Stat = %v, %v", info, err)
		}
		do(fsys.Remove(dir + "/d/c"))
		do(fsys.Remove(dir + "/d/z"))
		do(fsys.Remove(dir + "/d"))
		want("", "")
		do(fsys.MkdirAll(dir+"/x/y/z", 0o755))
		create(t, fsys, dir+"/x/y/f", "")
		do(fsys.RemoveAll(dir + "/x"))
		want("", "")
		when := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
		f = create(t, fsys, dir+"/t", "t")
		do(fsys.Chtimes(dir+"/t", when))
		if got, err := f.ModTime(); err != nil || !got.Equal(when) {
			t.Errorf("ModTime = %v, %v", got, err)
		}
		_, err = f.WriteAt([]byte("u"), 0)
		do(err)
		if got, err := f.ModTime(); err != nil || time.Since(got) > time.Hour {
			t.Errorf("ModTime after a write = %v, %v", got, err)
		}
	})
}

func TestLock(t *testing.T) {
	both(t, func(t *testing.T, fsys FS, dir string) {
		l, err := fsys.Lock(dir + "/.lock")
		if err != nil {
			t.Fatal(err)
		}
		_, err = fsys.Lock(dir + "/.lock")
		wantError(t, "second lock", err, ErrLocked)
		// The attempt, and readers that come and go, must not give the lock back.
		_, _ = ReadFile(fsys, dir+"/.lock")
		_, err = fsys.Lock(dir + "/.lock")
		wantError(t, "third lock", err, ErrLocked)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("second Close = %v", err)
		}
		l, err = fsys.Lock(dir + "/.lock")
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
		if got := names(t, fsys, dir); got != ".lock" {
			t.Errorf("left behind: %q", got)
		}
	})
}

func TestUsage(t *testing.T) {
	both(t, func(t *testing.T, fsys FS, dir string) {
		u, err := fsys.Usage(dir)
		if err != nil || u.Total <= 0 || u.Usable < 0 || u.Usable > u.Total {
			t.Errorf("Usage = %+v, %v", u, err)
		}
	})
}

func TestWriteFile(t *testing.T) {
	both(t, func(t *testing.T, fsys FS, dir string) {
		for _, s := range []string{"one", "", "a longer one than the first"} {
			if err := WriteFile(fsys, dir+"/f", []byte(s)); err != nil {
				t.Fatal(err)
			}
			if got := content(t, fsys, dir+"/f"); got != s {
				t.Errorf("read %q, want %q", got, s)
			}
			if got := names(t, fsys, dir); got != "f" {
				t.Errorf("left: %q", got)
			}
		}
		wantError(t, "in a missing directory", WriteFile(fsys, dir+"/none/f", nil), fs.ErrNotExist)
		_, err := ReadFile(fsys, dir+"/none")
		wantError(t, "missing", err, fs.ErrNotExist)
	})
}

func TestRegionCopies(t *testing.T) {
	both(t, func(t *testing.T, fsys FS, dir string) {
		data := strings.Repeat("0123456789abcdef", 3*copyBufferSize/16)
		f := create(t, fsys, dir+"/f", data)
		for _, r := range []Region{
			{f, 0, 0}, {f, 5, 1}, {f, 0, copyBufferSize}, {f, 7, copyBufferSize + 1}, {f, 0, int64(len(data))}, {f, int64(len(data)), 0},
		} {
			var b bytes.Buffer
			n, err := r.WriteTo(&b)
			if n != r.Len || err != nil || b.String() != data[r.Pos:r.Pos+r.Len] {
				t.Errorf("[%d, +%d): wrote %d, %v", r.Pos, r.Len, n, err)
			}
		}
		var b bytes.Buffer
		n, err := Region{f, 10, int64(len(data))}.WriteTo(&b)
		if n != int64(len(data))-10 || err != io.ErrUnexpectedEOF {
			t.Errorf("over the end: %d, %v", n, err)
		}
		// I4: the name does not matter.
		if err := fsys.Remove(dir + "/f"); err != nil {
			t.Fatal(err)
		}
		b.Reset()
		if n, err := (Region{f, 3, 4}).WriteTo(&b); n != 4 || err != nil || b.String() != "3456" {
			t.Errorf("unlinked: %d %q, %v", n, b.String(), err)
		}
		n, err = Region{f, 0, int64(len(data))}.WriteTo(stingyWriter{})
		if n != 10 || err != io.ErrShortWrite {
			t.Errorf("to a writer that takes little: %d, %v", n, err)
		}
	})
}

// A stingyWriter takes ten bytes and breaks io.Writer's contract.
type stingyWriter struct{}

func (stingyWriter) Write(p []byte) (int, error) { return min(10, len(p)), nil }
