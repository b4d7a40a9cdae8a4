package tools

import (
	"io"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// A sharedWriter is a writer for several goroutines, some of which a client does not wait for: after close it takes nothing.
type sharedWriter struct {
	mu     sync.Mutex // guards the fields below, and is held over writes
	w      io.Writer
	closed bool
}

func (s *sharedWriter) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return len(p), nil
	}
	return s.w.Write(p)
}

func (s *sharedWriter) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// An importBar shows progress on a terminal; elsewhere it does nothing.
type importBar struct {
	progress *mpb.Progress
	redraw   chan any
	bar      *mpb.Bar
	shown    time.Time
}

// barEvery is how often the bar is drawn anew.
const barEvery = 100 * time.Millisecond

func newImportBar(w io.Writer, name string, total int64) *importBar {
	if !isTerminal(w) {
		return &importBar{}
	}
	redraw := make(chan any)
	p := mpb.New(mpb.WithOutput(w), mpb.WithManualRefresh(redraw))
	bar := p.AddBar(total,
		mpb.PrependDecorators(decor.Name(name+" "), decor.CountersKibiByte("% .1f / % .1f")),
		mpb.AppendDecorators(decor.Percentage(), decor.AverageETA(decor.ET_STYLE_GO, decor.WC{W: 8})))
	b := &importBar{progress: p, redraw: redraw, bar: bar}
	b.draw()
	b.draw() // the second is taken when the first is under way: even a short import has been seen
	return b
}

func (b *importBar) draw() {
	b.shown = time.Now()
	select {
	case b.redraw <- nil:
	case <-time.After(barEvery): // a terminal that takes nothing keeps nobody waiting
	}
}

func (b *importBar) at(done int64) {
	if b.bar != nil && time.Since(b.shown) >= barEvery {
		b.bar.SetCurrent(done)
		b.draw()
	}
}

// end takes the bar away, if it is there.
func (b *importBar) end() {
	if b.bar != nil {
		b.bar.Abort(true)
		b.progress.Wait()
		b.bar = nil
	}
}
