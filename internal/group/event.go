package group

// EventKind says what happened to a group.
type EventKind string

const (
	EventJoined    EventKind = "joined"    // a member came
	EventLeft      EventKind = "left"      // a member went by its own will
	EventTimedOut  EventKind = "timed out" // a member was removed: Cause says by which timeout
	EventReplaced  EventKind = "replaced"  // a static member came back under a new id
	EventRebalance EventKind = "rebalance" // a rebalance began, or a new target was made: Cause says why
	EventStable    EventKind = "stable"    // a generation has its assignment
	EventEmpty     EventKind = "empty"     // the last member is gone
	EventDeleted   EventKind = "deleted"   // the group is gone
	EventExpired   EventKind = "expired"   // offsets went: Cause says why, Count how many
	EventMigrated  EventKind = "migrated"  // the group changed its protocol: Cause says which way
)

// An Event tells an operator what happened to a group and why.
type Event struct {
	Group      string
	Kind       EventKind
	Member     string // its id; empty: the group as a whole
	Instance   string // of a static member
	Generation int32  // or group epoch
	Cause      string
	Count      int
}
