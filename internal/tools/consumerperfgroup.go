package tools

import (
	"context"
	"regexp"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A perfMember is kafka-consumer-perf-test's place in a group. franz-go's consumer joins, tells which partitions come and go, and
// fetches nothing: a perfReader does, which makes no object of every record.
//
// What the reader's owner has counted is what is committed: of a partition that goes before it goes, of the rest now and then and at
// the end.
type perfMember struct {
	group       string
	config      *consumerConfig
	cl          *kgo.Client
	changes     chan perfChange // from franz-go's goroutines to that of the reader's owner
	failed      chan error      // what ends the group's session, and will not pass
	over        chan struct{}   // closed when nobody takes changes any more
	watched     chan struct{}   // closed when the goroutine of watch has ended
	endWatch    context.CancelFunc
	counted     map[topicPartition]int64 // behind the last counted record, where not committed yet; of the owner's goroutine
	committedAt time.Time
}

// A perfChange is partitions that come or go.
type perfChange struct {
	gained map[topicPartition]int64 // where to begin; below 0, by auto.offset.reset
	lost   []topicPartition
	commit bool          // the group still takes the offsets of what goes
	done   chan struct{} // closed when nothing of what goes is read any more
}

func newPerfMember(group string, config *consumerConfig) *perfMember {
	return &perfMember{
		group: group, config: config, changes: make(chan perfChange), failed: make(chan error, 1), over: make(chan struct{}),
		watched: make(chan struct{}), counted: map[topicPartition]int64{}, committedAt: time.Now(),
	}
}

// options make a client join the group.
func (m *perfMember) options(topic string, include *regexp.Regexp) []kgo.Opt {
	own := *m.config
	own.autoCommit = false
	opts := append(own.group(m.group), kgo.ConsumeStartOffset(m.config.reset), kgo.ConsumeResetOffset(m.config.reset),
		kgo.AdjustFetchOffsetsFn(m.gained),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, parts map[string][]int32) { m.lost(parts, true) }),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, parts map[string][]int32) { m.lost(parts, false) }),
	)
	if include == nil {
		return append(opts, kgo.ConsumeTopics(topic))
	}
	return append(opts, kgo.ConsumeRegex(), kgo.ConsumeTopics(include.String()),
		kgo.ConsumeExcludeTopics("^__consumer_offsets$", "^__transaction_state$", "^__share_group_state$"))
}

// gained passes on where to begin in partitions that come, and leaves nothing of them for franz-go to fetch.
func (m *perfMember) gained(_ context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	change := perfChange{gained: map[topicPartition]int64{}}
	for topic, parts := range offsets {
		for p, begin := range parts {
			change.gained[topicPartition{topic, p}] = begin.EpochOffset().Offset
		}
	}
	m.send(change)
	return nil, nil
}

func (m *perfMember) lost(parts map[string][]int32, commit bool) {
	change := perfChange{commit: commit}
	for topic, numbers := range parts {
		for _, p := range numbers {
			change.lost = append(change.lost, topicPartition{topic, p})
		}
	}
	if len(change.lost) > 0 {
		m.send(change)
	}
}

// send returns when the change is carried out, or nobody will.
func (m *perfMember) send(change perfChange) {
	change.done = make(chan struct{})
	select {
	case m.changes <- change:
		<-change.done
	case <-m.over:
	}
}

// apply carries out a change: reader, which is not at work, reads other partitions from now on.
func (m *perfMember) apply(change perfChange, reader *perfReader) {
	if change.commit {
		m.commit()
	}
	for _, p := range change.lost {
		delete(m.counted, p)
	}
	reader.own(change.gained, change.lost)
	close(change.done)
}

// watch begins to look for what franz-go says of the group; nothing else comes of its polls.
func (m *perfMember) watch(cl *kgo.Client) {
	m.cl = cl
	var ctx context.Context
	ctx, m.endWatch = context.WithCancel(context.Background())
	go func() {
		defer close(m.watched)
		for ctx.Err() == nil {
			if e := fetchFatal(m.group, cl.PollFetches(ctx)); e != nil {
				m.failed <- e
				return
			}
		}
	}()
}

// reached notes how far a partition is counted.
func (m *perfMember) reached(p topicPartition, next int64) {
	m.counted[p] = next
	if m.config.autoCommit && time.Since(m.committedAt) >= m.config.commitEach {
		m.commit()
	}
}

// commit has the group keep how far partitions are counted, if the user wants that. A broker that refuses is asked again with the next
// commit, and a later member counts some records again: no reason to end.
func (m *perfMember) commit() {
	if !m.config.autoCommit || len(m.counted) == 0 {
		return
	}
	offsets := map[string]map[int32]kgo.EpochOffset{}
	for p, next := range m.counted {
		if offsets[p.topic] == nil {
			offsets[p.topic] = map[int32]kgo.EpochOffset{}
		}
		offsets[p.topic][p.partition] = kgo.EpochOffset{Epoch: -1, Offset: next}
	}
	if commitOffsets(m.cl, offsets) == nil {
		clear(m.counted)
	}
	m.committedAt = time.Now()
}

// close commits, leaves the group, and closes the client.
func (m *perfMember) close() {
	m.commit()
	close(m.over)
	m.endWatch()
	<-m.watched
	m.cl.Close()
}
