package server

import (
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
	next int // where the next event goes, once the ring is full; before, 0
}

// A groupEvent is an event as the admin listener shows it.
type groupEvent struct {
	Time       time.Time       `json:"time"`
	Group      string          `json:"group,omitempty"`
	Kind       group.EventKind `json:"kind"`
	Member     string          `json:"member,omitempty"`
	Instance   string          `json:"instance,omitempty"`
	Generation int32           `json:"generation"`
	Reason     string          `json:"reason,omitempty"`
	Cause      string          `json:"cause,omitempty"`
	Count      int             `json:"count,omitempty"`

	// Of an offset out of range:
	Client    string `json:"client,omitempty"`
	Host      string `json:"host,omitempty"`
	Topic     string `json:"topic,omitempty"`
	Partition *int32 `json:"partition,omitempty"`
	Position  *int64 `json:"position,omitempty"` // the offset that the client asked for
	Skipped   *int64 `json:"skipped,omitempty"`  // offsets from there to the log's start
}

func (e *groupEvents) add(x group.Event) {
	e.put(groupEvent{
		Time: time.Now(), Group: x.Group, Kind: x.Kind, Member: x.Member, Instance: x.Instance, Generation: x.Generation, Cause: x.Cause, Count: x.Count,
	})
}

func (e *groupEvents) put(ev groupEvent) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.ring) < groupEventsMax {
		e.ring = append(e.ring, ev)
		return
	}
	e.ring[e.next] = ev
	e.next = (e.next + 1) % groupEventsMax
}

// list are the events that want picks, the oldest first.
func (e *groupEvents) list(want func(*groupEvent) bool) []groupEvent {
	e.mu.Lock()
	defer e.mu.Unlock()
	list := []groupEvent{}
	for i := range e.ring {
		if ev := e.ring[(e.next+i)%len(e.ring)]; want(&ev) {
			list = append(list, ev)
		}
	}
	return list
}

// showGroupEvents answers GET /groups/events[?group=G][&topic=T][&kind=K] on the admin listener. An offset out of range is a group's if
// the client that asked for it is one of its members now, and has the partition.
func (n *Node) showGroupEvents(w http.ResponseWriter, r *http.Request) {
	name, topic, kind := r.FormValue("group"), r.FormValue("topic"), group.EventKind(r.FormValue("kind"))
	list := n.groupEvents.list(func(e *groupEvent) bool {
		return (name == "" || e.Group == name || e.Kind == eventOutOfRange) && (topic == "" || e.Topic == topic) && (kind == "" || e.Kind == kind)
	})
	if name != "" {
		list = n.groupOfClients(name, list)
	}
	writeJSON(w, list)
}
