package tools

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A fakeBroker answers requests as a test has it. It speaks the highest versions of the APIs that it knows.
type fakeBroker struct {
	address string
	host    string
	port    int32
	// answer fills in the response to a request, but for ApiVersions; false ends the connection.
	answer func(kmsg.Request, kmsg.Response) bool
	apis   []int16
}

// startFakeBroker starts a broker that knows some APIs besides ApiVersions. It ends with the test.
func startFakeBroker(t *testing.T, answer func(b *fakeBroker, req kmsg.Request, resp kmsg.Response) bool, apis ...int16) *fakeBroker {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().(*net.TCPAddr)
	b := &fakeBroker{address: at.String(), host: at.IP.String(), port: int32(at.Port), apis: apis}
	b.answer = func(req kmsg.Request, resp kmsg.Response) bool { return answer(b, req, resp) }
	var running sync.WaitGroup
	running.Go(func() {
		var conns []net.Conn
		for {
			conn, err := l.Accept()
			if err != nil {
				break
			}
			conns = append(conns, conn)
			running.Go(func() { b.serve(conn) })
		}
		for _, conn := range conns {
			conn.Close()
		}
	})
	t.Cleanup(func() {
		l.Close()
		running.Wait()
	})
	return b
}

func (b *fakeBroker) serve(conn net.Conn) {
	defer conn.Close()
	for {
		var size [4]byte
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			return
		}
		frame := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(conn, frame); err != nil || len(frame) < 10 {
			return
		}
		req := kmsg.RequestForKey(int16(binary.BigEndian.Uint16(frame)))
		req.SetVersion(int16(binary.BigEndian.Uint16(frame[2:])))
		body := frame[10:]
		if n := int16(binary.BigEndian.Uint16(frame[8:])); n > 0 { // the client's id
			body = body[n:]
		}
		if req.IsFlexible() {
			body = body[1:] // no tags
		}
		resp := req.ResponseKind()
		versions, isVersions := resp.(*kmsg.ApiVersionsResponse)
		if err := req.ReadFrom(body); err != nil {
			return
		}
		if isVersions {
			for _, key := range append([]int16{18}, b.apis...) {
				k := kmsg.NewApiVersionsResponseApiKey()
				k.ApiKey, k.MaxVersion = key, kmsg.RequestForKey(key).MaxVersion()
				versions.ApiKeys = append(versions.ApiKeys, k)
			}
		} else if !b.answer(req, resp) {
			return
		}
		out := append([]byte{0, 0, 0, 0}, frame[4:8]...)
		if req.IsFlexible() && !isVersions {
			out = append(out, 0)
		}
		out = resp.AppendTo(out)
		binary.BigEndian.PutUint32(out, uint32(len(out)-4))
		if _, err := conn.Write(out); err != nil {
			return
		}
	}
}

// metadataOf makes resp say that b is the one broker, with one topic whose partitions have these leaders.
func (b *fakeBroker) metadataOf(resp *kmsg.MetadataResponse, topic string, leaders ...int32) {
	broker := kmsg.NewMetadataResponseBroker()
	broker.NodeID, broker.Host, broker.Port = 1, b.host, b.port
	resp.Brokers, resp.ControllerID = []kmsg.MetadataResponseBroker{broker}, 1
	t := kmsg.NewMetadataResponseTopic()
	t.Topic = &topic
	for n, leader := range leaders {
		p := kmsg.NewMetadataResponseTopicPartition()
		p.Partition, p.Leader = int32(n), leader
		if p.Replicas = []int32{1}; leader < 0 {
			p.ErrorCode = 5 // LEADER_NOT_AVAILABLE
		}
		t.Partitions = append(t.Partitions, p)
	}
	resp.Topics = []kmsg.MetadataResponseTopic{t}
}
