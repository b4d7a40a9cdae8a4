package storage

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"math"
	"slices"
	"sync"
	"syscall"
	"time"
)

// A CleanerConfig says how compaction works. The zero one cleans nothing.
type CleanerConfig struct {
	Threads        int     // log.cleaner.threads
	DedupeBytes    int64   // log.cleaner.dedupe.buffer.size: memory of the offset maps of all threads
	LoadFactor     float64 // log.cleaner.io.buffer.load.factor
	BytesPerSecond float64 // log.cleaner.io.max.bytes.per.second: read and written, by all threads
	BackoffMs      int64   // log.cleaner.backoff.ms
}

// limited tells whether BytesPerSecond is a limit, and not merely a number that no disk reaches, as its default is.
func (c *CleanerConfig) limited() bool { return c.BytesPerSecond > 0 && c.BytesPerSecond < 1<<50 }

const (
	// internalMapBytes is the map of the lane that internal topics have to themselves, so that none of them waits behind a heavy
	// topic. It has room for 300,000 keys; more take another round.
	internalMapBytes = 8 << 20
	// mapBytesMax bounds one thread's map, as Kafka does.
	mapBytesMax = math.MaxInt32
	// retryMax is the longest time after which a partition that could not be cleaned is tried again.
	retryMax = time.Hour
	retryMin = time.Second
)

var internalTopics = []string{"__consumer_offsets", "__transaction_state", "__share_group_state"}

// A cleaner compacts the logs of a Manager. Each worker cleans one log after another, the dirtiest first; when none is due, it gives
// its memory back and waits for log.cleaner.backoff.ms. A log that cannot be cleaned is tried again after a time that doubles, and
// keeps nobody else waiting: Kafka leaves it alone until the next start.
type cleaner struct {
	m *Manager

	// mu guards the fields below. It may be taken under the Manager's, and is a leaf.
	mu      sync.Mutex
	ctx     context.Context // of all workers; nil before Start
	cfg     CleanerConfig
	workers []bool        // which are running; the last place is the lane of internal topics: see lane
	lane    bool          // it runs
	wake    chan struct{} // closed and replaced when settings change, the cleaner's or a log's
	running map[TopicPartition]context.CancelCauseFunc
	status  map[TopicPartition]*CleanStatus
	free    time.Time // until when what was paced takes, at BytesPerSecond
}

// A CleanStatus is what the cleaner knows of a partition.
type CleanStatus struct {
	Partition TopicPartition
	Log       *Log `json:"-"`
	Running   bool
	LastEnd   time.Time     // when the last cleaning ended; zero: there was none since the start
	Took      time.Duration // how long it took
	Last      CleanStats    // what it did
	Failures  int           // in a row
	Err       error         // why the last one failed; nil: it did not
	RetryAt   time.Time     // not before
}

func newCleaner(m *Manager) *cleaner {
	return &cleaner{m: m, wake: make(chan struct{}), running: map[TopicPartition]context.CancelCauseFunc{}, status: map[TopicPartition]*CleanStatus{}}
}

// SetCleaner changes how logs are cleaned; it acts at once, on a cleaning under way by its pace alone.
func (m *Manager) SetCleaner(cfg CleanerConfig) { m.cleaner.set(cfg) }

func (c *cleaner) set(cfg CleanerConfig) {
	c.mu.Lock()
	c.cfg = cfg
	c.mu.Unlock()
	c.rouse()
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	if c.m.started && !c.m.ended {
		c.hire()
	}
}

// rouse has workers that wait look now: what they decide by has changed, and log.cleaner.backoff.ms may be long.
func (c *cleaner) rouse() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.wake)
	c.wake = make(chan struct{})
}

// start begins the workers, which end with ctx. The Manager's mu is held: it counts them among its loops.
func (c *cleaner) start(ctx context.Context) {
	c.mu.Lock()
	c.ctx = ctx
	c.mu.Unlock()
	c.hire()
}

// hire starts the workers that are missing. Those that are too many leave by themselves.
func (c *cleaner) hire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.workers) < c.cfg.Threads {
		c.workers = append(c.workers, false)
	}
	for i := range c.cfg.Threads {
		if !c.workers[i] {
			c.workers[i] = true
			c.m.loops.Go(func() { c.work(c.ctx, i) })
		}
	}
	if c.cfg.Threads > 0 && !c.lane {
		c.lane = true
		c.m.loops.Go(func() { c.work(c.ctx, laneOfInternal) })
	}
}

// laneOfInternal is the number of the worker that cleans internal topics only.
const laneOfInternal = -1

