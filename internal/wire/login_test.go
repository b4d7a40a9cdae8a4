package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/auth"
)

// loginTable has the three APIs of a login, handled as a node does, and Metadata.
func loginTable() []API {
	return []API{
		{Key: 3, Min: 0, Max: 13, Handle: echo},
		{Key: 18, Min: 0, Max: 4, Quick: true, Handle: func(_ context.Context, req *Request) Response {
			return Reply(&kmsg.ApiVersionsResponse{Version: req.Version})
		}},
		{Key: 17, Min: 0, Max: 1, Handle: func(_ context.Context, req *Request) Response {
			var r kmsg.SASLHandshakeRequest
			if err := req.Decode(&r); err != nil {
				return Close(err)
			}
			resp := &kmsg.SASLHandshakeResponse{Version: r.Version}
			var err error
			var unknown *UnknownMechanismError
			switch resp.SupportedMechanisms, err = req.Conn.BeginLogin(r.Mechanism, r.Version == 0); {
			case errors.As(err, &unknown):
				resp.ErrorCode = 33
				return Fail(resp, err)
			case err != nil:
				resp.ErrorCode = 34
			}
			return Reply(resp)
		}},
		{Key: 36, Min: 0, Max: 2, Handle: func(_ context.Context, req *Request) Response {
			var r kmsg.SASLAuthenticateRequest
			if err := req.Decode(&r); err != nil {
				return Close(err)
			}
			resp := &kmsg.SASLAuthenticateResponse{Version: r.Version}
			answer, holds, err := req.Conn.Login(r.SASLAuthBytes)
			switch {
			case errors.Is(err, ErrNoLogin):
				resp.ErrorCode = 34
			case err != nil:
				resp.ErrorCode = 58
				return Fail(resp, err)
			}
			resp.SASLAuthBytes, resp.SessionLifetimeMillis = answer, holds.Milliseconds()
			return Reply(resp)
		}},
	}
}

func testLogin() *Login {
	return &Login{
		Mechanisms:    []auth.Mechanism{auth.NewPlain(map[string]string{"alice": "alice-secret", "bob": "bob-secret"})},
		TokenBytesMax: 1000, FailedDelay: 100 * time.Millisecond,
	}
}

// loginPipe is a connection of a listener with a login, without sockets, so that time can be faked.
func loginPipe(t *testing.T, l *Login) (net.Conn, *logBook) {
	t.Helper()
	log := &logBook{}
	s := NewServer(loginTable(), Limits{}, slog.New(slog.NewTextHandler(log, nil)))
	near, far := net.Pipe()
	s.admit(Listener{Name: "SASL", Login: l}, near)
	t.Cleanup(func() {
		far.Close()
		if err := s.Shutdown(t.Context()); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	})
	return far, log
}

func talk[R kmsg.Response](t *testing.T, nc net.Conn, req kmsg.Request) R {
	t.Helper()
	if _, err := nc.Write(frame(req, 7)); err != nil {
		t.Fatal(err)
	}
	return answered[R](t, nc, req)
}

func answered[R kmsg.Response](t *testing.T, nc net.Conn, req kmsg.Request) R {
	t.Helper()
	b := readFrame(t, nc)[4:]
	if req.IsFlexible() && req.Key() != 18 {
		b = b[1:]
	}
	resp := req.ResponseKind()
	if err := resp.ReadFrom(b); err != nil {
		t.Fatal(err)
	}
	return resp.(R)
}

func handshake(version int16, mechanism string) *kmsg.SASLHandshakeRequest {
	return &kmsg.SASLHandshakeRequest{Version: version, Mechanism: mechanism}
}

func token(text string) *kmsg.SASLAuthenticateRequest {
	return &kmsg.SASLAuthenticateRequest{Version: 2, SASLAuthBytes: []byte(text)}
}

const (
	right = "\x00alice\x00alice-secret"
	wrong = "\x00alice\x00mistaken"
)

