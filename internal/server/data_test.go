package server

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/vfs"
)

// dataNode starts a node on a free port, in memory or, with dir, on disk.
func dataNode(t testing.TB, dir string, properties ...string) *Node {
	t.Helper()
	o := Options{FS: vfs.NewMem(), Properties: map[string]string{"listeners": "PLAINTEXT://127.0.0.1:0", "admin.listener": "", "log.dirs": "data"}}
	if dir != "" {
		o.FS, o.Properties["log.dirs"] = vfs.OS(), dir
	}
	for i := 0; i < len(properties); i += 2 {
		o.Properties[properties[i]] = properties[i+1]
	}
	n, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := n.Close(ctx); err != nil {
			t.Errorf("closing the node: %v", err)
		}
	})
	return n
}

// A dataClient asks one request after another.
type dataClient struct {
	t  testing.TB
	nc net.Conn
	id int32
}

func dialNode(t testing.TB, n *Node) *dataClient {
	t.Helper()
	nc, err := net.Dial("tcp", n.Addr())
	if err != nil {
		t.Fatal(err)
	}
	nc.SetDeadline(time.Now().Add(2 * time.Minute))
	t.Cleanup(func() { nc.Close() })
	return &dataClient{t: t, nc: nc}
}

func (c *dataClient) send(req kmsg.Request) {
	c.t.Helper()
	c.id++
	if _, err := c.nc.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID("test")).AppendRequest(nil, req, c.id)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *dataClient) frame() ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(c.nc, size[:]); err != nil {
		return nil, err
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err := io.ReadFull(c.nc, b)
	return b, err
}

// receive decodes the next answer as that to req, and sees that it encodes to the same bytes again.
func (c *dataClient) receive(req kmsg.Request) kmsg.Response {
	c.t.Helper()
	b, err := c.frame()
	if err != nil {
		c.t.Fatalf("%s v%d: %v", kmsg.NameForKey(req.Key()), req.GetVersion(), err)
	}
	b = b[4:]
	resp := req.ResponseKind()
	if resp.IsFlexible() && req.Key() != int16(kmsg.ApiVersions) {
		b = b[1:]
	}
	if err := resp.ReadFrom(b); err != nil {
		c.t.Fatalf("%s v%d: %v in %x", kmsg.NameForKey(req.Key()), req.GetVersion(), err, b)
	}
	if again := resp.AppendTo(nil); !bytes.Equal(again, b) {
		c.t.Errorf("%s v%d: the answer is\n%x, and encodes to\n%x", kmsg.NameForKey(req.Key()), req.GetVersion(), b, again)
	}
	return resp
}

func (c *dataClient) ask(req kmsg.Request) kmsg.Response {
	c.t.Helper()
	c.send(req)
	return c.receive(req)
}

// closes sends req and expects the end of the connection.
func (c *dataClient) closes(req kmsg.Request, what string) {
	c.t.Helper()
	c.send(req)
	if b, err := c.frame(); !errors.Is(err, io.EOF) {
		c.t.Errorf("%s: answered %x, %v; want a closed connection", what, b, err)
	}
}

func version[R kmsg.Request](req R, v int16) R {
	req.SetVersion(v)
	return req
}

// topic creates one and returns its id.
func (c *dataClient) topic(name string, partitions int32, configs ...string) [16]byte {
	c.t.Helper()
	req := version(kmsg.NewPtrCreateTopicsRequest(), 7)
	req.TimeoutMillis = 10000
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, 1
	for i := 0; i < len(configs); i += 2 {
		cfg := kmsg.NewCreateTopicsRequestTopicConfig()
		cfg.Name, cfg.Value = configs[i], &configs[i+1]
		t.Configs = append(t.Configs, cfg)
	}
	req.Topics = append(req.Topics, t)
	r := c.ask(req).(*kmsg.CreateTopicsResponse).Topics[0]
	if r.ErrorCode != 0 {
		c.t.Fatalf("creating %s: error %d", name, r.ErrorCode)
	}
	return r.TopicID
}

// pack builds a batch of values.
func pack(t testing.TB, change func(*record.Builder), values ...string) []byte {
	t.Helper()
	b := record.NewBuilder()
	if change != nil {
		change(b)
	}
	for _, v := range values {
		b.Add(record.Record{Timestamp: time.Now().UnixMilli(), Key: []byte("k"), Value: []byte(v)})
	}
	batch, err := b.Batch(nil)
	if err != nil {
		t.Fatal(err)
	}
	return batch
}

