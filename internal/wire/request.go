package wire

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
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

// Keep makes the bytes of a request its own, for a handler that waits long for something else than a disk: its connection then holds
// no buffer meanwhile, unless more requests are in it. A body that Decode refuses is not worth it.
func (r *Request) Keep() {
	if r.boundBody() != nil {
		return
	}
	r.Body = bytes.Clone(r.Body)
	if r.ClientID != nil {
		id := strings.Clone(*r.ClientID)
		r.ClientID = &id
	}
	if c := r.Conn; c != nil && c.in != nil && c.r == c.w {
		c.letGo()
	}
}

// Bounds of a body that Decode reads: kmsg makes its slices and its maps of tags by the counts that a request names, which the bytes
// behind them bound only to a factor of about eighty. Produce and Fetch are walked by hand and have no such bound.
const (
	// decodeMax is room for about 50,000 topics or partitions.
	decodeMax = 2 << 20
	// decodeGroupMax is for JoinGroup and SyncGroup: what the leader of a group of thousands hands out is large, and few in number.
	decodeGroupMax = 16 << 20
	// decodeGroupEntries bounds the protocols or assignments, and the tags, of those beyond decodeMax.
	decodeGroupEntries = 20_000
)

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
	if err := r.boundBody(); err != nil {
		return fail(err)
	}
	if len(r.Body) >= decodeAlone {
		decoding.Lock()
		defer decoding.Unlock()
	}
	m.SetVersion(r.Version)
	// kmsg doesn't say how much it read. But a message that needs its last byte cannot be read without it, and one that can has bytes
	// left over. What is made of the short one serves the whole one again.
	n := len(r.Body)
	trailing := n > 0 && m.(unsafeReader).UnsafeReadFrom(r.Body[:n-1:n-1]) == nil
	if m.(unsafeReader).UnsafeReadFrom(r.Body) != nil {
		return fail(errShort)
	}
	if trailing {
		return fail(errTrailing)
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

// boundBody refuses a body that would cost too much memory to decode.
func (r *Request) boundBody() error {
	if len(r.Body) <= decodeMax {
		return nil
	}
	most := decodeMax
	if key := kmsg.Key(r.Key); key == kmsg.JoinGroup || key == kmsg.SyncGroup {
		most = decodeGroupMax
	}
	if len(r.Body) > most {
		return fmt.Errorf("a body of %d bytes is larger than %d", len(r.Body), most)
	}
	n, err := r.groupEntries()
	if err == nil && n > decodeGroupEntries {
		err = fmt.Errorf("%d protocols, assignments and tags in %d bytes are more than %d", n, len(r.Body), decodeGroupEntries)
	}
	return err
}

// groupEntries counts what a JoinGroup or a SyncGroup makes kmsg allocate for: its protocols or assignments, and all tags.
func (r *Request) groupEntries() (int, error) {
	p, n := r.Reader(), 0
	tag := func(uint32, []byte) { n++ }
	p.NullableString() // group
	if kmsg.Key(r.Key) == kmsg.JoinGroup {
		p.Int32() // session timeout
		if r.Version >= 1 {
			p.Int32() // rebalance timeout
		}
		p.NullableString() // member
		if r.Version >= 5 {
			p.NullableString() // group.instance.id
		}
		p.NullableString() // protocol type
	} else {
		p.Int32()          // generation
		p.NullableString() // member
		if r.Version >= 3 {
			p.NullableString() // group.instance.id
		}
		if r.Version >= 5 {
			p.NullableString() // protocol type
			p.NullableString() // protocol
		}
	}
	entries := p.ArrayLen(groupEntryMin)
	n += entries
	for range entries {
		p.NullableString()
		p.NullableBytes()
		p.Tags(tag)
	}
	if kmsg.Key(r.Key) == kmsg.JoinGroup && r.Version >= 8 {
		p.NullableString() // reason
	}
	p.Tags(tag)
	return n, p.Err()
}

// groupEntryMin is the least that a protocol or an assignment takes: two lengths and no tags, or two short lengths.
const groupEntryMin = 3

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
