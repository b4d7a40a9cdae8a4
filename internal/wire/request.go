package wire

import (
	"errors"
	"fmt"
	"sync"
	"time"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A Request is one request, decoded as views of its frame: nothing of it may be kept after the handler returned.
type Request struct {
	Key, Version  int16
	CorrelationID int32
	ClientID      *string // nil: null
	Body          []byte  // after the header, undecoded
	Received      time.Time
	Conn          *Conn

	flexible bool
	clientID string
}

// NewRequest makes a request that came by no connection, for tests of handlers.
func NewRequest(key, version int16, clientID *string, body []byte) *Request {
	return &Request{Key: key, Version: version, ClientID: clientID, Body: body, Received: time.Now(), flexible: version >= firstFlexible(key)}
}

// Flexible tells whether the request has the compact types and tags of KIP-482.
func (r *Request) Flexible() bool { return r.flexible }

// Waits is to be called by a handler of a Quick API before it waits for anything but a disk: it sends the answers that are gathered. keeps I5
func (r *Request) Waits() {
	if r.Conn != nil {
		r.Conn.flushBeforeWait()
	}
}

// decodeMax bounds a body that Decode reads: kmsg makes its slices by the counts that a request names, which the bytes behind
// them bound only to a factor of about eighty. Produce and Fetch are walked by hand and have no such bound.
const decodeMax = 16 << 20

// decodeAlone is the size from which on bodies are decoded one at a time, so that many clients cost no more memory than one.
const decodeAlone = 256 << 10

// decoding is held while a body of decodeAlone or more is decoded. Nothing is taken under it.
var decoding sync.Mutex

var (
	errTrailing = errors.New("bytes are left over behind the request")
	errShort    = errors.New("the request ends too early")
)

// Decode reads the body into m at the request's version, as views (UnsafeReadFrom), fixes the two defaults that kmsg leaves wrong for a server
// (Metadata v0-3 AllowAutoTopicCreation, UpdateFeatures v0 UpgradeType), and refuses trailing bytes.
func (r *Request) Decode(m kmsg.Request) error {
	fail := func(err error) error {
		return fmt.Errorf("%s v%d: %w", kmsg.NameForKey(r.Key), r.Version, err)
	}
	if len(r.Body) > decodeMax {
		return fail(fmt.Errorf("a body of %d bytes is larger than %d", len(r.Body), decodeMax))
	}
	if len(r.Body) >= decodeAlone {
		decoding.Lock()
		defer decoding.Unlock()
	}
	m.SetVersion(r.Version)
	if err := m.(unsafeReader).UnsafeReadFrom(r.Body); err != nil {
		return fail(errShort)
	}
	if n := len(r.Body); n > 0 {
		// kmsg doesn't say how much it read. But a message that needs its last byte cannot be read without it,
		// and one that can has bytes left over.
		short := kmsg.RequestForKey(m.Key())
		short.SetVersion(r.Version)
		if short.(unsafeReader).UnsafeReadFrom(r.Body[:n-1:n-1]) == nil {
			return fail(errTrailing)
		}
	}
	switch m := m.(type) {
	case *kmsg.MetadataRequest:
		if r.Version < 4 {
			m.AllowAutoTopicCreation = true
		}
	case *kmsg.UpdateFeaturesRequest:
		if r.Version < 1 {
			for i := range m.FeatureUpdates {
				m.FeatureUpdates[i].UpgradeType = 1
			}
		}
	}
	return nil
}

type unsafeReader interface{ UnsafeReadFrom(src []byte) error }

// parseHeader reads the header of a frame (without its length):
//
//	0      2         4               8                 10
//	+------+---------+---------------+-----------------+----------+-----------------+
//	| key  | version | correlationId | clientId length | clientId | tags, header v2 |
//	+------+---------+---------------+-----------------+----------+-----------------+
//
// The length of the client id is an int16 in both versions of the header, -1 for null. flexibleFrom tells the first version of
// a key that has header v2; false: the key is not served.
func (r *Request) parseHeader(frame []byte, flexibleFrom func(key int16) (int16, bool)) error {
	p := Reader{Src: frame}
	r.Key, r.Version, r.CorrelationID = p.Int16(), p.Int16(), p.Int32()
	from, known := flexibleFrom(r.Key)
	if p.bad {
		return errShort
	}
	if !known {
		return fmt.Errorf("unknown API key %d", r.Key)
	}
	r.flexible = r.Version >= from
	r.ClientID, r.clientID = nil, ""
	if n := p.Int16(); n >= 0 {
		r.clientID = viewString(p.Bytes(int(n)))
		r.ClientID = &r.clientID
	}
	if r.flexible {
		p.SkipTags()
	}
	if p.bad {
		return errShort
	}
	r.Body = p.Src
	return nil
}

func viewString(b []byte) string {
	return unsafe.String(unsafe.SliceData(b), len(b))
}
