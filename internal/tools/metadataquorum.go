package tools

import (
	"encoding/base64"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/storage"
	"github.com/quire-log/quire/internal/vfs"
)

func metadataQuorumParser() *argParser {
	where := &argGroup{exclusive: true, required: true}
	status, replication := &argGroup{title: "Status"}, &argGroup{title: "Replication"}
	dryRun := &argument{flags: []string{"--dry-run"}, action: storeTrue, help: "True if we should print what would be done, but not do it."}
	return &argParser{
		prog:        "kafka-metadata-quorum",
		description: "This tool describes kraft metadata quorum status.",
		arguments: []*argument{
			{flags: []string{"--bootstrap-server"}, group: where, help: "A comma-separated list of host:port pairs to use for establishing the connection to the Kafka cluster."},
			{flags: []string{"--bootstrap-controller"}, group: where, help: "A comma-separated list of host:port pairs to use for establishing the connection to the Kafka controllers."},
			{flags: []string{"--command-config"}, help: "Property file containing configs to be passed to Admin Client. For add-controller, the file is used to specify the controller properties as well."},
		},
		commands: []*argParser{
			{name: "describe", help: "Describe the metadata quorum info", arguments: []*argument{
				{flags: []string{"--status"}, action: storeTrue, group: status, help: "A short summary of the quorum status and the other provides detailed information about the status of replication."},
				{flags: []string{"--replication"}, action: storeTrue, group: replication, help: "Detailed information about the status of replication"},
				{flags: []string{"--human-readable"}, action: storeTrue, group: replication, help: "Human-readable output"},
			}},
			{name: "add-controller", help: "Add a controller to the KRaft controller cluster", arguments: []*argument{dryRun}},
			{name: "remove-controller", help: "Remove a controller from the KRaft controller cluster", arguments: []*argument{
				{flags: []string{"--controller-id", "-i"}, typ: "Integer", required: true, help: "The id of the controller to remove."},
				{flags: []string{"--controller-directory-id", "-d"}, required: true, help: "The directory ID of the controller to remove."},
				dryRun,
			}},
		},
	}
}

// kafkaMetadataQuorum is kafka-metadata-quorum.
func kafkaMetadataQuorum(env Env, args []string) int {
	values, err := metadataQuorumParser().parse(args)
	if err != nil {
		return printArgError(env, err, 0)
	}
	return endTerse(env, metadataQuorum(env, values))
}

func metadataQuorum(env Env, values *argValues) error {
	props := clientConfig{}
	if path := values.text("command-config"); path != "" {
		if _, err := os.Stat(path); err != nil {
			return terse("Properties file %s does not exists!", path)
		}
		var err error
		if props, err = loadProperties(path); err != nil {
			return err
		}
	}
	// What there is to say before anybody is asked.
	status, replication, human := values.has("status"), values.has("replication"), values.has("human-readable")
	if values.command == "describe" {
		switch {
		case status && replication:
			return terse("Only one of --status or --replication should be specified with describe sub-command")
		case status && human:
			return terse("The option --human-readable is only supported along with --replication")
		case !status && !replication:
			return terse("One of --status or --replication must be specified with describe sub-command")
		}
	}
	server := clientConfig{}
	for k, v := range props {
		server[k] = v
	}
	client, err := newAdminOf(env, props, values.text("bootstrap-server"), values.text("bootstrap-controller"))
	if err != nil {
		return err
	}
	defer client.close()
	switch values.command {
	case "add-controller":
		if values.text("command-config") == "" {
			return terse("You must supply the configuration file of the controller you are adding when using add-controller.")
		}
		return client.addController(env, server, values.has("dry-run"))
	case "remove-controller":
		return client.removeController(env, values)
	}
	if replication {
		return client.quorumReplication(env, human)
	}
	return client.quorumStatus(env)
}

// A quorum is what its leader says of the metadata log.
type quorum struct {
	kmsg.DescribeQuorumResponseTopicPartition
	nodes  []kmsg.DescribeQuorumResponseNode
	leader kmsg.DescribeQuorumResponseTopicPartitionReplicaState
}

