package classic

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/vfs"
)

func openManager(t testing.TB, o ManagerOptions) *Manager {
	t.Helper()
	if o.FS == nil {
		o.FS = newMem(t)
	}
	if o.Dir == "" {
		o.Dir = "/data"
	}
	if o.Config.SegmentBytes == 0 {
		o.Config = testConfig()
	}
	m, err := OpenManager(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func TestManager(t *testing.T) {
	mem := newMem(t)
	for _, dir := range []string{"a_0", "a-1", "other", "bad_0"} {
		if err := mem.MkdirAll("/data/"+dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(writeFile(mem, "/data/bad_0/1.kafka", nil), writeFile(mem, "/data/bad_0/01.kafka", nil)); err != nil {
		t.Fatal(err)
	}
	m := openManager(t, ManagerOptions{FS: mem})
	if len(m.Logs()) != 2 || m.Log(TopicPartition{"a", 1}) == nil || m.Partitions("a") != 2 || m.Partitions("b") != 1 {
		t.Errorf("%d logs, %d partitions", len(m.Logs()), m.Partitions("a"))
	}
	if failed := m.Failed(); len(failed) != 1 || !strings.Contains(failed[TopicPartition{"bad", 0}].Error(), "01.kafka and 1.kafka have the same offset") {
		t.Errorf("failed: %v", failed)
	}
	l, err := m.Create(TopicPartition{"b", 0})
	if err != nil || l != m.Log(TopicPartition{"b", 0}) {
		t.Errorf("created: %v", err)
	}
	if _, err := mem.Stat("/data/b_0/00000000000.kafka"); err != nil {
		t.Error(err)
	}
	for _, tp := range []TopicPartition{{"b", 1}, {"b", -1}, {"a/b", 0}, {"..", 0}, {"", 0}, {strings.Repeat("x", 300), 0}, {"bad", 0}} {
		if l, err := m.Create(tp); err == nil {
			t.Errorf("created %v", l.Partition())
		}
	}
	if err := mem.MkdirAll("/data/a_1", 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenManager(ManagerOptions{FS: mem, Dir: "/data", Config: testConfig()}); err == nil || !strings.Contains(err.Error(), "a-1 and a_1 are the same partition") {
		t.Errorf("two directories of a partition: %v", err)
	}
}

// The manager's goroutines flush and clean.
func TestManagerBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := testConfig()
		c.FlushInterval = time.Second
		m := openManager(t, ManagerOptions{Config: c, Delete: OlderThan(time.Hour), CleanInterval: time.Minute, Partitions: 3})
		var logs []*Log
		for i := range int32(3) {
			l, err := m.Create(TopicPartition{"t", i})
			if err != nil {
				t.Fatal(err)
			}
			logs = append(logs, l)
			for range 4 {
				appendText(t, l, strings.Repeat("a", 191))
			}
		}
		time.Sleep(time.Second + time.Millisecond)
		for _, l := range logs {
			if flushed(l) != 4 {
				t.Errorf("%v: %d flushed", l.Partition(), flushed(l))
			}
		}
		time.Sleep(2 * time.Hour)
		for _, l := range logs {
			if names(t, l) != "00000000600" {
				t.Errorf("%v: %s left", l.Partition(), names(t, l))
			}
		}
	})
}

// serve starts a server of m and returns its address.
func serve(t testing.TB, m *Manager, o ServerOptions) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer(m, o)
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// A client speaks 0.7's protocol, written here by the drawings alone.
type client struct {
	t testing.TB
	net.Conn
}

func dial(t testing.TB, address string) client {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(2 * time.Minute))
	return client{t, c}
}

func topicHeader(topic string, partition int32) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(len(topic)))
	b = append(b, topic...)
	return binary.BigEndian.AppendUint32(b, uint32(partition))
}

func fetchBody(topic string, partition int32, offset int64, size int32) []byte {
	b := binary.BigEndian.AppendUint64(topicHeader(topic, partition), uint64(offset))
	return binary.BigEndian.AppendUint32(b, uint32(size))
}

func produceBody(topic string, partition int32, set []byte) []byte {
	b := binary.BigEndian.AppendUint32(topicHeader(topic, partition), uint32(len(set)))
	return append(b, set...)
}

func frame(kind uint16, body ...[]byte) []byte {
	all := bytes.Join(body, nil)
	b := binary.BigEndian.AppendUint32(nil, uint32(2+len(all)))
	b = binary.BigEndian.AppendUint16(b, kind)
	return append(b, all...)
}

func (c client) send(kind uint16, body ...[]byte) {
	c.t.Helper()
	if _, err := c.Write(frame(kind, body...)); err != nil {
		c.t.Fatal(err)
	}
}

