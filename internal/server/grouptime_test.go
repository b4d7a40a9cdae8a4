package server

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/vfs"
	"github.com/quire-log/quire/internal/wire"
)

// A silentListener is one that nobody comes to: a node in a bubble has no sockets.
type silentListener struct {
	closed chan struct{}
	once   sync.Once
}

func (l *silentListener) Accept() (net.Conn, error) { <-l.closed; return nil, net.ErrClosed }
func (l *silentListener) Close() error              { l.once.Do(func() { close(l.closed) }); return nil }
func (l *silentListener) Addr() net.Addr            { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9092} }

// A town is the members of one group, each a goroutine that does what its die says, in the time of a bubble.
type town struct {
	t *testing.T
	n *Node

	// mu guards the fields below.
	mu        sync.Mutex
	calm      bool             // nobody is naughty any more
	over      bool             // everybody goes
	committed int64            // the last offset that a commit was accepted of
	newest    int32            // the generation of that commit
	has       map[string]int32 // generation by member, of those who have an assignment
}

const townPartitions = 4

// call handles a request as if it had come by a connection.
func (w *town) call(ctx context.Context, req kmsg.Request, handle wire.Handler) kmsg.Response {
	resp := handle(ctx, wire.NewRequest(req.Key(), req.GetVersion(), kmsg.StringPtr("town"), req.AppendTo(nil))).Await(ctx)
	if resp.Message() == nil {
		return nil
	}
	return resp.Message()
}

func (w *town) is(flag *bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return *flag
}

// live is one member's life.
func (w *town) live(ctx context.Context, r *rand.Rand, name string) {
	id := ""
	for !w.is(&w.over) {
		join := joinAs("g", "consumer", "range", []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, int16(3+r.IntN(4)))
		join.MemberID = id
		j, _ := w.call(ctx, join, w.n.handleJoinGroup).(*kmsg.JoinGroupResponse)
		if j == nil {
			return // the node is gone
		}
		switch kerr.ErrorForCode(j.ErrorCode) {
		case nil:
			id = j.MemberID
		case kerr.MemberIDRequired:
			id = j.MemberID
			continue
		case kerr.UnknownMemberID:
			id = ""
			continue
		case kerr.CoordinatorLoadInProgress, kerr.NotCoordinator, kerr.RebalanceInProgress:
			time.Sleep(100 * time.Millisecond)
			continue
		default:
			w.t.Errorf("%s: join %d", name, j.ErrorCode)
			return
		}
		if !w.is(&w.calm) && r.IntN(12) == 0 {
			time.Sleep(time.Duration(r.IntN(30)) * time.Second) // it is slow to sync
		}
		sync := version(kmsg.NewPtrSyncGroupRequest(), 4)
		sync.Group, sync.MemberID, sync.Generation = "g", id, j.Generation
		if j.LeaderID == id {
			for i, m := range j.Members {
				a := kmsg.NewSyncGroupRequestGroupAssignment()
				a.MemberID, a.MemberAssignment = m.MemberID, []byte{byte(i)}
				sync.GroupAssignment = append(sync.GroupAssignment, a)
			}
		}
		s, _ := w.call(ctx, sync, w.n.handleSyncGroup).(*kmsg.SyncGroupResponse)
		if s == nil {
			return
		}
		if s.ErrorCode == kerr.UnknownMemberID.Code {
			id = ""
		}
		if s.ErrorCode == 0 {
			w.set(name, j.Generation)
			id = w.work(r, id, j.Generation)
			w.set(name, -1)
		} else if s.ErrorCode != kerr.RebalanceInProgress.Code {
			time.Sleep(50 * time.Millisecond)
		}
	}
	leave := version(kmsg.NewPtrLeaveGroupRequest(), 3)
	l := kmsg.NewLeaveGroupRequestMember()
	leave.Group, l.MemberID = "g", id
	leave.Members = append(leave.Members, l)
	if r.IntN(2) == 0 {
		w.call(ctx, leave, w.n.handleLeaveGroup)
	}
}

func (w *town) set(name string, generation int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.has, name)
	if generation >= 0 {
		w.has[name] = generation
	}
}

