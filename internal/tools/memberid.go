package tools

import (
	"context"
	"encoding/binary"
	"net"
)

// The members of groups whose protocol leaves it to them name themselves, by 16 random bytes in base64. franz-go pads that to 24
// letters, Java does not, and the tables of kafka-consumer-groups and kafka-share-groups have columns as wide as the names in them. So
// the padding is taken off on the way out. Of a consumer that joins: the answer teaches franz-go the shorter name, and what it says of
// other members (a reset of a group takes them out) names them as they are.
//
// The requests that carry such a name begin alike:
//
//	0      4     6         8               12          +2+n     +1
//	+------+-----+---------+---------------+-----------+--------+----------+-----------+-------+---
//	| size | key | version | correlation id| client id | tags 0 | group id | member id | epoch | ...
//	+------+-----+---------+---------------+-----------+--------+----------+-----------+-------+---
//
// The client id is n bytes behind two that say n, or -1. The other two names are compact: a varint of their length and one, then the bytes.
// The epoch is 4 bytes, 0 of a member that joins.
const (
	memberIDLen     = 22
	memberIDPadding = "=="
	clientIDAt      = 12
)

// Keys of the requests.
const (
	keyConsumerGroupHeartbeat = 68
	keyShareGroupHeartbeat    = 76
	keyShareFetch             = 78
	keyShareAcknowledge       = 79
)

// A memberConn is a connection to a broker on which members bear names as Java's do.
type memberConn struct {
	net.Conn
}

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// dialMembers makes dial's connections memberConns.
func dialMembers(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return memberConn{conn}, nil
	}
}

// Write sends a frame; franz-go writes each at once.
func (c memberConn) Write(frame []byte) (int, error) {
	at, ok := memberIDPaddingAt(frame)
	if !ok {
		return c.Conn.Write(frame)
	}
	short := make([]byte, 0, len(frame)-len(memberIDPadding))
	short = append(append(short, frame[:at]...), frame[at+len(memberIDPadding):]...)
	binary.BigEndian.PutUint32(short, binary.BigEndian.Uint32(short)-uint32(len(memberIDPadding)))
	short[at-memberIDLen-1] -= byte(len(memberIDPadding))
	n, err := c.Conn.Write(short)
	if err == nil {
		n = len(frame)
	}
	return n, err
}

// memberIDPaddingAt says where in a frame the padding of a member's name begins, if it has one.
func memberIDPaddingAt(frame []byte) (at int, ok bool) {
	if len(frame) < clientIDAt+2 || int(binary.BigEndian.Uint32(frame)) != len(frame)-4 {
		return 0, false
	}
	switch binary.BigEndian.Uint16(frame[4:]) {
	case keyConsumerGroupHeartbeat, keyShareGroupHeartbeat, keyShareFetch, keyShareAcknowledge:
	default:
		return 0, false
	}
	at = clientIDAt + 2 + int(max(int16(binary.BigEndian.Uint16(frame[clientIDAt:])), 0))
	if at >= len(frame) || frame[at] != 0 {
		return 0, false
	}
	at++
	size, n := binary.Uvarint(frame[min(at, len(frame)):])
	if n <= 0 || size > uint64(len(frame)) {
		return 0, false
	}
	at += n + int(max(size, 1)) - 1
	end := at + 1 + memberIDLen + len(memberIDPadding)
	if end > len(frame) || frame[at] != memberIDLen+byte(len(memberIDPadding))+1 || string(frame[end-len(memberIDPadding):end]) != memberIDPadding {
		return 0, false
	}
	if binary.BigEndian.Uint16(frame[4:]) == keyConsumerGroupHeartbeat && (end+4 > len(frame) || binary.BigEndian.Uint32(frame[end:]) != 0) {
		return 0, false
	}
	return end - len(memberIDPadding), true
}