// keeps I7: what may be asked, and when.
func TestLoginOrder(t *testing.T) {
	const closed = "closed"
	for _, q := range []struct {
		name string
		reqs []kmsg.Request
		want string // of each answer its code
	}{
		{"in order", []kmsg.Request{at(kmsg.NewPtrApiVersionsRequest(), 3), handshake(1, "PLAIN"), token(right), metadata("t"), metadata("u")}, "0 0 0 0 0"},
		{"ApiVersions again", []kmsg.Request{at(kmsg.NewPtrApiVersionsRequest(), 3), at(kmsg.NewPtrApiVersionsRequest(), 0), handshake(1, "PLAIN")}, "0 0 0"},
		{"Metadata first", []kmsg.Request{metadata("t")}, closed},
		{"Metadata after ApiVersions", []kmsg.Request{at(kmsg.NewPtrApiVersionsRequest(), 3), metadata("t")}, "0 closed"},
		{"Metadata in between", []kmsg.Request{handshake(1, "PLAIN"), metadata("t")}, "0 closed"},
		{"a token first", []kmsg.Request{token(right)}, closed},
		{"two handshakes", []kmsg.Request{handshake(1, "PLAIN"), handshake(1, "PLAIN")}, "0 closed"},
		{"wrong password", []kmsg.Request{handshake(1, "PLAIN"), token(wrong), metadata("t")}, "0 58 closed"},
		{"unknown mechanism", []kmsg.Request{handshake(1, "plain"), handshake(1, "PLAIN")}, "33 closed"},
		{"a handshake of a login that holds", []kmsg.Request{handshake(1, "PLAIN"), token(right), handshake(1, "PLAIN"), token(right), metadata("t")}, "0 0 34 34 0"},
	} {
		t.Run(q.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nc, _ := loginPipe(t, testLogin())
				// All at once: a client need not wait for answers.
				go func() {
					for _, req := range q.reqs {
						if _, err := nc.Write(frame(req, 7)); err != nil {
							return
						}
					}
				}()
				var got []string
				for _, req := range q.reqs {
					if nc.SetReadDeadline(time.Now().Add(time.Second)); !more(nc, req, &got) {
						break
					}
				}
				if g := strings.Join(got, " "); g != q.want {
					t.Errorf("answers %s, want %s", g, q.want)
				}
			})
		})
	}
}

// more reads one answer, if there is one.
func more(nc net.Conn, req kmsg.Request, got *[]string) bool {
	var size [4]byte
	if _, err := io.ReadFull(nc, size[:]); err != nil {
		if isTimeout(err) {
			*got = append(*got, "silent")
		} else {
			*got = append(*got, "closed")
		}
		return false
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	io.ReadFull(nc, b)
	code := int16(0)
	switch b = b[4:]; req.Key() {
	case 17:
		code = int16(binary.BigEndian.Uint16(b))
	case 36:
		code = int16(binary.BigEndian.Uint16(b[1:]))
	}
	*got = append(*got, fmt.Sprint(code))
	return true
}

// A failed login is answered after the delay, then the connection ends; the log has neither names nor secrets.
func TestLoginDelay(t *testing.T) {
	for _, raw := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			nc, log := loginPipe(t, testLogin())
			began := time.Now()
			if raw {
				talk[*kmsg.SASLHandshakeResponse](t, nc, handshake(0, "PLAIN"))
				nc.Write(append([]byte{0, 0, 0, byte(len(wrong))}, wrong...))
			} else {
				talk[*kmsg.SASLHandshakeResponse](t, nc, handshake(1, "PLAIN"))
				if r := talk[*kmsg.SASLAuthenticateResponse](t, nc, token(wrong)); r.ErrorCode != 58 {
					t.Errorf("code %d", r.ErrorCode)
				}
			}
			wantClosed(t, nc, "after a failed login")
			if took := time.Since(began); took != 100*time.Millisecond {
				t.Errorf("a failure took %v", took)
			}
			synctest.Wait()
			if text := log.String(); !strings.Contains(text, "wrong user or password") || strings.Contains(text, "alice") || strings.Contains(text, "mistaken") {
				t.Errorf("log: %s", text)
			}
		})
	}
}

// Shutdown does not wait for the delay of a failed login.
func TestLoginDelayEndsWithServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testLogin()
		l.FailedDelay = time.Hour
		s := NewServer(loginTable(), Limits{}, nil)
		near, far := net.Pipe()
		s.admit(Listener{Name: "SASL", Login: l}, near)
		talk[*kmsg.SASLHandshakeResponse](t, far, handshake(0, "PLAIN"))
		far.Write(append([]byte{0, 0, 0, byte(len(wrong))}, wrong...))
		synctest.Wait()
		began := time.Now()
		if err := s.Shutdown(t.Context()); err != nil || time.Since(began) > time.Second {
			t.Errorf("shutdown after %v: %v", time.Since(began), err)
		}
		far.Close()
	})
}

// After a handshake of version 0 tokens are frames of their own, then come requests again.
func TestRawTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nc, _ := loginPipe(t, testLogin())
		talk[*kmsg.SASLHandshakeResponse](t, nc, handshake(0, "PLAIN"))
		nc.Write(append([]byte{0, 0, 0, byte(len(right))}, right...))
		if b := readFrame(t, nc); len(b) != 0 {
			t.Errorf("PLAIN was answered with %x", b)
		}
		if r := talk[*kmsg.MetadataResponse](t, nc, metadata("t")); len(r.Topics) != 1 {
			t.Errorf("Metadata after the login: %+v", r)
		}
	})
}

