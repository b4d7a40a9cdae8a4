package controller

import (
	"os"
	"path"
	"path/filepath"
	"testing"

	"github.com/quire-log/quire/internal/golden"
	"github.com/quire-log/quire/internal/metadata"
	"github.com/quire-log/quire/internal/storage"
	"github.com/quire-log/quire/internal/vfs"
)

// A log of a dynamic quorum goes on as one: quorum-state in its second form, snapshots that name version and voters.
func TestDynamicQuorum(t *testing.T) {
	dir := filepath.Join(golden.Unpack(t, "kraft-dynamic"), "data", metadataTopic+"-0")
	log, err := storage.OpenLog(storage.LogOptions{FS: vfs.OS(), Dir: dir, Partition: storage.TopicPartition{Topic: metadataTopic}, Config: storage.DefaultConfig(), Metadata: true})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	c, err := Open(Options{NodeID: 1, FS: vfs.OS(), Log: log, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if c.LeaderEpoch() != 3 {
		t.Errorf("leader epoch %d, want 3", c.LeaderEpoch())
	}
	state, err := os.ReadFile(filepath.Join(dir, "quorum-state"))
	if want := `{"leaderId":1,"leaderEpoch":3,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}`; err != nil || string(state) != want {
		t.Errorf("quorum-state %s, %v, want %s", state, err, want)
	}
	if err := c.snapshot(c.Image()); err != nil {
		t.Fatal(err)
	}
	files, err := c.listSnapshots()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path.Join(dir, files[len(files)-1].name()))
	if err != nil {
		t.Fatal(err)
	}
	s, err := metadata.ReadSnapshot(data)
	if err != nil || s.KRaftVersion == nil || s.KRaftVersion.KRaftVersion != 1 || s.Voters == nil || s.Voters.Voters[0].VoterID != 1 {
		t.Errorf("snapshot %+v, %v", s, err)
	}
}

// A directory of a quorum of three is refused: alone, this node must not decide for the others.
func TestQuorumOfSeveral(t *testing.T) {
	dir := filepath.Join(golden.Unpack(t, "three-nodes"), "1", "data", metadataTopic+"-0")
	if _, err := os.Stat(dir); err != nil {
		t.Fatal(err)
	}
	log, err := storage.OpenLog(storage.LogOptions{FS: vfs.OS(), Dir: dir, Partition: storage.TopicPartition{Topic: metadataTopic}, Config: storage.DefaultConfig(), Metadata: true})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Abandon()
	end := log.EndOffset()
	if c, err := Open(Options{NodeID: 1, FS: vfs.OS(), Log: log, Dir: dir}); err == nil {
		c.Close()
		t.Error("opened")
	}
	if log.EndOffset() != end {
		t.Error("something was written to the log of a refused quorum")
	}
}

func TestQuorumStateBytes(t *testing.T) {
	for _, text := range []string{
		`{"clusterId":"","leaderId":3,"leaderEpoch":12,"votedId":-1,"appliedOffset":0,"currentVoters":[{"voterId":1},{"voterId":2},{"voterId":3}],"data_version":0}`,
		`{"leaderId":3,"leaderEpoch":12,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}`,
	} {
		q, err := decodeQuorumState([]byte(text))
		if err != nil || string(q.encode()) != text {
			t.Errorf("%s became %s, %v", text, q.encode(), err)
		}
	}
	for _, text := range []string{"", "{}", `{"leaderId":1}`, `{"leaderId":1,"leaderEpoch":-1}`, "\x00\x00"} {
		if q, err := decodeQuorumState([]byte(text)); err == nil {
			t.Errorf("%q was read as %+v", text, q)
		}
	}
}

func TestSnapshotNames(t *testing.T) {
	for name, want := range map[string]bool{
		"00000000000000000036-0000000001.checkpoint":         true,
		"00000000000000000000-0000000000.checkpoint":         true,
		"00000000000000000036-0000000001.checkpoint.part":    false,
		"00000000000000000036-1.checkpoint":                  false,
		"bootstrap.checkpoint":                               false,
		"-0000000000000000036-0000000001.checkpoint":         false,
		"99999999999999999999-0000000001.checkpoint":         false,
		"00000000000000000036-0000000001.checkpoint.deleted": false,
	} {
		s, ok := parseSnapshotName(name)
		if ok != want || ok && s.name() != name {
			t.Errorf("%s: %v, %v", name, s, ok)
		}
	}
}
