package group

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/kmeta"
)

// A talk is a shard that testdata/talk/* talk to. -rewrite writes the answers anew. Time goes by only where pass says so.
//
//	join m=NAME [group=G] [topics=A,B] [static=I] [opaque] [version=N]   a classic member joins, with an id first if need be
//	sync m=NAME [m2=PARTITIONS ...]                                      the leader says who gets what
//	beat m=NAME; leave m=NAME                                            a heartbeat of a member of either protocol; it goes
//	consume m=NAME [group=G] topics=A,B [static=I] [regex=R]             a member by the consumer protocol joins
//	away m=NAME                                                          such a member, static, goes for a while
//	commit m=NAME|group=G topic=T partition=N offset=N
//	offsets group=G; describe group=G; delete group=G; pass SECONDS; restart
//
// An answer shows what clients were told, what became of groups, and what was written.
type talk struct {
	*world
	classics  map[string]*joiner
	consumers map[string]*consumer
	said      []string
	held      map[string]bool
}

func TestTalks(t *testing.T) {
	datadriven.Walk(t, "testdata/talk", func(t *testing.T, path string) {
		tk := &talk{world: newWorld(t), classics: map[string]*joiner{}, consumers: map[string]*consumer{}, held: map[string]bool{}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			tk.said, tk.events = nil, nil
			n := len(tk.log)
			tk.run(d)
			return tk.answer(n)
		})
	})
}

func (tk *talk) say(format string, args ...any) {
	tk.said = append(tk.said, fmt.Sprintf(format, args...))
}

// short puts members' names where their ids are.
func (tk *talk) short(s string) string {
	for name, j := range tk.classics {
		if j.id != "" {
			s = strings.ReplaceAll(s, j.id, name)
		}
	}
	return s
}

func (tk *talk) answer(since int) string {
	var out []string
	for name, j := range tk.classics {
		if tk.held[name] && j.join != nil {
			tk.held[name] = false
			tk.say("%s: %s", name, joinText(j.join))
		}
	}
	if len(tk.said) > 1 && strings.Contains(tk.said[0], ": ") {
		slices.Sort(tk.said) // who is told first is not said anywhere
	}
	out = append(out, tk.said...)
	for _, e := range tk.events {
		line := fmt.Sprintf("  %s %s", e.Group, e.Kind)
		if e.Member != "" {
			line += " " + e.Member
		}
		if e.Cause != "" {
			line += " (" + e.Cause + ")"
		}
		out = append(out, line)
	}
	if n := len(tk.log) - since; n > 0 {
		kinds := []string{}
		for _, e := range tk.log[since:] {
			k, _ := kmeta.ReadKey(kmeta.OffsetsLog, e.Key)
			kind := strings.TrimSuffix(k.TypeName(), "Key")
			if e.Value == nil {
				kind = "-" + kind
			}
			kinds = append(kinds, kind)
		}
		out = append(out, "  log: "+strings.Join(kinds, " "))
	}
	if len(out) == 0 {
		return "nothing\n"
	}
	return tk.short(strings.Join(out, "\n")) + "\n"
}

func joinText(r *kmsg.JoinGroupResponse) string {
	if r.ErrorCode != 0 {
		return fmt.Sprint("code ", r.ErrorCode)
	}
	s := fmt.Sprintf("generation %d", r.Generation)
	if r.MemberID == r.LeaderID {
		s += fmt.Sprintf(", leads %d", len(r.Members))
	}
	if r.SkipAssignment {
		s += ", skips"
	}
	return s
}

