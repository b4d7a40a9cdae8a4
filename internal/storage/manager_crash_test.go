package storage

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/vfs"
)

// A crash at any step of a node's life with its partitions, several times over: what was made is there with all that was flushed, what
// was deleted is not, and a second life of a name has nothing of the first.
func TestManagerCrashes(t *testing.T) {
	for seed := range uint64(150) {
		if err := crashingLife(t, seed); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// A knownLog is what a test knows of a partition.
type knownLog struct {
	life    byte   // of the topic, its id
	flushed Offset // what a Flush covered
	end     Offset // what was appended since its creation
}

func crashingLife(t *testing.T, seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, 7))
	fs := vfs.NewMem()
	dirs := []string{"/a", "/b"}
	for i, d := range dirs {
		if err := Format(fs, d, Meta{"c", 1, TopicID{0: 0x33, 15: byte(i)}}, nil); err != nil {
			return err
		}
	}
	known := map[TopicPartition]knownLog{}
	lives := byte(1)
	for round := range 4 {
		m, err := OpenManager(ManagerOptions{FS: fs, Dirs: dirs, NodeID: 1, RecoveryThreads: 1, HighWatermark: func(TopicPartition) (Offset, bool) { return 0, true }})
		if err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		// Metadata remembers what was made, though the power went before anybody heard of it.
		err = m.LoadLogs(t.Context(), func(tp TopicPartition, id TopicID) bool {
			k, ok := known[tp]
			return ok && id == TopicID{0: 0x44, 1: k.life}
		})
		if err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		for _, d := range m.Dirs() {
			if d.Err != nil || len(d.Failed) > 0 {
				return fmt.Errorf("round %d: %s: %v, %v", round, d.Path, d.Err, d.Failed)
			}
		}
		for tp, k := range known {
			l := m.Log(tp)
			if l == nil {
				return fmt.Errorf("round %d: %s is gone, with %d records flushed", round, tp, k.flushed)
			}
			if l.StartOffset() != 0 || l.EndOffset() < k.flushed || l.EndOffset() > k.end {
				return fmt.Errorf("round %d: %s is [%d, %d), flushed %d, appended %d", round, tp, l.StartOffset(), l.EndOffset(), k.flushed, k.end)
			}
			known[tp] = knownLog{k.life, l.EndOffset(), l.EndOffset()}
		}
		if n := len(m.Logs()); n != len(known) {
			return fmt.Errorf("round %d: %d logs, want %d", round, n, len(known))
		}

		fs.CrashAfter(1 + rng.IntN(150))
		for err = error(nil); err == nil; {
			err = oneStep(m, rng, known, &lives)
		}
		if !errors.Is(err, vfs.ErrCrashed) {
			return fmt.Errorf("round %d: %w", round, err)
		}
		m.Abort()
		fs = fs.AfterCrash(rng.Uint64())
	}
	return nil
}

func oneStep(m *Manager, rng *rand.Rand, known map[TopicPartition]knownLog, lives *byte) error {
	tp := TopicPartition{"t", rng.Int32N(4)}
	k, exists := known[tp]
	switch step := rng.IntN(12); {
	case !exists:
		*lives++
		if _, err := m.CreateLog(tp, TopicID{0: 0x44, 1: *lives}); err != nil {
			return err
		}
		known[tp] = knownLog{life: *lives}
	case step == 0:
		before := maps.Clone(known)
		delete(known, tp)
		if err := m.DeleteLog(tp); err != nil {
			if errors.Is(err, vfs.ErrCrashed) && m.Log(tp) != nil {
				// Whether the rename came through is open; metadata says that the partition is deleted, so that
				// the next start calls it stray.
				return err
			}
			known[tp] = before[tp]
			return err
		}
	case step == 1:
		return m.writeCheckpoints(m.dirs[rng.IntN(2)])
	case step <= 4:
		if err := m.Log(tp).Flush(); err != nil {
			return err
		}
		k.flushed = k.end
		known[tp] = k
	default:
		b := record.NewBuilder()
		b.Add(record.Record{Timestamp: 1, Value: make([]byte, rng.IntN(300))})
		batch, err := b.Batch(nil)
		if err != nil {
			return err
		}
		k.end++ // it may be on the disk though the append failed
		known[tp] = k
		if _, err := m.Log(tp).Append(batch, AppendOptions{}); err != nil {
			return err
		}
	}
	return nil
}
