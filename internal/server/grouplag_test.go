package server

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/storage"
	"github.com/quire-log/quire/internal/wire"
)

// A lag is of one moment: while records come and go, and a consumer that is always at the end commits where it is, nothing is ahead of
// anything that it must be behind.
func TestGroupLagOfOneMoment(t *testing.T) {
	n, c := groupsNode(t, "")
	p := n.replicas.Partition("t", 0)
	c.ask(commitOf("g", "t", 0))
	stop := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() { // who produces, and deletes all but the last records
		defer close(stop)
		for i := range 4000 {
			a, err := p.Append(pack(t, nil, "a", "b"), 1, storage.AppendOptions{})
			if err != nil {
				t.Error(err)
				return
			}
			if i%2 == 1 {
				if _, err := p.DeleteRecords(a.BaseOffset); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	done.Go(func() { // who consumes
		for {
			select {
			case <-stop:
				return
			default:
			}
			req := wire.NewRequest(int16(kmsg.OffsetCommit), 9, nil, commitOf("g", "t", int64(p.HighWatermark())).AppendTo(nil))
			n.handleOffsetCommit(t.Context(), req).Done()
		}
	})
	for looked := 0; ; looked++ {
		lags, complete := n.groupLags(10, "g")
		if len(lags) != 1 || !complete {
			t.Fatalf("%+v, %v", lags, complete)
		}
		l := lags[0]
		if l.LogStart > l.LastStable || l.LastStable > l.LogEnd || l.Committed > l.LogEnd || l.Records < 0 || l.Records > l.LogEnd-l.LogStart {
			t.Fatalf("look %d: %+v", looked, l)
		}
		select {
		case <-stop:
			done.Wait()
			return
		default:
		}
	}
}

// The lag of a group is what is left to read and how old that is; never negative, and counted from the log's start when what was
// committed is gone.
func TestGroupLag(t *testing.T) {
	n, c := groupsNode(t, "", "admin.listener", "127.0.0.1:0")
	for range 4 {
		c.put("t", pack(t, nil, "a", "b", "c"))
	}
	b := record.NewBuilder()
	b.Add(record.Record{Timestamp: time.Now().Add(-time.Hour).UnixMilli(), Value: []byte("old")})
	old, err := b.Batch(nil)
	if err != nil {
		t.Fatal(err)
	}
	c.put("t", old)
	for _, q := range []struct {
		committed, records int64
		aged               bool // an hour, or nearly nothing
	}{{0, 13, false}, {7, 6, false}, {12, 1, true}, {13, 0, false}, {99, 0, false}} {
		c.ask(commitOf("g", "t", q.committed))
		lags, complete := n.groupLags(10, "")
		if len(lags) != 1 || !complete {
			t.Fatalf("%+v, %v", lags, complete)
		}
		l := lags[0]
		age := time.Duration(l.Seconds * float64(time.Second))
		if l.Records != q.records || !l.Exact || l.Committed != q.committed || (age > 59*time.Minute) != q.aged || age > 61*time.Minute {
			t.Errorf("committed %d: %+v", q.committed, l)
		}
	}
	if _, err := n.replicas.Partition("t", 0).DeleteRecords(6); err != nil {
		t.Fatal(err)
	}
	c.ask(commitOf("g", "t", 2))
	if lags, _ := n.groupLags(10, ""); lags[0].Records != 7 {
		t.Errorf("after deletion: %+v", lags)
	}
	c.ask(commitOf("h", "t", 2))
	if lags, complete := n.groupLags(1, ""); len(lags) != 1 || complete {
		t.Errorf("%d lags of two, complete %v", len(lags), complete)
	}
	get := func(path string) string {
		r, err := http.Get("http://" + n.AdminAddr() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	// Kafka's names of groups are any bytes. None of them may blind the metrics, or pass for another.
	for _, group := range []string{"bad\xff", "bad\xfe", "bad\ufffd", `"bad\xff"`} {
		c.ask(commitOf(group, "t", 2))
	}
	text := get("/metrics")
	if n := strings.Count(text, "quire_group_committed_offset{"); n != 6 {
		t.Errorf("the committed offsets of %d groups, want 6", n)
	}
	for _, want := range []string{`quire_group_lag_records{group="g",partition="0",topic="t"} 7`, `quire_group_committed_offset{group="h",partition="0",topic="t"} 2`, "quire_group_lag_complete 1"} {
		if !strings.Contains(text, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
	var events []map[string]any
	if err := json.Unmarshal([]byte(get("/groups/events?group=g")), &events); err != nil {
		t.Error(err)
	}
}
