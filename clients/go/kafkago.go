package main

import (
	"context"
	"errors"
	"time"

	"github.com/segmentio/kafka-go"
)

// segmentio knows the mode range.
func segmentio(ctx context.Context, m member, bootstrap, group, topic, mode string) error {
	if mode != "range" {
		return errors.New("unknown mode " + mode)
	}
	g, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID: group, Brokers: []string{bootstrap}, Topics: []string{topic}, Dialer: &kafka.Dialer{ClientID: m.id, Timeout: 10 * time.Second},
		GroupBalancers: []kafka.GroupBalancer{kafka.RangeGroupBalancer{}}, StartOffset: kafka.FirstOffset,
		SessionTimeout: sessionTimeout, HeartbeatInterval: heartbeatInterval, JoinGroupBackoff: 200 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	for {
		gen, err := g.Next(ctx)
		if ctx.Err() != nil {
			return g.Close()
		}
		if err != nil {
			m.say("failed %v", err)
			time.Sleep(200 * time.Millisecond) // the node is away: the next try finds it, or waits likewise
			continue
		}
		var partitions []int32
		for _, a := range gen.Assignments[topic] {
			partitions = append(partitions, int32(a.ID))
		}
		m.assigned(nil) // the generation before has ended
		m.assigned(partitions)
		for _, a := range gen.Assignments[topic] {
			gen.Start(func(ctx context.Context) { partition(ctx, m, gen, bootstrap, topic, a) })
		}
	}
}

// partition reads one partition while its generation lasts.
func partition(ctx context.Context, m member, gen *kafka.Generation, bootstrap, topic string, a kafka.PartitionAssignment) {
	r := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{bootstrap}, Topic: topic, Partition: a.ID, MaxWait: 200 * time.Millisecond,
		ReadBackoffMin: 50 * time.Millisecond, ReadBackoffMax: 200 * time.Millisecond})
	defer r.Close()
	if err := r.SetOffset(a.Offset); err != nil {
		m.say("failed %v", err)
		return
	}
	const together = 20 // records of a commit at most: each one is a round trip
	next, uncommitted := int64(0), 0
	commit := func() {
		err := gen.CommitOffsets(map[string]map[int]int64{topic: {a.ID: next}})
		if err != nil {
			m.say("failed %v", err)
			return
		}
		m.committed(int32(a.ID), next)
		uncommitted = 0
	}
	for ctx.Err() == nil {
		waiting, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		msg, err := r.ReadMessage(waiting)
		cancel()
		switch {
		case err == nil:
			m.read(int32(msg.Partition), msg.Offset, msg.Value)
			next = msg.Offset + 1
			uncommitted++
		case !errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
			m.say("failed %v", err)
			time.Sleep(200 * time.Millisecond) // the node is away
		}
		if uncommitted > 0 && (err != nil || uncommitted >= together) {
			commit()
		}
	}
	if uncommitted > 0 {
		commit() // the generation waits for it
	}
}
