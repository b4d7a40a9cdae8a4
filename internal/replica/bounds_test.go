package replica

import (
	"sync"
	"testing"

	"github.com/quire-log/quire/internal/storage"
)

// What a partition holds is told as of one moment, while it grows and is emptied.
func TestBoundsOfOneMoment(t *testing.T) {
	c := newCluster(t)
	c.create("t", 1)
	p := c.m.Partition("t", 0)
	var done sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		done.Go(func() {
			var last storage.Bounds
			for {
				b, err := p.Bounds()
				if err != nil {
					t.Error(err)
					return
				}
				if b.Start > b.Stable || b.Stable > b.HighWatermark || b.HighWatermark > b.End {
					t.Errorf("%+v", b)
					return
				}
				if b.Start < last.Start || b.Stable < last.Stable || b.HighWatermark < last.HighWatermark || b.End < last.End {
					t.Errorf("%+v after %+v", b, last)
					return
				}
				last = b
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	for range 8000 {
		if _, err := p.Append(batchOf(t, "a", "b"), 1, storage.AppendOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := p.DeleteRecords(-1); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	done.Wait()
	if b, err := p.Bounds(); err != nil || b != (storage.Bounds{Start: 16000, Stable: 16000, HighWatermark: 16000, End: 16000}) {
		t.Errorf("%+v, %v", b, err)
	}
}
