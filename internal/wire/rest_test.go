package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"runtime"
	"testing"
	"time"
)

// A client that rests between requests has its connection taken over by a new goroutine each time, with the smallest stack; one that does
// not rest keeps its goroutine.
func TestRestingTakesSmallestStack(t *testing.T) {
	ran := make(chan string, 100) // the goroutines that handled requests
	apis := []API{{Key: 0, Min: 3, Max: 3, Handle: func(_ context.Context, req *Request) Response {
		b := make([]byte, 64)
		id, _, _ := bytes.Cut(b[:runtime.Stack(b, false)], []byte("["))
		ran <- string(id)
		return Stream(req, &Body{}, nil)
	}}}
	_, address, _ := serve(t, apis, Limits{})
	nc := dial(t, address)
	send := func(n int) (ids []string) {
		t.Helper()
		head := []byte{0, 0, 0, 3, 0, 0, 0, 1, 0xff, 0xff}
		one := append(binary.BigEndian.AppendUint32(nil, uint32(len(head))), head...)
		if _, err := nc.Write(bytes.Repeat(one, n)); err != nil {
			t.Fatal(err)
		}
		for range n {
			readFrame(t, nc)
			ids = append(ids, <-ran)
		}
		return ids
	}
	busy := send(briskMin + 2)
	for _, id := range append(busy, send(1)...) {
		if id != busy[0] {
			t.Fatalf("%d requests at once were handled by %s, and then by %s", len(busy), busy[0], id)
		}
	}
	for before, begin := busy[0], time.Now(); ; {
		time.Sleep(restMin)
		now := send(1)[0]
		if now != before {
			break
		}
		if time.Since(begin) > time.Minute {
			t.Fatal("a client that rests keeps its goroutine")
		}
	}
}

// A Later is answered once what it waits for has come, or its server closes; requests behind it wait.
func TestLater(t *testing.T) {
	released, answered := make(chan struct{}), make(chan bool, 2)
	apis := []API{{Key: 0, Min: 3, Max: 3, Handle: func(_ context.Context, req *Request) Response {
		req.Keep()
		return Later(released, func(done bool) Response {
			answered <- done
			return Stream(req, &Body{Buf: []byte{byte(req.CorrelationID)}}, nil)
		}).After(func(r Response) Response {
			r.Body().Buf = append(r.Body().Buf, 'x')
			return r
		})
	}}, echoAPIs[0]}
	s, address, _ := serve(t, apis, Limits{})
	nc := dial(t, address)
	later := []byte{0, 0, 0, 10, 0, 0, 0, 3, 0, 0, 0, 7, 0xff, 0xff}
	if _, err := nc.Write(append(later, frame(metadata("a"), 8)...)); err != nil {
		t.Fatal(err)
	}
	waitHandling(t, s)
	if len(answered) > 0 {
		t.Fatal("answered before it was to be")
	}
	released <- struct{}{}
	if b := readFrame(t, nc); !bytes.Equal(b, []byte{0, 0, 0, 7, 7, 'x'}) || !<-answered {
		t.Errorf("a Later is answered by %x", b)
	}
	if b := readFrame(t, nc); b[3] != 8 {
		t.Errorf("the request behind it is answered by %x", b)
	}
	if _, err := nc.Write(later); err != nil {
		t.Fatal(err)
	}
	waitHandling(t, s)
	go s.Shutdown(t.Context())
	if <-answered {
		t.Error("what never came is said to have come")
	}
}

// waitHandling waits until the only connection handles a request.
func waitHandling(t *testing.T, s *Server) {
	t.Helper()
	waitFor(t, "a request that is handled", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		for c := range s.conns {
			return c.phase.Load() == handling
		}
		return false
	})
}
