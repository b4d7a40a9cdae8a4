package tools

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const groupResetAbout = `Example:
  quire group reset --group billing --topic orders --to-datetime 2026-01-31T12:00:00.000
  quire group reset --group billing --topic orders --to-datetime 2026-01-31T12:00:00.000 --execute

Usage: quire group reset --group GROUP (--topic TOPIC[:0,1,...]... | --all-topics) WAY [--execute]

Moves a group to other offsets while its consumers run. Without --execute it shows what would happen, and changes nothing.
With it, the members are taken out of the group, the offsets are written while it has none, and the members join again by
themselves: what they commit for what they read before is refused, and they go on from the new offsets. Consumers need not
be stopped, and must be able to read records twice or miss some, as with every reset.

It speaks the Kafka protocol only, so it works for every broker and for groups of both protocols. Consumers that assign
partitions to themselves (without subscribing) are no members, and cannot be held back.
Exit code: 0 done, or shown; 1 not done; 2 the command line makes no sense.
`

// resetMembersMax bounds the members that are shown by name.
const resetMembersMax = 20

// errStillMembers: the group got members again each time before its offsets could be written.
var errStillMembers = errors.New("members joined again each time before the offsets could be written; nothing was changed")

// groupReset is `quire group reset`.
func groupReset(env Env, args []string) int {
	own := newOwnCommand(env, "quire group reset", groupResetAbout)
	f := own.flags
	servers := f.String("bootstrap-server", "127.0.0.1:9092", "where the brokers are")
	config := f.String("command-config", "", "file with properties of the client")
	group := f.String("group", "", "the group to move")
	f.StringArray("topic", nil, "a topic to move it in: TOPIC, or TOPIC:0,1,... for some partitions; may be repeated")
	f.Bool("all-topics", false, "all partitions that the group has committed")
	f.Bool("to-earliest", false, "to the first record that there is")
	f.Bool("to-latest", false, "to the end")
	f.Bool("to-current", false, "to where it is; to the end where it is nowhere")
	f.Int64("to-offset", 0, "to an offset")
	f.Int64("shift-by", 0, "so many offsets on, or back if negative")
	f.String("to-datetime", "", "to the first record from a time on: YYYY-MM-DDThh:mm:ss.sss, in UTC")
	f.String("by-duration", "", "to the first record of the last so many: PnDTnHnMnS")
	f.String("from-file", "", "as a file says: lines of TOPIC,PARTITION,OFFSET")
	execute := f.Bool("execute", false, "do it; otherwise it is shown")
	f.Bool("dry-run", false, "show it, as without --execute")
	timeout := f.Duration("timeout", 30*time.Second, "how long to try while members join again")
	words, ok, code := own.parse(args)
	if !ok {
		return code
	}
	// The ways are those of kafka-consumer-groups, which knows how to go them.
	jopt := []string{"--reset-offsets", "--group", *group}
	var ways []string
	for _, name := range slices.Concat([]string{"topic", "all-topics"}, resetWays) {
		flag := f.Lookup(name)
		if !flag.Changed {
			continue
		}
		if slices.Contains(resetWays, name) {
			ways = append(ways, "--"+name)
		}
		switch flag.Value.Type() {
		case "bool":
			jopt = append(jopt, "--"+name)
		case "stringArray":
			topics, _ := f.GetStringArray(name)
			for _, topic := range topics {
				jopt = append(jopt, "--"+name+"="+topic)
			}
		default:
			jopt = append(jopt, "--"+name+"="+flag.Value.String())
		}
	}
	scoped := f.Changed("topic") || f.Changed("all-topics")
	switch {
	case len(words) > 0:
		return own.misuse("%q is no flag", words[0])
	case *group == "":
		return own.misuse("which --group?")
	case len(ways) == 0:
		return own.misuse("where to? One of --%s", strings.Join(resetWays, ", --"))
	case len(ways) > 1:
		return own.misuse("only one of %s", strings.Join(ways, ", "))
	case f.Changed("topic") && f.Changed("all-topics"):
		return own.misuse("either --topic or --all-topics")
	case !scoped && !f.Changed("from-file"):
		return own.misuse("in which topics? --topic or --all-topics")
	case f.Changed("dry-run") && *execute:
		return own.misuse("either --execute or --dry-run")
	}
	set, err := consumerGroupsParser().parse(jopt)
	if err != nil {
		return own.misuse("%v", err)
	}
	props := clientConfig{}
	if *config != "" {
		if props, err = loadProperties(*config); err != nil {
			return own.fail(err)
		}
	}
	props["bootstrap.servers"] = *servers
	client, err := newAdmin(env, props, "quire-group")
	if err != nil {
		return own.fail(err)
	}
	defer client.close()
	client.apiTimeout = *timeout
	r := &liveReset{groupsCommand{client, env, set}, *group}
	if err := r.run(*execute, *timeout); err != nil {
		return own.fail(err)
	}
	return exitGood
}

