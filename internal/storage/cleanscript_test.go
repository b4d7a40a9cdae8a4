package storage

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/datadriven"

	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/vfs"
)

// A cleanScript is a compacted log that testdata/clean talks to. -rewrite writes the answers anew.
//
//	log [segment.bytes=N] [delete.retention.ms=N] [min.compaction.lag.ms=N] [max.compaction.lag.ms=N] [percent=N, of min.cleanable.dirty.ratio]
//	put [time=MS] [producer=ID sequence=N] [txn] [zstd]    a batch of the lines below, key value; null is null, - no key
//	commit|abort producer=ID; roll; delete-records to=N
//	clean now=MS [keys=N] [hw=N]                           plans, and cleans if it is due
//	dump                                                   every batch and its records
type cleanScript struct {
	t       *testing.T
	mem     *vfs.Mem
	cfg     Config
	l       *Log
	cleaned Offset
}

func (s *cleanScript) run(d *datadriven.TestData) string {
	a, in := args(d), &script{t: s.t}
	n := func(key string, otherwise int64) int64 { return in.number(a, key, otherwise) }
	fail := func(err error) string { return fmt.Sprintf("error: %v\n", err) }
	switch d.Cmd {
	case "log":
		if s.l != nil {
			s.l.Abandon()
		}
		s.mem, s.cfg, s.cleaned = newMem(s.t), DefaultConfig(), -1
		s.cfg.Compact, s.cfg.Delete, s.cfg.MinCleanableDirtyRatio = true, false, float64(n("percent", 1))/100
		s.cfg.TimestampAfterMaxMs, s.cfg.ProducerExpirationMs, s.cfg.SegmentMs = 1<<62, 1<<62, 1<<62
		s.cfg.SegmentBytes = int32(n("segment.bytes", 1<<30))
		s.cfg.DeleteRetentionMs = n("delete.retention.ms", 86400000)
		s.cfg.MinCompactionLagMs = n("min.compaction.lag.ms", 0)
		s.cfg.MaxCompactionLagMs = n("max.compaction.lag.ms", 1<<62)
		s.l = openTest(s.t, s.mem, s.cfg)
	case "put":
		b := record.NewBuilder()
		if _, ok := a["producer"]; ok {
			b.ProducerID, b.ProducerEpoch, b.BaseSequence = n("producer", 0), 0, int32(n("sequence", 0))
		}
		if _, ok := a["txn"]; ok {
			b.Attributes |= record.AttrTransactional
		}
		if _, ok := a["zstd"]; ok {
			b.Codec = record.Zstd
		}
		for line := range strings.Lines(d.Input) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
			r := record.Record{Timestamp: n("time", 1000), Key: []byte(key), Value: []byte(value)}
			if value == "null" {
				r.Value = nil
			}
			if key == "-" {
				r.Key = nil
			}
			b.Add(r)
		}
		bytes, err := b.Batch(nil)
		var at Appended
		if err == nil {
			at, err = s.l.Append(bytes, AppendOptions{Origin: FromCoordinator}) // so that a record without key gets in, as before the topic was compacted
		}
		if err != nil {
			return fail(err)
		}
		return fmt.Sprintf("%d-%d\n", at.BaseOffset, at.LastOffset)
	case "commit", "abort":
		m := record.AppendEndTxnMarker(nil, n("producer", 0), 0, d.Cmd == "commit", 0, n("time", 1000))
		if _, err := s.l.Append(m, AppendOptions{Origin: FromCoordinator}); err != nil {
			return fail(err)
		}
	case "roll":
		if err := s.l.Roll(); err != nil {
			return fail(err)
		}
	case "delete-records":
		if _, err := s.l.DeleteRecords(Offset(n("to", 0))); err != nil {
			return fail(err)
		}
	case "clean":
		v, err := s.l.cleanView(s.cleaned, Offset(n("hw", int64(s.l.EndOffset()))))
		if err != nil {
			return fail(err)
		}
		p := planClean(n("now", 0), v)
		if !p.Due {
			return p.Why + "\n"
		}
		round := cleanRound{memory: (n("keys", 1000) + 2) * mapSlotSize, load: 1}
		end, stats, err := round.run(s.t.Context(), s.l, p.First, p.Limit, n("now", 0))
		if err != nil {
			return fail(err)
		}
		s.cleaned = end
		return fmt.Sprintf("%s\n%s\n", p.Why, &stats)
	case "dump":
		return s.dump()
	default:
		s.t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
	}
	return "ok\n"
}

func (s *cleanScript) dump() string {
	var out strings.Builder
	var r record.Reader
	for _, seg := range s.l.list() {
		fmt.Fprintln(&out, seg.name(logSuffix))
		f, err := seg.acquire()
		if err != nil {
			s.t.Fatal(err)
		}
		_, fault, err := walkEntries(f, seg.size.Load(), func(_ int64, e record.Entry) error {
			b := e.Batch()
			fmt.Fprintf(&out, "  %d-%d", b.BaseOffset(), b.LastOffset())
			if b.HasProducer() {
				fmt.Fprintf(&out, " producer %d sequence %d", b.ProducerID(), b.BaseSequence())
			}
			if b.Codec() != record.None {
				fmt.Fprintf(&out, " %v", b.Codec())
			}
			if b.HasDeleteHorizon() {
				fmt.Fprintf(&out, " horizon %d", b.BaseTimestamp())
			}
			if err := r.Reset(b, 1<<20); err != nil {
				return err
			}
			for r.Next() {
				rec := r.Record()
				switch {
				case b.IsControl():
					kind, _ := record.ParseControlKey(rec.Key)
					fmt.Fprintf(&out, " %s", [...]string{"abort", "commit"}[kind])
				case rec.Value == nil:
					fmt.Fprintf(&out, " %d:%s=null", rec.Offset, rec.Key)
				default:
					fmt.Fprintf(&out, " %d:%s=%s", rec.Offset, rec.Key, rec.Value)
				}
			}
			if b.Count() == 0 {
				fmt.Fprint(&out, " empty")
			}
			fmt.Fprintln(&out)
			return r.Err()
		})
		seg.release()
		if fault != nil || err != nil {
			s.t.Fatal(fault, err)
		}
	}
	return out.String()
}

func TestCleanScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/clean", func(t *testing.T, path string) {
		synctest.Test(t, func(t *testing.T) {
			s := &cleanScript{t: t}
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string { return s.run(d) })
			s.l.Abandon()
		})
	})
}
