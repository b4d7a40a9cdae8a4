package classic

import (
	"slices"
	"time"
)

const (
	// LatestTime and EarliestTime stand for the log's end and for its first offset, in OffsetsBefore.
	LatestTime   = -1
	EarliestTime = -2
)

// OffsetsBefore returns offsets that are good to begin at, the newest first, at most n: those of the files that were last
// changed at or before ms (since 1970), and the log's end if the newest file is not empty and that was before ms. LatestTime
// begins with the log's end, EarliestTime is the first offset alone.
func (l *Log) OffsetsBefore(ms int64, n int) ([]Offset, error) {
	if n <= 0 {
		return nil, nil
	}
	end := l.EndOffset() // before the segments: see Log
	if ms == EarliestTime {
		return []Offset{l.FirstOffset()}, nil
	}
	infos, err := l.Segments()
	if err != nil {
		return nil, err
	}
	type at struct {
		offset Offset
		ms     int64
	}
	all := make([]at, 0, len(infos)+1)
	for _, s := range infos {
		if s.Base <= end {
			all = append(all, at{s.Base, s.Modified.UnixMilli()})
		}
	}
	if len(all) == 0 || all[len(all)-1].offset < end {
		all = append(all, at{end, time.Now().UnixMilli()})
	}
	slices.Reverse(all)
	if ms != LatestTime {
		i := slices.IndexFunc(all, func(a at) bool { return a.ms <= ms })
		if i < 0 {
			return nil, nil
		}
		all = all[i:]
	}
	offsets := make([]Offset, min(n, len(all)))
	for i := range offsets {
		offsets[i] = all[i].offset
	}
	return offsets, nil
}
