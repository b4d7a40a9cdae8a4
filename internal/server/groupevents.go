package server

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/quire-log/quire/internal/group"
)

// groupEventsMax is how many events are remembered.
const groupEventsMax = 4096

// groupEvents remembers what happened to groups, the last events of them, so that an operator can see why a group rebalanced.
type groupEvents struct {
	// mu guards the ring. Nothing is taken under it.
	mu   sync.Mutex
	ring []groupEvent
	next int // where the next event goes, once the ring is full
}

// A groupEvent is an event as the admin listener shows it.
type groupEvent struct {
	Time       time.Time       `json:"time"`
	Group      string          `json:"group"`
	Kind       group.EventKind `json:"kind"`
	Member     string          `json:"member,omitempty"`
	Instance   string          `json:"instance,omitempty"`
	Generation int32           `json:"generation"`
	Cause      string          `json:"cause,omitempty"`
	Count      int             `json:"count,omitempty"`
}

func (e *groupEvents) add(x group.Event) {
	ev := groupEvent{time.Now(), x.Group, x.Kind, x.Member, x.Instance, x.Generation, x.Cause, x.Count}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.ring) < groupEventsMax {
		e.ring = append(e.ring, ev)
		return
	}
	e.ring[e.next] = ev
	e.next = (e.next + 1) % groupEventsMax
}

// of lists the events of one group, or of all, the oldest first.
func (e *groupEvents) of(name string) []groupEvent {
	e.mu.Lock()
	defer e.mu.Unlock()
	list := []groupEvent{}
	for i := range e.ring {
		if ev := e.ring[(e.next+i)%len(e.ring)]; name == "" || ev.Group == name {
			list = append(list, ev)
		}
	}
	return list
}

// serve answers GET /groups/events?group=NAME on the admin listener.
func (e *groupEvents) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.Encode(e.of(r.URL.Query().Get("group")))
}
