package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// franz has the modes range, cooperative-sticky, and consumer.
func franz(ctx context.Context, m member, bootstrap, group, topic, mode string) error {
	assigned := map[int32]bool{}
	tell := func() { m.assigned(slices.Collect(maps.Keys(assigned))) }
	commit := func(cl *kgo.Client) error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		uncommitted := cl.UncommittedOffsets()
		if len(uncommitted) == 0 {
			return nil
		}
		failed := error(nil)
		cl.CommitOffsetsSync(ctx, uncommitted, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
			if err != nil {
				failed = err
				return
			}
			for _, t := range resp.Topics {
				for _, p := range t.Partitions {
					if p.ErrorCode == 0 {
						m.committed(p.Partition, uncommitted[topic][p.Partition].Offset)
					} else {
						failed = fmt.Errorf("partition %d: code %d", p.Partition, p.ErrorCode)
					}
				}
			}
		})
		if failed != nil {
			m.say("failed %v", failed)
		}
		return failed
	}
	opts := []kgo.Opt{
		kgo.SeedBrokers(bootstrap), kgo.ClientID(m.id), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(sessionTimeout), kgo.HeartbeatInterval(heartbeatInterval), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(), kgo.AlwaysRetryEOF(),
		// Callbacks run while no poll does, one at a time.
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, got map[string][]int32) {
			for _, p := range got[topic] {
				assigned[p] = true
			}
			tell()
		}),
		kgo.OnPartitionsRevoked(func(_ context.Context, cl *kgo.Client, gone map[string][]int32) {
			commit(cl)
			for _, p := range gone[topic] {
				delete(assigned, p)
			}
			tell()
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, gone map[string][]int32) {
			for _, p := range gone[topic] {
				delete(assigned, p)
			}
			tell()
		}),
	}
	switch mode {
	case "range":
		opts = append(opts, kgo.Balancers(kgo.RangeBalancer()))
	case "cooperative-sticky":
		opts = append(opts, kgo.Balancers(kgo.CooperativeStickyBalancer()))
	case "consumer":
		opts = append(opts, kgo.Balancers(kgo.StickyBalancer()), kgo.ServerSideBalancer())
	default:
		return errors.New("unknown mode " + mode)
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return err
	}
	defer cl.CloseAllowingRebalance()
	for ctx.Err() == nil {
		fetches := cl.PollFetches(ctx) // its errors are retried by the client
		fetches.EachRecord(func(r *kgo.Record) { m.read(r.Partition, r.Offset, r.Value) })
		commit(cl) // what fails is tried again after the next poll, or as partitions are revoked
		cl.AllowRebalance()
	}
	return nil
}
