package txn

import (
	"cmp"
	"regexp"
	"slices"
	"time"

	"github.com/quire-log/quire/internal/kmeta"
)

// A Description is what DescribeTransactions says of a transactional id.
type Description struct {
	Code          int16
	ProducerID    int64
	ProducerEpoch int16
	State         State
	TimeoutMs     int32
	StartMs       int64 // -1: none was begun since the last InitProducerId
	Partitions    []kmeta.TxnPartitions
}

// Describe describes a transactional id. The result holds nothing that changes.
func (s *Shard) Describe(id string) Description {
	t := s.ids[id]
	if t == nil {
		return Description{Code: codeIDNotFound, ProducerID: noProducer, ProducerEpoch: noEpoch, StartMs: noTimestamp}
	}
	return Description{
		ProducerID: t.producerID, ProducerEpoch: t.epoch, State: t.state, TimeoutMs: t.timeoutMs, StartMs: t.start, Partitions: t.partitions,
	}
}

// A Filter says which transactions List lets through: those that all of its parts let through.
type Filter struct {
	States      []State // nil: all. Not nil and empty: none
	ProducerIDs []int64 // empty: all
	// LongerThanMs lets through what was begun longer ago; negative: all.
	LongerThanMs int64
	Pattern      *regexp.Regexp // nil: all; else the whole transactional id must match
}

// A Listed is a transaction as ListTransactions shows it.
type Listed struct {
	TransactionalID string
	ProducerID      int64
	State           State
}

// List lists transactional ids by name.
func (s *Shard) List(now time.Time, f Filter) []Listed {
	var all []Listed
	for _, t := range s.ids {
		switch {
		case f.States != nil && !slices.Contains(f.States, t.state),
			len(f.ProducerIDs) > 0 && !slices.Contains(f.ProducerIDs, t.producerID),
			f.LongerThanMs >= 0 && (t.start == noTimestamp || now.UnixMilli()-t.start <= f.LongerThanMs),
			f.Pattern != nil && !f.Pattern.MatchString(t.id):
			continue
		}
		all = append(all, Listed{t.id, t.producerID, t.state})
	}
	slices.SortFunc(all, func(a, b Listed) int { return cmp.Compare(a.TransactionalID, b.TransactionalID) })
	return all
}

// CompilePattern compiles a pattern of ListTransactions, which is in RE2's syntax and matches whole ids. code is INVALID_REGULAR_EXPRESSION
// for one that is none.
func CompilePattern(pattern string) (_ *regexp.Regexp, code int16) {
	if _, err := regexp.Compile(pattern); err != nil { // by itself: "a)(b" would pass in the brackets below
		return nil, codeInvalidPattern
	}
	re, err := regexp.Compile(`\A(?:` + pattern + `)\z`)
	if err != nil {
		return nil, codeInvalidPattern
	}
	return re, 0
}
