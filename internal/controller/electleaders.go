package controller

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/metadata"
)

// Kinds of an election that a client asks for.
const (
	electPreferred = 0
	electUnclean   = 1
)

// ElectLeaders has partitions led by the first of their replicas, or by any that lives. Of all partitions (null topics) those that need no
// election are not named in the answer.
func (c *Controller) ElectLeaders(ctx context.Context, r *kmsg.ElectLeadersRequest) *kmsg.ElectLeadersResponse {
	resp := r.ResponseKind().(*kmsg.ElectLeadersResponse)
	kind := r.ElectionType
	if r.Version == 0 {
		kind = electPreferred
	}
	if kind != electPreferred && kind != electUnclean {
		resp.ErrorCode = kerr.InvalidRequest.Code
		return resp
	}
	err := c.write(ctx, func(d draft) ([]kmeta.Record, error) {
		e := c.election(d.img)
		var recs []kmeta.Record
		if r.Topics == nil {
			for t := range d.img.Topics() {
				out := kmsg.NewElectLeadersResponseTopic()
				out.Topic = t.Name
				for n := range t.Partitions {
					rec, err := e.asked(t, int32(n), kind)
					if err != nil && err.code == kerr.ElectionNotNeeded.Code {
						continue
					}
					recs = appendElection(recs, &out, int32(n), rec, err)
				}
				if len(out.Partitions) > 0 {
					resp.Topics = append(resp.Topics, out)
				}
			}
			return recs, nil
		}
		done := map[string]map[int32]bool{}
		for _, in := range r.Topics {
			out := kmsg.NewElectLeadersResponseTopic()
			out.Topic = in.Topic
			if done[in.Topic] == nil {
				done[in.Topic] = map[int32]bool{}
			}
			for _, n := range in.Partitions {
				if done[in.Topic][n] {
					continue // it has its answer
				}
				done[in.Topic][n] = true
				t := d.img.Topic(in.Topic)
				if t == nil {
					recs = appendElection(recs, &out, n, nil, refuse(kerr.UnknownTopicOrPartition, "No such topic as "+in.Topic))
					continue
				}
				rec, err := e.asked(t, n, kind)
				recs = appendElection(recs, &out, n, rec, err)
			}
			resp.Topics = append(resp.Topics, out)
		}
		return recs, nil
	})
	if err != nil {
		resp.ErrorCode, _ = answer(err)
		resp.Topics = nil
	}
	return resp
}

func appendElection(recs []kmeta.Record, out *kmsg.ElectLeadersResponseTopic, n int32, rec *kmeta.PartitionChangeRecord, err *refusal) []kmeta.Record {
	p := kmsg.NewElectLeadersResponseTopicPartition()
	p.Partition = n
	if err != nil {
		p.ErrorCode, p.ErrorMessage = answer(err)
	} else {
		recs = append(recs, rec)
	}
	out.Partitions = append(out.Partitions, p)
	return recs
}

// asked decides an election that a client asked for.
func (e *election) asked(t *metadata.Topic, n int32, kind int8) (*kmeta.PartitionChangeRecord, *refusal) {
	if n < 0 || int(n) >= len(t.Partitions) {
		return nil, refuse(kerr.UnknownTopicOrPartition, fmt.Sprintf("No such partition as %s-%d", t.Name, n))
	}
	p := t.Partitions[n]
	var rec *kmeta.PartitionChangeRecord
	if kind == electPreferred {
		if p.Leader == p.Replicas[0] {
			return nil, refuse(kerr.ElectionNotNeeded, "Leader election not needed for topic partition.")
		}
		asIf := *p
		asIf.Leader = -1 // so that the present leader has no advantage
		e.rules(t)
		if leader, unclean := e.elect(&asIf, p.ISR); leader == p.Replicas[0] && !unclean {
			rec = e.change(t, &asIf, p.ISR)
		}
		if rec == nil {
			return nil, refuse(kerr.PreferredLeaderNotAvailable, "The preferred leader was not available.")
		}
	} else {
		if p.Leader >= 0 {
			return nil, refuse(kerr.ElectionNotNeeded, "Leader election not needed for topic partition.")
		}
		e.rules(t)
		e.unclean = true
		rec = e.change(t, p, p.ISR)
		e.topic = nil // the topic's own rule holds for whoever comes next
		if rec == nil || rec.Leader < 0 {
			return nil, refuse(kerr.EligibleLeadersNotAvailable, "Eligible topic partition leaders are not available.")
		}
	}
	rec.TopicID, rec.PartitionID = t.ID, n
	return rec, nil
}