// A liveReset moves one group.
type liveReset struct {
	groupsCommand
	id string
}

func (r *liveReset) run(execute bool, timeout time.Duration) error {
	g, err := r.group()
	if err != nil {
		return err
	}
	commits, err := r.committedBy(r.id)
	if err != nil {
		return err
	}
	rows, err := r.resetPlan(r.id, commits)
	if err != nil && isKafkaError(err, kerr.UnknownTopicOrPartition) {
		return fmt.Errorf("there is no such topic or partition (kafka-topics --list shows which there are): %s", plainText(err))
	}
	if err != nil {
		return err
	}
	slices.SortFunc(rows, compareResets)
	if len(rows) == 0 {
		return fmt.Errorf("there is no partition to move group %s in", r.id)
	}
	r.show(g, commits, rows)
	if !execute {
		fmt.Fprintln(r.env.Stdout, "\nNothing was changed. With --execute it is done.")
		return nil
	}
	fenced, err := r.move(g, rows, timeout)
	if err != nil {
		return err
	}
	fmt.Fprintf(r.env.Stdout, "\nDone: %s moved", counted(int64(len(rows)), "partition"))
	if fenced > 0 {
		fmt.Fprintf(r.env.Stdout, ", %s taken out and free to join again", counted(int64(fenced), "member"))
	}
	fmt.Fprintln(r.env.Stdout, ".")
	return nil
}

// group describes the group. One that is not there has no members, and the commit makes it.
func (r *liveReset) group() (*consumerGroup, error) {
	g, err := r.groupOf(r.id)
	if err != nil && isKafkaError(err, kerr.GroupIDNotFound) {
		return &consumerGroup{id: r.id, state: "not there yet"}, nil
	}
	return g, err
}

// show prints the plan.
func (r *liveReset) show(g *consumerGroup, commits []committed, rows []resetRow) {
	holder := map[groupPartition]string{}
	for _, m := range g.members {
		for _, p := range m.assigned {
			holder[p] = m.id
		}
	}
	at := map[groupPartition]int64{}
	for _, c := range commits {
		at[c.groupPartition] = c.offset
	}
	table := [][]string{{"TOPIC", "PARTITION", "CURRENT-OFFSET", "NEW-OFFSET", "MOVES-BY", "CONSUMER-ID"}}
	for _, row := range rows {
		line := []string{row.topic, strconv.Itoa(int(row.partition)), missingColumn, strconv.FormatInt(row.offset, 10), missingColumn, missingColumn}
		if is, ok := at[row.groupPartition]; ok {
			line[2], line[4] = strconv.FormatInt(is, 10), fmt.Sprintf("%+d", row.offset-is)
		}
		if id, ok := holder[row.groupPartition]; ok {
			line[5] = id
		}
		table = append(table, line)
	}
	printTable(r.env.Stdout, table)
	protocol := "classic"
	if g.epoch != nil {
		protocol = "consumer"
	}
	fmt.Fprintf(r.env.Stdout, "\nGroup %s (%s protocol) is %s and has %s", r.id, protocol, g.state, counted(int64(len(g.members)), "member"))
	if len(g.members) == 0 {
		fmt.Fprintln(r.env.Stdout, ".")
		return
	}
	fmt.Fprintln(r.env.Stdout, ", which join again and go on from the new offsets:")
	for i, m := range g.members {
		if i == resetMembersMax {
			fmt.Fprintf(r.env.Stdout, "  and %d more\n", len(g.members)-i)
			break
		}
		fmt.Fprintf(r.env.Stdout, "  %s  %s  %s\n", m.id, m.clientID, m.host)
	}
}

