package tools_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire"
	"github.com/quire-log/quire/internal/tools"
	"github.com/quire-log/quire/quiretest"
)

// quickGroups are settings with which members notice within a moment.
func quickGroups(t *testing.T) *quire.Node {
	return quiretest.Start(t, quiretest.With("group.initial.rebalance.delay.ms", "0"), quiretest.With("offsets.topic.num.partitions", "2"),
		quiretest.With("group.consumer.min.session.timeout.ms", "1000"), quiretest.With("group.consumer.session.timeout.ms", "30000"),
		quiretest.With("group.consumer.min.heartbeat.interval.ms", "100"), quiretest.With("group.consumer.heartbeat.interval.ms", "200"))
}

func quire1(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, complaints bytes.Buffer
	code = tools.Main(append([]string{"quire"}, args...), strings.NewReader(""), &out, &complaints)
	return code, out.String(), complaints.String()
}

func mustQuire(t *testing.T, args ...string) string {
	t.Helper()
	code, out, complaints := quire1(t, args...)
	if code != 0 {
		t.Fatalf("quire %s: code %d\n%s%s", strings.Join(args, " "), code, out, complaints)
	}
	return out
}

func soon(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for begin := time.Now(); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Fatalf("never: %s", what)
		}
	}
}

func resetTopic(t *testing.T, n *quire.Node, partitions int32, records int) *kadm.Client {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(n.Addr()), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	adm := kadm.NewClient(cl)
	if _, err := adm.CreateTopic(t.Context(), partitions, 1, nil, "orders"); err != nil {
		t.Fatal(err)
	}
	for i := range records {
		r := &kgo.Record{Topic: "orders", Partition: int32(i) % partitions, Value: fmt.Append(nil, i)}
		if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	return adm
}

// sumCommitted is the sum of a group's offsets, -1 if they cannot be had.
func sumCommitted(t *testing.T, adm *kadm.Client, group string) (sum int64) {
	offsets, err := adm.FetchOffsets(t.Context(), group)
	if err != nil {
		return -1
	}
	offsets.Each(func(o kadm.OffsetResponse) { sum += o.At })
	return sum
}

// A group whose consumers run is moved to the start: they read all again, in both protocols.
func TestGroupResetLive(t *testing.T) {
	for _, p := range []struct {
		name string
		opts []kgo.Opt
	}{
		{"classic", []kgo.Opt{kgo.Balancers(kgo.CooperativeStickyBalancer())}},
		{"eager", []kgo.Opt{kgo.Balancers(kgo.RangeBalancer())}},
		{"static", []kgo.Opt{kgo.Balancers(kgo.CooperativeStickyBalancer())}},
		{"consumer", []kgo.Opt{kgo.ServerSideBalancer()}},
	} {
		t.Run(p.name, func(t *testing.T) {
			const records = 60
			n := quickGroups(t)
			adm := resetTopic(t, n, 4, records)
			var mu sync.Mutex
			read := map[string]int{}
			ctx, stop := context.WithCancel(context.Background())
			var running sync.WaitGroup
			for i := range 2 {
				opts := append([]kgo.Opt{
					kgo.SeedBrokers(n.Addr()), kgo.ConsumerGroup("g"), kgo.ConsumeTopics("orders"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
					kgo.HeartbeatInterval(100 * time.Millisecond), kgo.AutoCommitInterval(100 * time.Millisecond), kgo.ClientID(fmt.Sprint("reader-", i)),
				}, p.opts...)
				if p.name == "static" {
					opts = append(opts, kgo.InstanceID(fmt.Sprint("instance-", i)))
				}
				cl, err := kgo.NewClient(opts...)
				if err != nil {
					t.Fatal(err)
				}
				running.Go(func() {
					defer cl.Close()
					for ctx.Err() == nil {
						fetches := cl.PollFetches(ctx)
						mu.Lock()
						fetches.EachRecord(func(r *kgo.Record) { read[string(r.Value)]++ })
						mu.Unlock()
					}
				})
			}
			defer running.Wait()
			defer stop()
			least := func() int {
				mu.Lock()
				defer mu.Unlock()
				if len(read) < records {
					return 0
				}
				n := 1 << 30
				for _, times := range read {
					n = min(n, times)
				}
				return n
			}
			state := func() string {
				out := tool(t, n.Addr(), "", "kafka-consumer-groups", "--describe", "--group", "g", "--state")
				return out
			}
			soon(t, "all is read and committed", func() bool { return least() >= 1 && sumCommitted(t, adm, "g") == records })
			args := []string{"group", "reset", "--bootstrap-server", n.Addr(), "--group", "g", "--all-topics", "--to-earliest"}
			// Between two steps of a cooperative rebalance the group is stable too, but one member has nothing yet.
			var out string
			soon(t, "a dry run tells of two members with partitions", func() bool {
				out = mustQuire(t, args...)
				return strings.Contains(out, "is Stable and has 2 members") && strings.Contains(out, "reader-0") && strings.Contains(out, "reader-1")
			})
			for _, want := range []string{"-15", "Nothing was changed"} {
				if !strings.Contains(out, want) {
					t.Errorf("the dry run does not say %q:\n%s", want, out)
				}
			}
			if at := sumCommitted(t, adm, "g"); at != records {
				t.Errorf("the dry run changed something: %d", at)
			}
			before := least()
			out = mustQuire(t, append(args, "--execute", "--timeout", "2m")...)
			if !strings.Contains(out, "Done: 4 partitions moved, ") {
				t.Errorf("it says\n%s", out)
			}
			soon(t, "all is read again and committed", func() bool { return least() > before && sumCommitted(t, adm, "g") == records })
			soon(t, "two members again", func() bool { return strings.Contains(state(), "Stable               2") })
		})
	}
}

// A rawMember is a member that only commits.
type rawMember struct {
	id         string
	generation int32
}

func ask[R kmsg.Response](t *testing.T, cl *kgo.Client, req kmsg.Request) R {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	resp, err := cl.Request(ctx, req)
	if err != nil {
		t.Fatalf("%T: %v", req, err)
	}
	return resp.(R)
}

func joinClassic(t *testing.T, cl *kgo.Client) rawMember {
	t.Helper()
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.ProtocolType, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = "g", "consumer", 30000, 30000
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = "range", []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	req.Protocols = append(req.Protocols, p)
	resp := ask[*kmsg.JoinGroupResponse](t, cl, req)
	for resp.ErrorCode == kerr.CoordinatorLoadInProgress.Code {
		resp = ask[*kmsg.JoinGroupResponse](t, cl, req)
	}
	if resp.ErrorCode == kerr.MemberIDRequired.Code {
		req.MemberID = resp.MemberID
		resp = ask[*kmsg.JoinGroupResponse](t, cl, req)
	}
	if resp.ErrorCode != 0 {
		t.Fatalf("join: %d", resp.ErrorCode)
	}
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Group, sync.MemberID, sync.Generation, sync.ProtocolType, sync.Protocol = "g", resp.MemberID, resp.Generation, resp.ProtocolType, resp.Protocol
	a := kmsg.NewSyncGroupRequestGroupAssignment()
	a.MemberID = resp.MemberID
	sync.GroupAssignment = append(sync.GroupAssignment, a)
	if code := ask[*kmsg.SyncGroupResponse](t, cl, sync).ErrorCode; code != 0 {
		t.Fatalf("sync: %d", code)
	}
	return rawMember{resp.MemberID, resp.Generation}
}

func joinConsumer(t *testing.T, cl *kgo.Client) rawMember {
	t.Helper()
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Group, req.MemberID, req.RebalanceTimeoutMillis = "g", "raw-member", 30000
	req.SubscribedTopicNames, req.Topics = []string{"orders"}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	resp := ask[*kmsg.ConsumerGroupHeartbeatResponse](t, cl, req)
	for resp.ErrorCode == kerr.CoordinatorLoadInProgress.Code {
		resp = ask[*kmsg.ConsumerGroupHeartbeatResponse](t, cl, req)
	}
	if resp.ErrorCode != 0 {
		t.Fatalf("heartbeat: %d", resp.ErrorCode)
	}
	return rawMember{"raw-member", resp.MemberEpoch}
}

func (m rawMember) commit(t *testing.T, cl *kgo.Client, id [16]byte, offset int64) int16 {
	t.Helper()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.Generation = "g", m.id, m.generation
	topic, p := kmsg.NewOffsetCommitRequestTopic(), kmsg.NewOffsetCommitRequestTopicPartition()
	topic.Topic, topic.TopicID, p.Offset = "orders", id, offset
	topic.Partitions = append(topic.Partitions, p)
	req.Topics = append(req.Topics, topic)
	return ask[*kmsg.OffsetCommitResponse](t, cl, req).Topics[0].Partitions[0].ErrorCode
}

// A member that commits all the while does not overwrite a reset, neither before it joins again nor by what it sent before.
func TestGroupResetAgainstCommits(t *testing.T) {
	for name, join := range map[string]func(*testing.T, *kgo.Client) rawMember{"classic": joinClassic, "consumer": joinConsumer} {
		t.Run(name, func(t *testing.T) {
			n := quickGroups(t)
			adm := resetTopic(t, n, 1, 20)
			listed, err := adm.ListTopics(t.Context(), "orders")
			if err != nil {
				t.Fatal(err)
			}
			id := listed["orders"].ID
			cl, err := kgo.NewClient(kgo.SeedBrokers(n.Addr()))
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			for range 5 {
				m := join(t, cl)
				if code := m.commit(t, cl, id, 17); code != 0 {
					t.Fatalf("a member's commit is refused: %d", code)
				}
				done := make(chan struct{})
				var after []int16
				go func() {
					defer close(done)
					for refused := 0; refused < 20; {
						code := m.commit(t, cl, id, 17)
						if after = append(after, code); code != 0 {
							refused++
						}
					}
				}()
				mustQuire(t, "group", "reset", "--bootstrap-server", n.Addr(), "--group", "g", "--topic", "orders:0", "--to-offset", "3", "--execute")
				<-done
				first := slices.IndexFunc(after, func(code int16) bool { return code != 0 })
				if rest := after[first:]; slices.Contains(rest, 0) {
					t.Fatalf("a commit was taken after one was refused: %v", rest)
				}
				if at := sumCommitted(t, adm, "g"); at != 3 {
					t.Fatalf("the group is at %d, not where it was moved to", at)
				}
			}
		})
	}
}

// A group that is empty is moved at once, in each of the ways; and what makes no sense is refused before anything is sent.
func TestGroupResetWays(t *testing.T) {
	n := quickGroups(t)
	adm := resetTopic(t, n, 2, 20)
	for _, c := range []struct {
		way  []string
		want int64 // of both partitions, which have 10 records each
	}{
		{[]string{"--topic", "orders", "--to-offset", "4"}, 8},
		{[]string{"--topic", "orders:1", "--shift-by", "-3"}, 5},
		{[]string{"--all-topics", "--to-current"}, 5},
		{[]string{"--all-topics", "--to-latest"}, 20},
		{[]string{"--all-topics", "--by-duration", "PT1H"}, 0},
		{[]string{"--all-topics", "--to-latest"}, 20},
		{[]string{"--topic", "orders:0", "--to-datetime", "2020-01-01T00:00:00.000"}, 10},
		{[]string{"--topic", "orders:0", "--to-offset", "99"}, 20},
		{[]string{"--all-topics", "--to-earliest"}, 0},
	} {
		args := append([]string{"group", "reset", "--bootstrap-server", n.Addr(), "--group", "g", "--execute"}, c.way...)
		mustQuire(t, args...)
		if got := sumCommitted(t, adm, "g"); got != c.want {
			t.Errorf("%v: %d, want %d", c.way, got, c.want)
		}
	}
	for _, args := range [][]string{
		{}, {"--group", "g"}, {"--group", "g", "--to-latest"}, {"--group", "g", "--all-topics"}, {"--group", "g", "--all-topics", "--to-latest", "--to-earliest"},
		{"--group", "g", "--all-topics", "--topic", "orders", "--to-latest"}, {"--group", "g", "--all-topics", "--to-offset", "x"},
		{"--group", "g", "--all-topics", "--to-latest", "--execute", "--dry-run"}, {"--group", "g", "--all-topics", "--to-latest", "word"},
	} {
		if code, _, complaint := quire1(t, append([]string{"group", "reset", "--bootstrap-server", "127.0.0.1:1"}, args...)...); code != 2 || !strings.Contains(complaint, "Example:") {
			t.Errorf("%v: code %d, %s", args, code, complaint)
		}
	}
	if code, _, complaint := quire1(t, "group", "reset", "--bootstrap-server", n.Addr(), "--group", "g", "--topic", "nowhere", "--to-latest"); code != 1 ||
		!strings.Contains(complaint, "there is no such topic or partition") || strings.Contains(complaint, "Exception") {
		t.Errorf("a topic that is not there: code %d, %s", code, complaint)
	}
	if code, _, complaint := quire1(t, "group", "reset", "--bootstrap-server", n.Addr(), "--group", "g", "--topic", "orders", "--to-datetime", "yesterday"); code != 1 ||
		!strings.HasPrefix(complaint, "quire group reset: Error parsing timestamp.") {
		t.Errorf("no time: code %d, %s", code, complaint)
	}
}