// produceRequest carries batches for the partitions 0, 1, … of one topic.
func produceRequest(v int16, topic string, id [16]byte, acks int16, batches ...[]byte) *kmsg.ProduceRequest {
	req := version(kmsg.NewPtrProduceRequest(), v)
	req.Acks, req.TimeoutMillis = acks, 5000
	t := kmsg.NewProduceRequestTopic()
	t.Topic, t.TopicID = topic, id
	for i, b := range batches {
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = int32(i), b
		t.Partitions = append(t.Partitions, p)
	}
	req.Topics = append(req.Topics, t)
	return req
}

func (c *dataClient) put(topic string, batch []byte) (base int64) {
	c.t.Helper()
	p := c.ask(produceRequest(9, topic, [16]byte{}, -1, batch)).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
	if p.ErrorCode != 0 {
		c.t.Fatalf("produce to %s: error %d", topic, p.ErrorCode)
	}
	return p.BaseOffset
}

func fetchTopic(topic string, id [16]byte, offsets ...int64) kmsg.FetchRequestTopic {
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = topic, id
	for i, o := range offsets {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.FetchOffset, p.PartitionMaxBytes, p.CurrentLeaderEpoch = int32(i), o, 1<<20, -1
		t.Partitions = append(t.Partitions, p)
	}
	return t
}

func fetchOf(v int16, topics ...kmsg.FetchRequestTopic) *kmsg.FetchRequest {
	req := version(kmsg.NewPtrFetchRequest(), v)
	req.MaxBytes, req.MinBytes, req.SessionEpoch = 50<<20, 1, -1
	req.Topics = topics
	return req
}

func TestProduceAtEveryVersion(t *testing.T) {
	n := dataNode(t, "")
	c := dialNode(t, n)
	id := c.topic("t", 3)
	wrong := pack(t, nil, "x")
	wrong[len(wrong)-1] ^= 1
	for v := int16(produceMin); v <= 13; v++ {
		resp := c.ask(produceRequest(v, "t", id, 1, pack(t, nil, "a", "b"), wrong, nil, pack(t, nil, "c"))).(*kmsg.ProduceResponse)
		if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 4 {
			t.Fatalf("v%d: %+v", v, resp)
		}
		want := int64(2 * (v - produceMin))
		for i, code := range []int16{codeNone, codeCorruptMessage, codeInvalidRecord, codeUnknownTopicOrPartition} {
			p := resp.Topics[0].Partitions[i]
			if p.ErrorCode != code || p.Partition != int32(i) || code != 0 && p.BaseOffset != -1 || code == 0 && p.BaseOffset != want || p.LogAppendTime != -1 {
				t.Errorf("v%d partition %d: %+v, want error %d, offset %d", v, i, p, code, want)
			}
			if p.ErrorMessage != nil || len(p.ErrorRecords) > 0 {
				t.Errorf("v%d partition %d has a message: %+v", v, i, p)
			}
		}
		if v == 13 && resp.Topics[0].TopicID != id {
			t.Errorf("v13 answers for %x", resp.Topics[0].TopicID)
		}
	}
	unknown := c.ask(produceRequest(13, "", [16]byte{1}, 1, pack(t, nil, "a"))).(*kmsg.ProduceResponse)
	if code := unknown.Topics[0].Partitions[0].ErrorCode; code != codeUnknownTopicID {
		t.Errorf("an unknown id: error %d", code)
	}
	dialNode(t, n).closes(produceRequest(2, "t", id, 1, pack(t, nil, "a")), "Produce v2")
}