// printTable prints rows in columns that are as wide as they must be.
func printTable(w io.Writer, rows [][]string) {
	width := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			width[i] = max(width[i], len(cell))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			fmt.Fprintf(&line, "%-*s  ", width[i], cell)
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}

// move writes offsets when the group has no members, and takes those out that it has. A coordinator takes a commit of nobody's
// only from a group without members: once it did, all members that there were are unknown to it, so what they still commit is
// refused, and all that come later fetch the new offsets. If members were faster with joining again than the commit, they are
// taken out again.
func (r *liveReset) move(g *consumerGroup, rows []resetRow, timeout time.Duration) (fenced int, err error) {
	out := map[string]struct{}{}
	for begin, first := time.Now(), true; first || time.Since(begin) < timeout; first = false {
		if !first {
			if g, err = r.group(); err != nil {
				return 0, err
			}
		}
		if !first && g.epoch == nil && (g.state == "PreparingRebalance" || g.state == "CompletingRebalance") {
			// A classic group whose first rebalance is under way stays in it for a while, with members or without.
			time.Sleep(resetRetryAfter)
			continue
		}
		if err := r.fence(g, out); err != nil {
			return 0, err
		}
		switch err = r.commit(r.id, rows); {
		case err == nil:
			return len(out), nil
		case !isKafkaError(err, kerr.UnknownMemberID, kerr.NonEmptyGroup, kerr.RebalanceInProgress, kerr.StaleMemberEpoch, kerr.IllegalGeneration):
			return 0, err
		}
	}
	return 0, errStillMembers
}

// resetRetryAfter is how long a group that rebalances is left alone.
const resetRetryAfter = 20 * time.Millisecond

// isKafkaError is whether an error is one of those.
func isKafkaError(err error, codes ...*kerr.Error) bool {
	e := asJava(err)
	return slices.ContainsFunc(codes, func(k *kerr.Error) bool { return e.class == errorClass(k) })
}

// fence takes members out, and notes them. Those that went by themselves meanwhile are gone all the same.
func (r *liveReset) fence(g *consumerGroup, out map[string]struct{}) error {
	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Group = r.id
	for _, m := range g.members {
		out[m.id] = struct{}{}
		if m.epoch != nil && (m.upgraded == nil || *m.upgraded) {
			beat := kmsg.NewPtrConsumerGroupHeartbeatRequest()
			beat.Group, beat.MemberID, beat.InstanceID, beat.MemberEpoch, beat.RebalanceTimeoutMillis = r.id, m.id, m.instance, -1, -1
			resp, err := call[*kmsg.ConsumerGroupHeartbeatResponse](r.admin, "removeMembersFromConsumerGroup", beat)
			if err == nil {
				err = brokerErrorOrNil(resp.ErrorCode, resp.ErrorMessage)
			}
			if err != nil && !isKafkaError(err, kerr.UnknownMemberID, kerr.FencedInstanceID, kerr.GroupIDNotFound) {
				return err
			}
			continue
		}
		l := kmsg.NewLeaveGroupRequestMember()
		l.MemberID, l.InstanceID, l.Reason = m.id, m.instance, kmsg.StringPtr("the group's offsets are reset")
		leave.Members = append(leave.Members, l)
	}
	if len(leave.Members) == 0 {
		return nil
	}
	resp, err := call[*kmsg.LeaveGroupResponse](r.admin, "removeMembersFromConsumerGroup", leave)
	if err != nil {
		return err
	}
	if err := brokerErrorOrNil(resp.ErrorCode, nil); err != nil {
		return err
	}
	for _, m := range resp.Members {
		if err := brokerErrorOrNil(m.ErrorCode, nil); err != nil && !isKafkaError(err, kerr.UnknownMemberID, kerr.FencedInstanceID) {
			return fmt.Errorf("member %s: %w", m.MemberID, err)
		}
	}
	return nil
}
