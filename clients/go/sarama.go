package main

import (
	"context"
	"errors"
	"time"

	"github.com/IBM/sarama"
)

// A claims is what sarama calls back, as a session begins, for each partition of it, and as it ends.
type claims struct {
	member
	topic string
}

// saramas knows the mode range.
func saramas(ctx context.Context, m member, bootstrap, group, topic, mode string) error {
	if mode != "range" {
		return errors.New("unknown mode " + mode)
	}
	c := sarama.NewConfig()
	c.Version = sarama.MaxVersion
	c.ClientID = m.id
	c.Consumer.Group.Session.Timeout = sessionTimeout
	c.Consumer.Group.Heartbeat.Interval = heartbeatInterval
	c.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategyRange()}
	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	c.Consumer.Offsets.AutoCommit.Enable = false
	c.Consumer.MaxWaitTime = 200 * time.Millisecond
	c.Consumer.Retry.Backoff = 200 * time.Millisecond
	c.Metadata.Retry.Max = 100
	g, err := sarama.NewConsumerGroup([]string{bootstrap}, group, c)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		if err := g.Consume(ctx, []string{topic}, claims{m, topic}); err != nil && ctx.Err() == nil {
			m.say("failed %v", err)
			time.Sleep(200 * time.Millisecond) // the node is away: the next try finds it, or waits likewise
		}
	}
	return g.Close()
}

func (c claims) Setup(s sarama.ConsumerGroupSession) error {
	c.assigned(s.Claims()[c.topic])
	return nil
}

func (c claims) Cleanup(s sarama.ConsumerGroupSession) error {
	s.Commit()
	c.assigned(nil)
	return nil
}

// ConsumeClaim commits what it read whenever nothing more is there. Commit does not say whether it worked, so nothing is said of it here.
func (c claims) ConsumeClaim(s sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case r, ok := <-claim.Messages():
			if !ok {
				return nil
			}
			c.read(r.Partition, r.Offset, r.Value)
			s.MarkMessage(r, "")
			if len(claim.Messages()) == 0 {
				s.Commit()
			}
		case <-s.Context().Done():
			return nil
		}
	}
}
