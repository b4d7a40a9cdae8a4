package server

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/wire"
)

// commitOf is an OffsetCommit of one partition by a group that has no members.
func commitOf(group, topic string, offset int64) *kmsg.OffsetCommitRequest {
	r := version(kmsg.NewPtrOffsetCommitRequest(), 9)
	r.Group, r.Generation = group, -1
	t, p := kmsg.NewOffsetCommitRequestTopic(), kmsg.NewOffsetCommitRequestTopicPartition()
	t.Topic, p.Offset = topic, offset
	t.Partitions = append(t.Partitions, p)
	r.Topics = append(r.Topics, t)
	return r
}

// groupsNode has a coordinator and a topic.
func groupsNode(t testing.TB, dir string, properties ...string) (*Node, *dataClient) {
	t.Helper()
	n := dataNode(t, dir, properties...)
	c := dialNode(t, n)
	c.topic("t", 1)
	c.awaitGroups(n)
	return n, c
}

// awaitGroups finds a coordinator, and waits until all groups are loaded.
func (c *dataClient) awaitGroups(n *Node) {
	c.t.Helper()
	r := version(kmsg.NewPtrFindCoordinatorRequest(), 4)
	r.CoordinatorKeys = []string{"g"}
	if code := c.ask(r).(*kmsg.FindCoordinatorResponse).Coordinators[0].ErrorCode; code != 0 {
		c.t.Fatalf("no coordinator: %d", code)
	}
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		r := version(kmsg.NewPtrListGroupsRequest(), 5)
		if code := c.ask(r).(*kmsg.ListGroupsResponse).ErrorCode; code == 0 {
			return
		} else if code != 14 || time.Since(begin) > time.Minute {
			c.t.Fatalf("groups do not load: %d", code)
		}
	}
}

// processorTime reports, when it is called, what an operation takes of the processors, which other work on the machine does not change.
func processorTime(b *testing.B) func(*testing.B) {
	now := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	begin := now()
	return func(b *testing.B) {
		b.ReportMetric(float64((now()-begin).Nanoseconds())/float64(b.N), "cpu-ns/op")
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "op/s")
	}
}

// BenchmarkOffsetCommit commits for 1,000 groups: by handlers called side by side, and through sockets, where a client of its own
// takes its share of the processors.
func BenchmarkOffsetCommit(b *testing.B) {
	const groups = 1000
	var bodies [groups][]byte
	var frames [groups][]byte
	for i := range groups {
		r := commitOf(fmt.Sprintf("group-%d", i), "t", int64(i))
		bodies[i], frames[i] = r.AppendTo(nil), requestFrame(r)
	}
	b.Run("handlers", func(b *testing.B) {
		n, _ := groupsNode(b, b.TempDir())
		var next atomic.Int64
		b.SetParallelism(32) // connections for each processor
		b.ReportAllocs()
		used := processorTime(b)
		b.ResetTimer()
		b.RunParallel(func(pb *testing.PB) {
			req := wire.NewRequest(int16(kmsg.OffsetCommit), 9, nil, nil)
			for pb.Next() {
				req.Body = bodies[next.Add(1)%groups]
				resp := n.handleOffsetCommit(b.Context(), req)
				if code := resp.Message().(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode; code != 0 {
					b.Errorf("refused: %d", code)
					return
				}
				resp.Done()
			}
		})
		used(b)
	})
	b.Run("sockets", func(b *testing.B) {
		n, _ := groupsNode(b, b.TempDir())
		var next atomic.Int64
		const depth = 8
		b.SetParallelism(16)
		b.ReportAllocs()
		used := processorTime(b)
		b.ResetTimer()
		b.RunParallel(func(pb *testing.PB) {
			c := dialNode(b, n)
			buf := make([]byte, 4096)
			in := 0
			for pb.Next() {
				if in == depth {
					if _, err := readAnswer(c.nc, buf); err != nil {
						b.Error(err)
						return
					}
					in--
				}
				c.nc.Write(frames[next.Add(1)%groups])
				in++
			}
			for ; in > 0; in-- {
				readAnswer(c.nc, buf)
			}
		})
		used(b)
	})
}
