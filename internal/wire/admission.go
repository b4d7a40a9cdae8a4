package wire

// SetConnectionsMax changes how many connections there may be, in all and from one address: max.connections and max.connections.per.ip
// while the server runs. Zero lets no more in. Connections that are there stay; those that wait to be accepted look again.
func (s *Server) SetConnectionsMax(all, perIP int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limits.ConnectionsMax, s.limits.ConnectionsPerIPMax = all, perIP
	s.changed.Broadcast()
}