// response reads a response and returns its error code and body.
func (c client) response() (int16, []byte) {
	c.t.Helper()
	code, body, err := readResponse(c)
	if err != nil {
		c.t.Fatal(err)
	}
	return code, body
}

func readResponse(r io.Reader) (int16, []byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	b := make([]byte, binary.BigEndian.Uint32(head[:]))
	_, err := io.ReadFull(r, b)
	if err != nil || len(b) < 2 {
		return 0, nil, fmt.Errorf("response of %d bytes: %v", len(b), err)
	}
	return int16(binary.BigEndian.Uint16(b)), b[2:], nil
}

// wantClosed wants the server to end the connection.
func (c client) wantClosed(what string) {
	c.t.Helper()
	if n, err := c.Read(make([]byte, 1)); n > 0 || err == nil || errors.Is(err, net.ErrClosed) {
		c.t.Errorf("%s: the connection goes on", what)
	} else if ne, ok := err.(net.Error); ok && ne.Timeout() {
		c.t.Errorf("%s: the connection goes on", what)
	}
}

func count(n uint16) []byte { return binary.BigEndian.AppendUint16(nil, n) }

func offsetsBody(topic string, partition int32, ms int64, n int32) []byte {
	return fetchBody(topic, partition, ms, n) // alike
}

func TestServer(t *testing.T) {
	m := openManager(t, ManagerOptions{FS: vfs.OS(), Dir: t.TempDir(), Partitions: 2})
	c := dial(t, serve(t, m, ServerOptions{}))

	// Nothing is there yet.
	c.send(fetchRequest, fetchBody("my_topic", 0, 0, 1000))
	if code, body := c.response(); code != 0 || len(body) != 0 {
		t.Errorf("fetch of nothing: %d, %x", code, body)
	}
	c.send(offsetsRequest, offsetsBody("my_topic", 1, LatestTime, 10))
	if code, body := c.response(); code != 0 || hex.EncodeToString(body) != "000000010000000000000000" {
		t.Errorf("offsets of nothing: %d, %x", code, body)
	}

	a, b := appendEntry(nil, Message{Payload: []byte("first")}), appendEntry(nil, Message{Magic: 1, Payload: []byte("second")})
	c.send(produceRequest, produceBody("my_topic", 0, append(bytes.Clone(a), b...)))
	c.send(multiProduceRequest, count(2), produceBody("my_topic", 1, a), produceBody("other", 0, b))
	// Requests of a connection are done in order: this one sees what was produced before it.
	c.send(fetchRequest, fetchBody("my_topic", 0, 0, 1000))
	if code, body := c.response(); code != 0 || !bytes.Equal(body, append(bytes.Clone(a), b...)) {
		t.Errorf("fetch: %d, %x", code, body)
	}
	c.send(fetchRequest, fetchBody("my_topic", 0, int64(len(a)), 5)) // a part of the second
	if code, body := c.response(); code != 0 || !bytes.Equal(body, b[:5]) {
		t.Errorf("fetch of 5 bytes: %d, %x", code, body)
	}
	for _, r := range []struct {
		body []byte
		want ErrorCode
	}{
		{fetchBody("my_topic", 0, int64(len(a)+len(b)), 10), NoError}, // the end
		{fetchBody("my_topic", 0, 1, 10), OffsetOutOfRange},
		{fetchBody("my_topic", 0, 1000, 10), OffsetOutOfRange},
		{fetchBody("my_topic", 0, -1, 10), OffsetOutOfRange},
		{fetchBody("my_topic", 2, 0, 10), WrongPartition},
		{fetchBody("my_topic", -1, 0, 10), WrongPartition},
		{fetchBody("my_topic", 0, 0, 0), InvalidFetchSize},
		{fetchBody("my_topic", 0, 0, -5), InvalidFetchSize},
	} {
		c.send(fetchRequest, r.body)
		if code, body := c.response(); ErrorCode(code) != r.want || len(body) != 0 {
			t.Errorf("fetch %x: %d, %x; want %d", r.body, code, body, r.want)
		}
	}

	// The answer to a multi-fetch, byte for byte.
	c.send(multiFetchRequest, count(3), fetchBody("my_topic", 1, 0, 1000), fetchBody("my_topic", 7, 0, 1000), fetchBody("other", 0, 0, 4))
	var want bytes.Buffer
	fmt.Fprintf(&want, "%08x0000", 2+6+len(a)+6+6+4)
	fmt.Fprintf(&want, "%08x0000%x", 2+len(a), a)
	fmt.Fprintf(&want, "%08x0003", 2)
	fmt.Fprintf(&want, "%08x0000%x", 2+4, b[:4])
	got := make([]byte, want.Len()/2)
	if _, err := io.ReadFull(c, got); err != nil || hex.EncodeToString(got) != want.String() {
		t.Errorf("multi-fetch: %v\n%x, want\n%s", err, got, want.String())
	}

	for range 3 {
		c.send(produceRequest, produceBody("my_topic", 0, appendEntry(nil, Message{Payload: make([]byte, 200)})))
	}
	c.send(offsetsRequest, offsetsBody("my_topic", 0, LatestTime, 3))
	if code, body := c.response(); code != 0 || hex.EncodeToString(body) != fmt.Sprintf("00000003%016x%016x%016x", 30+3*209, 30+2*209, 30+209) {
		t.Errorf("offsets: %d, %x", code, body)
	}
	c.send(offsetsRequest, offsetsBody("my_topic", 9, LatestTime, 3))
	if code, _ := c.response(); ErrorCode(code) != WrongPartition {
		t.Errorf("offsets of partition 9: %d", code)
	}

	// Partition -1 is any.
	c.send(produceRequest, produceBody("any", -1, a))
	c.send(multiFetchRequest, count(2), fetchBody("any", 0, 0, 100), fetchBody("any", 1, 0, 100))
	if code, body := c.response(); code != 0 || !bytes.Contains(body, a) {
		t.Errorf("produced to any: %d, %x", code, body)
	}
}