func TestProduceRefusals(t *testing.T) {
	n := dataNode(t, "")
	c := dialNode(t, n)
	c.topic("t", 1)
	c.topic("compact", 1, "cleanup.policy", "compact")
	c.topic("old", 1, "message.timestamp.before.max.ms", "1000")
	two := append(pack(t, nil, "a"), pack(t, nil, "b")...)
	transactional := func(b *record.Builder) {
		b.ProducerID, b.ProducerEpoch, b.BaseSequence, b.Attributes = 5, 0, 0, record.AttrTransactional
	}
	keyless := func() []byte {
		b := record.NewBuilder()
		b.Add(record.Record{Timestamp: 1, Value: []byte("v")})
		batch, _ := b.Batch(nil)
		return batch
	}
	for _, q := range []struct {
		what     string
		topic    string
		batch    []byte
		acks     int16
		code     int16
		faulty   int // records
		logStart int64
	}{
		{"two batches", "t", two, 1, codeInvalidRecord, 0, -1},
		{"no batch", "t", []byte{}, 1, codeInvalidRecord, 0, -1},
		{"half a batch", "t", two[:40], 1, codeInvalidRecord, 0, -1},
		{"acks=2", "t", pack(t, nil, "a"), 2, codeInvalidRequiredAcks, 0, -1},
		{"an unknown topic", "none", pack(t, nil, "a"), 1, codeUnknownTopicOrPartition, 0, -1},
		{"a transaction without an id", "t", pack(t, transactional, "a"), 1, codeTransactionalIDAuthorization, 0, -1},
		{"no key on a compacted topic", "compact", keyless(), 1, codeInvalidRecord, 1, 0},
		{"too old", "old", keyless(), 1, codeInvalidTimestamp, 1, 0},
	} {
		resp := c.ask(produceRequest(9, q.topic, [16]byte{}, q.acks, q.batch)).(*kmsg.ProduceResponse)
		p := resp.Topics[0].Partitions[0]
		if p.ErrorCode != q.code || len(p.ErrorRecords) != q.faulty || p.LogStartOffset != q.logStart || p.BaseOffset != -1 {
			t.Errorf("%s: %+v, want error %d", q.what, p, q.code)
		}
		if (p.ErrorMessage != nil) != (q.faulty > 0) {
			t.Errorf("%s: message %v", q.what, p.ErrorMessage)
		}
	}
	for what, req := range map[string]*kmsg.ProduceRequest{
		"acks=0 and an unknown topic": produceRequest(9, "none", [16]byte{}, 0, pack(t, nil, "a")),
		"acks=0 and no records":       produceRequest(9, "t", [16]byte{}, 0, nil),
	} {
		dialNode(t, n).closes(req, what)
	}
	zstd := func(b *record.Builder) { b.Codec = record.Zstd }
	for v, code := range map[int16]int16{6: codeUnsupportedCompressionType, 7: codeNone} {
		resp := c.ask(produceRequest(v, "t", [16]byte{}, 1, pack(t, zstd, "a"))).(*kmsg.ProduceResponse)
		if got := resp.Topics[0].Partitions[0].ErrorCode; got != code {
			t.Errorf("zstd in v%d: error %d, want %d", v, got, code)
		}
	}
}

func TestInternalTopicsAreTheBrokers(t *testing.T) {
	for _, name := range []string{"__consumer_offsets", "__transaction_state", "__share_group_state"} {
		if !internalTopic(name) {
			t.Errorf("%s is not internal", name)
		}
	}
	if internalTopic("__other") {
		t.Error("__other is internal")
	}
}

