package server

import (
	"encoding/binary"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/metadata"
)

// A partition that is refused names the node to go to, and where Metadata says that it is: not how it was registered.
func TestLeaderHints(t *testing.T) {
	n := dataNode(t, "", "listeners", "PLAINTEXT://0.0.0.0:0")
	c := dialNode(t, n)
	c.topic("t", 1)
	img := n.controller.Image()
	// The partition goes from this node while metadata still shows it here, as in the moment before a change is shown.
	if err := n.replicas.Apply(img, &metadata.Delta{Before: img, After: img, Deleted: []*metadata.Topic{img.Topic("t")}}); err != nil {
		t.Fatal(err)
	}
	resp := c.ask(produceRequest(10, "t", [16]byte{}, 1, pack(t, nil, "v"))).(*kmsg.ProduceResponse)
	p := resp.Topics[0].Partitions[0]
	if p.ErrorCode != codeNotLeaderOrFollower || p.CurrentLeader.LeaderID != n.id {
		t.Fatalf("error %d, leader %+v", p.ErrorCode, p.CurrentLeader)
	}
	host, port := splitAddr(c.nc.RemoteAddr())
	if len(resp.Brokers) != 1 || resp.Brokers[0].Host != host || resp.Brokers[0].Port != port {
		t.Errorf("the hint is %+v, want %s", resp.Brokers, net.JoinHostPort(host, itoa(int(port))))
	}
}

// What is meant for a topic never reaches another that has got its name meanwhile.
func TestNameOfAYoungerTopic(t *testing.T) {
	n := dataNode(t, "")
	c := dialNode(t, n)
	c.topic("t", 1)
	img := n.controller.Image()
	younger := kmeta.RandomUUID()
	next, delta, err := metadata.NewReplayer(img).Replay([]kmeta.Record{
		&kmeta.RemoveTopicRecord{TopicID: img.Topic("t").ID},
		&kmeta.TopicRecord{Name: "t", TopicID: younger},
		&kmeta.PartitionRecord{TopicID: younger, Replicas: []int32{n.id}, ISR: []int32{n.id}, Leader: n.id},
	}, img.Offset()+3, img.Epoch())
	if err != nil {
		t.Fatal(err)
	}
	if err := n.replicas.Apply(next, delta); err != nil { // and not shown yet
		t.Fatal(err)
	}
	for _, v := range []int16{12, 13} {
		req := produceRequest(v, "t", img.Topic("t").ID, 1, pack(t, nil, "v"))
		if p := c.ask(req).(*kmsg.ProduceResponse).Topics[0].Partitions[0]; p.ErrorCode != codeNotLeaderOrFollower {
			t.Errorf("v%d: error %d, want %d", v, p.ErrorCode, codeNotLeaderOrFollower)
		}
	}
	if end := n.replicas.PartitionByID(younger, 0).Log().EndOffset(); end != 0 {
		t.Errorf("%d records came to the younger topic", end)
	}
}

// manyPartitions is a frame that names count partitions of one topic, each in the bytes of entry after its number.
func manyPartitions(head, entry []byte, count int) []byte {
	b := append([]byte{0, 0, 0, 0}, head...)
	b = binary.BigEndian.AppendUint32(b, uint32(count))
	for i := range count {
		b = append(binary.BigEndian.AppendUint32(b, uint32(i)), entry...)
	}
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// One request cannot have this node keep something for millions of partitions: a few bytes each is all that they cost a client.
func TestPartitionsOfARequestAreBounded(t *testing.T) {
	n := dataNode(t, "")
	// Produce v3: no client id, no transactional id, acks 1, topic "t"; each partition's records are null.
	produce := []byte{0, 0, 0, 3, 0, 0, 0, 1, 255, 255, 255, 255, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 't'}
	// Fetch v4: no client id, a consumer, no wait, topic "t"; each partition from offset 0, at most 0 bytes.
	fetch := []byte{0, 1, 0, 4, 0, 0, 0, 1, 255, 255, 255, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 1, 't'}
	for _, q := range []struct {
		name        string
		head, entry []byte
		answer      int // bytes of a partition in the answer
	}{
		{"produce", produce, []byte{255, 255, 255, 255}, 4 + 2 + 8 + 8},
		{"fetch", fetch, make([]byte, 12), 4 + 2 + 8 + 8 + 4 + 4},
	} {
		c := dialNode(t, n)
		c.nc.Write(manyPartitions(q.head, q.entry, requestPartitionsMax))
		if b, err := c.frame(); err != nil || len(b) < requestPartitionsMax*q.answer {
			t.Errorf("%s of %d partitions: %d bytes, %v", q.name, requestPartitionsMax, len(b), err)
		}
		c.nc.Write(manyPartitions(q.head, q.entry, requestPartitionsMax+1))
		if b, err := c.frame(); err == nil {
			t.Errorf("%s of one partition more is answered with %d bytes", q.name, len(b))
		}
	}
}

// All sessions together remember a bounded number of partitions. Who comes too late, or grows too large, fetches without one.
func TestSessionsAreBoundedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFetchSessions(10)
		f.partitionsMax = 100
		a := f.add(false, partsOf(90))
		b := f.add(false, partsOf(10))
		if a == nil || b == nil {
			t.Fatal("there was room")
		}
		if f.add(false, partsOf(1)) != nil {
			t.Error("a session beyond the bound")
		}
		if f.resize(b, 11) || f.byID[b.id] != nil {
			t.Error("a session grew beyond the bound, and is there")
		}
		if c := f.add(false, partsOf(10)); c == nil {
			t.Error("what a session had was not given back")
		} else if !f.resize(c, 4) || !f.resize(c, 10) {
			t.Error("a session cannot change within the bound")
		}
		time.Sleep(sessionEvictAge + time.Second)
		if f.add(false, partsOf(11)) == nil || f.total > f.partitionsMax {
			t.Error("an idle session did not give way")
		}
		for id := range f.byID {
			f.remove(id)
			f.remove(id)
		}
		if f.total != 0 {
			t.Errorf("without any session %d partitions are counted", f.total)
		}
	})
}