// What is no request ends its own connection, appends nothing, and disturbs nobody.
func TestHostileClients(t *testing.T) {
	m := openManager(t, ManagerOptions{})
	address := serve(t, m, ServerOptions{RequestBytesMax: 1 << 20})
	good := dial(t, address)
	a := appendEntry(nil, Message{Payload: []byte("good")})
	bad := append(bytes.Clone(a[:len(a)-1]), 'D')
	good.send(produceRequest, produceBody("t", 0, a))
	for what, b := range map[string][]byte{
		"huge frame":             {0x7f, 0xff, 0xff, 0xff, 0, 1},
		"negative frame":         {0xff, 0xff, 0xff, 0xff, 0, 1},
		"empty frame":            {0, 0, 0, 0},
		"unknown type":           frame(5),
		"http":                   []byte("GET / HTTP/1.1\r\n\r\n"),
		"negative topic":         frame(fetchRequest, []byte{0xff, 0xff}, make([]byte, 20)),
		"topic beyond the frame": frame(fetchRequest, []byte{0x7f, 0xff}, make([]byte, 20)),
		"a way out":              frame(produceRequest, produceBody("../evil", 0, a)),
		"no topic":               frame(produceRequest, produceBody("", 0, a)),
		"too short":              frame(fetchRequest, fetchBody("t", 0, 0, 0)[:10]),
		"too long":               frame(fetchRequest, fetchBody("t", 0, 0, 0), []byte{0}),
		"negative count":         frame(multiFetchRequest, []byte{0xff, 0xff}),
		"huge count":             frame(multiFetchRequest, []byte{0x7f, 0xff}, fetchBody("t", 0, 0, 10)),
		"negative set":           frame(produceRequest, topicHeader("t", 0), []byte{0xff, 0xff, 0xff, 0xff}),
		"set beyond the frame":   frame(produceRequest, topicHeader("t", 0), []byte{0x7f, 0xff, 0xff, 0xff}, a),
		"wrong crc":              frame(produceRequest, produceBody("t", 0, append(bytes.Clone(a), bad...))),
		"torn message":           frame(produceRequest, produceBody("t", 0, a[:len(a)-1])),
		"too large":              frame(produceRequest, produceBody("t", 0, appendEntry(nil, Message{Payload: make([]byte, 1001)}))),
		"partition too high":     frame(produceRequest, produceBody("t", 5, a)),
		"second part wrong":      frame(multiProduceRequest, count(2), produceBody("t", 0, a), produceBody("new", 0, bad)),
	} {
		c := dial(t, address)
		if _, err := c.Write(b); err != nil {
			t.Fatal(err)
		}
		c.wantClosed(what)
	}
	torn := dial(t, address)
	if _, err := torn.Write(frame(produceRequest, produceBody("t", 0, a))[:12]); err != nil {
		t.Fatal(err)
	}
	_ = torn.Conn.(*net.TCPConn).CloseWrite()
	torn.wantClosed("half a request")

	good.send(fetchRequest, fetchBody("t", 0, 0, 1000))
	if code, body := good.response(); code != 0 || !bytes.Equal(body, a) {
		t.Errorf("the good client got %d, %x", code, body)
	}
	if m.Log(TopicPartition{"new", 0}) != nil {
		t.Error("a refused produce made a topic")
	}
}