func (a *admin) quorum() (*quorum, error) {
	req := kmsg.NewPtrDescribeQuorumRequest()
	topic := kmsg.NewDescribeQuorumRequestTopic()
	topic.Topic = "__cluster_metadata"
	topic.Partitions = append(topic.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	req.Topics = append(req.Topics, topic)
	resp, err := call[*kmsg.DescribeQuorumResponse](a, "describeMetadataQuorum", req)
	if err != nil {
		return nil, executionException(err)
	}
	if e := brokerError(resp.ErrorCode, resp.ErrorMessage); e != nil {
		return nil, executionException(e)
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return nil, executionException(brokerError(-1, nil))
	}
	q := &quorum{DescribeQuorumResponseTopicPartition: resp.Topics[0].Partitions[0], nodes: resp.Nodes}
	if e := brokerError(q.ErrorCode, q.ErrorMessage); e != nil {
		return nil, executionException(e)
	}
	for _, v := range q.CurrentVoters {
		if v.ReplicaID == q.LeaderID {
			q.leader = v
		}
	}
	return q, nil
}

func (a *admin) quorumStatus(env Env) error {
	endpoints := brokerEndpoints
	if a.controllers != nil {
		endpoints = controllerEndpoints
	}
	cluster, err := a.cluster(endpoints, false)
	if err != nil {
		return executionException(err)
	}
	q, err := a.quorum()
	if err != nil {
		return err
	}
	// How far the last voter is behind the leader; the leader itself is not behind.
	last := q.leader
	for _, v := range q.CurrentVoters {
		if v.LogEndOffset < last.LogEndOffset {
			last = v
		}
	}
	lagMs := int64(-1)
	switch {
	case last.ReplicaID == q.LeaderID:
		lagMs = 0
	case q.leader.LastCaughtUpTimestamp >= 0 && last.LastCaughtUpTimestamp >= 0:
		lagMs = q.leader.LastCaughtUpTimestamp - last.LastCaughtUpTimestamp
	}
	fmt.Fprintf(env.Stdout, "ClusterId:              %s\n", cluster.ClusterID)
	fmt.Fprintf(env.Stdout, "LeaderId:               %d\n", q.LeaderID)
	fmt.Fprintf(env.Stdout, "LeaderEpoch:            %d\n", q.LeaderEpoch)
	fmt.Fprintf(env.Stdout, "HighWatermark:          %d\n", q.HighWatermark)
	fmt.Fprintf(env.Stdout, "MaxFollowerLag:         %d\n", q.leader.LogEndOffset-last.LogEndOffset)
	fmt.Fprintf(env.Stdout, "MaxFollowerLagTimeMs:   %d\n", lagMs)
	fmt.Fprintf(env.Stdout, "CurrentVoters:          %s\n", q.list(q.CurrentVoters, true))
	fmt.Fprintf(env.Stdout, "CurrentObservers:       %s\n", q.list(q.Observers, false))
	return nil
}

// list is nodes in JSON, with their addresses if asked for and known.
func (q *quorum) list(replicas []kmsg.DescribeQuorumResponseTopicPartitionReplicaState, addresses bool) string {
	parts := make([]string, len(replicas))
	for i, r := range replicas {
		text := fmt.Sprintf(`{"id": %d`, r.ReplicaID)
		if r.ReplicaDirectoryID != [16]byte{} {
			text += fmt.Sprintf(`, "directoryId": "%s"`, kmeta.UUID(r.ReplicaDirectoryID))
		}
		var endpoints []string
		for _, n := range q.nodes {
			if n.NodeID != r.ReplicaID || !addresses {
				continue
			}
			for _, l := range n.Listeners {
				endpoints = append(endpoints, fmt.Sprintf(`"%s://%s:%d"`, l.Name, l.Host, l.Port))
			}
		}
		if endpoints != nil {
			text += `, "endpoints": [` + strings.Join(endpoints, ", ") + "]"
		}
		parts[i] = text + "}"
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

func (a *admin) quorumReplication(env Env, human bool) error {
	q, err := a.quorum()
	if err != nil {
		return err
	}
	now := time.Now().UnixMilli()
	when := func(stamp int64, what string) (string, error) {
		switch {
		case !human || stamp == -1:
			return strconv.FormatInt(stamp, 10), nil
		case stamp < 0 || stamp > now:
			return "", terse("Error while computing relative time, possible drift in system clock.\nCurrent timestamp is %d, %s timestamp is %d", now, what, stamp)
		}
		return fmt.Sprintf("%d ms ago", now-stamp), nil
	}
	var rows [][]string
	add := func(replicas []kmsg.DescribeQuorumResponseTopicPartitionReplicaState, status string, wanted func(id int32) bool) error {
		for _, r := range replicas {
			if !wanted(r.ReplicaID) {
				continue
			}
			fetched, err := when(r.LastFetchTimestamp, "last fetch")
			if err != nil {
				return err
			}
			caughtUp, err := when(r.LastCaughtUpTimestamp, "last caught up")
			if err != nil {
				return err
			}
			rows = append(rows, []string{strconv.Itoa(int(r.ReplicaID)), kmeta.UUID(r.ReplicaDirectoryID).String(), strconv.FormatInt(r.LogEndOffset, 10),
				strconv.FormatInt(q.leader.LogEndOffset-r.LogEndOffset, 10), fetched, caughtUp, status})
		}
		return nil
	}
	err = add(q.CurrentVoters, "Leader", func(id int32) bool { return id == q.LeaderID })
	if err == nil {
		err = add(q.CurrentVoters, "Follower", func(id int32) bool { return id != q.LeaderID })
	}
	if err == nil {
		err = add(q.Observers, "Observer", func(int32) bool { return true })
	}
	if err != nil {
		return err
	}
	printPretty(env.Stdout, []string{"NodeId", "DirectoryId", "LogEndOffset", "Lag", "LastFetchTimestamp", "LastCaughtUpTimestamp", "Status"}, rows)
	return nil
}

// javaUUID reads an id as Java does; complaint is what is wrong with it in Java's words, empty if nothing is.
func javaUUID(text string) (id kmeta.UUID, complaint string) {
	if len(text) > 24 {
		return kmeta.UUID{}, fmt.Sprintf("Input string with prefix `%s` is too long to be decoded as a base64 UUID", text[:24])
	}
	bytes, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(text, "="))
	switch {
	case len(text) == 1:
		return kmeta.UUID{}, "Input byte[] should at least have 2 bytes for base64 bytes"
	case err != nil && len(text)%4 == 1:
		return kmeta.UUID{}, "Last unit does not have enough valid bits"
	case err != nil:
		bad := strings.IndexFunc(text, func(c rune) bool {
			return !strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=", c)
		})
		return kmeta.UUID{}, fmt.Sprintf("Illegal base64 character %x", text[max(bad, 0)])
	case len(bytes) != 16:
		return kmeta.UUID{}, fmt.Sprintf("Input string `%s` decoded as %d bytes, which is not equal to the expected 16 bytes of a base64-encoded UUID", text, len(bytes))
	}
	return kmeta.UUID(bytes), ""
}

func (a *admin) removeController(env Env, values *argValues) error {
	id, _ := values.number("controller-id")
	if id < 0 {
		return terse("Invalid negative --controller-id: %d", id)
	}
	directory, complaint := javaUUID(values.text("controller-directory-id"))
	if complaint != "" {
		return terse("Failed to parse --controller-directory-id: %s", complaint)
	}
	done := "DRY RUN of removing "
	if !values.has("dry-run") {
		done = "Removed "
		req := kmsg.NewPtrRemoveRaftVoterRequest()
		req.VoterID, req.VoterDirectoryID = int32(id), directory
		resp, err := call[*kmsg.RemoveRaftVoterResponse](a, "removeRaftVoter", req)
		if err != nil {
			return executionException(err)
		}
		if e := brokerError(resp.ErrorCode, resp.ErrorMessage); e != nil {
			return executionException(e)
		}
	}
	fmt.Fprintf(env.Stdout, "%s KRaft controller %d with directory id %s\n", done, id, directory)
	return nil
}

// addController makes the node that a server.properties describes a voter.
func (a *admin) addController(env Env, server clientConfig, dryRun bool) error {
	const valid = " Is this a valid controller configuration file?"
	text, ok := server["node.id"]
	if !ok {
		return terse("node.id not found in configuration file." + valid)
	}
	id, err := javaInt(text, 32)
	if err != nil {
		return err
	}
	switch {
	case id < 0:
		return terse("node.id was negative in configuration file." + valid)
	case !slices.Contains(itemsOf(server["process.roles"]), "controller"):
		return terse("process.roles did not contain 'controller' in configuration file." + valid)
	}
	dir := server["metadata.log.dir"]
	if dirs := itemsOf(server["log.dirs"]); dir == "" && len(dirs) > 0 {
		dir = dirs[0]
	}
	if dir == "" {
		return terse("Neither metadata.log.dir nor log.dirs were found." + valid)
	}
	meta, formatted, err := storage.Formatted(vfs.OS(), dir)
	switch {
	case err != nil || !formatted:
		return terse("Unable to read meta.properties from %s", dir)
	case meta.DirectoryID == (storage.TopicID{}):
		return terse("No directory id found in %s", dir)
	}
	req := kmsg.NewPtrAddRaftVoterRequest()
	req.TimeoutMillis, req.VoterID, req.VoterDirectoryID = a.timeoutMillis(), int32(id), meta.DirectoryID
	if req.Listeners, err = controllerListeners(server); err != nil {
		return err
	}
	var endpoints []string
	for _, l := range req.Listeners {
		endpoints = append(endpoints, fmt.Sprintf("%s://%s:%d", l.Name, l.Host, l.Port))
	}
	done := "DRY RUN of adding"
	if !dryRun {
		done = "Added"
		resp, err := call[*kmsg.AddRaftVoterResponse](a, "addRaftVoter", req)
		if err != nil {
			return executionException(err)
		}
		if e := brokerError(resp.ErrorCode, resp.ErrorMessage); e != nil {
			return executionException(e)
		}
	}
	fmt.Fprintf(env.Stdout, "%s controller %d with directory id %s and endpoints: %s\n", done, id, meta.DirectoryID, strings.Join(endpoints, ", "))
	return nil
}

// controllerListeners are the addresses of the controller listeners that a server.properties names.
func controllerListeners(server clientConfig) ([]kmsg.AddRaftVoterRequestListener, error) {
	names := itemsOf(server["controller.listener.names"])
	if len(names) == 0 {
		return nil, terse("controller.listener.names was not found. Is this a valid controller configuration file?")
	}
	found := map[string]kmsg.AddRaftVoterRequestListener{}
	for _, key := range []string{"listeners", "advertised.listeners"} {
		for _, text := range itemsOf(server[key]) {
			name, address, _ := strings.Cut(text, "://")
			colon := strings.LastIndexByte(address, ':')
			port, err := strconv.ParseUint(address[colon+1:], 10, 16)
			if colon < 0 || err != nil {
				continue
			}
			l := kmsg.NewAddRaftVoterRequestListener()
			l.Name, l.Host, l.Port = name, strings.Trim(address[:colon], "[]"), uint16(port)
			if l.Host == "" {
				l.Host = "localhost"
			}
			found[name] = l
		}
	}
	var listeners []kmsg.AddRaftVoterRequestListener
	for _, name := range names {
		l, ok := found[name]
		if !ok {
			return nil, terse("Cannot find information about controller listener name: %s", name)
		}
		listeners = append(listeners, l)
	}
	return listeners, nil
}
