package storage

import (
	"errors"
	"sync/atomic"

	"github.com/quire-log/quire/internal/record"
)

// A client whose clock is ahead dates records in the future. Beyond message.timestamp.after.max.ms they are refused; within it they are
// taken, and keep their segment, and so all that follow, from expiring: that is counted, and told now and then.
//
// The broker's own times (message.timestamp.type=LogAppendTime) are never ahead.

const (
	// futureTolerance is how far ahead a record may be before that is remarkable, in ms: clocks are never quite the same.
	futureTolerance = 1000
	// futurePause is how often a log says so, in ms.
	futurePause = 10 * 60 * 1000
)

// A futureClock counts the batches of a log that clients dated ahead of the node's clock.
type futureClock struct {
	taken, denied atomic.Int64
	said          atomic.Int64 // ms; when it was told last
}

// noteFuture counts a batch that was taken, and warns.
func (l *Log) noteFuture(a Appended, ahead int64, cfg *Config, now int64) {
	n := l.future.taken.Add(1)
	said := l.future.said.Load()
	if said != 0 && now-said < futurePause || !l.future.said.CompareAndSwap(said, now) {
		return
	}
	l.event("future-timestamp", a.LastOffset, "a producer's clock is ahead: records up to offset %d are dated up to %s after now (batches so far: %d); they keep their segment from expiring until then. message.timestamp.after.max.ms=%d refuses what is further ahead",
		a.LastOffset, age(ahead), n, cfg.TimestampAfterMaxMs)
}

// refused counts a batch that was refused for being too far ahead.
func (f *futureClock) refused(err error, b record.Batch, cfg *Config, now int64) {
	var invalid *record.InvalidError
	if errors.As(err, &invalid) && invalid.Fault == record.FaultTimestamp && b.MaxTimestamp()-now > cfg.TimestampAfterMaxMs {
		f.denied.Add(1)
	}
}

// FutureBatches tells how many batches from clients were dated ahead of the clock since the log was opened: those that were taken, and
// those that were too far ahead and refused.
func (l *Log) FutureBatches() (taken, refused int64) {
	return l.future.taken.Load(), l.future.denied.Load()
}