func TestConnectionsMax(t *testing.T) {
	address := serve(t, openManager(t, ManagerOptions{}), ServerOptions{ConnectionsMax: 1, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	first := dial(t, address)
	first.send(fetchRequest, fetchBody("t", 0, 0, 1000))
	first.response()
	dial(t, address).wantClosed("one too many")
	first.send(fetchRequest, fetchBody("t", 0, 0, 1000))
	if code, _ := first.response(); code != 0 {
		t.Errorf("the first: %d", code)
	}
}

// A client that connects, says nothing, or takes nothing holds up nobody, and not the end either.
func TestServerClose(t *testing.T) {
	m := openManager(t, ManagerOptions{FS: vfs.OS(), Dir: t.TempDir(), Config: Config{SegmentBytes: 1 << 30, MessageBytesMax: 64 << 20}})
	l, err := m.Create(TopicPartition{"t", 0})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(Message{Payload: make([]byte, 32<<20)}); err != nil { // more than sockets hold
		t.Fatal(err)
	}
	address := serve(t, m, ServerOptions{}) // its cleanup closes it
	dial(t, address)
	slow := dial(t, address)
	slow.send(fetchRequest, fetchBody("t", 0, 0, 64<<20))
	if _, err := io.ReadFull(slow, make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	other := dial(t, address)
	other.send(offsetsRequest, offsetsBody("t", 0, LatestTime, 1))
	if code, _ := other.response(); code != 0 {
		t.Errorf("offsets: %d", code)
	}
}

// Many clients at once, each with a topic of its own.
func TestServerConcurrently(t *testing.T) {
	m := openManager(t, ManagerOptions{FS: vfs.OS(), Dir: t.TempDir(), Config: Config{SegmentBytes: 5000, MessageBytesMax: 1000}})
	address := serve(t, m, ServerOptions{})
	var group sync.WaitGroup
	for g := range 6 {
		c := dial(t, address)
		group.Go(func() {
			topic := fmt.Sprintf("topic%d", g)
			var sent, got bytes.Buffer
			for i := range 200 {
				set := appendEntry(nil, Message{Payload: fmt.Appendf(nil, "%d of %s", i, topic)})
				sent.Write(set)
				if _, err := c.Write(append(frame(produceRequest, produceBody(topic, 0, set)), frame(fetchRequest, fetchBody(topic, 0, int64(got.Len()), 1<<20))...)); err != nil {
					t.Error(err)
					return
				}
				code, body, err := readResponse(c)
				if err != nil || code != 0 {
					t.Errorf("%d, %v", code, err)
					return
				}
				got.Write(body)
			}
			if got.String() != sent.String() {
				t.Errorf("%s: %d bytes sent, %d came back", topic, sent.Len(), got.Len())
			}
		})
	}
	group.Wait()
}

// A packed message goes through as it is, and its reader finds what was packed.
func TestPacked(t *testing.T) {
	for _, codec := range []record.Codec{record.Gzip, record.Snappy} {
		l := open(t, newMem(t), testConfig())
		packed, err := Pack(codec, []byte("one"), []byte("two"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Append(packed); err != nil {
			t.Fatal(err)
		}
		set, err := l.Read(0, ReadOptions{Bytes: 1000})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range set.All() {
			if got, err := messagesOf(e); err != nil || strings.Join(got, ",") != "one,two," {
				t.Errorf("%v: %q, %v", codec, got, err)
			}
		}
	}
}

func FuzzRequest(f *testing.F) {
	a := appendEntry(nil, Message{Payload: []byte("a")})
	for _, b := range [][]byte{
		frame(fetchRequest, fetchBody("t", 0, 0, 10)), frame(produceRequest, produceBody("t", 0, a)),
		frame(multiFetchRequest, count(2), fetchBody("t", 0, 0, 10), fetchBody("u", 1, 5, 10)),
		frame(multiProduceRequest, count(1), produceBody("t", -1, a)), frame(offsetsRequest, offsetsBody("t", 0, -1, 10)),
	} {
		f.Add(b[4:])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		kind, parts, err := parseRequest(b)
		if err != nil {
			return
		}
		// What was understood is the whole frame, and says the same again.
		body := [][]byte{}
		if kind == multiFetchRequest || kind == multiProduceRequest {
			body = append(body, count(uint16(len(parts))))
		}
		for _, r := range parts {
			switch kind {
			case produceRequest, multiProduceRequest:
				body = append(body, produceBody(r.tp.Topic, r.tp.Partition, r.set))
			case fetchRequest, multiFetchRequest:
				body = append(body, fetchBody(r.tp.Topic, r.tp.Partition, int64(r.offset), r.max))
			default:
				body = append(body, offsetsBody(r.tp.Topic, r.tp.Partition, r.time, r.max))
			}
		}
		if again := frame(uint16(kind), body...)[4:]; !bytes.Equal(again, b) {
			t.Fatalf("%x read as %x", b, again)
		}
	})
}