// keeps I7: an unauthenticated client's frames are bounded, in either style, and afterwards they are not.
func TestTokenBound(t *testing.T) {
	for _, req := range []*kmsg.SASLHandshakeRequest{nil, handshake(0, "PLAIN"), handshake(1, "PLAIN")} {
		synctest.Test(t, func(t *testing.T) {
			nc, _ := loginPipe(t, testLogin())
			if req != nil {
				talk[*kmsg.SASLHandshakeResponse](t, nc, req)
			}
			nc.Write([]byte{0, 0, 3, 0xe9}) // 1001
			wantClosed(t, nc, "a token above the bound")
		})
	}
	synctest.Test(t, func(t *testing.T) {
		nc, _ := loginPipe(t, testLogin())
		talk[*kmsg.SASLHandshakeResponse](t, nc, handshake(1, "PLAIN"))
		talk[*kmsg.SASLAuthenticateResponse](t, nc, token(right))
		if r := talk[*kmsg.MetadataResponse](t, nc, metadata(strings.Repeat("t", 2000))); len(r.Topics) != 1 {
			t.Errorf("a large request after the login: %+v", r)
		}
	})
}

// A login that ends may be renewed by the same user, and nothing else is served once it has ended.
func TestRelogin(t *testing.T) {
	relogin := func(t *testing.T, nc net.Conn, text string) (int16, int64) {
		if r := talk[*kmsg.SASLHandshakeResponse](t, nc, handshake(1, "PLAIN")); r.ErrorCode != 0 {
			return r.ErrorCode, 0
		}
		r := talk[*kmsg.SASLAuthenticateResponse](t, nc, token(text))
		return r.ErrorCode, r.SessionLifetimeMillis
	}
	begin := func(t *testing.T) net.Conn {
		l := testLogin()
		l.SessionMax = map[string]time.Duration{"PLAIN": time.Minute}
		nc, _ := loginPipe(t, l)
		if code, ms := relogin(t, nc, right); code != 0 || ms != 60000 {
			t.Fatalf("first login: %d, holds %d ms", code, ms)
		}
		return nc
	}
	for _, q := range []struct {
		after time.Duration
		text  string // "": Metadata
		want  int16
	}{
		{500 * time.Millisecond, right, 34},
		{30 * time.Second, right, 0},
		{2 * time.Minute, right, 0}, // late, but no request has told
		{30 * time.Second, "\x00bob\x00bob-secret", 58},
		{30 * time.Second, wrong, 58},
	} {
		synctest.Test(t, func(t *testing.T) {
			nc := begin(t)
			time.Sleep(q.after)
			code, ms := relogin(t, nc, q.text)
			if code != q.want {
				t.Fatalf("login after %v: %d, want %d", q.after, code, q.want)
			}
			switch code {
			case 0:
				time.Sleep(59 * time.Second)
				if r := talk[*kmsg.MetadataResponse](t, nc, metadata("t")); len(r.Topics) != 1 || ms != 60000 {
					t.Errorf("after the second login, which holds %d ms: %+v", ms, r)
				}
			case 58:
				wantClosed(t, nc, "a failed login")
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		nc := begin(t)
		time.Sleep(59 * time.Second)
		talk[*kmsg.MetadataResponse](t, nc, metadata("t"))
		time.Sleep(time.Second)
		nc.Write(frame(metadata("t"), 8))
		wantClosed(t, nc, "a request after the login has ended")
	})
	synctest.Test(t, func(t *testing.T) { // half a login is none
		nc := begin(t)
		time.Sleep(30 * time.Second)
		talk[*kmsg.SASLHandshakeResponse](t, nc, handshake(1, "PLAIN"))
		nc.Write(frame(metadata("t"), 8))
		wantClosed(t, nc, "a request between handshake and token")
	})
}

// On a listener without a login there is none to begin.
func TestNoLogin(t *testing.T) {
	_, address, _ := serve(t, loginTable(), Limits{})
	nc := dial(t, address)
	if r := talk[*kmsg.SASLHandshakeResponse](t, nc, handshake(1, "PLAIN")); r.ErrorCode != 34 || len(r.SupportedMechanisms) > 0 {
		t.Errorf("handshake: %+v", r)
	}
	if r := talk[*kmsg.SASLAuthenticateResponse](t, nc, token(right)); r.ErrorCode != 34 {
		t.Errorf("token: %+v", r)
	}
	talk[*kmsg.MetadataResponse](t, nc, metadata("t"))
}
