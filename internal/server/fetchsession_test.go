package server

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"
)

func TestSessionEpochs(t *testing.T) {
	for e, want := range map[int32]int32{1: 2, math.MaxInt32 - 1: math.MaxInt32, math.MaxInt32: 1} {
		if got := nextSessionEpoch(e); got != want {
			t.Errorf("after epoch %d comes %d, want %d", e, got, want)
		}
	}
}

func partsOf(n int) []fetchPart {
	parts := make([]fetchPart, n)
	for i := range parts {
		parts[i].key = partitionKey{topic: "t", partition: int32(i)}
	}
	return parts
}

func TestSessionsGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFetchSessions(2)
		a, b := f.add(false, partsOf(3)), f.add(false, partsOf(5))
		if f.add(false, partsOf(9)) != nil {
			t.Error("a young session gave way")
		}
		time.Sleep(sessionEvictAge / 2)
		f.touch(a.id)
		f.touch(b.id)
		time.Sleep(sessionEvictAge/2 + time.Second)
		if f.add(false, partsOf(2)) != nil {
			t.Error("a larger session gave way to a smaller one")
		}
		c := f.add(false, partsOf(3))
		if c == nil || f.byID[a.id] != nil || f.byID[b.id] == nil {
			t.Fatal("the smaller of two old sessions should have given way")
		}
		f.touch(c.id)
		time.Sleep(sessionEvictAge / 2)
		f.touch(c.id)
		time.Sleep(sessionEvictAge/2 + time.Second)
		if d := f.add(false, partsOf(1)); d == nil || f.byID[b.id] != nil {
			t.Error("the session that lay idle should have given way, whatever its size")
		}
		if newFetchSessions(0).add(false, partsOf(1)) != nil {
			t.Error("a session without a slot")
		}
	})
}

// TestSessionsFollowTheirRequests compares a session with a list that is kept by the rules alone.
func TestSessionsFollowTheirRequests(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := newFetchSessions(10)
		drawParts := func(label string) (parts []fetchPart) {
			for _, n := range rapid.SliceOfNDistinct(rapid.Int32Range(0, 6), 0, 4, rapid.ID[int32]).Draw(t, label) {
				parts = append(parts, fetchPart{key: partitionKey{topic: "t", partition: n}, ask: fetchAsk{offset: rapid.Int64Range(0, 3).Draw(t, "offset")}})
			}
			return parts
		}
		type row struct {
			partition      int32
			offset         int64
			highWatermark  int64
			errored, known bool
		}
		first := &fetchState{parts: drawParts("first")}
		first.parts = append(first.parts, fetchPart{key: partitionKey{topic: "t", partition: 9}})
		if _, incremental, code := f.begin(first); incremental || code != codeNone {
			t.Fatal("a full request is taken for an incremental one")
		}
		id := first.settle(f, nil, false)
		var model []row
		for _, p := range first.parts {
			model = append(model, row{partition: p.key.partition, offset: p.ask.offset})
		}
		for epoch := int32(1); epoch < 12; epoch++ {
			s := &fetchState{parts: drawParts("changed")}
			s.head.sessionID, s.head.sessionEpoch = id, epoch
			for _, p := range drawParts("forgotten") {
				s.head.forgotten = append(s.head.forgotten, p.key)
			}
			for _, p := range s.parts {
				if i := slices.IndexFunc(model, func(r row) bool { return r.partition == p.key.partition }); i >= 0 {
					model[i].offset = p.ask.offset
				} else {
					model = append(model, row{partition: p.key.partition, offset: p.ask.offset, highWatermark: -1, known: true})
				}
			}
			for _, key := range s.head.forgotten {
				model = slices.DeleteFunc(model, func(r row) bool { return r.partition == key.partition })
			}
			session, incremental, code := f.begin(s)
			if len(model) == 0 {
				if incremental || f.byID[id] != nil {
					t.Fatal("an empty session goes on")
				}
				return
			}
			if code != codeNone || !incremental || len(s.parts) != len(model) {
				t.Fatalf("epoch %d: code %d, %d partitions, want %d", epoch, code, len(s.parts), len(model))
			}
			var stay, move []row
			var silent []bool
			for i := range s.parts {
				p, m := &s.parts[i], &model[i]
				if p.key.partition != m.partition || p.ask.offset != m.offset {
					t.Fatalf("epoch %d, place %d: partition %d at %d, want %d at %d", epoch, i, p.key.partition, p.ask.offset, m.partition, m.offset)
				}
				r := fetched{highWatermark: rapid.Int64Range(0, 1).Draw(t, "high watermark"), logStart: 0}
				if rapid.Bool().Draw(t, "data") {
					r.data.Size = 10
				}
				if rapid.IntRange(0, 5).Draw(t, "error") == 0 {
					r = fetchFailed(codeOffsetOutOfRange)
				}
				p.result = r
				must := r.data.Size > 0 || r.code != codeNone || r.highWatermark != m.highWatermark || m.known || m.errored
				silent = append(silent, !must)
				m.highWatermark, m.errored, m.known = r.highWatermark, r.code != codeNone, false
				if r.data.Size > 0 {
					move = append(move, *m)
				} else {
					stay = append(stay, *m)
				}
			}
			s.settle(f, session, incremental)
			for i := range s.parts {
				if s.parts[i].silent != silent[i] {
					t.Fatalf("epoch %d: partition %d is silent: %v, want %v (%+v)", epoch, s.parts[i].key.partition, s.parts[i].silent, silent[i], s.parts[i].result)
				}
			}
			model = append(stay, move...)
		}
	})
}

