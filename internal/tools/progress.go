package tools

import (
	"fmt"
	"io"
	"strings"
	"time"
)

const (
	progressWidth = 30 // of the bar
	progressEach  = 100 * time.Millisecond
)

// A progress draws a bar on a terminal, and nothing into a pipe. It belongs to one goroutine.
type progress struct {
	w           io.Writer // nil: nothing is drawn
	done, total int64     // bytes
	drawn       time.Time
	width       int // of the line on the screen
}

// newProgress draws on stderr if that is a terminal.
func newProgress(stderr io.Writer) *progress {
	p := &progress{}
	if isTerminal(stderr) {
		p.w = stderr
	}
	return p
}

// add notes work done, on what.
func (p *progress) add(n int64, what string) {
	p.done += n
	if p.w == nil || time.Since(p.drawn) < progressEach {
		return
	}
	p.drawn = time.Now()
	line := progressLine(p.done, p.total, what)
	fmt.Fprintf(p.w, "\r%-*s", p.width, line)
	p.width = len(line)
}

// clear takes the bar off the screen, before anything else is printed.
func (p *progress) clear() {
	if p.w != nil && p.width > 0 {
		fmt.Fprintf(p.w, "\r%*s\r", p.width, "")
		p.width = 0
	}
}

func progressLine(done, total int64, what string) string {
	part := 1.0
	if total > 0 {
		part = min(1, float64(done)/float64(total))
	}
	full := int(part * progressWidth)
	return fmt.Sprintf("[%s%s] %3.0f%% of %s  %s", strings.Repeat("=", full), strings.Repeat(" ", progressWidth-full), part*100, sizeText(total), what)
}

// sizeText is a number of bytes for people: 812 B, 1.5 KiB, 20.0 GiB.
func sizeText(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value, names := float64(n)/unit, []string{"KiB", "MiB", "GiB", "TiB"}
	for len(names) > 1 && value >= unit {
		value, names = value/unit, names[1:]
	}
	return fmt.Sprintf("%.1f %s", value, names[0])
}
