package server

import (
	"github.com/quire-log/quire/internal/metadata"
)

// coordinate begins to serve groups and transactions, from an image on. The partitions are led by then.
func (n *Node) coordinate(img *metadata.Image) {
	n.startGroups(img)
	n.startTransactions(img)
}

// followCoordinators lets the coordinators follow an image, once the partitions do.
func (n *Node) followCoordinators(img *metadata.Image, d *metadata.Delta) {
	if n.groups != nil {
		n.groups.apply(img, d)
	}
	if n.transactions != nil {
		n.transactions.apply(img, d)
	}
}

// stopCoordinators ends them: whoever waits is answered NOT_COORDINATOR.
func (n *Node) stopCoordinators() {
	if n.transactions != nil {
		n.transactions.close() // first: its markers are told to groups
	}
	if n.groups != nil {
		n.groups.close()
	}
}
