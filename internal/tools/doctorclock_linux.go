package tools

import "golang.org/x/sys/unix"

// clockKept tells whether something keeps the system's clock right, if that can be known.
func clockKept() (kept, known bool) {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	if err != nil {
		return false, false
	}
	return state != unix.TIME_ERROR && t.Status&unix.STA_UNSYNC == 0, true
}
