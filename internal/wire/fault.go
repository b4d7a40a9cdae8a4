package wire

import (
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// faultsPerSecond bounds the lines that clients can make this server log.
const faultsPerSecond = 10

// A faultLog writes one line per fault of a client, and no more than faultsPerSecond of them.
type faultLog struct {
	log *slog.Logger // nil: nothing is logged

	// mu guards the fields below.
	mu      sync.Mutex
	second  time.Time // when the count began
	count   int
	dropped int
}

func (f *faultLog) report(message string, args ...any) {
	if f.log == nil || !f.allow(&args) {
		return
	}
	f.log.Warn(message, args...)
}

// panicked is never dropped: it is a fault of ours.
func (f *faultLog) panicked(c *Conn, p any, stack []byte) {
	if f.log != nil {
		f.log.Error("a handler panicked, its connection is closed", "client", c.nc.RemoteAddr(), "key", c.request.Key, "version", c.request.Version,
			"panic", fmt.Sprint(p), "stack", string(stack))
	}
}

func (f *faultLog) allow(args *[]any) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := time.Now(); now.Sub(f.second) >= time.Second {
		if f.dropped > 0 {
			*args = append(*args, "lines left out before", f.dropped)
		}
		f.second, f.count, f.dropped = now, 0, 0
	}
	if f.count++; f.count > faultsPerSecond {
		f.dropped++
		return false
	}
	return true
}

// looksLike guesses at other protocols by the four bytes where the length should be.
func looksLike(b []byte) string {
	switch string(b) {
	case "GET ", "POST", "HEAD", "PUT ", "DELE", "OPTI", "PATC", "CONN", "TRAC":
		return "HTTP (this port speaks the Kafka protocol)"
	case "PRI ":
		return "HTTP/2 (this port speaks the Kafka protocol)"
	case "SSH-":
		return "SSH (this port speaks the Kafka protocol)"
	}
	if b[0] == 0x16 && b[1] == 3 { // a TLS record of type handshake
		return "TLS (this listener is plaintext)"
	}
	return ""
}
