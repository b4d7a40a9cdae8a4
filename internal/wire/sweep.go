package wire

import "time"

const (
	// sweepMax and sweepMin bound how often the sweeper looks; in between it is a fraction of IdleMax.
	sweepMax = time.Second
	sweepMin = 10 * time.Millisecond
	// waitMin is how long a handler may take before the sweeper asks whether its client is still there.
	waitMin = time.Second
)

// sweep is the sweeper's goroutine; it ends with the server. Deadlines on each read and write would do the same at the
// cost of a timer for every request.
func (s *Server) sweep() {
	tick := time.NewTicker(min(max(s.limits.IdleMax/8, sweepMin), sweepMax))
	defer tick.Stop()
	var look []*Conn
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
		s.mu.Lock()
		for c := range s.conns {
			if s.clock()-time.Duration(c.since.Load()) > min(s.limits.IdleMax, waitMin) {
				look = append(look, c)
			}
		}
		s.mu.Unlock()
		for _, c := range look {
			c.inspect()
		}
		clear(look)
		look = look[:0]
	}
}

// inspect ends a connection on which nothing moved for too long, and the waiting of a handler whose client is gone.
func (c *Conn) inspect() {
	still := c.server.clock() - time.Duration(c.since.Load())
	phase := c.phase.Load()
	switch {
	case phase == handling:
		if still > waitMin && c.raw != nil && hungUp(c.raw) {
			c.cancel()
		}
	case still > c.server.limits.IdleMax:
		if phase == writing {
			c.server.faults.report("closed a connection: its client takes no answer", "client", c.nc.RemoteAddr(), "connections.max.idle.ms", c.server.limits.IdleMax.Milliseconds())
		}
		c.nc.Close()
	}
}