// TestFetchAtEveryVersion also keeps the records' field from ever being null, on which several clients break.
func TestFetchAtEveryVersion(t *testing.T) {
	for _, dir := range []string{"", t.TempDir()} {
		n := dataNode(t, dir)
		c := dialNode(t, n)
		id := c.topic("t", 3)
		large := string(bytes.Repeat([]byte("x"), 100_000)) // goes by sendfile, or the copy that stands for it
		c.put("t", pack(t, nil, "a", "b", "c"))
		c.put("t", pack(t, nil, large))
		for v := int16(4); v <= 18; v++ {
			for _, committed := range []int8{0, 1} {
				// Partition 0 has records, 1 none, 2 none and is asked beyond its end, 3 does not exist.
				req := fetchOf(v, fetchTopic("t", id, 0, 0, 7, 0))
				req.IsolationLevel = committed
				resp := c.ask(req).(*kmsg.FetchResponse)
				if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 4 || resp.ErrorCode != 0 {
					t.Fatalf("v%d: %+v", v, resp)
				}
				type says struct {
					code                 int16
					highWatermark, start int64
					batches              int
				}
				for i, want := range []says{{0, 4, 0, 2}, {0, 0, 0, 0}, {codeOffsetOutOfRange, -1, -1, 0}, {codeUnknownTopicOrPartition, -1, -1, 0}} {
					p := resp.Topics[0].Partitions[i]
					if v < 5 && want.start == 0 {
						p.LogStartOffset = 0
					}
					got := says{p.ErrorCode, p.HighWatermark, p.LogStartOffset, 0}
					if p.RecordBatches == nil {
						t.Errorf("v%d partition %d: records are null", v, i)
					}
					for rest := p.RecordBatches; len(rest) > 0; got.batches++ {
						b, err := record.FirstBatch(rest)
						if err != nil || !b.ChecksumValid() {
							t.Fatalf("v%d: batch %d: %v", v, got.batches, err)
						}
						rest = rest[len(b):]
					}
					if got != want || p.LastStableOffset != p.HighWatermark || p.PreferredReadReplica != -1 && v >= fetchReplicaMin {
						t.Errorf("v%d partition %d: %+v, want %+v", v, i, got, want)
					}
					if list := p.AbortedTransactions != nil; i < 2 && list != (committed == 1) {
						t.Errorf("v%d isolation %d partition %d: list of aborted transactions: %v", v, committed, i, list)
					}
				}
			}
		}
		// A leader epoch of another reign, and who leads instead.
		for v := int16(9); v <= 18; v++ {
			req := fetchOf(v, fetchTopic("t", id, 0))
			for epoch, code := range map[int32]int16{0: codeNone, 99: codeUnknownLeaderEpoch} {
				req.Topics[0].Partitions[0].CurrentLeaderEpoch = epoch
				if got := c.ask(req).(*kmsg.FetchResponse).Topics[0].Partitions[0].ErrorCode; got != code {
					t.Errorf("v%d leader epoch %d: error %d, want %d", v, epoch, got, code)
				}
			}
			if v < fetchDivergeMin {
				continue
			}
			req.Topics[0].Partitions[0].CurrentLeaderEpoch = -1
			req.Topics[0].Partitions[0].LastFetchedEpoch, req.Topics[0].Partitions[0].FetchOffset = 0, 9
			if p := c.ask(req).(*kmsg.FetchResponse).Topics[0].Partitions[0]; p.DivergingEpoch.Epoch != 0 || p.DivergingEpoch.EndOffset != 4 || len(p.RecordBatches) > 0 {
				t.Errorf("v%d: diverging %+v", v, p.DivergingEpoch)
			}
		}
		if p := c.ask(fetchOf(13, fetchTopic("", [16]byte{9}, 0))).(*kmsg.FetchResponse).Topics[0].Partitions[0]; p.ErrorCode != codeUnknownTopicID || p.RecordBatches == nil {
			t.Errorf("an unknown id: %+v", p)
		}
	}
}

func TestFetchLimits(t *testing.T) {
	n := dataNode(t, "")
	c := dialNode(t, n)
	c.topic("t", 2)
	batch := pack(t, nil, string(bytes.Repeat([]byte("x"), 10_000)))
	c.ask(produceRequest(9, "t", [16]byte{}, 1, batch, pack(t, nil, string(bytes.Repeat([]byte("y"), 10_000)))))
	sizes := func(change func(*kmsg.FetchRequest)) (all []int, codes []int16) {
		req := fetchOf(12, fetchTopic("t", [16]byte{}, 0, 0))
		change(req)
		for _, p := range c.ask(req).(*kmsg.FetchResponse).Topics[0].Partitions {
			all, codes = append(all, len(p.RecordBatches)), append(codes, p.ErrorCode)
		}
		return all, codes
	}
	whole := len(batch)
	for _, q := range []struct {
		what   string
		change func(*kmsg.FetchRequest)
		sizes  []int
		code   int16
	}{
		{"enough for both", func(r *kmsg.FetchRequest) {}, []int{whole, whole}, 0},
		{"none fits", func(r *kmsg.FetchRequest) { r.MaxBytes = 1000 }, []int{whole, 0}, 0},
		{"nothing allowed", func(r *kmsg.FetchRequest) { r.MaxBytes = 0 }, []int{whole, 0}, 0},
		{"the other first", func(r *kmsg.FetchRequest) { r.MaxBytes = 1000; slices.Reverse(r.Topics[0].Partitions) }, []int{whole, 0}, 0},
		{"a partition allows nothing", func(r *kmsg.FetchRequest) { r.Topics[0].Partitions[0].PartitionMaxBytes = 0 }, []int{whole, whole}, 0},
		{"a negative limit", func(r *kmsg.FetchRequest) { r.MaxBytes = -1 }, []int{0, 0}, codeUnknownServerError},
	} {
		got, codes := sizes(q.change)
		if !slices.Equal(got, q.sizes) || codes[0] != q.code || codes[1] != q.code {
			t.Errorf("%s: %d bytes, errors %d; want %d, %d", q.what, got, codes, q.sizes, q.code)
		}
	}
}

