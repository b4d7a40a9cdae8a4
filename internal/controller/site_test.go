package controller

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/metadata"
	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/storage"
	"github.com/quire-log/quire/internal/vfs"
)

// A site is a controller on a file system of its own, started and stopped as a node does it.
type site struct {
	t   *testing.T
	fs  *vfs.Mem
	log *storage.Log
	*Controller
	// previous is the broker epoch that a clean stop leaves behind; -1 after a kill.
	previous int64
	epoch    int64
	options  Options
	applied  []*metadata.Delta
}

var brokerDir = kmeta.UUID{7, 7}

func newSite(t *testing.T) *site {
	s := &site{t: t, fs: vfs.NewMem(), previous: -1}
	if err := errors.Join(s.fs.MkdirAll(testDir, 0o755), s.fs.SyncDir("data"), s.fs.SyncDir(".")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if s.Controller != nil {
			s.kill()
		}
	})
	return s
}

func (s *site) open() {
	s.t.Helper()
	log, err := storage.OpenLog(storage.LogOptions{
		FS: s.fs, Dir: testDir, Partition: storage.TopicPartition{Topic: metadataTopic}, TopicID: storage.TopicID{15: 1},
		Config: storage.DefaultConfig(), Metadata: true,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.log = log
	o := s.options
	o.NodeID, o.FS, o.Log, o.Dir = 1, s.fs, log, testDir
	o.Apply = func(_ *metadata.Image, d *metadata.Delta) error {
		s.applied = append(s.applied, d)
		return nil
	}
	if s.Controller, err = Open(o); err != nil {
		log.Abandon()
		s.t.Fatal(err)
	}
}

// start opens the controller, registers the node's broker and lets it lead.
func (s *site) start() {
	s.t.Helper()
	s.open()
	ctx := s.t.Context()
	var err error
	s.epoch, err = s.Register(ctx, Registration{
		BrokerID: 1, PreviousEpoch: s.previous, Directories: []kmeta.UUID{brokerDir},
		Endpoints:           []metadata.Endpoint{{Listener: "PLAINTEXT", Host: "127.0.0.1", Port: 9092}},
		ControllerEndpoints: []metadata.Endpoint{{Listener: "CONTROLLER", Host: "127.0.0.1", Port: 9093}},
	})
	if err == nil {
		err = s.Unfence(ctx, 1)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) stop() {
	s.t.Helper()
	if err := s.ControlledShutdown(context.Background(), 1); err != nil {
		s.t.Error(err)
	}
	s.Close()
	if err := s.log.Close(); err != nil {
		s.t.Error(err)
	}
	s.previous, s.Controller = s.epoch, nil
}

func (s *site) kill() {
	s.Close()
	s.log.Abandon()
	s.previous, s.Controller = -1, nil
}

// written returns the batches of the log from an offset on, each as the JSON of its records.
func (s *site) written(from metadata.Offset) (batches [][]string) {
	s.t.Helper()
	for from < s.log.EndOffset() {
		data, err := s.log.Read(from, storage.ReadOptions{MaxBytes: 1 << 20, Limit: s.log.EndOffset(), MinOneBatch: true})
		if err != nil {
			s.t.Fatal(err)
		}
		var buf bytes.Buffer
		for _, r := range data.Regions {
			if _, err := r.WriteTo(&buf); err != nil {
				s.t.Fatal(err)
			}
		}
		data.Release()
		for rest := buf.Bytes(); len(rest) > 0; {
			b, err := record.FirstBatch(rest)
			if err != nil {
				break
			}
			rest = rest[len(b):]
			if b.LastOffset() < from {
				continue
			}
			batches = append(batches, describe(s.t, b))
			from = b.LastOffset() + 1
		}
	}
	return batches
}

// describe shows a batch's records as kafka-dump-log does.
func describe(t *testing.T, b record.Batch) (out []string) {
	t.Helper()
	var r record.Reader
	if err := r.Reset(b, 1<<20); err != nil {
		t.Fatal(err)
	}
	for r.Next() {
		if b.IsControl() {
			typ, err := record.ParseControlKey(r.Record().Key)
			if err != nil {
				t.Fatal(err)
			}
			c, v, err := kmeta.ReadControl(int16(typ), r.Record().Value)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, c.TypeName()+" "+string(kmeta.AppendControlJSON(nil, c, v)))
			continue
		}
		rec, v, err := kmeta.ReadValue(r.Record().Value)
		if err != nil {
			t.Fatal(err)
		}
		_, body, _ := strings.Cut(string(kmeta.AppendJSON(nil, rec, v)), `"data":`)
		out = append(out, fmt.Sprintf("%s v%d %s", rec.TypeName(), v, strings.TrimSuffix(body, "}")))
	}
	return out
}

func (s *site) create(name string, partitions int32) *metadata.Topic {
	s.t.Helper()
	r := kmsg.NewPtrCreateTopicsRequest()
	r.Version = 7
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, 1
	r.Topics = append(r.Topics, t)
	if a := s.CreateTopics(s.t.Context(), r).Topics[0]; a.ErrorCode != 0 {
		s.t.Fatalf("create %s: %d %v", name, a.ErrorCode, a.ErrorMessage)
	}
	return s.Image().Topic(name)
}
