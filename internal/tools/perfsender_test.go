package tools

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/record"
)

func testSender(complaints *bytes.Buffer) *perfSender {
	o := &perfOptions{topic: "t", warmup: 3}
	run := &perfRun{env: Env{Stdout: complaints, Stderr: complaints}, o: o}
	run.stats = newPerfStats(100, time.Hour, false, time.Now())
	run.steady = newPerfStats(97, time.Hour, true, time.Now())
	return &perfSender{run: run, topic: "t", config: &producerConfig{retries: 5}, producer: 9, next: make([]int32, 2), free: make(chan *perfParcel, 9)}
}

func testParcel(t *testing.T, number int64, partition int32, first int64, n int) *perfParcel {
	t.Helper()
	return &perfParcel{number: number, partition: partition, sequence: -1, began: time.Now(), first: first,
		batch: perfBatch(t, 0, n, record.None, -1, 0), records: slices.Repeat([]perfRecord{{time.Now(), 5}}, n)}
}

func answer(codes ...int16) *kmsg.ProduceResponse {
	resp := kmsg.NewPtrProduceResponse()
	topic := kmsg.NewProduceResponseTopic()
	for i, code := range codes {
		p := kmsg.NewProduceResponseTopicPartition()
		p.Partition, p.ErrorCode = int32(i), code
		topic.Partitions = append(topic.Partitions, p)
	}
	resp.Topics = append(resp.Topics, topic)
	return resp
}

// Sequences go on from batch to batch of a partition, and stay with a batch that is sent again.
func TestPerfSenderSequences(t *testing.T) {
	s := testSender(&bytes.Buffer{})
	s.next[1] = 1<<31 - 2
	for _, test := range []struct {
		partition int32
		n         int
		want      int32
	}{{0, 3, 0}, {0, 2, 3}, {1, 4, 1<<31 - 2}, {1, 1, 2}, {0, 1, 5}} {
		p := testParcel(t, 0, test.partition, 0, test.n)
		s.stamp(p)
		s.stamp(p)
		b := record.Batch(p.batch)
		if b.BaseSequence() != test.want || b.ProducerID() != 9 || !b.ChecksumValid() {
			t.Errorf("partition %d: sequence %d of producer %d, checksum %v; want %d", test.partition, b.BaseSequence(), b.ProducerID(), b.ChecksumValid(), test.want)
		}
	}
}

func TestPerfSenderSettles(t *testing.T) {
	var complaints bytes.Buffer
	s := testSender(&complaints)
	parcels := func() []*perfParcel { return []*perfParcel{testParcel(t, 0, 0, 0, 4), testParcel(t, 1, 1, 4, 2)} }
	moved, order, large, again := kerr.NotLeaderForPartition.Code, kerr.OutOfOrderSequenceNumber.Code, kerr.MessageTooLarge.Code, kerr.DuplicateSequenceNumber.Code
	for _, test := range []struct {
		name          string
		sent          perfSent
		failed, total int // batches to be sent again; records acknowledged
		lost          int
	}{
		{"acknowledged", perfSent{resp: answer(0, again)}, 0, 6, 0},
		{"a leader that moved, and what was sent behind", perfSent{resp: answer(moved, order)}, 2, 0, 0},
		{"out of order by itself", perfSent{resp: answer(0, order)}, 0, 4, 2},
		{"too large", perfSent{resp: answer(large, 0)}, 0, 2, 4},
		{"a connection that broke", perfSent{err: bytes.ErrTooLarge}, 2, 0, 0},
	} {
		complaints.Reset()
		s.renew = false
		before, steady := s.run.stats.count, s.run.steady.count
		test.sent.parcels = parcels()
		failed := s.settle(test.sent, nil)
		if got := int(s.run.stats.count - before); len(failed) != test.failed || got != test.total {
			t.Errorf("%s: %d failed, %d acknowledged; want %d and %d", test.name, len(failed), got, test.failed, test.total)
		}
		if got := strings.Count(complaints.String(), "\n"); got != test.lost || s.renew != (test.lost > 0) {
			t.Errorf("%s: %d complaints, want %d; new producer %v\n%s", test.name, got, test.lost, s.renew, complaints.String())
		}
		if want := int64(max(0, test.total-3)); test.name == "acknowledged" && s.run.steady.count-steady != want {
			t.Errorf("%s: %d records after the warm-up, want %d", test.name, s.run.steady.count-steady, want)
		}
	}
	// There is an end to trying.
	p := testParcel(t, 0, 0, 0, 1)
	for range s.config.retries {
		if failed := s.settle(perfSent{parcels: []*perfParcel{p}, resp: answer(moved)}, nil); len(failed) != 1 {
			t.Fatalf("given up after %d attempts", p.attempts)
		}
	}
	if failed := s.settle(perfSent{parcels: []*perfParcel{p}, resp: answer(moved)}, nil); len(failed) != 0 || !s.renew {
		t.Errorf("sent again after %d attempts of %d", p.attempts, s.config.retries)
	}
}
