package storage

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/datadriven"

	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/vfs"
)

// A script is a log in memory that testdata/* talk to. -rewrite writes the answers anew.
//
//	log key=value…                     a new log, with settings by their topic names
//	set key=value…                     changes them
//	append [records=N] [time=MS] [bytes=N] [leader=EPOCH] [producer=ID epoch=N sequence=N] [txn] [verify]
//	marker producer=ID [epoch=N] abort|commit [coordinator=N] [tv2]
//	read offset=N [max=N] [limit=N] [min-one]; time ms=N; maxtime
//	flush; roll; truncate to=N; delete-records to=N; retain [hw=N]; assign epoch=N
//	restart [crash] [start=N] [point=N]  with lines of damage done in between:
//	                                   FILE cut N, zeros N, garbage N, flip POS, empty, remove
//	files; producers; stable [hw=N]; aborted [from=N] [to=N]; epochs; epoch-end epoch=N
type script struct {
	t      *testing.T
	mem    *vfs.Mem
	cfg    Config
	l      *Log
	events []string
}

func (s *script) open(clean bool, start, point Offset) error {
	o := testOptions(s.mem, s.cfg)
	o.Clean, o.LogStart, o.RecoveryPoint = clean, start, point
	o.Events = func(e Event) {
		if e.Kind != "roll" || e.Offset > 0 {
			s.events = append(s.events, fmt.Sprintf("%s at %d: %s", e.Kind, e.Offset, e.Cause))
		}
	}
	l, err := OpenLog(o)
	s.l = l
	return err
}

func args(d *datadriven.TestData) map[string]string {
	all := map[string]string{}
	for _, a := range d.CmdArgs {
		v := ""
		if len(a.Vals) > 0 {
			v = a.Vals[0]
		}
		all[a.Key] = v
	}
	return all
}

func (s *script) number(a map[string]string, key string, otherwise int64) int64 {
	v, ok := a[key]
	if !ok {
		return otherwise
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		s.t.Fatalf("%s=%s: %v", key, v, err)
	}
	return n
}

func (s *script) run(d *datadriven.TestData) string {
	var out strings.Builder
	err := s.command(d, args(d), &out)
	for _, e := range s.events {
		fmt.Fprintln(&out, e)
	}
	s.events = nil
	if err != nil {
		fmt.Fprintf(&out, "error: %v\n", err)
	}
	if out.Len() == 0 {
		return "ok\n"
	}
	return out.String()
}

func (s *script) command(d *datadriven.TestData, a map[string]string, out *strings.Builder) error {
	switch d.Cmd {
	case "log":
		if s.l != nil {
			s.l.Abandon()
		}
		s.mem, s.cfg = newMem(s.t), DefaultConfig()
		s.cfg.RetentionMs, s.cfg.TimestampAfterMaxMs, s.cfg.ProducerExpirationMs = -1, 1<<62, 1<<62
		s.set(a)
		return s.open(false, 0, 0)
	case "set":
		s.set(a)
		s.l.SetConfig(s.cfg)
	case "append":
		return s.append(a, out)
	case "marker":
		_, abort := a["abort"]
		m := record.AppendEndTxnMarker(nil, s.number(a, "producer", 0), int16(s.number(a, "epoch", 0)), !abort, int32(s.number(a, "coordinator", 0)), s.number(a, "time", 1000))
		_, tv2 := a["tv2"]
		r, err := s.l.Append(m, AppendOptions{LeaderEpoch: 0, Origin: FromCoordinator, NewEpochPerTransaction: tv2})
		if err == nil {
			fmt.Fprintf(out, "%d\n", r.BaseOffset)
		}
		return err
	case "read":
		_, one := a["min-one"]
		return s.read(Offset(s.number(a, "offset", 0)), ReadOptions{MaxBytes: s.number(a, "max", 1<<20), Limit: Offset(s.number(a, "limit", 1<<62)), MinOneBatch: one}, out)
	case "time", "maxtime":
		var r TimestampOffset
		var err error
		if d.Cmd == "time" {
			r, err = s.l.OffsetForTime(s.number(a, "ms", 0))
		} else {
			r, err = s.l.OffsetOfMaxTimestamp()
		}
		fmt.Fprintf(out, "offset %d, time %d\n", r.Offset, r.Timestamp)
		return err
	case "flush":
		return s.l.Flush()
	case "roll":
		return s.l.Roll()
	case "truncate":
		if err := s.l.Truncate(Offset(s.number(a, "to", 0))); err != nil {
			return err
		}
		fmt.Fprintf(out, "%d to %d\n", s.l.StartOffset(), s.l.EndOffset())
	case "delete-records":
		start, err := s.l.DeleteRecords(Offset(s.number(a, "to", 0)))
		if err == nil {
			fmt.Fprintf(out, "log start %d\n", start)
		}
		return err
	case "retain":
		n, err := s.l.DeleteOldSegments(Offset(s.number(a, "hw", int64(s.l.EndOffset()))))
		fmt.Fprintf(out, "%d segments deleted; %d to %d\n", n, s.l.StartOffset(), s.l.EndOffset())
		return err
	case "restart":
		_, crash := a["crash"]
		start := Offset(s.number(a, "start", int64(s.l.StartOffset())))
		if crash {
			s.l.Abandon()
		} else if err := s.l.Close(); err != nil {
			return err
		}
		if err := s.damage(d.Input); err != nil {
			return err
		}
		s.events = nil
		if err := s.open(!crash, start, Offset(s.number(a, "point", 0))); err != nil {
			return err
		}
		fmt.Fprintf(out, "%d to %d\n", s.l.StartOffset(), s.l.EndOffset())
	case "files":
		synctest.Wait() // for the flush that a roll began
		entries, err := s.mem.ReadDir("/data/orders-3")
		for _, e := range entries {
			if info, err := e.Info(); err == nil && e.Name() != partitionMetaName {
				fmt.Fprintf(out, "%s %d\n", e.Name(), info.Size())
			}
		}
		return err
	case "producers":
		for _, p := range infoStrings(s.l) {
			fmt.Fprintln(out, p)
		}
	case "stable":
		fmt.Fprintln(out, s.l.LastStableOffset(Offset(s.number(a, "hw", int64(s.l.EndOffset())))))
	case "aborted":
		all, err := s.l.AbortedTransactions(Offset(s.number(a, "from", 0)), Offset(s.number(a, "to", 1<<62)))
		for _, t := range all {
			fmt.Fprintf(out, "producer %d from %d\n", t.ProducerID, t.FirstOffset)
		}
		return err
	case "epochs":
		fmt.Fprintln(out, s.l.epochs.list())
	case "assign":
		return s.l.AssignEpoch(Epoch(s.number(a, "epoch", 0)))
	case "epoch-end":
		e, end := s.l.EndOffsetForEpoch(Epoch(s.number(a, "epoch", 0)))
		fmt.Fprintln(out, e, end)
	default:
		s.t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
	}
	return nil
}