func TestFetchWaits(t *testing.T) {
	n := dataNode(t, "")
	c, other := dialNode(t, n), dialNode(t, n)
	c.topic("t", 1)
	req := fetchOf(12, fetchTopic("t", [16]byte{}, 0))
	req.MaxWaitMillis = 50
	begin := time.Now()
	if p := c.ask(req).(*kmsg.FetchResponse).Topics[0].Partitions[0]; len(p.RecordBatches) > 0 || time.Since(begin) < 50*time.Millisecond {
		t.Errorf("an empty partition answered %d bytes after %v", len(p.RecordBatches), time.Since(begin))
	}
	req.MaxWaitMillis = 20000
	c.send(req)
	other.put("t", pack(t, nil, "a"))
	if p := c.receive(req).(*kmsg.FetchResponse).Topics[0].Partitions[0]; len(p.RecordBatches) == 0 {
		t.Error("woken without records")
	}
	req.Topics[0].Partitions[0].FetchOffset = 1
	req.MinBytes = 3 * int32(len(pack(t, nil, "b")))
	c.send(req)
	for range 3 {
		other.put("t", pack(t, nil, "b"))
	}
	if p := c.receive(req).(*kmsg.FetchResponse).Topics[0].Partitions[0]; len(p.RecordBatches) != int(req.MinBytes) {
		t.Errorf("%d bytes, want the least of %d", len(p.RecordBatches), req.MinBytes)
	}
	// A reader of a topic that goes is told so at once.
	req.Topics[0].Partitions[0].FetchOffset = 4
	c.send(req)
	del := version(kmsg.NewPtrDeleteTopicsRequest(), 5)
	del.TopicNames, del.TimeoutMillis = []string{"t"}, 10000
	other.ask(del)
	if p := c.receive(req).(*kmsg.FetchResponse).Topics[0].Partitions[0]; p.ErrorCode != codeUnknownTopicOrPartition {
		t.Errorf("the reader of a deleted topic got error %d", p.ErrorCode)
	}
}

func TestListOffsetsAtEveryVersion(t *testing.T) {
	n := dataNode(t, "")
	c := dialNode(t, n)
	c.topic("t", 1)
	at := time.Now().UnixMilli()
	c.put("t", pack(t, nil, "a", "b"))
	ask := func(v int16, time int64) kmsg.ListOffsetsResponseTopicPartition {
		req := version(kmsg.NewPtrListOffsetsRequest(), v)
		req.ReplicaID = consumerReplica
		rt, rp := kmsg.NewListOffsetsRequestTopic(), kmsg.NewListOffsetsRequestTopicPartition()
		rt.Topic, rp.Timestamp, rp.CurrentLeaderEpoch = "t", time, -1
		rt.Partitions = append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
		return c.ask(req).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
	}
	for v := int16(1); v <= 11; v++ {
		for _, q := range []struct {
			time   int64
			since  int16
			offset int64
		}{{latestTime, 1, 2}, {earliestTime, 1, 0}, {earliestLocalTime, 8, 0}, {latestTieredTime, 9, -1}, {earliestPendingTieredAge, 11, -1}, {-7, 99, -1}, {at, 1, 0}, {at + 1e6, 1, -1}} {
			p := ask(v, q.time)
			want, code := q.offset, codeNone
			if v < q.since {
				want, code = -1, codeUnsupportedVersion
			}
			if p.ErrorCode != code || p.Offset != want || q.time < 0 && p.Timestamp != -1 {
				t.Errorf("v%d time %d: %+v, want offset %d, error %d", v, q.time, p, want, code)
			}
		}
	}
}

