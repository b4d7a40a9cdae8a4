// Package golden opens the data directories that Kafka wrote, for tests. They lie outside of the repository, in the folder
// shared beside it; a test that needs them is skipped where that folder is not.
package golden

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// Shared is the path of the shared folder, or of something in it. The test is skipped if it is not there.
func Shared(t testing.TB, elem ...string) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		if up := filepath.Dir(dir); up != dir {
			dir = up
			continue
		}
		t.Fatal("no go.mod above the test")
	}
	p := filepath.Join(append([]string{filepath.Dir(dir), "shared"}, elem...)...)
	if _, err := os.Stat(p); err != nil {
		t.Skipf("needs what is not here: %v", err)
	}
	return p
}

// Names are the goldens there are.
func Names(t testing.TB) (names []string) {
	t.Helper()
	archives, err := filepath.Glob(filepath.Join(Shared(t, "golden"), "*.tar.zst"))
	if err != nil || len(archives) == 0 {
		t.Fatalf("no goldens: %v", err)
	}
	for _, a := range archives {
		name := filepath.Base(a)
		names = append(names, name[:len(name)-len(".tar.zst")])
	}
	return names
}

// Files reads the files of a golden whose path matches one of the patterns of path.Match, by that path.
func Files(t testing.TB, name string, patterns ...string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	walk(t, name, func(h *tar.Header, r io.Reader) error {
		for _, p := range patterns {
			if ok, err := path.Match(p, path.Clean(h.Name)); err != nil {
				return err
			} else if ok {
				b, err := io.ReadAll(r)
				files[path.Clean(h.Name)] = b
				return err
			}
		}
		return nil
	})
	return files
}

// Unpack puts a golden into a folder of the test's own and returns its path. Holes of a file stay holes.
func Unpack(t testing.TB, name string) string {
	t.Helper()
	dir := t.TempDir()
	walk(t, name, func(h *tar.Header, r io.Reader) error {
		if !filepath.IsLocal(h.Name) {
			return errors.New("outside of the folder: " + h.Name)
		}
		p := filepath.Join(dir, h.Name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			return err
		}
		f, err := os.Create(p)
		if err != nil {
			return err
		}
		if err := copyHoles(f, r); err != nil {
			f.Close()
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
		return os.Chtimes(p, h.ModTime, h.ModTime)
	})
	return dir
}

// copyHoles copies r, but seeks over blocks of zeros.
func copyHoles(f *os.File, r io.Reader) error {
	var zeros, block [64 << 10]byte
	for size := int64(0); ; {
		n, err := io.ReadFull(r, block[:])
		if bytes.Equal(block[:n], zeros[:n]) {
			_, seekErr := f.Seek(int64(n), io.SeekCurrent)
			err = errors.Join(seekErr, err)
		} else if _, writeErr := f.Write(block[:n]); writeErr != nil {
			return writeErr
		}
		size += int64(n)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return f.Truncate(size)
		}
		if err != nil {
			return err
		}
	}
}

// walk calls f for each file of a golden's archive.
func walk(t testing.TB, name string, f func(*tar.Header, io.Reader) error) {
	t.Helper()
	in, err := os.Open(filepath.Join(Shared(t, "golden"), name+".tar.zst"))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	z, err := zstd.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err == nil && h.FileInfo().Mode().IsRegular() {
			err = f(h, r)
		}
		if err != nil {
			t.Fatalf("golden %s: %v", name, err)
		}
	}
}
