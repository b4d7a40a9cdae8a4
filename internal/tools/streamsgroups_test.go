package tools

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// runningStreamsGroup is the group app: it reads orders, and repartitions into a topic of its own.
func runningStreamsGroup() kmsg.StreamsGroupDescribeResponseGroup {
	inner := func(name string) []kmsg.TopicInfo { return []kmsg.TopicInfo{{Topic: name}} }
	g := kmsg.NewStreamsGroupDescribeResponseGroup()
	g.Group, g.State, g.Epoch, g.AssignmentEpoch = "app", "Stable", 7, 6
	g.Topology = &kmsg.StreamsGroupDescribeResponseGroupTopology{Epoch: 1, Subtopologies: []kmsg.StreamsGroupDescribeResponseGroupTopologySubtopology{
		{SubtopologyID: "0", SourceTopics: []string{"orders"}, StateChangelogTopics: slices.Concat(inner("app-store-changelog"), inner("elsewhere"))},
		{SubtopologyID: "1", RepartitionSourceTopics: inner("app-by-key-repartition")},
	}}
	m := kmsg.NewStreamsGroupDescribeResponseGroupMember()
	m.MemberID, m.ProcessID, m.ClientID, m.MemberEpoch = "member-one", "process", "client", 5
	m.Assignment.ActiveTasks = []kmsg.TaskIDs{{SubtopologyID: "0", Partitions: []int32{0, 9}}, {SubtopologyID: "1", Partitions: []int32{1}}}
	m.Assignment.StandbyTasks = []kmsg.TaskIDs{{SubtopologyID: "0", Partitions: []int32{1}}}
	m.TargetAssignment.WarmupTasks = []kmsg.TaskIDs{{SubtopologyID: "1", Partitions: []int32{0, 1}}}
	g.Members = []kmsg.StreamsGroupDescribeResponseGroupMember{m}
	return g
}

// streamsBroker keeps one streams group. Topics have two partitions with the offsets 10 to 30, of which the group has committed 12 in the first.
func streamsBroker(t *testing.T, g kmsg.StreamsGroupDescribeResponseGroup, deleted *[]string, codes ...int16) *fakeBroker {
	return startFakeBroker(t, func(b *fakeBroker, req kmsg.Request, resp kmsg.Response) bool {
		switch resp := resp.(type) {
		case *kmsg.MetadataResponse:
			b.metadataOf(resp, "orders", 1, 1)
			other := resp.Topics[0]
			other.Topic, other.TopicID = kmsg.StringPtr("app-by-key-repartition"), [16]byte{15: 2}
			resp.Topics[0].TopicID = [16]byte{15: 1}
			resp.Topics = append(resp.Topics, other)
		case *kmsg.FindCoordinatorResponse:
			for _, key := range req.(*kmsg.FindCoordinatorRequest).CoordinatorKeys {
				resp.Coordinators = append(resp.Coordinators, kmsg.FindCoordinatorResponseCoordinator{Key: key, NodeID: 1, Host: b.host, Port: b.port})
			}
		case *kmsg.ListGroupsResponse:
			resp.Groups = []kmsg.ListGroupsResponseGroup{{Group: g.Group, ProtocolType: "streams", GroupType: "streams", GroupState: g.State}}
		case *kmsg.StreamsGroupDescribeResponse:
			resp.Groups = []kmsg.StreamsGroupDescribeResponseGroup{g}
			if len(codes) > 0 {
				resp.Groups[0].ErrorCode, codes = codes[0], codes[1:]
			}
		case *kmsg.ListOffsetsResponse:
			for _, asked := range req.(*kmsg.ListOffsetsRequest).Topics {
				topic := kmsg.ListOffsetsResponseTopic{Topic: asked.Topic}
				for _, p := range asked.Partitions {
					at := kmsg.NewListOffsetsResponseTopicPartition()
					at.Partition, at.Offset = p.Partition, 10
					if p.Timestamp == namedTimes["latest"] {
						at.Offset = 30
					}
					topic.Partitions = append(topic.Partitions, at)
				}
				resp.Topics = append(resp.Topics, topic)
			}
		case *kmsg.OffsetFetchResponse:
			commit := kmsg.NewOffsetFetchResponseGroupTopicPartition()
			commit.Offset, commit.LeaderEpoch = 12, 3
			resp.Groups = []kmsg.OffsetFetchResponseGroup{{Group: g.Group, Topics: []kmsg.OffsetFetchResponseGroupTopic{
				{Topic: "orders", TopicID: [16]byte{15: 1}, Partitions: []kmsg.OffsetFetchResponseGroupTopicPartition{commit}},
			}}}
		case *kmsg.DeleteGroupsResponse:
			for _, id := range req.(*kmsg.DeleteGroupsRequest).Groups {
				*deleted = append(*deleted, "group "+id)
				resp.Groups = append(resp.Groups, kmsg.DeleteGroupsResponseGroup{Group: id})
			}
		case *kmsg.DeleteTopicsResponse:
			for _, topic := range req.(*kmsg.DeleteTopicsRequest).Topics {
				*deleted = append(*deleted, "topic "+*topic.Topic)
				resp.Topics = append(resp.Topics, kmsg.DeleteTopicsResponseTopic{Topic: topic.Topic})
			}
		default:
			return false
		}
		return true
	}, 2, 3, 9, 10, 16, 20, 42, 89)
}

