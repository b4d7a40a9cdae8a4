package server

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/wire"
)

// commitOfShape is an OffsetCommit of some topics, each with some partitions.
func commitOfShape(version int16, group string, topics, partitions int) *kmsg.OffsetCommitRequest {
	r := kmsg.NewPtrOffsetCommitRequest()
	r.Version, r.Group, r.MemberID, r.Generation = version, group, "member of "+group, 5
	if version >= 7 {
		r.InstanceID = kmsg.StringPtr("instance of " + group)
	}
	if version <= 4 {
		r.RetentionTimeMillis = 77
	}
	for i := range topics {
		t := kmsg.NewOffsetCommitRequestTopic()
		if version >= 10 {
			t.TopicID = [16]byte{15: byte(i)}
		} else {
			t.Topic = fmt.Sprint("topic-", i)
		}
		for j := range partitions {
			p := kmsg.NewOffsetCommitRequestTopicPartition()
			p.Partition, p.Offset = int32(j), int64(i*1000+j)
			if version >= 6 {
				p.LeaderEpoch = int32(j)
			}
			if j%2 == 1 {
				p.Metadata = kmsg.StringPtr(fmt.Sprint("note ", j))
			}
			t.Partitions = append(t.Partitions, p)
		}
		r.Topics = append(r.Topics, t)
	}
	return r
}

// FuzzCommitWalk: what is walked by hand is what kmsg reads, whatever request the memory served before.
func FuzzCommitWalk(f *testing.F) {
	for version := int16(2); version <= 10; version++ {
		f.Add(version, commitOfShape(version, "g", 2, 3).AppendTo(nil))
		f.Add(version, append(commitOfShape(version, "g", 1, 1).AppendTo(nil), 0))
	}
	f.Fuzz(func(t *testing.T, version int16, body []byte) {
		if version < 2 || version > 10 || len(body) > commitWalkedMax {
			return
		}
		req := wire.NewRequest(int16(kmsg.OffsetCommit), version, nil, body)
		var want kmsg.OffsetCommitRequest
		err := req.Decode(&want)
		used := takeCommitCall()
		if !used.walk(wire.NewRequest(int16(kmsg.OffsetCommit), 9, nil, commitOfShape(9, "before", 3, 2).AppendTo(nil))) {
			t.Fatal("a sound request is not walked")
		}
		used.Reset()
		for what, c := range map[string]*commitCall{"new": new(commitCall), "used": used} {
			switch {
			case !c.walk(req): // kmsg decides
			case err != nil:
				t.Errorf("%s: walked, and kmsg says %v", what, err)
			default:
				if d := cmp.Diff(want, c.Request, cmpopts.EquateEmpty(), cmpopts.IgnoreTypes(kmsg.Tags{})); d != "" {
					t.Errorf("%s: %s", what, d)
				}
			}
		}
	})
}

// Every sound request is walked.
func TestCommitWalk(t *testing.T) {
	for version := int16(2); version <= 10; version++ {
		for _, shape := range [][2]int{{0, 0}, {1, 0}, {1, 1}, {3, 7}} {
			r := commitOfShape(version, "g", shape[0], shape[1])
			if version >= 8 {
				r.UnknownTags.Set(9, []byte("tag"))
			}
			if !new(commitCall).walk(wire.NewRequest(int16(kmsg.OffsetCommit), version, nil, r.AppendTo(nil))) {
				t.Errorf("v%d, %v topics and partitions: not walked", version, shape)
			}
		}
	}
}

// What a call keeps is bounded by the largest request that it served, not by the sum of their shapes.
func TestCommitMemory(t *testing.T) {
	c := takeCommitCall()
	for large := range 100 {
		r := commitOfShape(9, "g", 100, 0)
		r.Topics[large].Partitions = commitOfShape(9, "g", 1, 300).Topics[0].Partitions
		if !c.walk(wire.NewRequest(int16(kmsg.OffsetCommit), 9, nil, r.AppendTo(nil))) {
			t.Fatal("not walked")
		}
		if got := c.Request.Topics[large].Partitions; len(got) != 300 || got[299].Offset != 299 {
			t.Fatalf("%d partitions", len(got))
		}
		c.Reset()
		clear(c.parts)
		c.notes, c.parts = c.notes[:0], c.parts[:0]
	}
	kept := cap(c.parts)
	for _, rt := range c.Request.Topics[:cap(c.Request.Topics)] {
		kept += cap(rt.Partitions)
	}
	if kept > 1000 {
		t.Errorf("room for %d partitions is kept", kept)
	}
}

// Commits that come at once, large and small, refused and not, get each their own answer, though they share memory.
func TestCommitsAtOnce(t *testing.T) {
	n, _ := groupsNode(t, "")
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for k := range 200 {
				topics, partitions := (i+k)%3, (i*k)%5
				if k%50 == 0 {
					topics, partitions = 40, 40 // beyond commitWalkedMax
				}
				r := commitOfShape(9, fmt.Sprint("g", i, k%7), topics, partitions)
				known := i%2 == 0
				if known {
					r.Generation, r.MemberID, r.InstanceID = -1, "", nil
				}
				if topics > 1 {
					r.Topics[1].Topic = "t" // the one that there is
				}
				resp := n.handleOffsetCommit(context.Background(), wire.NewRequest(int16(kmsg.OffsetCommit), 9, nil, r.AppendTo(nil)))
				got := resp.Message().(*kmsg.OffsetCommitResponse)
				if len(got.Topics) != topics {
					t.Errorf("%d topics, want %d", len(got.Topics), topics)
				}
				for x, gt := range got.Topics {
					if gt.Topic != r.Topics[x].Topic || len(gt.Partitions) != partitions {
						t.Errorf("topic %q with %d partitions, want %q with %d", gt.Topic, len(gt.Partitions), r.Topics[x].Topic, partitions)
					}
					for y, p := range gt.Partitions {
						want := int16(3) // UNKNOWN_TOPIC_OR_PARTITION
						if gt.Topic == "t" && y == 0 {
							want = 69 // GROUP_ID_NOT_FOUND
							if known {
								want = 0
							}
						}
						if p.Partition != int32(y) || p.ErrorCode != want {
							t.Errorf("%s-%d: partition %d, code %d, want %d", gt.Topic, y, p.Partition, p.ErrorCode, want)
						}
					}
				}
				resp.Done()
			}
		})
	}
	all.Wait()
}
