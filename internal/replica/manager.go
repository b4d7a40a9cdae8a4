package replica

import (
	"errors"
	"log/slog"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/metadata"
	"github.com/quire-log/quire/internal/storage"
)

type (
	Offset         = storage.Offset
	Epoch          = storage.Epoch
	TopicPartition = storage.TopicPartition
)

// openAtOnce bounds how many logs are opened side by side: they wait for the disk, not for a processor.
const openAtOnce = 64

// A Manager has this node's partitions.
type Manager struct {
	o Options

	// mu guards the two maps. The topics in them are replaced, never changed. Nothing is taken under it, and no disk waits under it.
	mu     sync.RWMutex
	topics map[string]*topic
	byID   map[kmeta.UUID]*topic
}

// A topic is immutable.
type topic struct {
	name       string
	id         kmeta.UUID
	partitions []*Partition // partition n, nil: this node has no replica
}

// Options of a manager. ConfigFor gives the settings of a topic under an image.
type Options struct {
	NodeID    int32
	Logs      *storage.Manager
	ConfigFor func(img *metadata.Image, topic string) storage.Config
	MinISR    func(img *metadata.Image, topic string) int
	Log       *slog.Logger
}

func NewManager(o Options) *Manager {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Manager{o: o, topics: map[string]*topic{}, byID: map[kmeta.UUID]*topic{}}
}

// Load makes the node's partitions what the image says when it starts: their logs may have been there before.
func (m *Manager) Load(img *metadata.Image) {
	m.apply(img, img, slices.Collect(img.Topics()))
}

// Apply makes the node's partitions what the next image says: creates logs, takes leadership (AssignEpoch), resigns, deletes, hands on configs.
// Called in the order of the images, never twice at once, before the image is shown to anyone (I5). A partition whose log cannot be opened is kept as offline.
func (m *Manager) Apply(img *metadata.Image, d *metadata.Delta) error {
	for _, t := range d.Deleted {
		m.delete(t)
	}
	changed := slices.Clone(d.Created)
	seen := map[kmeta.UUID]bool{}
	for _, t := range changed {
		seen[t.ID] = true
	}
	for _, c := range d.Changed {
		if !seen[c.Topic.ID] {
			seen[c.Topic.ID] = true
			changed = append(changed, c.Topic)
		}
	}
	m.apply(d.Before, img, changed)
	m.configure(img, d)
	return nil
}

// apply opens what is missing of the topics and follows their leaders, many partitions at a time. What was not there in the image before
// is new, so that no directory which cannot be read may hold it.
func (m *Manager) apply(was, img *metadata.Image, changed []*metadata.Topic) {
	var work errgroup.Group
	work.SetLimit(openAtOnce)
	next := make([]*topic, 0, len(changed))
	for _, t := range changed {
		n := &topic{name: t.Name, id: t.ID, partitions: make([]*Partition, len(t.Partitions))}
		before := m.topicByID(t.ID)
		minISR := m.o.MinISR(img, t.Name)
		known := 0
		if old := was.TopicByID(t.ID); old != nil {
			known = len(old.Partitions)
		}
		for i, said := range t.Partitions {
			var p *Partition
			if before != nil && i < len(before.partitions) {
				p = before.partitions[i]
			}
			if !slices.Contains(said.Replicas, m.o.NodeID) {
				if p != nil {
					m.drop(p)
				}
				continue
			}
			if p == nil {
				p = newPartition(m.o.NodeID, TopicPartition{Topic: t.Name, Partition: int32(i)}, t.ID)
			}
			n.partitions[i] = p
			if p.agrees(said) {
				continue
			}
			work.Go(func() error {
				m.follow(img, p, said, minISR, i >= known)
				return nil
			})
		}
		next = append(next, n)
	}
	work.Wait()

	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range next {
		m.topics[n.name] = n
		m.byID[n.id] = n
	}
}

// follow makes one partition what the image says of it. What fails leaves it offline.
func (m *Manager) follow(img *metadata.Image, p *Partition, said *metadata.Partition, minISR int, isNew bool) {
	log := p.Log()
	if log == nil || log.Err() != nil {
		create := m.o.Logs.CreateLog
		if isNew {
			create = m.o.Logs.CreateNewLog
		}
		var err error
		if log, err = create(p.tp, storage.TopicID(p.id)); err == nil {
			log.SetConfig(m.o.ConfigFor(img, p.tp.Topic))
		} else {
			m.o.Log.Error("a partition is offline: its log cannot be opened", "partition", p.tp.String(), "error", err)
			if storage.IsTemporary(err) {
				p.wait(err, func() (*storage.Log, error) { return create(p.tp, storage.TopicID(p.id)) })
			} else {
				p.fail(err)
			}
			log = nil
		}
	}
	switch err := p.lead(log, said, minISR); {
	case errors.Is(err, errShorter):
		p.fail(err) // until Retake
	case err != nil:
		m.o.Log.Error("a partition is offline: its leader epoch cannot be written", "partition", p.tp.String(), "epoch", said.LeaderEpoch, "error", err)
		p.fail(err)
	}
}

