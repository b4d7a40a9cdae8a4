package controller

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/metadata"
)

// DeleteTopics deletes topics by name or, from version 6 on, id. Their partitions are gone from this node when it answers.
func (c *Controller) DeleteTopics(ctx context.Context, r *kmsg.DeleteTopicsRequest) *kmsg.DeleteTopicsResponse {
	resp := r.ResponseKind().(*kmsg.DeleteTopicsResponse)
	asked := r.Topics
	if r.Version < 6 {
		asked = nil
		for _, name := range r.TopicNames {
			t := kmsg.NewDeleteTopicsRequestTopic()
			t.Topic = &name
			asked = append(asked, t)
		}
	}
	refuseAll := func(err error) {
		resp.Topics = resp.Topics[:0]
		for _, t := range asked {
			resp.Topics = append(resp.Topics, deleted(t.Topic, t.TopicID, err))
		}
	}
	if !c.static("delete.topic.enable").Bool() {
		if r.Version < 3 { // it had no code for this
			refuseAll(refuse(kerr.InvalidRequest, "Topic deletion is disabled."))
		} else {
			refuseAll(refuse(kerr.TopicDeletionDisabled, "Topic deletion is disabled."))
		}
		return resp
	}
	err := c.write(ctx, func(d draft) ([]kmeta.Record, error) {
		var recs []kmeta.Record
		recs, resp.Topics = deleteTopics(d.img, asked)
		return recs, nil
	})
	if err != nil {
		refuseAll(err)
	}
	return resp
}

func deleted(name *string, id kmeta.UUID, err error) kmsg.DeleteTopicsResponseTopic {
	t := kmsg.NewDeleteTopicsResponseTopic()
	if name != nil {
		own := *name
		t.Topic = &own
	}
	t.TopicID = id
	t.ErrorCode, t.ErrorMessage = answer(err)
	return t
}

// deleteTopics decides a request on an image: who asks for the same topic twice gets neither.
func deleteTopics(img *metadata.Image, asked []kmsg.DeleteTopicsRequestTopic) (recs []kmeta.Record, answers []kmsg.DeleteTopicsResponseTopic) {
	names, ids := map[string]int{}, map[kmeta.UUID]int{}
	for _, t := range asked {
		switch {
		case t.Topic == nil && t.TopicID != (kmeta.UUID{}):
			ids[t.TopicID]++
		case t.Topic != nil && t.TopicID == (kmeta.UUID{}):
			names[*t.Topic]++
		}
	}
	for _, t := range asked {
		byName, byID := t.Topic != nil, t.TopicID != (kmeta.UUID{})
		switch {
		case byName && byID:
			answers = append(answers, deleted(t.Topic, t.TopicID, refuse(kerr.InvalidRequest, "You may not specify both topic name and topic id.")))
		case !byName && !byID:
			answers = append(answers, deleted(nil, t.TopicID, refuse(kerr.InvalidRequest, "Neither topic name nor id were specified.")))
		case byName:
			n := names[*t.Topic]
			names[*t.Topic] = 0
			if n == 0 {
				continue // answered already
			}
			topic := img.Topic(*t.Topic)
			var err error
			switch {
			case n > 1:
				err = refuse(kerr.InvalidRequest, "Duplicate topic name.")
			case topic == nil:
				err = refuse(kerr.UnknownTopicOrPartition, "This server does not host this topic-partition.")
			case ids[topic.ID] > 0:
				err = refuse(kerr.InvalidRequest, "The provided topic name maps to an ID that was already supplied.")
			}
			if err != nil {
				answers = append(answers, deleted(t.Topic, kmeta.UUID{}, err))
				continue
			}
			recs = append(recs, &kmeta.RemoveTopicRecord{TopicID: topic.ID})
			answers = append(answers, deleted(&topic.Name, topic.ID, nil))
		default:
			n := ids[t.TopicID]
			if n == 0 {
				continue
			}
			topic := img.TopicByID(t.TopicID)
			var err error
			switch {
			case n > 1:
				ids[t.TopicID] = 0
				err = refuse(kerr.InvalidRequest, "Duplicate topic id.")
			case topic == nil:
				err = refuse(kerr.UnknownTopicID, "This server does not host this topic ID.")
			}
			if err != nil {
				answers = append(answers, deleted(nil, t.TopicID, err))
				continue
			}
			recs = append(recs, &kmeta.RemoveTopicRecord{TopicID: topic.ID})
			answers = append(answers, deleted(&topic.Name, topic.ID, nil))
		}
	}
	return recs, answers
}