// streamsOut runs the tool, which must end with a code, and returns what it printed, without blanks at the ends of lines.
func streamsOut(t *testing.T, b *fakeBroker, code int, line string) string {
	t.Helper()
	var out, errs bytes.Buffer
	if got := kafkaStreamsGroups(Env{Stdout: &out, Stderr: &errs}, strings.Fields("--bootstrap-server "+b.address+" "+line)); got != code {
		t.Errorf("%s: code %d, want %d\n%s%s", line, got, code, out.String(), errs.String())
	}
	lines := strings.Split(strings.ReplaceAll(out.String(), fmt.Sprint(b.port), "PORT"), "\n")
	for i := range lines {
		lines[i] = strings.Join(strings.Fields(lines[i]), " ")
	}
	return strings.Join(lines, "\n")
}

func TestStreamsGroupsDescribe(t *testing.T) {
	b := streamsBroker(t, runningStreamsGroup(), nil, kerr.NotCoordinator.Code) // the first time it asks somebody else
	for _, c := range []struct{ line, want string }{
		{"--state --verbose", "GROUP COORDINATOR (ID) STATE GROUP-EPOCH TARGET-ASSIGNMENT-EPOCH #MEMBERS\napp 127.0.0.1:PORT (1) Stable 7 6 1\n"},
		{"--members", "GROUP MEMBER PROCESS CLIENT-ID ASSIGNMENTS\napp member-one process client ACTIVE: 0:[0,9]; 1:[1]; STANDBY: 0:[1];\n"},
		{"--members --verbose", "GROUP TARGET-ASSIGNMENT-EPOCH TOPOLOGY-EPOCH MEMBER MEMBER-PROTOCOL MEMBER-EPOCH PROCESS CLIENT-ID ASSIGNMENTS\n" +
			"app 6 1 member-one streams 5 process client ACTIVE: 0:[0,9]; 1:[1]; STANDBY: 0:[1]; TARGET-WARMUP: 1:[0,1];\n"},
		// The topic has no partition 9, which a topic beside it might have.
		{"", "GROUP TOPIC PARTITION OFFSET-LAG\napp app-by-key-repartition 1 20\napp orders 0 18\n"},
		{"--verbose", "GROUP TOPIC PARTITION CURRENT-OFFSET LEADER-EPOCH LOG-END-OFFSET OFFSET-LAG\napp app-by-key-repartition 1 - - 30 20\napp orders 0 12 3 30 18\n"},
	} {
		if got := streamsOut(t, b, 0, "--describe --group app "+c.line); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.line, got, c.want)
		}
	}
	if got := streamsOut(t, b, 0, "--reset-offsets --dry-run --to-latest --all-input-topics --group app"); !strings.Contains(got, "Assignments can only be reset if the group 'app' is inactive, but the current state is Stable.") {
		t.Errorf("reset of a group that runs: %s", got)
	}
	if got := streamsOut(t, b, 0, "--delete --group app"); !strings.Contains(got, "GroupNotEmptyException: Streams group 'app' is not EMPTY.") {
		t.Errorf("delete of a group that runs: %s", got)
	}
}

func TestStreamsGroupsOfEmptyGroup(t *testing.T) {
	g := runningStreamsGroup()
	g.State, g.Members = "Empty", nil
	var deleted []string
	b := streamsBroker(t, g, &deleted)
	for _, c := range []struct{ line, want string }{
		{"--describe --group app", ""},
		{"--describe --group app --state", "\nError: Streams group 'app' has no active members.\nGROUP COORDINATOR (ID) STATE #MEMBERS\napp 127.0.0.1:PORT (1) Empty 0\n"},
		{"--list --state", "GROUP STATE\napp Empty\n"},
		{"--reset-offsets --dry-run --all-groups --all-input-topics --shift-by 100", "\nGROUP TOPIC PARTITION NEW-OFFSET\napp orders 0 30\n"},
		{"--reset-offsets --dry-run --group app --input-topic orders --to-earliest", // it has committed to one of two partitions
			"\nError: One or more topics are not part of the group 'app'.\n\nGROUP TOPIC PARTITION NEW-OFFSET\n"},
		{"--delete --group app --delete-all-internal-topics", "\nError: The internal topic 'elsewhere' is not inferred as internal and thus will not be deleted with the group 'app'.\n" +
			"Deletion of requested streams groups ('app') was successful.\nDeletion of associated internal topics of the streams groups ('app') was successful.\n"},
	} {
		if got := streamsOut(t, b, 0, c.line); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.line, got, c.want)
		}
	}
	slices.Sort(deleted)
	if got, want := strings.Join(deleted, ", "), "group app, topic app-by-key-repartition, topic app-store-changelog"; got != want {
		t.Errorf("deleted %s, want %s", got, want)
	}
}