// Shorter are the partitions that this node leads whose logs were taken back without all that they had given out. They are to be led in
// new epochs before Retake, so that no two records have both offset and epoch in common.
func (m *Manager) Shorter() (all []*Partition) {
	for _, p := range m.Partitions() {
		if s := p.state.Load(); !s.healthy() && s.leader == m.o.NodeID && s.lost(m.o.Logs.Log(p.tp)) {
			all = append(all, p)
		}
	}
	return all
}

// Retake has the partitions that are offline serve again from logs that were taken back; others stay as they are.
func (m *Manager) Retake() {
	var work errgroup.Group
	work.SetLimit(openAtOnce)
	for _, p := range m.Partitions() {
		work.Go(func() error {
			p.retake(func() (*storage.Log, error) { return m.o.Logs.CreateLog(p.tp, storage.TopicID(p.id)) })
			return nil
		})
	}
	work.Wait()
}

func (m *Manager) delete(t *metadata.Topic) {
	m.mu.Lock()
	mine := m.byID[t.ID]
	delete(m.byID, t.ID)
	if mine != nil && m.topics[t.Name] == mine {
		delete(m.topics, t.Name)
	}
	m.mu.Unlock()
	if mine == nil {
		return
	}
	var work errgroup.Group
	work.SetLimit(openAtOnce)
	for _, p := range mine.partitions {
		if p != nil {
			work.Go(func() error {
				m.drop(p)
				return nil
			})
		}
	}
	work.Wait()
}

// drop takes a partition from this node, its log too.
func (m *Manager) drop(p *Partition) {
	p.leave()
	if err := m.o.Logs.DeleteLog(p.tp); err != nil {
		m.o.Log.Error("a deleted partition's directory stays", "partition", p.tp.String(), "error", err)
	}
}

// configure hands on settings that changed: of topics, or of brokers, which are every topic's defaults.
func (m *Manager) configure(img *metadata.Image, d *metadata.Delta) {
	var all bool
	var names []string
	for _, c := range d.Configs {
		switch c.Type {
		case metadata.TopicResource:
			names = append(names, c.Name)
		case metadata.BrokerResource:
			all = true
		}
	}
	m.mu.RLock()
	var topics []*topic
	if all {
		for _, t := range m.topics {
			topics = append(topics, t)
		}
	} else {
		for _, name := range names {
			if t := m.topics[name]; t != nil {
				topics = append(topics, t)
			}
		}
	}
	m.mu.RUnlock()
	for _, t := range topics {
		config, minISR := m.o.ConfigFor(img, t.name), m.o.MinISR(img, t.name)
		for _, p := range t.partitions {
			if p != nil {
				p.configure(config, minISR)
			}
		}
	}
}

func (m *Manager) topicByID(id kmeta.UUID) *topic {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.byID[id]
}

// Partition finds one, by name or topic id; nil: this node has no replica of it.
func (m *Manager) Partition(topic string, partition int32) *Partition {
	m.mu.RLock()
	t := m.topics[topic]
	m.mu.RUnlock()
	return t.partition(partition)
}

func (m *Manager) PartitionByID(id kmeta.UUID, partition int32) *Partition {
	return m.topicByID(id).partition(partition)
}

func (t *topic) partition(n int32) *Partition {
	if t == nil || n < 0 || int(n) >= len(t.partitions) {
		return nil
	}
	return t.partitions[n]
}

// Partitions are all of this node, in no order.
func (m *Manager) Partitions() []*Partition {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var all []*Partition
	for _, t := range m.topics {
		for _, p := range t.partitions {
			if p != nil {
				all = append(all, p)
			}
		}
	}
	return all
}

// HighWatermark is for storage.ManagerOptions.
func (m *Manager) HighWatermark(tp TopicPartition) (Offset, bool) {
	p := m.Partition(tp.Topic, tp.Partition)
	if p == nil {
		return 0, false
	}
	return p.HighWatermark(), true
}

// Close wakes everybody who waits.
func (m *Manager) Close() {
	for _, p := range m.Partitions() {
		p.wake()
	}
}
