package tools

import (
	"bytes"
	"net"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// written is what a memberConn sends of a frame.
type written struct {
	net.Conn
	sent []byte
}

func (w *written) Write(b []byte) (int, error) {
	w.sent = append(w.sent, b...)
	return len(b), nil
}

func TestMemberID(t *testing.T) {
	const short = "AbCdEfGhIjKlMnOpQrStUv"
	long, group := short+"==", "g"
	heartbeat, share := kmsg.NewPtrConsumerGroupHeartbeatRequest(), kmsg.NewPtrShareGroupHeartbeatRequest()
	fetch, acknowledge := kmsg.NewPtrShareFetchRequest(), kmsg.NewPtrShareAcknowledgeRequest()
	leave, commit := kmsg.NewPtrConsumerGroupHeartbeatRequest(), kmsg.NewPtrOffsetCommitRequest()
	for _, test := range []struct {
		req  kmsg.Request
		id   func(string) // sets the member's name
		cuts bool
	}{
		{heartbeat, func(id string) { heartbeat.Group, heartbeat.MemberID = group, id }, true},
		{leave, func(id string) { leave.Group, leave.MemberID, leave.MemberEpoch = group, id, -1 }, false},
		{share, func(id string) { share.GroupID, share.MemberID = strings.Repeat("g", 200), id }, true},
		{fetch, func(id string) { fetch.GroupID, fetch.MemberID = &group, &id }, true},
		{acknowledge, func(id string) { acknowledge.GroupID, acknowledge.MemberID = &group, &id }, true},
		{commit, func(id string) { commit.Group, commit.MemberID = group, id }, false},
	} {
		name := kmsg.NameForKey(test.req.Key())
		test.req.SetVersion(test.req.MaxVersion())
		for _, client := range []string{"", "-", "tools"} {
			format := kmsg.NewRequestFormatter()
			if client != "-" {
				format = kmsg.NewRequestFormatter(kmsg.FormatterClientID(client))
			}
			test.id(long)
			frame := format.AppendRequest(nil, test.req, 7)
			if test.cuts {
				test.id(short)
			}
			want := format.AppendRequest(nil, test.req, 7)
			var out written
			if n, err := (memberConn{&out}).Write(frame); n != len(frame) || err != nil {
				t.Errorf("%s: wrote %d of %d, %v", name, n, len(frame), err)
			}
			if !bytes.Equal(out.sent, want) {
				t.Errorf("%s of client %q: sent\n%q, want\n%q", name, client, out.sent, want)
			}
			for i := range frame { // a part of a frame, or more than one, is nobody's business
				out.sent = nil
				if _, _ = (memberConn{&out}).Write(frame[:i]); !bytes.Equal(out.sent, frame[:i]) {
					t.Errorf("%s: changed the first %d bytes of a frame", name, i)
				}
			}
		}
	}
}

func FuzzMemberID(f *testing.F) {
	req := kmsg.NewPtrShareGroupHeartbeatRequest()
	req.GroupID, req.MemberID = "group", "AbCdEfGhIjKlMnOpQrStUv=="
	req.SetVersion(req.MaxVersion())
	f.Add(kmsg.NewRequestFormatter(kmsg.FormatterClientID("c")).AppendRequest(nil, req, 1))
	f.Fuzz(func(t *testing.T, frame []byte) {
		var out written
		if n, err := (memberConn{&out}).Write(frame); n != len(frame) || err != nil {
			t.Errorf("wrote %d of %d, %v", n, len(frame), err)
		}
		if cut := len(frame) - len(out.sent); cut != 0 && cut != 2 {
			t.Errorf("%d bytes are missing", cut)
		}
	})
}
