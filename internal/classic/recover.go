package classic

import "fmt"

// A Cut reports what Open took off the end of the newest file, or left out at the end of another.
type Cut struct {
	Partition TopicPartition
	File      string // base name
	Pos       int64  // where in File
	Offset    Offset // the same in the log
	Bytes     int64
	Removed   bool  // the bytes are gone; else they stay and no read shows them
	Reason    error // why no valid entry is there
}

func (c Cut) String() string {
	did := "left out"
	if c.Removed {
		did = "cut off"
	}
	return fmt.Sprintf("%s: %s: %d bytes from byte %d, offset %d, were %s: %v", c.Partition, c.File, c.Bytes, c.Pos, c.Offset, did, c.Reason)
}

// recover walks the newest file and truncates it where the first entry is that is not valid: one that ends beyond the file (a
// block never written), or whose CRC is wrong (a block with nonsense in it, or zeros). What lies behind it goes with it: nobody
// knows whether those bytes are of this log.
func (l *Log) recover(s *segment, tell func(Cut)) error {
	size := s.size.Load()
	w := newWalker(l.active, 0, size)
	defer w.close()
	for !w.done() {
		h, fault, err := w.check()
		if err != nil {
			return fmt.Errorf("%s: %s: %w", l.partition, s.name, err)
		}
		if fault != nil {
			if err := l.active.Truncate(w.pos); err != nil {
				return err
			}
			// An entry written over a lost truncation could lead on to what was cut; Open syncs this before anyone appends.
			tell(Cut{l.partition, s.name, w.pos, s.base + Offset(w.pos), size - w.pos, true, fault})
			break
		}
		s.at.note(w.pos, w.pos+h.size)
		w.pos += h.size
	}
	s.size.Store(w.pos)
	return nil
}
