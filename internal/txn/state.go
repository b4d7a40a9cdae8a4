package txn

import "fmt"

// A State is where a transactional id stands; the numbers are those in the log.
type State int8

const (
	Empty          State = 0 // nobody has begun anything since the last InitProducerId
	Ongoing        State = 1
	PrepareCommit  State = 2 // decided, markers are being written
	PrepareAbort   State = 3
	CompleteCommit State = 4
	CompleteAbort  State = 5
	dead           State = 6 // never written, by Kafka neither
	epochFence     State = 7 // the same
)

var stateNames = [...]string{"Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence"}

// String is the name that clients see.
func (s State) String() string {
	if s < 0 || int(s) >= len(stateNames) {
		return fmt.Sprintf("State(%d)", int8(s))
	}
	return stateNames[s]
}

// StateNamed finds a state by the name that clients give.
func StateNamed(name string) (State, bool) {
	for i, n := range stateNames {
		if n == name {
			return State(i), true
		}
	}
	return 0, false
}

// prepared tells whether the outcome is decided and not yet told everywhere.
func (s State) prepared() bool { return s == PrepareCommit || s == PrepareAbort }

// complete is what a prepared state becomes.
func (s State) complete() State {
	if s == PrepareCommit {
		return CompleteCommit
	}
	return CompleteAbort
}

// idle tells whether an id that is not used may be forgotten.
func (s State) idle() bool { return s == Empty || s == CompleteCommit || s == CompleteAbort }