func TestSessionErrors(t *testing.T) {
	f := newFetchSessions(10)
	begin := func(id, epoch int32, byIDs bool) int16 {
		s := &fetchState{}
		s.head.sessionID, s.head.sessionEpoch, s.head.byIDs = id, epoch, byIDs
		_, _, code := f.begin(s)
		return code
	}
	s := &fetchState{parts: partsOf(2)}
	id := s.settle(f, nil, false)
	for _, q := range []struct {
		what  string
		id    int32
		epoch int32
		byIDs bool
		code  int16
	}{
		{"a jump", id, 2, false, codeInvalidFetchSessionEpoch},
		{"names become ids", id, 1, true, codeFetchSessionTopicIDError},
		{"in order", id, 1, false, codeNone},
		{"again", id, 1, false, codeInvalidFetchSessionEpoch},
		{"unknown", id ^ 1, 1, false, codeFetchSessionIDNotFound},
		{"closing", id, finalSessionEpoch, false, codeNone},
		{"after closing", id, 2, false, codeFetchSessionIDNotFound},
	} {
		if code := begin(q.id, q.epoch, q.byIDs); code != q.code {
			t.Errorf("%s: error %d, want %d", q.what, code, q.code)
		}
	}
}

// TestSessionsOverTheWire opens a session by names and one by ids, and follows both.
func TestSessionsOverTheWire(t *testing.T) {
	n := dataNode(t, "")
	c := dialNode(t, n)
	id := c.topic("t", 3)
	for _, v := range []int16{7, 12, 13, 18} {
		open := fetchOf(v, fetchTopic("t", id, 0, 0, 0))
		open.SessionEpoch = initialSessionEpoch
		r := c.ask(open).(*kmsg.FetchResponse)
		session := r.SessionID
		if session == 0 || len(r.Topics[0].Partitions) != 3 {
			t.Fatalf("v%d: %+v", v, r)
		}
		next := func(epoch int32) *kmsg.FetchResponse {
			req := fetchOf(v)
			req.SessionID, req.SessionEpoch = session, epoch
			return c.ask(req).(*kmsg.FetchResponse)
		}
		said := func(r *kmsg.FetchResponse) (s string) {
			for _, t := range r.Topics {
				for _, p := range t.Partitions {
					s += fmt.Sprintf("%d:%d ", p.Partition, len(p.RecordBatches))
				}
			}
			return s
		}
		had := said(r)
		first := said(next(1))
		batch := pack(t, nil, "x")
		c.ask(produceRequest(9, "t", id, 1, batch))
		if got := next(2); got.ErrorCode != 0 || said(got) == first || got.SessionID != session {
			t.Errorf("v%d: after a produce %q, before it %q and %q, error %d", v, said(got), first, had, got.ErrorCode)
		}
		if got := next(2).ErrorCode; got != codeInvalidFetchSessionEpoch {
			t.Errorf("v%d: epoch 2 again: error %d", v, got)
		}
		if got := next(finalSessionEpoch); got.ErrorCode != 0 || got.SessionID != 0 {
			t.Errorf("v%d: closing: %+v", v, got)
		}
		if got := next(3).ErrorCode; got != codeFetchSessionIDNotFound {
			t.Errorf("v%d: after closing: error %d", v, got)
		}
	}
}
