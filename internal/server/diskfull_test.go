package server

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fillVolume takes what is left of a volume, to the last byte, however often more is given up.
func fillVolume(t *testing.T, name string, until func() bool) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 16; ; {
		_, err := f.Write(make([]byte, size))
		switch {
		case err == nil:
		case !errors.Is(err, syscall.ENOSPC):
			t.Fatal(err)
		case size > 1:
			size /= 2
		case until():
			return
		default:
			size = 1 << 16
			time.Sleep(time.Millisecond)
		}
	}
}

// A node on a volume without one free byte is killed, or stopped, and starts again: it serves all but produce, which begins by itself when
// there is room.
func TestStartWithoutAFreeByte(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(*Node)
	}{
		{"killed", (*Node).Abort},
		{"stopped", func(n *Node) { _ = n.Close(t.Context()) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			if err := syscall.Mount("tmpfs", root, "tmpfs", 0, "size=24m"); errors.Is(err, syscall.EPERM) {
				t.Skipf("needs to mount a small tmpfs: %v", err)
			} else if err != nil {
				t.Fatal(err)
			}
			defer syscall.Unmount(root, syscall.MNT_DETACH)
			data, filler := filepath.Join(root, "data"), filepath.Join(root, "filler")
			start := func() *Node {
				t.Helper()
				n, err := Start(t.Context(), Options{Properties: map[string]string{
					"listeners": "PLAINTEXT://127.0.0.1:0", "admin.listener": "", "log.dirs": data, "disk.check.interval.ms": "5", "file.delete.delay.ms": "0",
				}})
				if err != nil {
					entries, _ := os.ReadDir(data)
					t.Fatalf("start: %v; there are %v", err, entries)
				}
				return n
			}
			there := func(name string) bool {
				_, err := os.Stat(filepath.Join(data, name))
				return err == nil
			}
			n := start()
			defer func() { n.Abort() }()
			dial := func() *dataClient { return dialNode(t, n) }
			cl := dial()
			cl.topic("keep", 2)
			cl.topic("goes", 1)
			for range 10 {
				cl.put("keep", pack(t, nil, "a", "b", "c"))
			}
			eventually(t, "the reserves are made", func() bool { return there(".quire-reserve") && there(".quire-reserve-start") })

			produce := func() int16 {
				return cl.ask(produceRequest(9, "keep", [16]byte{}, -1, pack(t, nil, "x"))).(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode
			}
			fill := func() {
				t.Helper()
				fillVolume(t, filler, func() bool { return !there(".quire-reserve") })
			}
			for round := range 3 {
				eventually(t, "the start's reserve is made", func() bool { return there(".quire-reserve-start") })
				fill()
				c.end(n)
				fill() // what the end gave back, too
				n = start()
				cl = dial()
				if got := cl.ask(fetchOf(12, fetchTopic("keep", [16]byte{}, 20))).(*kmsg.FetchResponse).Topics[0].Partitions[0]; got.ErrorCode != 0 || got.HighWatermark != 30 || len(got.RecordBatches) == 0 {
					t.Fatalf("round %d: fetch: %+v", round, got)
				}
				if code := produce(); code != kerr.KafkaStorageError.Code || !kerr.KafkaStorageError.Retriable {
					t.Errorf("round %d: produce on the full disk: error %d", round, code)
				}
				del := version(kmsg.NewPtrDeleteRecordsRequest(), 2)
				del.TimeoutMillis = 5000
				dt := kmsg.NewDeleteRecordsRequestTopic()
				dt.Topic = "keep"
				dp := kmsg.NewDeleteRecordsRequestTopicPartition()
				dp.Offset = int64(round + 1)
				dt.Partitions = append(dt.Partitions, dp)
				del.Topics = append(del.Topics, dt)
				if got := cl.ask(del).(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0]; got.ErrorCode != 0 || got.LowWatermark != int64(round+1) {
					t.Errorf("round %d: DeleteRecords: %+v", round, got)
				}
			}
			gone := version(kmsg.NewPtrDeleteTopicsRequest(), 5)
			gone.TimeoutMillis, gone.TopicNames = 5000, []string{"goes"}
			if got := cl.ask(gone).(*kmsg.DeleteTopicsResponse).Topics[0]; got.ErrorCode != 0 {
				t.Errorf("DeleteTopics: %+v", got)
			}
			// A topic that is made without a free byte is refused, or serves as soon as there is room.
			fillVolume(t, filler, func() bool { return true })
			late := version(kmsg.NewPtrCreateTopicsRequest(), 7)
			late.TimeoutMillis = 5000
			lt := kmsg.NewCreateTopicsRequestTopic()
			lt.Topic, lt.NumPartitions, lt.ReplicationFactor = "late", 1, 1
			late.Topics = append(late.Topics, lt)
			made := cl.ask(late).(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode
			t.Logf("creating a topic: error %d", made)
			if made != 0 {
				if err := kerr.ErrorForCode(made); !kerr.IsRetriable(err) {
					t.Errorf("creating a topic without a free byte: %v", err)
				}
			}
			if err := os.Remove(filler); err != nil {
				t.Fatal(err)
			}
			eventually(t, "produce is taken again", func() bool { return produce() == 0 })
			if made != 0 {
				cl.topic("late", 1)
			}
			eventually(t, "produce to the late topic is taken", func() bool {
				return cl.ask(produceRequest(9, "late", [16]byte{}, -1, pack(t, nil, "x"))).(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode == 0
			})
			if err := n.Close(t.Context()); err != nil {
				t.Error(err)
			}
			n = start()
			cl = dial()
			if got := cl.ask(fetchOf(12, fetchTopic("keep", [16]byte{}, 20))).(*kmsg.FetchResponse).Topics[0].Partitions[0]; got.HighWatermark != 31 {
				t.Errorf("after all: %+v", got)
			}
		})
	}
}
