package controller

import (
	"strings"
	"syscall"
	"testing"

	"github.com/quire-log/quire/internal/vfs"
)

// Without room for quorum-state the former file stays, and the next change writes it.
func TestStartWithoutRoomForQuorumState(t *testing.T) {
	s := newSite(t)
	s.start()
	s.stop()
	name := testDir + "/" + quorumStateFile
	before, err := vfs.ReadFile(s.fs, name)
	if err != nil {
		t.Fatal(err)
	}
	s.fs.FailNth(1, syscall.ENOSPC, func(op, name string) bool { return strings.HasSuffix(name, quorumStateFile+".tmp") })
	s.open()
	if now, err := vfs.ReadFile(s.fs, name); err != nil || string(now) != string(before) {
		t.Errorf("after a start without room: %s, %v", now, err)
	}
	if _, _, err := s.AllocateProducerIDs(t.Context(), 1, s.epoch); err != nil {
		t.Fatal(err)
	}
	if q, err := s.readQuorumState(); err != nil || q.LeaderEpoch != s.LeaderEpoch() {
		t.Errorf("after a change: %+v, %v", q, err)
	}
}