// leaves tells whether worker i is one too many, and forgets it then.
func (c *cleaner) leaves(i int) (CleanerConfig, <-chan struct{}, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cfg.Threads > max(i, 0) {
		return c.cfg, c.wake, false
	}
	if i == laneOfInternal {
		c.lane = false
	} else {
		c.workers[i] = false
	}
	return c.cfg, nil, true
}

func (c *cleaner) work(ctx context.Context, i int) {
	var round *cleanRound
	for ctx.Err() == nil {
		cfg, wake, leaves := c.leaves(i)
		if leaves {
			return
		}
		if round == nil {
			round = &cleanRound{pace: c.pace, workers: cleanWorkers}
		}
		round.load, round.sparing = cfg.LoadFactor, cfg.limited()
		round.memory = min(cfg.DedupeBytes/int64(cfg.Threads), mapBytesMax)
		if i == laneOfInternal {
			round.memory = min(round.memory, internalMapBytes)
		}
		did := c.cleanOne(ctx, round, i)
		if i == 0 {
			c.retain(ctx)
		}
		if did {
			continue
		}
		round = nil
		timer := time.NewTimer(max(millis(cfg.BackoffMs), time.Millisecond))
		select {
		case <-ctx.Done():
		case <-wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// A candidate is a log that is due to be cleaned.
type candidate struct {
	h        *heldLog
	plan     cleanPlan
	internal bool
}

// cleanOne cleans the log that needs it most, if one is due.
func (c *cleaner) cleanOne(ctx context.Context, round *cleanRound, worker int) (did bool) {
	var due []candidate
	for _, h := range c.m.heldIn(nil, nil) {
		internal := slices.Contains(internalTopics, h.tp.Topic)
		if !h.log.Config().Compact || worker == laneOfInternal && !internal || c.rests(h) {
			continue
		}
		plan, err := c.m.planFor(h)
		if err != nil {
			if h.log.Err() == nil && !errors.Is(err, errSegmentGone) {
				c.failed(h, err, CleanStats{}, 0)
			}
			continue
		}
		if plan.CheckpointInvalid {
			c.m.log.Warn("the cleaner's checkpoint does not fit the log: all of it counts as dirty", "partition", h.tp.String(), "log_start", plan.First)
			c.checkpoint(h, plan.First)
		}
		if plan.Due {
			due = append(due, candidate{h, plan, internal})
		}
	}
	slices.SortStableFunc(due, func(a, b candidate) int {
		if a.internal != b.internal {
			if a.internal {
				return -1
			}
			return 1
		}
		return cmp.Compare(b.plan.Ratio, a.plan.Ratio)
	})
	for _, d := range due {
		if cleaning, end, ok := c.begin(ctx, d.h); ok {
			c.clean(cleaning, round, d, worker)
			end()
			return true
		}
	}
	return false
}

// planFor decides about cleaning a log now.
func (m *Manager) planFor(h *heldLog) (cleanPlan, error) {
	checkpoint := h.dir.cleanedTo(h.tp)
	m.hearWatermark(h)
	hw, ok := watermark(h)
	if !ok {
		hw = 0
	}
	v, err := h.log.cleanView(checkpoint, hw)
	if err != nil {
		return cleanPlan{}, err
	}
	return planClean(nowMs(), v), nil
}

// rests tells whether a log is being cleaned, or waits to be tried again.
func (c *cleaner) rests(h *heldLog) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running[h.tp] != nil || h.log.Err() != nil {
		return true
	}
	s := c.status[h.tp]
	return s != nil && s.Log == h.log && time.Now().Before(s.RetryAt)
}

// busy tells whether a log is being cleaned: deleting segments from under that would be work for nothing.
func (c *cleaner) busy(tp TopicPartition) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running[tp] != nil
}

// begin takes a log to be cleaned, unless another worker has it.
func (c *cleaner) begin(ctx context.Context, h *heldLog) (_ context.Context, end func(), ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running[h.tp] != nil {
		return nil, nil, false
	}
	ctx, cancel := context.WithCancelCause(ctx)
	c.running[h.tp] = cancel
	return ctx, func() {
		cancel(nil)
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.running, h.tp)
	}, true
}

// abort ends a cleaning soon, and forgets the partition.
func (c *cleaner) abort(tp TopicPartition, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cancel := c.running[tp]; cancel != nil {
		cancel(errors.New(why))
	}
	delete(c.status, tp)
}

