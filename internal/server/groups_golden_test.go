package server

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/golden"
)

// said is what a tool of Kafka's printed for a command, as lines of fields.
func said(t *testing.T, command string) (lines [][]string) {
	t.Helper()
	f, err := os.Open(golden.Shared(t, "golden", "groups", "admin.txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	in := false
	for sc := bufio.NewScanner(f); sc.Scan(); {
		line := sc.Text()
		switch fields := strings.Fields(line); {
		case strings.HasPrefix(line, "$"):
			in = strings.HasSuffix(line, command)
		case in && len(fields) > 1 && fields[0] != "GROUP" && fields[0] != "Consumer":
			lines = append(lines, fields)
		}
	}
	if len(lines) == 0 {
		t.Fatalf("nothing was printed for %q", command)
	}
	return lines
}

// Groups that Kafka left behind, with members that lived, are what Kafka says of them, and their members go on.
func TestGoldenGroups(t *testing.T) {
	n := startOn(t, golden.Unpack(t, "groups"))
	t.Cleanup(n.Abort)
	c := dialNode(t, n)
	c.awaitGroups(n)

	listed := map[string]string{}
	for _, g := range c.ask(version(kmsg.NewPtrListGroupsRequest(), 5)).(*kmsg.ListGroupsResponse).Groups {
		listed[g.Group] = strings.ToLower(g.GroupType + " " + g.GroupState)
	}
	for _, line := range said(t, "--list --state --type") {
		if want := strings.ToLower(line[1] + " " + line[2]); listed[line[0]] != want {
			t.Errorf("%s: %q, want %q", line[0], listed[line[0]], want)
		}
	}
	for _, line := range said(t, "kafka-consumer-groups.sh --bootstrap-server 127.0.0.1:19140 --all-groups --describe") {
		if len(line) < 9 || line[3] == "-" {
			continue
		}
		if got := c.committedTo(line[0], line[1], line[2]); got != line[3] {
			t.Errorf("%s, %s-%s: offset %s, want %s", line[0], line[1], line[2], got, line[3])
		}
	}
	members := map[string][]string{}
	var names []string
	for name, what := range listed {
		if strings.HasPrefix(what, "consumer") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	req := version(kmsg.NewPtrConsumerGroupDescribeRequest(), 1)
	req.Groups = names
	for _, g := range c.ask(req).(*kmsg.ConsumerGroupDescribeResponse).Groups {
		if g.ErrorCode != 0 {
			t.Errorf("%s: error %d", g.Group, g.ErrorCode)
		}
		for _, m := range g.Members {
			var topics []string
			for _, tp := range m.Assignment.TopicPartitions {
				topics = append(topics, fmt.Sprintf("%s:%s", tp.Topic, strings.ReplaceAll(strings.Trim(fmt.Sprint(tp.Partitions), "[]"), " ", ",")))
			}
			slices.Sort(topics)
			members[g.Group] = append(members[g.Group], fmt.Sprintf("%s epoch %d %s", m.MemberID, m.MemberEpoch, strings.Join(topics, ";")))
		}
	}
	seen := 0
	for _, line := range said(t, "--members --verbose") {
		for _, m := range members[line[0]] {
			id, rest, _ := strings.Cut(m, " epoch ")
			if !strings.Contains(strings.Join(line, " "), id) {
				continue
			}
			epoch, assignment, _ := strings.Cut(rest, " ")
			if assignment == "" {
				assignment = "-"
			}
			if seen++; !slices.Contains(line, epoch) || assignment != "-" && !slices.Contains(line, assignment) {
				t.Errorf("%s: %s is not what Kafka says: %v", line[0], m, line)
			}
		}
	}
	if seen < 10 {
		t.Errorf("only %d members were found in what Kafka says", seen)
	}

	// The members of a classic group, and that their heartbeats are answered.
	d := version(kmsg.NewPtrDescribeGroupsRequest(), 6)
	d.Groups = []string{"classic-range"}
	g := c.ask(d).(*kmsg.DescribeGroupsResponse).Groups[0]
	if g.State != "Stable" || g.Protocol != "range" || len(g.Members) != 2 {
		t.Fatalf("%+v", g)
	}
	alive := false
	for _, m := range g.Members {
		for generation := int32(1); generation < 20 && !alive; generation++ {
			h := version(kmsg.NewPtrHeartbeatRequest(), 4)
			h.Group, h.MemberID, h.Generation = g.Group, m.MemberID, generation
			alive = c.ask(h).(*kmsg.HeartbeatResponse).ErrorCode == 0
		}
	}
	if !alive {
		t.Error("no member of classic-range may go on")
	}
}

// committedTo is the offset that a group has committed, in digits.
func (c *dataClient) committedTo(group, topic, partition string) string {
	c.t.Helper()
	var p int32
	fmt.Sscan(partition, &p)
	r := version(kmsg.NewPtrOffsetFetchRequest(), 7)
	rt := kmsg.NewOffsetFetchRequestTopic()
	rt.Topic, rt.Partitions = topic, []int32{p}
	r.Group, r.Topics = group, append(r.Topics, rt)
	resp := c.ask(r).(*kmsg.OffsetFetchResponse)
	if resp.ErrorCode != 0 {
		return fmt.Sprint("error ", resp.ErrorCode)
	}
	return fmt.Sprint(resp.Topics[0].Partitions[0].Offset)
}

// What was committed is there after a crash, and while it loads nobody is told that there is nothing.
func TestOffsetsOutliveACrash(t *testing.T) {
	dir := t.TempDir()
	n, c := groupsNode(t, dir)
	for i := range 200 {
		resp := c.ask(commitOf(fmt.Sprint("g", i), "t", int64(i))).(*kmsg.OffsetCommitResponse)
		if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
			t.Fatal(code)
		}
	}
	n.Abort()
	n = dataNode(t, dir)
	c = dialNode(t, n)
	for i := range 200 {
		for begin := time.Now(); ; time.Sleep(time.Millisecond) {
			got := c.committedTo(fmt.Sprint("g", i), "t", "0")
			if got == fmt.Sprint(i) {
				break
			}
			if got != "error 14" || time.Since(begin) > time.Minute {
				t.Fatalf("g%d: offset %s", i, got)
			}
		}
	}
}
