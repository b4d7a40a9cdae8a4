package wire

import (
	"errors"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Large bodies: a group's leader may hand out megabytes, but neither a count nor tags make them cost much more than themselves.
func TestDecodeBoundsMemory(t *testing.T) {
	assignments := func(n, size int) *kmsg.SyncGroupRequest {
		m := kmsg.NewPtrSyncGroupRequest()
		m.GroupAssignment = make([]kmsg.SyncGroupRequestGroupAssignment, n)
		for i := range m.GroupAssignment {
			m.GroupAssignment[i].MemberAssignment = make([]byte, size)
		}
		return m
	}
	protocols := func(n, size int) *kmsg.JoinGroupRequest {
		m := kmsg.NewPtrJoinGroupRequest()
		m.Protocols = make([]kmsg.JoinGroupRequestProtocol, n)
		for i := range m.Protocols {
			m.Protocols[i].Metadata = make([]byte, size)
		}
		return m
	}
	tags := func(n int) kmsg.Tags {
		var tags kmsg.Tags
		for i := range n {
			tags.Set(uint32(i), nil)
		}
		return tags
	}
	topics := func(n int) *kmsg.MetadataRequest {
		m := kmsg.NewPtrMetadataRequest()
		m.Topics = make([]kmsg.MetadataRequestTopic, n)
		for i := range m.Topics {
			m.Topics[i].Topic = kmsg.StringPtr(strings.Repeat("x", 100))
		}
		return m
	}
	tagged := assignments(100, 100_000)
	tagged.UnknownTags = tags(decodeGroupEntries)
	inner := protocols(100, 100_000)
	inner.Protocols[99].UnknownTags = tags(decodeGroupEntries)
	for _, c := range []struct {
		name string
		m    kmsg.Request
		want string // of the error; empty: none
	}{
		{"assignments", assignments(1_000, 15_000), ""},
		{"most assignments", assignments(decodeGroupEntries, 500), ""},
		{"too many assignments", assignments(decodeGroupEntries+1, 500), "more than"},
		{"too large assignments", assignments(17, 1<<20), "larger than"},
		{"protocols", protocols(10, 1<<20), ""},
		{"too many protocols", protocols(2<<20, 0), "more than"},
		{"too many tags", tagged, "more than"},
		{"too many tags within", inner, "more than"},
		{"topics", topics(10_000), ""},
		{"too many topics", topics(30_000), "larger than"},
	} {
		for _, v := range []int16{0, c.m.MaxVersion()} {
			c.m.SetVersion(v)
			if v == 0 && strings.Contains(c.name, "tags") {
				continue
			}
			r := NewRequest(c.m.Key(), v, nil, c.m.AppendTo(nil))
			err := r.Decode(kmsg.RequestForKey(c.m.Key()))
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%s, version %d, %d bytes: %v, want %q", c.name, v, len(r.Body), err, c.want)
			}
			if c.want == "" && len(r.Body) > decodeMax && c.m.Key() == int16(kmsg.SyncGroup) {
				r.Body = r.Body[:len(r.Body)-1]
				if err := r.Decode(kmsg.RequestForKey(c.m.Key())); !errors.Is(err, errShort) {
					t.Errorf("%s, version %d, a byte less: %v", c.name, v, err)
				}
			}
		}
	}
}

// What is to be refused for its size is not copied before.
func TestKeepCopiesNoRefusedBody(t *testing.T) {
	large := NewRequest(int16(kmsg.JoinGroup), 5, nil, make([]byte, decodeGroupMax+1))
	body := &large.Body[0]
	if large.Keep(); &large.Body[0] != body {
		t.Errorf("%d bytes were copied", len(large.Body))
	}
	m := kmsg.NewPtrJoinGroupRequest()
	m.Version = 5
	small := NewRequest(int16(kmsg.JoinGroup), 5, nil, m.AppendTo(nil))
	body = &small.Body[0]
	if small.Keep(); &small.Body[0] == body {
		t.Error("what is kept is a view still")
	}
}
