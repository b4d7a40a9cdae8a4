package controller

import (
	"context"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/metadata"
)

// CreatePartitions gives topics more partitions: Count is how many there shall be in all.
func (c *Controller) CreatePartitions(ctx context.Context, r *kmsg.CreatePartitionsRequest) *kmsg.CreatePartitionsResponse {
	resp := r.ResponseKind().(*kmsg.CreatePartitionsResponse)
	add := func(name string, err error) {
		t := kmsg.NewCreatePartitionsResponseTopic()
		t.Topic = name
		t.ErrorCode, t.ErrorMessage = answer(err)
		resp.Topics = append(resp.Topics, t)
	}
	err := c.write(ctx, func(d draft) ([]kmeta.Record, error) {
		seen := map[string]int{}
		for _, t := range r.Topics {
			seen[t.Topic]++
		}
		var recs []kmeta.Record
		for i := range r.Topics {
			t := &r.Topics[i]
			switch n := seen[t.Topic]; {
			case n > 1:
				add(t.Topic, refuse(kerr.InvalidRequest, "Duplicate topic name."))
				seen[t.Topic] = 0
			case n == 1:
				more, err := createPartitions(d.img, t, partitionsMax-len(recs))
				recs = append(recs, more...)
				add(t.Topic, err)
			}
		}
		if r.ValidateOnly {
			return nil, nil
		}
		return recs, nil
	})
	if err != nil {
		resp.Topics = resp.Topics[:0]
		for _, t := range r.Topics {
			add(t.Topic, err)
		}
	}
	return resp
}

// createPartitions decides one topic of a request; room is how many partitions may still come.
func createPartitions(img *metadata.Image, t *kmsg.CreatePartitionsRequestTopic, room int) ([]kmeta.Record, error) {
	topic := img.Topic(t.Topic)
	if topic == nil {
		return nil, refuse(kerr.UnknownTopicOrPartition, "This server does not host this topic-partition.")
	}
	now := len(topic.Partitions)
	switch {
	case int(t.Count) == now:
		return nil, refuse(kerr.InvalidPartitions, fmt.Sprintf("Topic already has %d partition(s).", now))
	case int(t.Count) < now:
		return nil, refuse(kerr.InvalidPartitions, fmt.Sprintf("The topic %s currently has %d partition(s); %d would not be an increase.", t.Topic, now, t.Count))
	}
	more := int(t.Count) - now
	if more > room {
		return nil, refuse(kerr.PolicyViolation, partitionsMaxMessage)
	}
	factor := len(topic.Partitions[0].Replicas)
	var assignments [][]int32
	if t.Assignment == nil {
		var err error
		if assignments, err = place(img, more, factor); err != nil {
			return nil, err
		}
	} else {
		if len(t.Assignment) != more {
			return nil, refuse(kerr.InvalidReplicaAssignment, fmt.Sprintf("Attempted to add %d additional partition(s), but only %d assignment(s) were specified.", more, len(t.Assignment)))
		}
		for i, a := range t.Assignment {
			if err := checkAssignment(img, int32(now+i), a.Replicas, factor); err != nil {
				return nil, err
			}
			assignments = append(assignments, slices.Clone(a.Replicas))
		}
	}
	var recs []kmeta.Record
	for i, replicas := range assignments {
		recs = append(recs, newPartition(img, topic.ID, int32(now+i), replicas))
	}
	return recs, nil
}
