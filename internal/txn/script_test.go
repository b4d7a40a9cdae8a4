package txn

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/quire-log/quire/internal/kmeta"
)

// TestScripts runs the conversations in testdata/script.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/script", func(t *testing.T, path string) {
		b := newBench(t)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			b.t = t
			b.out.Reset()
			b.command(t, d)
			for _, e := range b.events {
				fmt.Fprintf(&b.out, "event %s %s: %s\n", e.TransactionalID, e.Kind, e.Cause)
			}
			b.events = nil
			if b.out.Len() == 0 {
				return "nothing\n"
			}
			return b.out.String()
		})
	})
}

// command does one thing:
//
//	version N               the cluster's transaction.version
//	epoch id=X epoch=N      writes the id's record anew with another epoch, as if by many transactions
//	init id=X [timeout=MS] [producer=P/E]
//	add id=X producer=P/E partitions=(t-0,…) [v2]
//	verify id=X producer=P/E partitions=(t-0)
//	end id=X producer=P/E commit|abort [v2]
//	written                 the markers that were asked for first are in their logs
//	pass D                  time goes by
//	fail                    the next append fails
//	restart                 a coordinator that knows the log alone
//	describe id=X, list [states=(…)] [longer=MS] [pattern=RE]
func (b *bench) command(t *testing.T, d *datadriven.TestData) {
	var id, producer string
	var partitions []string
	timeout, v2 := int32(60000), d.HasArg("v2")
	d.MaybeScanArgs(t, "id", &id)
	d.MaybeScanArgs(t, "producer", &producer)
	d.MaybeScanArgs(t, "timeout", &timeout)
	for _, a := range d.CmdArgs {
		if a.Key == "partitions" {
			partitions = a.Vals
		}
	}
	p := Producer{TransactionalID: id, ID: noProducer, Epoch: noEpoch}
	if x, y, ok := strings.Cut(producer, "/"); ok {
		n, _ := strconv.ParseInt(x, 10, 64)
		e, _ := strconv.ParseInt(y, 10, 16)
		p.ID, p.Epoch = n, int16(e)
	}
	protocol := V0
	if v2 {
		protocol = V2
	}
	var list []kmeta.TxnPartitions
	for _, s := range partitions {
		i := strings.LastIndexByte(s, '-')
		n, _ := strconv.Atoi(s[i+1:])
		list = append(list, kmeta.TxnPartitions{Topic: s[:i], PartitionIDs: []int32{int32(n)}})
	}
	asked := len(b.markers)
	switch d.Cmd {
	case "version":
		n, _ := strconv.Atoi(d.CmdArgs[0].Key)
		b.version = int16(n)
	case "epoch":
		var epoch int16
		d.ScanArgs(t, "epoch", &epoch)
		n := b.s.ids[id].transit
		n.epoch = epoch
		b.do(b.s.write(id, n, noEpoch, nil))
	case "init":
		r := b.init(Init{TransactionalID: id, TimeoutMs: timeout, ProducerID: p.ID, ProducerEpoch: p.Epoch})
		fmt.Fprintf(&b.out, "%s", codeName(r.Code))
		if r.Code == 0 {
			fmt.Fprintf(&b.out, ": producer %d/%d", r.ProducerID, r.ProducerEpoch)
		}
		fmt.Fprintln(&b.out)
	case "add":
		fmt.Fprintln(&b.out, codeName(b.add(p, list, protocol)))
	case "verify":
		fmt.Fprintln(&b.out, codeName(b.s.VerifyPartition(p, list[0].Topic, list[0].PartitionIDs[0])))
	case "end":
		r := b.end(End{p, d.HasArg("commit"), protocol})
		fmt.Fprintf(&b.out, "%s", codeName(r.Code))
		if r.ProducerID >= 0 {
			fmt.Fprintf(&b.out, ": goes on as %d/%d", r.ProducerID, r.ProducerEpoch)
		}
		fmt.Fprintln(&b.out)
	case "written":
		fmt.Fprintln(&b.out, codeName(b.written()))
		asked = len(b.markers)
	case "pass":
		n, err := time.ParseDuration(d.CmdArgs[0].Key)
		if err != nil {
			t.Fatal(err)
		}
		b.pass(n)
	case "fail":
		b.fail = true
	case "restart":
		b.start()
		asked = 0
	case "describe":
		r := b.s.Describe(id)
		if r.Code != 0 {
			fmt.Fprintln(&b.out, codeName(r.Code))
			break
		}
		fmt.Fprintf(&b.out, "%s producer=%d/%d timeout=%d since=%d %s\n", r.State, r.ProducerID, r.ProducerEpoch, r.TimeoutMs, r.StartMs, showPartitions(r.Partitions))
	case "list":
		f := Filter{LongerThanMs: -1}
		for _, a := range d.CmdArgs {
			switch a.Key {
			case "states":
				for _, v := range a.Vals {
					s, _ := StateNamed(v)
					f.States = append(f.States, s)
				}
			case "longer":
				f.LongerThanMs, _ = strconv.ParseInt(a.Vals[0], 10, 64)
			case "pattern":
				var code int16
				if f.Pattern, code = CompilePattern(a.Vals[0]); code != 0 {
					fmt.Fprintln(&b.out, codeName(code))
					return
				}
			}
		}
		for _, l := range b.s.List(b.now, f) {
			fmt.Fprintf(&b.out, "%s %d %s\n", l.TransactionalID, l.ProducerID, l.State)
		}
	default:
		t.Fatalf("%s: no such command", d.Cmd)
	}
	for _, m := range b.markers[min(asked, len(b.markers)):] {
		outcome := "abort"
		if m.Commit {
			outcome = "commit"
		}
		fmt.Fprintf(&b.out, "markers %s: %s by %d/%d in %s\n", m.TransactionalID, outcome, m.ProducerID, m.ProducerEpoch, showPartitions(m.Partitions))
	}
}