func (s *script) set(a map[string]string) {
	for key, value := range a {
		n := s.number(a, key, 0)
		if f := intSettings[key]; f != nil {
			f(&s.cfg, n)
			continue
		}
		switch key {
		case "retention.ms":
			s.cfg.RetentionMs = n
		case "retention.bytes":
			s.cfg.RetentionBytes = n
		default:
			s.t.Fatalf("unknown setting %s=%s", key, value)
		}
	}
}

func (s *script) append(a map[string]string, out *strings.Builder) error {
	change := []func(*record.Builder){}
	if _, ok := a["producer"]; ok {
		change = append(change, by(s.number(a, "producer", 0), int16(s.number(a, "epoch", 0)), int32(s.number(a, "sequence", 0))))
	}
	if _, ok := a["txn"]; ok {
		change = append(change, transactional)
	}
	n := int(s.number(a, "records", 1))
	b := batch(n, s.number(a, "time", 1000), change...)
	if size := int(s.number(a, "bytes", 0)); size > len(b) {
		builder := record.NewBuilder()
		for _, f := range change {
			f(builder)
		}
		for i := range n {
			r := record.Record{Timestamp: s.number(a, "time", 1000), Value: []byte{}}
			if i == 0 {
				r.Value = make([]byte, max(size-len(b), 0))
			}
			builder.Add(r)
		}
		var err error
		if b, err = builder.Batch(nil); err != nil {
			return err
		}
	}
	_, verify := a["verify"]
	r, err := s.l.Append(b, AppendOptions{LeaderEpoch: Epoch(s.number(a, "leader", 0)), VerifyUnknownProducer: verify})
	if err != nil {
		return err
	}
	segs := s.l.list()
	in := segs[len(segs)-1]
	for _, seg := range segs {
		if seg.base <= r.BaseOffset {
			in = seg
		}
	}
	dup := ""
	if r.Duplicate {
		dup = " (duplicate)"
	}
	fmt.Fprintf(out, "%d-%d in %s%s\n", r.BaseOffset, r.LastOffset, in.name(logSuffix), dup)
	return nil
}

func (s *script) read(offset Offset, o ReadOptions, out *strings.Builder) error {
	d, err := s.l.Read(offset, o)
	if err != nil {
		return err
	}
	defer d.Release()
	b := make([]byte, d.Size)
	if d.Size > 0 {
		if err := readFull(d.Regions[0].File, b, d.Regions[0].Pos); err != nil {
			return err
		}
	}
	var spans []string
	for len(b) > 0 {
		e, err := record.FirstEntry(b)
		if err != nil {
			spans = append(spans, fmt.Sprintf("and %d bytes of another", len(b)))
			break
		}
		spans = append(spans, fmt.Sprintf("%d-%d", e.BaseOffset(), e.LastOffset()))
		b = b[len(e):]
	}
	fmt.Fprintf(out, "[%s] below %d\n", strings.Join(spans, " "), d.UpperBound)
	return nil
}

// damage does to files what the lines under a restart say.
func (s *script) damage(input string) error {
	for line := range strings.Lines(input) {
		w := strings.Fields(line)
		name := "/data/orders-3/" + w[0]
		if w[1] == "remove" {
			if err := s.mem.Remove(name); err != nil {
				return err
			}
			continue
		}
		f, err := s.mem.OpenFile(name, createFlags, 0o644)
		if err != nil {
			return err
		}
		size, _ := f.Size()
		n := int64(0)
		if len(w) > 2 {
			n, err = strconv.ParseInt(w[2], 10, 64)
		}
		switch w[1] {
		case "cut":
			err = errors.Join(err, f.Truncate(max(size-n, 0)))
		case "empty":
			err = f.Truncate(0)
		case "zeros":
			err = errors.Join(err, f.Truncate(size+n))
		case "garbage":
			_, err = f.WriteAt([]byte(strings.Repeat("\xff\x5a\x01", int(n))), size)
		case "flip":
			var b [1]byte
			_, err = f.ReadAt(b[:], n)
			b[0] ^= 0x10
			_, werr := f.WriteAt(b[:], n)
			err = errors.Join(err, werr)
		default:
			err = fmt.Errorf("unknown damage %s", w[1])
		}
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}

func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/log", func(t *testing.T, path string) {
		synctest.Test(t, func(t *testing.T) { // the time is 2000-01-01
			s := &script{t: t}
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string { return s.run(d) })
			s.l.Abandon()
		})
	})
}
