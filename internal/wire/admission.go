package wire

// ConnectionsMax are the bounds of connections: of all, and of an address.
func (s *Server) ConnectionsMax() (total, perIP int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.limits.ConnectionsMax, s.limits.ConnectionsPerIPMax
}

// SetConnectionsMax changes how many connections there may be, in all and from one address: max.connections and max.connections.per.ip
// while the server runs. Zero lets no more in. Connections that are there stay; those that wait to be accepted look again.
func (s *Server) SetConnectionsMax(all, perIP int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limits.ConnectionsMax, s.limits.ConnectionsPerIPMax = all, perIP
	s.changed.Broadcast()
}
