package controller

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"syscall"
	"time"

	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/metadata"
	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/vfs"
)

// A quorum is what the control records of log and snapshots say.
type quorum struct {
	version         *kmeta.KRaftVersion // nil: kraft.version 0, a quorum that is written in the configuration
	voters          *kmeta.KRaftVoters
	hasRecords      bool // metadata records were replayed
	openTransaction bool // a metadata transaction has no end yet
}

func (q *quorum) level() int16 {
	if q.version == nil {
		return 0
	}
	return q.version.KRaftVersion
}

// begin starts this node's reign: the next leader epoch with its LEADER_CHANGE, then the bootstrap records if the log is new.
func (c *Controller) begin(img *metadata.Image) error {
	if err := c.checkBrokers(img); err != nil {
		return err
	}
	stored, err := c.readQuorumState()
	if err != nil {
		return err
	}
	if err := c.checkVoters(); err != nil {
		return err
	}
	// An election that was won and not yet in the log took its epoch too.
	c.epoch = max(c.epoch, img.Epoch(), stored.LeaderEpoch, 0) + 1
	if err := c.writeQuorumState(); errors.Is(err, syscall.ENOSPC) {
		// Nobody else votes here. The log's LEADER_CHANGE, fsynced below, says the epoch too; without either it was never used.
		c.logger.Warn("no room for the quorum's state: the former file is kept until a change finds room", "file", quorumStateFile, "error", err)
		c.stateDue = true
	} else if err != nil {
		return err
	}
	if err := c.log.AssignEpoch(c.epoch); err != nil {
		return err
	}
	if err := c.appendLeaderChange(); err != nil {
		return err
	}
	img, _, err = metadata.NewReplayer(img).Replay(nil, c.log.EndOffset()-1, c.epoch)
	if err != nil {
		return err
	}
	var recs []kmeta.Record
	switch {
	case c.quorum.openTransaction:
		reason := "the controller that began it is gone"
		recs = []kmeta.Record{&kmeta.AbortTransactionRecord{Reason: &reason}}
		// The image in hand does not have what the transaction gathered, so its abort is no news to it.
		if err := c.appendBatch(recs, img.MetadataVersion()); err != nil {
			return err
		}
		img, _, err = metadata.NewReplayer(img).Replay(nil, c.log.EndOffset()-1, c.epoch)
	case !c.quorum.hasRecords && img.MetadataVersion() <= 0:
		recs = c.bootstrapRecords()
		img, _, err = c.append(img, recs)
	}
	if err != nil {
		return err
	}
	if err := c.log.Flush(); err != nil {
		return err
	}
	c.shown.Store(img)
	c.sizeAtSnapshot.Store(c.log.Size() - c.replayed)
	return nil
}

// checkVoters refuses a directory whose quorum has other members: alone, this node must not decide for them.
func (c *Controller) checkVoters() error {
	if c.quorum.voters == nil {
		return nil
	}
	for _, v := range c.quorum.voters.Voters {
		if v.VoterID != c.options.NodeID {
			return fmt.Errorf("node %d is a voter of the controller quorum too: a quorum of several nodes cannot be served yet", v.VoterID)
		}
	}
	return nil
}

// checkBrokers refuses a node whose id the metadata does not know, though it knows others: to those the partitions belong, and this node
// would serve none of them.
func (c *Controller) checkBrokers(img *metadata.Image) error {
	var others []int32
	for b := range img.Brokers() {
		if b.ID == c.options.NodeID {
			return nil
		}
		others = append(others, b.ID)
	}
	if len(others) == 0 {
		return nil
	}
	slices.Sort(others)
	return fmt.Errorf("this node's id is %d, but the metadata log is of broker %d: set node.id, in the configuration and in meta.properties, to what it was", c.options.NodeID, others[0])
}

// appendLeaderChange writes the control batch that every leader epoch begins with. With kraft.version 1 the first one in a
// log also has the version and the voters, which until then only the snapshot of the formatting knew.
func (c *Controller) appendLeaderChange() error {
	now := time.Now().UnixMilli()
	b := record.NewBuilder()
	b.LeaderEpoch = c.epoch
	b.Attributes = record.AttrControl
	add := func(r kmeta.ControlRecord) {
		b.Add(record.Record{Timestamp: now, Key: record.AppendControlKey(nil, record.ControlType(r.ControlType())), Value: kmeta.AppendControl(nil, r, 0)})
	}
	self := []kmeta.Voter{{VoterID: c.options.NodeID}}
	add(&kmeta.LeaderChange{LeaderID: c.options.NodeID, Voters: self, GrantingVoters: self})
	if c.quorum.level() > 0 && c.log.EndOffset() == 0 {
		add(c.quorum.version)
		if c.quorum.voters != nil {
			add(c.quorum.voters)
		}
	}
	return c.appendBuilt(b)
}

// levelTransactions is the level of metadata.version, 3.6-IV1, from which on the log may have metadata transactions.
const levelTransactions = 13