func (c *cleaner) clean(ctx context.Context, round *cleanRound, d candidate, worker int) {
	h, began := d.h, time.Now()
	end, stats, err := round.run(ctx, h.log, d.plan.First, d.plan.Limit, began.UnixMilli())
	took := time.Since(began)
	switch {
	case err == nil:
		c.checkpoint(h, end)
		c.note(h, func(s *CleanStatus) {
			*s = CleanStatus{Partition: h.tp, Log: h.log, LastEnd: time.Now(), Took: took, Last: stats}
		})
		c.m.log.Info("cleaned a log", "partition", h.tp.String(), "thread", worker, "because", d.plan.Why, "did", stats.String(), "took", took.Round(time.Millisecond))
	case errors.Is(err, errCleaningAborted) || ctx.Err() != nil:
		c.m.log.Info("a cleaning was given up", "partition", h.tp.String(), "cause", err)
		c.note(h, func(s *CleanStatus) { s.RetryAt = time.Now().Add(retryMin) })
	default:
		c.failed(h, err, stats, took)
		if errors.Is(err, syscall.EIO) || errors.Is(err, syscall.EROFS) {
			h.dir.fail(err)
		}
	}
}

// failed notes that a log could not be cleaned, and when it is tried again.
func (c *cleaner) failed(h *heldLog, err error, stats CleanStats, took time.Duration) {
	var wait time.Duration
	c.note(h, func(s *CleanStatus) {
		s.Failures++
		s.Err, s.Last, s.Took, s.LastEnd = err, stats, took, time.Now()
		wait = min(retryMin<<min(s.Failures, 20), retryMax)
		s.RetryAt = time.Now().Add(wait)
	})
	c.m.log.Error("a log could not be cleaned: others are, and this is tried again", "partition", h.tp.String(), "error", err, "again_in", wait)
	c.m.o.Events(Event{Partition: h.tp, Kind: "clean-failed", Offset: -1, Cause: err.Error()})
}

func (c *cleaner) note(h *heldLog, change func(*CleanStatus)) {
	deleted := c.m.Log(h.tp) != h.log
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.status[h.tp]
	if s == nil || s.Log != h.log {
		s = &CleanStatus{Partition: h.tp, Log: h.log}
	}
	change(s)
	if !deleted {
		c.status[h.tp] = s
	}
}

// checkpoint keeps up to where a log is clean.
func (c *cleaner) checkpoint(h *heldLog, end Offset) {
	if err := c.m.setCleaned(h, end); err != nil {
		c.m.log.Error("the cleaner's checkpoint was not written", "directory", h.dir.path, "error", err)
	}
}

// pace waits until n more bytes are within log.cleaner.io.max.bytes.per.second.
func (c *cleaner) pace(ctx context.Context, n int) error {
	c.mu.Lock()
	rate := c.cfg.BytesPerSecond
	if !c.cfg.limited() {
		c.mu.Unlock()
		return nil
	}
	now := time.Now()
	if c.free.Before(now) {
		c.free = now
	}
	wait := c.free.Sub(now)
	c.free = c.free.Add(time.Duration(min(float64(n)/rate, 3600) * float64(time.Second)))
	c.mu.Unlock()
	if wait <= 0 {
		return nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return abortf("%v", context.Cause(ctx))
	case <-timer.C:
		return nil
	}
}

// retain applies retention to compacted logs, which Kafka's cleaner does after each turn.
func (c *cleaner) retain(ctx context.Context) {
	for _, h := range c.m.heldIn(nil, nil) {
		if ctx.Err() != nil {
			return
		}
		if h.log.Config().Compact {
			c.m.retainLog(h)
		}
	}
}

// CleanerStatuses lists what the cleaner knows of partitions that it has tried, in no order.
func (m *Manager) CleanerStatuses() []CleanStatus {
	c := m.cleaner
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]CleanStatus, 0, len(c.status))
	for tp, s := range c.status {
		status := *s
		status.Running = c.running[tp] != nil
		all = append(all, status)
	}
	return all
}

// cleanedTo is up to where the checkpoint says that a log is clean, -1 if nothing.
func (d *dataDir) cleanedTo(tp TopicPartition) Offset {
	d.mu.Lock()
	defer d.mu.Unlock()
	if o, ok := d.cleaner.kept[tp]; ok {
		return o
	}
	return -1
}

// setCleaned changes it, unless the log has been deleted.
func (m *Manager) setCleaned(h *heldLog, to Offset) error {
	d := h.dir
	d.mu.Lock()
	if m.Log(h.tp) != h.log {
		d.mu.Unlock()
		return nil
	}
	d.cleaner.kept[h.tp] = to
	d.cleaner.changed = true
	d.mu.Unlock()
	err := d.writeCleaner()
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the directory is gone, and with it the log
	}
	return err
}