func TestProducerIDsAreGivenOnce(t *testing.T) {
	n := dataNode(t, "")
	c := dialNode(t, n)
	seen := map[int64]bool{}
	for v := int16(0); v <= 5; v++ {
		for range 300 {
			r := c.ask(version(kmsg.NewPtrInitProducerIDRequest(), v)).(*kmsg.InitProducerIDResponse)
			if r.ErrorCode != 0 || r.ProducerEpoch != 0 || seen[r.ProducerID] {
				t.Fatalf("v%d: %+v, seen before: %v", v, r, seen[r.ProducerID])
			}
			seen[r.ProducerID] = true
		}
	}
	req := version(kmsg.NewPtrInitProducerIDRequest(), 4)
	req.ProducerID = 5
	if r := c.ask(req).(*kmsg.InitProducerIDResponse); r.ErrorCode != codeInvalidRequest || r.ProducerID != -1 {
		t.Errorf("an id without an epoch: %+v", r)
	}
	id := "x"
	req = version(kmsg.NewPtrInitProducerIDRequest(), 4)
	req.TransactionalID = &id
	if r := c.ask(req).(*kmsg.InitProducerIDResponse); r.ErrorCode != codeCoordinatorNotAvailable {
		t.Errorf("with a transactional id: %+v", r)
	}
}

func TestDeleteRecordsAndProducers(t *testing.T) {
	n := dataNode(t, "")
	c := dialNode(t, n)
	c.topic("t", 1)
	c.topic("compact", 1, "cleanup.policy", "compact")
	c.put("t", pack(t, func(b *record.Builder) { b.ProducerID, b.ProducerEpoch, b.BaseSequence = 7, 1, 0 }, "a", "b", "c"))
	for v := int16(0); v <= 2; v++ {
		for _, q := range []struct {
			topic       string
			partition   int32
			offset, low int64
			code        int16
		}{{"t", 0, int64(v), int64(v), 0}, {"t", 0, 4, -1, codeOffsetOutOfRange}, {"t", 0, -2, -1, codeOffsetOutOfRange}, {"t", 9, 0, -1, codeUnknownTopicOrPartition},
			{"none", 0, 0, -1, codeUnknownTopicOrPartition}, {"compact", 0, 0, -1, codePolicyViolation}} {
			req := version(kmsg.NewPtrDeleteRecordsRequest(), v)
			rt, rp := kmsg.NewDeleteRecordsRequestTopic(), kmsg.NewDeleteRecordsRequestTopicPartition()
			rt.Topic, rp.Partition, rp.Offset = q.topic, q.partition, q.offset
			rt.Partitions = append(rt.Partitions, rp)
			req.Topics, req.TimeoutMillis = append(req.Topics, rt), 5000
			p := c.ask(req).(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0]
			if p.ErrorCode != q.code || p.LowWatermark != q.low {
				t.Errorf("v%d %s-%d to %d: %+v, want low watermark %d, error %d", v, q.topic, q.partition, q.offset, p, q.low, q.code)
			}
		}
	}
	req := kmsg.NewPtrDescribeProducersRequest()
	rt := kmsg.NewDescribeProducersRequestTopic()
	rt.Topic, rt.Partitions = "t", []int32{0, 5}
	req.Topics = append(req.Topics, rt)
	all := c.ask(req).(*kmsg.DescribeProducersResponse).Topics[0].Partitions
	if len(all[0].ActiveProducers) != 1 || all[1].ErrorCode != codeUnknownTopicOrPartition {
		t.Fatalf("%+v", all)
	}
	if p := all[0].ActiveProducers[0]; p.ProducerID != 7 || p.ProducerEpoch != 1 || p.LastSequence != 2 || p.CurrentTxnStartOffset != -1 {
		t.Errorf("%+v", p)
	}
	for v := int16(2); v <= 4; v++ {
		req := version(kmsg.NewPtrOffsetForLeaderEpochRequest(), v)
		rt, rp := kmsg.NewOffsetForLeaderEpochRequestTopic(), kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		rt.Topic, rp.LeaderEpoch, rp.CurrentLeaderEpoch = "t", 0, -1
		rt.Partitions = append(rt.Partitions, rp)
		rp.LeaderEpoch = 9
		rt.Partitions = append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
		p := c.ask(req).(*kmsg.OffsetForLeaderEpochResponse).Topics[0].Partitions
		if p[0].EndOffset != 3 || p[0].LeaderEpoch != 0 || p[1].EndOffset != -1 || p[1].LeaderEpoch != -1 {
			t.Errorf("v%d: %+v", v, p)
		}
	}
}