// bootstrapRecords are the first records of a new log, in one transaction where the level knows such.
func (c *Controller) bootstrapRecords() []kmeta.Record {
	recs := c.options.Bootstrap
	if recs == nil {
		recs = metadata.BootstrapRecords()
	}
	var level int16
	elr := false
	for _, r := range recs {
		if f, ok := r.(*kmeta.FeatureLevelRecord); ok {
			switch f.Name {
			case metadata.MetadataVersion:
				level = f.FeatureLevel
			case metadata.ELRVersion:
				elr = f.FeatureLevel > 0
			}
		}
	}
	var all []kmeta.Record
	if level >= levelTransactions {
		name := "Bootstrap records"
		all = append(all, &kmeta.BeginTransactionRecord{Name: &name})
	}
	all = append(all, recs...)
	if elr {
		// Eligible leaders are counted against one value that all nodes agree on, so it must not live in files.
		value := c.static("min.insync.replicas").Text
		all = append(all, &kmeta.ConfigRecord{ResourceType: metadata.BrokerResource, ResourceName: "", Name: "min.insync.replicas", Value: &value})
	}
	if level >= levelTransactions {
		all = append(all, &kmeta.EndTransactionRecord{})
	}
	return all
}

// A quorumState is the file quorum-state: one line of JSON, in the form that kraft.version demands.
type quorumState struct {
	LeaderID        int32
	LeaderEpoch     metadata.Epoch
	VotedID         int32
	VotedDirectory  string
	DynamicVoters   bool // data_version 1
	CurrentVoterIDs []int32
}

func (q quorumState) encode() []byte {
	if q.DynamicVoters {
		return fmt.Appendf(nil, `{"leaderId":%d,"leaderEpoch":%d,"votedId":%d,"votedDirectoryId":%q,"data_version":1}`,
			q.LeaderID, q.LeaderEpoch, q.VotedID, q.VotedDirectory)
	}
	b := fmt.Appendf(nil, `{"clusterId":"","leaderId":%d,"leaderEpoch":%d,"votedId":%d,"appliedOffset":0,"currentVoters":[`,
		q.LeaderID, q.LeaderEpoch, q.VotedID)
	for i, id := range q.CurrentVoterIDs {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, `{"voterId":%d}`, id)
	}
	return append(b, `],"data_version":0}`...)
}

func decodeQuorumState(data []byte) (quorumState, error) {
	var raw struct {
		LeaderID      *int32          `json:"leaderId"`
		LeaderEpoch   *metadata.Epoch `json:"leaderEpoch"`
		VotedID       int32           `json:"votedId"`
		Voted         string          `json:"votedDirectoryId"`
		Version       int             `json:"data_version"`
		CurrentVoters []struct {
			VoterID int32 `json:"voterId"`
		} `json:"currentVoters"`
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		return quorumState{}, err
	}
	if raw.LeaderID == nil || raw.LeaderEpoch == nil || *raw.LeaderEpoch < 0 {
		return quorumState{}, errors.New("leaderId or leaderEpoch is missing or negative")
	}
	q := quorumState{LeaderID: *raw.LeaderID, LeaderEpoch: *raw.LeaderEpoch, VotedID: raw.VotedID, VotedDirectory: raw.Voted, DynamicVoters: raw.Version == 1}
	for _, v := range raw.CurrentVoters {
		q.CurrentVoterIDs = append(q.CurrentVoterIDs, v.VoterID)
	}
	return q, nil
}

const quorumStateFile = "quorum-state"

// readQuorumState reads quorum-state; without one nothing was ever voted for.
func (c *Controller) readQuorumState() (quorumState, error) {
	data, err := vfs.ReadFile(c.options.FS, path.Join(c.options.Dir, quorumStateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return quorumState{LeaderID: -1, VotedID: -1}, nil
	}
	if err != nil {
		return quorumState{}, err
	}
	q, err := decodeQuorumState(data)
	if err != nil {
		return quorumState{}, fmt.Errorf("%s is damaged: %w; a node that votes alone can do without it: move the file away, and the epoch is taken from the metadata log", path.Join(c.options.Dir, quorumStateFile), err)
	}
	for _, id := range q.CurrentVoterIDs {
		if id != c.options.NodeID {
			return quorumState{}, fmt.Errorf("%s: node %d votes too: a quorum of several nodes cannot be served yet", quorumStateFile, id)
		}
	}
	return q, nil
}

// writeQuorumState makes this node's election durable before anything of its epoch is in the log.
func (c *Controller) writeQuorumState() error {
	q := quorumState{LeaderID: c.options.NodeID, LeaderEpoch: c.epoch, VotedID: -1}
	if c.quorum.level() > 0 {
		q.DynamicVoters, q.VotedDirectory = true, kmeta.UUID{}.String()
	} else {
		q.CurrentVoterIDs = []int32{c.options.NodeID}
	}
	return vfs.WriteFile(c.options.FS, path.Join(c.options.Dir, quorumStateFile), q.encode())
}