// work is a generation's life: heartbeats and commits, until the member must join again or wants to go. It returns its id, or none.
func (w *town) work(r *rand.Rand, id string, generation int32) string {
	for !w.is(&w.over) {
		if !w.is(&w.calm) {
			switch r.IntN(25) {
			case 0: // it hangs, perhaps for longer than its session
				time.Sleep(time.Duration(r.IntN(20)) * time.Second)
			case 1: // it vanishes and comes back as another
				return ""
			}
		}
		time.Sleep(time.Duration(500+r.IntN(1000)) * time.Millisecond)
		w.commit(id, generation)
		beat := version(kmsg.NewPtrHeartbeatRequest(), 3)
		beat.Group, beat.MemberID, beat.Generation = "g", id, generation
		switch code := w.call(context.Background(), beat, w.n.handleHeartbeat).(*kmsg.HeartbeatResponse).ErrorCode; kerr.ErrorForCode(code) {
		case nil, kerr.CoordinatorLoadInProgress, kerr.NotCoordinator:
		case kerr.RebalanceInProgress, kerr.IllegalGeneration:
			return id
		case kerr.UnknownMemberID:
			return ""
		default:
			w.t.Errorf("heartbeat: %d", code)
		}
	}
	return id
}

// commit commits the next offset. No older generation may commit once a newer one has.
func (w *town) commit(id string, generation int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := commitOf("g", "t", w.committed+1)
	r.MemberID, r.Generation = id, generation
	resp := w.call(context.Background(), r, w.n.handleOffsetCommit).(*kmsg.OffsetCommitResponse)
	if resp.Topics[0].Partitions[0].ErrorCode != 0 {
		return
	}
	w.committed++
	if generation < w.newest {
		w.t.Errorf("generation %d commits after generation %d", generation, w.newest)
	}
	w.newest = generation
}

// Members of a group join, hang, vanish and come back for an hour, while their coordinator is loaded anew now and then. Nobody commits
// for a generation that is over, no commit is lost; once they are calm, all are in one generation, and once they are gone the group is empty.
func TestTownOfMembers(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				n, err := Start(ctx, Options{
					FS: vfs.NewMem(), Listen: func(string, string) (net.Listener, error) { return &silentListener{closed: make(chan struct{})}, nil },
					Properties: map[string]string{
						"listeners": "PLAINTEXT://127.0.0.1:9092", "admin.listener": "", "log.dirs": "data", "offsets.topic.num.partitions": "1",
						"group.initial.rebalance.delay.ms": "500",
					},
				})
				if err != nil {
					t.Fatal(err)
				}
				create := version(kmsg.NewPtrCreateTopicsRequest(), 7)
				topic := kmsg.NewCreateTopicsRequestTopic()
				topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "t", townPartitions, 1
				create.Topics = append(create.Topics, topic)
				if code := n.controller.CreateTopics(ctx, create).Topics[0].ErrorCode; code != 0 || !n.createInternal(ctx, offsetsTopic) {
					t.Fatalf("topics: %d", code)
				}
				w := &town{t: t, n: n, has: map[string]int32{}}
				lot := rand.New(rand.NewPCG(seed, 0))
				var lives sync.WaitGroup
				const members = 6
				for i := range members {
					lives.Go(func() { w.live(ctx, rand.New(rand.NewPCG(seed, uint64(i)+1)), fmt.Sprint("member ", i)) })
				}
				for range 60 {
					time.Sleep(time.Duration(30+lot.IntN(60)) * time.Second)
					if s, code := n.groups.shard(0); code == nil { // its log is read again
						s.do(&event[*groupMachine]{decide: func(*groupMachine, time.Time) effect { s.stale = true; return effect{} }})
					}
				}
				w.mu.Lock()
				w.calm = true
				w.mu.Unlock()
				time.Sleep(3 * time.Minute)
				w.mu.Lock()
				generations := map[int32]bool{}
				for _, g := range w.has {
					generations[g] = true
				}
				if len(w.has) != members || len(generations) != 1 || w.committed < 1000 {
					t.Errorf("%d members have an assignment, of generations %v; %d commits", len(w.has), generations, w.committed)
				}
				w.over = true
				w.mu.Unlock()
				lives.Wait()
				want := w.committed
				time.Sleep(2 * time.Minute)
				lags, _ := n.groupLags(10, "g")
				if len(lags) != 1 || lags[0].Committed != want {
					t.Errorf("%+v, want %d committed", lags, want)
				}
				list := n.handleListGroups(ctx, wire.NewRequest(int16(kmsg.ListGroups), 5, nil, version(kmsg.NewPtrListGroupsRequest(), 5).AppendTo(nil))).Message().(*kmsg.ListGroupsResponse)
				if len(list.Groups) != 1 || list.Groups[0].GroupState != "Empty" {
					t.Errorf("%+v", list.Groups)
				}
				cancel()
				end, stop := context.WithTimeout(context.Background(), time.Minute)
				defer stop()
				if err := n.Close(end); err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
		})
	}
}
