package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pipe is a TCP connection's two ends.
func pipe(t *testing.T) (server *net.TCPConn, client net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	client, err = net.Dial("tcp", l.Addr().String())
	must(t, err)
	conn, err := l.Accept()
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(); _ = client.Close() })
	return conn.(*net.TCPConn), client
}

func TestSendfile(t *testing.T) {
	dir := t.TempDir()
	data := bytes.Repeat([]byte("0123456789abcdef"), (5*sendfileChunk/2)/16)
	f := create(t, OS(), dir+"/f", string(data))
	for _, r := range []Region{{f, 0, 1}, {f, 3, 1000}, {f, 1, int64(len(data)) - 1}, {f, 0, int64(len(data))}} {
		t.Run(fmt.Sprintf("%d+%d", r.Pos, r.Len), func(t *testing.T) {
			server, client := pipe(t)
			type result struct {
				n   int64
				err error
			}
			done := make(chan result, 1)
			go func() {
				n, err := r.WriteTo(server)
				_ = server.Close()
				done <- result{n, err}
			}()
			got, err := io.ReadAll(client)
			must(t, err)
			if res := <-done; res.n != r.Len || res.err != nil || !bytes.Equal(got, data[r.Pos:r.Pos+r.Len]) {
				t.Errorf("sent %d, %v; received %d", res.n, res.err, len(got))
			}
		})
	}
	t.Run("two at once on one file", func(t *testing.T) { // the position is each call's own
		results := make(chan error, 2)
		for i := range 2 {
			server, client := pipe(t)
			r := Region{f, int64(i) * 777, sendfileChunk}
			go func() { _, _ = r.WriteTo(server); _ = server.Close() }()
			go func() {
				got, err := io.ReadAll(client)
				if err == nil && !bytes.Equal(got, data[r.Pos:r.Pos+r.Len]) {
					err = fmt.Errorf("%d: wrong bytes", i)
				}
				results <- err
			}()
		}
		must(t, <-results)
		must(t, <-results)
	})
	t.Run("the file is shorter", func(t *testing.T) {
		server, client := pipe(t)
		go func() { _, _ = io.Copy(io.Discard, client) }()
		n, err := Region{f, int64(len(data)) - 10, 100}.WriteTo(server)
		if n != 10 || err != io.ErrUnexpectedEOF {
			t.Errorf("%d, %v", n, err)
		}
	})
	t.Run("the name is gone", func(t *testing.T) { // I4
		g := create(t, OS(), dir+"/g", "unlinked")
		must(t, os.Remove(dir+"/g"))
		server, client := pipe(t)
		n, err := Region{g, 2, 3}.WriteTo(server)
		_ = server.Close()
		got, _ := io.ReadAll(client)
		if n != 3 || err != nil || string(got) != "lin" {
			t.Errorf("%d, %v, %q", n, err, got)
		}
	})
	t.Run("the file is closed", func(t *testing.T) {
		g := create(t, OS(), dir+"/h", "closed")
		must(t, g.Close())
		server, _ := pipe(t)
		if n, err := (Region{g, 0, 3}).WriteTo(server); n != 0 || !errors.Is(err, os.ErrClosed) {
			t.Errorf("%d, %v", n, err)
		}
	})
}

// A peer that reads nothing holds the sender until the deadline, or the end of the connection on either side.
func TestSendfileEnds(t *testing.T) {
	f := create(t, OS(), t.TempDir()+"/f", "")
	must(t, f.Truncate(64<<20)) // more than sockets hold
	r := Region{f, 0, 64 << 20}
	for what, tt := range map[string]struct {
		end  func(server *net.TCPConn, client net.Conn)
		want error // nil: any
	}{
		"deadline":         {func(s *net.TCPConn, _ net.Conn) { _ = s.SetWriteDeadline(time.Now().Add(time.Millisecond)) }, os.ErrDeadlineExceeded},
		"deadline passed":  {func(s *net.TCPConn, _ net.Conn) { _ = s.SetWriteDeadline(time.Unix(1, 0)) }, os.ErrDeadlineExceeded},
		"closed":           {func(s *net.TCPConn, _ net.Conn) { _ = s.Close() }, net.ErrClosed},
		"peer closed":      {func(_ *net.TCPConn, c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0); _ = c.Close() }, nil},
		"peer closed late": {func(_ *net.TCPConn, c net.Conn) { _, _ = io.CopyN(io.Discard, c, 1<<20); _ = c.Close() }, nil},
	} {
		t.Run(what, func(t *testing.T) {
			server, client := pipe(t)
			done := make(chan error, 1)
			go func() {
				n, err := r.WriteTo(server)
				if n >= r.Len {
					err = fmt.Errorf("all %d bytes were taken", n)
				}
				done <- err
			}()
			tt.end(server, client)
			select {
			case err := <-done:
				if err == nil || tt.want != nil && !errors.Is(err, tt.want) {
					t.Errorf("error %v, want %v", err, tt.want)
				}
			case <-time.After(2 * time.Minute):
				t.Fatal("hangs")
			}
		})
	}
}

// A deadline holds however fast the peer reads: it is looked at between chunks.
func TestSendfileDeadlineWhileFlowing(t *testing.T) {
	f := create(t, OS(), t.TempDir()+"/f", "")
	must(t, f.Truncate(1<<40))
	server, client := pipe(t)
	go func() { _, _ = io.Copy(io.Discard, client) }()
	must(t, server.SetWriteDeadline(time.Now().Add(20*time.Millisecond)))
	if n, err := (Region{f, 0, 1 << 40}).WriteTo(server); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d, %v", n, err)
	}
}

// Java locks with fcntl: such a lock of another process keeps us out, and ours keeps it out.
func TestLockAgainstAnotherProcess(t *testing.T) {
	if name := os.Getenv("QUIRE_TEST_LOCK"); name != "" {
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		must(t, err)
		err = unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
		fmt.Printf("locked: %v\n", err == nil)
		_, _ = io.Copy(io.Discard, os.Stdin) // until the parent has looked
		return
	}
	name := t.TempDir() + "/.lock"
	// other runs a process that tries the lock, and while it has it, or has not, do.
	other := func(do func()) (got bool) {
		cmd := exec.Command(os.Args[0], "-test.run=^TestLockAgainstAnotherProcess$")
		cmd.Env = append(os.Environ(), "QUIRE_TEST_LOCK="+name)
		in, err := cmd.StdinPipe()
		must(t, err)
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		line := make([]byte, 64)
		n, err := out.Read(line)
		must(t, err)
		do()
		_ = in.Close()
		_, _ = io.Copy(io.Discard, out)
		must(t, cmd.Wait())
		return strings.HasPrefix(string(line[:n]), "locked: true")
	}
	l, err := OS().Lock(name)
	must(t, err)
	if other(func() {}) {
		t.Error("another process got the lock that we have")
	}
	must(t, l.Close())
	if !other(func() {
		_, err := OS().Lock(name)
		wantError(t, "while another process has it", err, ErrLocked)
	}) {
		t.Error("another process did not get a lock that nobody has")
	}
	l, err = OS().Lock(name)
	must(t, err)
	must(t, l.Close())
}