func (tk *talk) run(d *datadriven.TestData) {
	arg := map[string]string{"group": "g"}
	for _, a := range d.CmdArgs {
		arg[a.Key] = strings.Join(a.Vals, ",")
	}
	name := arg["m"]
	j, c := tk.classics[name], tk.consumers[name]
	topics := strings.Split(arg["topics"], ",")
	switch d.Cmd {
	case "join":
		if j == nil {
			j = tk.joiner(arg["group"])
			j.kind, j.metadata = "consumer", kmeta.AppendSubscription(nil, &kmeta.ConsumerSubscription{Topics: topics}, 1)
			if _, ok := arg["opaque"]; ok {
				j.kind = "connect"
			}
			if i := arg["static"]; i != "" {
				j.instance = &i
			}
			tk.classics[name] = j
		}
		if arg["lost"] != "" {
			j.id = ""
		}
		if j.enter(); j.join == nil {
			tk.held[name] = true
			tk.say("%s: waits", name)
		} else {
			tk.say("%s: %s", name, joinText(j.join))
		}
	case "sync":
		plan := map[string]string{}
		for key, value := range arg {
			if o := tk.classics[key]; o != nil {
				plan[o.id] = value
			}
		}
		if j.sendSync(plan); j.sync == nil {
			tk.say("%s: waits", name)
		} else if j.sync.ErrorCode != 0 {
			tk.say("%s: code %d", name, j.sync.ErrorCode)
		} else {
			tk.say("%s: gets %q", name, j.sync.MemberAssignment)
		}
	case "consume":
		change := []beat{subscribe(topics...)}
		if r := arg["regex"]; r != "" {
			change = []beat{subscribe(), func(q *kmsg.ConsumerGroupHeartbeatRequest) { q.SubscribedTopicRegex = &r }}
		}
		if i := arg["static"]; i != "" {
			change = append(change, func(q *kmsg.ConsumerGroupHeartbeatRequest) { q.InstanceID = &i })
		}
		c = tk.consumer(arg["group"], name, change...)
		tk.consumers[name] = c
		tk.sayBeat(name, c)
	case "beat":
		if c != nil {
			tk.sayBeat(name, c)
			return
		}
		tk.say("%s: code %d", name, j.heartbeat())
	case "leave":
		if c != nil {
			tk.say("%s: code %d", name, tk.heartbeat(c.group, c.id, -1).ErrorCode)
			return
		}
		tk.say("%s: code %d", name, j.leave(2).ErrorCode)
	case "away":
		r := tk.heartbeat(c.group, c.id, -2, func(q *kmsg.ConsumerGroupHeartbeatRequest) {
			q.InstanceID = &tk.s.groups[c.group].consumer.members[c.id].instance
		})
		tk.say("%s: epoch %d, code %d", name, r.MemberEpoch, r.ErrorCode)
	case "commit":
		var partition int32
		var offset int64
		fmt.Sscan(arg["partition"]+" "+arg["offset"], &partition, &offset)
		group, id, epoch, v := arg["group"], "", int32(-1), int16(8)
		if j != nil {
			group, id, epoch = j.group, j.id, j.generation
		} else if c != nil {
			group, id, epoch, v = c.group, c.id, c.epoch, 9
		}
		tk.say("code %d", tk.commit(group, id, epoch, arg["topic"], partition, offset, version(v)))
	case "offsets":
		for _, rt := range tk.s.OffsetFetch(tk.now, &kmsg.OffsetFetchRequestGroup{Group: arg["group"], MemberEpoch: -1}, 8, false).Topics {
			for _, p := range rt.Partitions {
				tk.say("%s-%d %d", rt.Topic, p.Partition, p.Offset)
			}
		}
	case "describe":
		if g := tk.s.groups[arg["group"]]; g != nil && g.consumer != nil {
			r := tk.s.ConsumerGroupDescribe(tk.now, arg["group"])
			tk.say("%s, epoch %d, %s", r.State, r.Epoch, r.AssignorName)
			for _, m := range r.Members {
				tk.say("%s at %d has %s, shall have %s", m.MemberID, m.MemberEpoch, assignmentText(m.Assignment), assignmentText(m.TargetAssignment))
			}
			return
		}
		r := tk.s.DescribeGroup(tk.now, arg["group"], 5)
		tk.say("%s %q %q, members: %d", r.State, r.ProtocolType, r.Protocol, len(r.Members))
	case "delete":
		tk.do(tk.s.DeleteGroup(tk.now, arg["group"], func(code int16) { tk.say("code %d", code) }))
	case "pass":
		seconds := 0
		fmt.Sscan(d.CmdArgs[0].Key, &seconds)
		tk.pass(time.Duration(seconds) * time.Second)
	case "restart":
		tk.restart()
	default:
		d.Fatalf(tk.t.(*testing.T), "no command %q", d.Cmd)
	}
}

func (tk *talk) sayBeat(name string, c *consumer) {
	if code := c.beat(); code != 0 {
		tk.say("%s: code %d", name, code)
		return
	}
	tk.say("epoch %d, owns %s", c.epoch, tk.show(c))
}
