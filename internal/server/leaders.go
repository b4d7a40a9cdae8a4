package server

import (
	"encoding/binary"
	"slices"

	"github.com/quire-log/quire/internal/metadata"
	"github.com/quire-log/quire/internal/wire"
)

// leaderHints gathers the nodes that lead the partitions which an answer refuses (KIP-951), so that a client need not ask for metadata.
type leaderHints struct{ nodes []int32 }

// append writes the tag section of a partition: who leads it.
//
//	count 1 | tag | size 9 | leaderId int32 | leaderEpoch int32 | no tags
func (h *leaderHints) append(b []byte, tag byte, img *metadata.Image, t *metadata.Topic, partition int32) []byte {
	if t == nil || partition < 0 || int(partition) >= len(t.Partitions) {
		return append(b, 0)
	}
	p := t.Partitions[partition]
	if p.Leader >= 0 && !slices.Contains(h.nodes, p.Leader) {
		h.nodes = append(h.nodes, p.Leader)
	}
	b = append(b, 1, tag, 9)
	b = binary.BigEndian.AppendUint32(b, uint32(p.Leader))
	b = binary.BigEndian.AppendUint32(b, uint32(p.LeaderEpoch))
	return append(b, 0)
}

// appendNodes writes the tag section of the answer: where those nodes are, as the client would learn it from Metadata.
func (h *leaderHints) appendNodes(b []byte, n *Node, img *metadata.Image, conn *wire.Conn) []byte {
	if len(h.nodes) == 0 || conn == nil {
		return append(b, 0)
	}
	v := n.view(img, conn)
	var nodes []byte
	count := 0
	for _, id := range h.nodes {
		broker := img.Broker(id)
		if broker == nil {
			continue
		}
		host, port, ok := v.address(broker)
		if !ok {
			continue
		}
		count++
		nodes = binary.BigEndian.AppendUint32(nodes, uint32(id))
		nodes = wire.AppendString(nodes, host, true)
		nodes = binary.BigEndian.AppendUint32(nodes, uint32(port))
		rack := ""
		if broker.Rack != nil {
			rack = *broker.Rack
		}
		nodes = wire.AppendNullableString(nodes, rack, broker.Rack == nil, true)
		nodes = append(nodes, 0)
	}
	if count == 0 {
		return append(b, 0)
	}
	list := append(wire.AppendArrayLen(nil, count, true), nodes...)
	b = append(b, 1, 0)
	b = binary.AppendUvarint(b, uint64(len(list)))
	return append(b, list...)
}
