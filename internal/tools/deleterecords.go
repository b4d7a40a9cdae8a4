package tools

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const deleteRecordsPurpose = "This tool helps to delete records of the given partitions down to the specified offset."

func deleteRecordsParser() *joptParser {
	return newJopt(
		joptOption{name: "bootstrap-server", arg: requiredArg, what: "server(s) to use for bootstrapping", help: "REQUIRED: The server to connect to."},
		joptOption{name: "offset-json-file", arg: requiredArg, what: "Offset json file path", help: "REQUIRED: The JSON file with offset per partition. The format to use is:\n" +
			"{\"partitions\":\n  [{\"topic\": \"foo\", \"partition\": 1, \"offset\": 1}],\n \"version\":1\n}"},
		joptOption{name: "command-config", arg: requiredArg, what: "command config property file path", help: "A property file containing configs to be passed to Admin Client."},
	)
}

// kafkaDeleteRecords is kafka-delete-records. What a broker refuses is told per partition, and the exit code stays 0.
func kafkaDeleteRecords(env Env, args []string) int {
	return endTool(env, deleteRecords(env, args))
}

// endTool reports how a tool ended that tells its errors twice. It returns the exit code.
func endTool(env Env, err error) int {
	if err == nil {
		return 0
	}
	if code, ended := endOfParsing(env, err); ended {
		return code
	}
	return complainTwice(env, err)
}

func deleteRecords(env Env, args []string) error {
	set, err := deleteRecordsParser().parse(args)
	if err != nil {
		return err
	}
	if err := set.helpOrVersion(env, args, deleteRecordsPurpose); err != nil {
		return err
	}
	if err := set.require("bootstrap-server", "offset-json-file"); err != nil {
		return err
	}
	path, _, err := set.text("offset-json-file")
	if err != nil {
		return err
	}
	client, err := clientOf(env, set, "adminclient-1")
	if err != nil {
		return err
	}
	defer client.close()
	text, err := os.ReadFile(path)
	if err != nil {
		return throw("java.nio.file.NoSuchFileException", path)
	}
	wanted, err := parseOffsetFile(text)
	if err != nil {
		return err
	}
	return client.deleteRecords(env, wanted)
}

// parseOffsetFile reads which partitions are to begin where. Every partition may be named once.
func parseOffsetFile(text []byte) ([]resetRow, error) {
	const operation = "org.apache.kafka.tools.AdminOperationException"
	var root any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if decoder.Decode(&root) != nil {
		return nil, throw(operation, "The input string is not a valid JSON")
	}
	object, _ := root.(map[string]any)
	if version, ok := object["version"]; ok {
		if n, err := jsonInt(version, "version", math.MaxInt32); err != nil {
			return nil, err
		} else if n != 1 {
			return nil, throw(operation, fmt.Sprintf("Not supported version field value %d", n))
		}
	}
	list, ok := object["partitions"]
	if !ok {
		return nil, throw(operation, "Missing partitions field")
	}
	entries, ok := list.([]any)
	if !ok {
		return nil, jsonMapping("Expected JSON array, received " + jsonText(list))
	}
	var rows []resetRow
	var twice []string
	for _, e := range entries {
		fields, ok := e.(map[string]any)
		if !ok {
			return nil, jsonMapping("Expected JSON object, received " + jsonText(e))
		}
		for _, name := range []string{"topic", "partition", "offset"} {
			if _, ok := fields[name]; !ok {
				return nil, jsonMapping("No such field exists: `" + name + "`")
			}
		}
		topic, ok := fields["topic"].(string)
		if !ok {
			return nil, jsonMapping("Expected `String` value, received " + jsonText(fields["topic"]))
		}
		partition, err := jsonInt(fields["partition"], "Integer", math.MaxInt32)
		if err != nil {
			return nil, err
		}
		offset, err := jsonInt(fields["offset"], "Long", math.MaxInt64)
		if err != nil {
			return nil, err
		}
		row := resetRow{groupPartition{topic, int32(partition)}, offset}
		if slices.ContainsFunc(rows, func(r resetRow) bool { return r.groupPartition == row.groupPartition }) && !slices.Contains(twice, row.String()) {
			twice = append(twice, row.String())
		}
		rows = append(rows, row)
	}
	if twice != nil {
		return nil, throw("org.apache.kafka.tools.AdminCommandFailedException", "Offset json file contains duplicate topic partitions: "+strings.Join(twice, ","))
	}
	return rows, nil
}

func jsonMapping(message string) error {
	return throw("com.fasterxml.jackson.databind.JsonMappingException", message)
}

func jsonText(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}

// jsonInt reads a whole number of at most limit.
func jsonInt(v any, typ string, limit int64) (int64, error) {
	if n, ok := v.(json.Number); ok {
		if i, err := n.Int64(); err == nil && i <= limit && i >= -limit-1 {
			return i, nil
		}
	}
	return 0, jsonMapping(fmt.Sprintf("Expected `%s` value, received %s", typ, jsonText(v)))
}

func (a *admin) deleteRecords(env Env, wanted []resetRow) error {
	fmt.Fprintln(env.Stdout, "Executing records delete operation")
	result := make(map[groupPartition]string, len(wanted))
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = a.timeoutMillis()
	unknown, err := a.unknownTopics(wanted)
	if err != nil {
		for _, w := range wanted {
			result[w.groupPartition] = "error: " + asJava(err).Error()
		}
	}
	for _, w := range wanted {
		switch {
		case err != nil:
			continue
		case unknown[w.topic]:
			// Java's client asks for the partition's leader until its time is over.
			result[w.groupPartition] = "error: " + throw(kafkaErrors+"TimeoutException", fmt.Sprintf("Call(callName=topicMetadata) timed out after %d ms", a.apiTimeout.Milliseconds())).Error()
			continue
		}
		i := slices.IndexFunc(req.Topics, func(t kmsg.DeleteRecordsRequestTopic) bool { return t.Topic == w.topic })
		if i < 0 {
			i = len(req.Topics)
			t := kmsg.NewDeleteRecordsRequestTopic()
			t.Topic = w.topic
			req.Topics = append(req.Topics, t)
		}
		p := kmsg.NewDeleteRecordsRequestTopicPartition()
		p.Partition, p.Offset = w.partition, w.offset
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, p)
	}
	if len(req.Topics) > 0 {
		resp, err := call[*kmsg.DeleteRecordsResponse](a, "deleteRecords", req)
		if err != nil {
			for _, w := range wanted {
				if !unknown[w.topic] {
					result[w.groupPartition] = "error: " + asJava(err).Error()
				}
			}
		} else {
			a.noteDeleted(resp, result)
		}
	}
	fmt.Fprintln(env.Stdout, "Records delete operation completed:")
	slices.SortFunc(wanted, compareResets)
	for _, w := range wanted {
		fmt.Fprintf(env.Stdout, "partition: %s\t%s\n", w.groupPartition, result[w.groupPartition])
	}
	return nil
}

// unknownTopics are those that the cluster does not have.
func (a *admin) unknownTopics(wanted []resetRow) (map[string]bool, error) {
	var topics []string
	for _, w := range wanted {
		if !slices.Contains(topics, w.topic) {
			topics = append(topics, w.topic)
		}
	}
	if topics == nil {
		return nil, nil
	}
	resp, err := a.metadata("topicMetadata", topics)
	if err != nil {
		return nil, err
	}
	unknown := map[string]bool{}
	for _, t := range resp.Topics {
		if t.ErrorCode == kerr.UnknownTopicOrPartition.Code {
			unknown[*t.Topic] = true
		}
	}
	return unknown, nil
}

// noteDeleted turns an answer into what is printed of each partition.
func (a *admin) noteDeleted(resp *kmsg.DeleteRecordsResponse, result map[groupPartition]string) {
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			at := groupPartition{t.Topic, p.Partition}
			switch e := brokerError(p.ErrorCode, nil); {
			case e == nil:
				result[at] = fmt.Sprintf("low_watermark: %d", p.LowWatermark)
			default:
				logLine(a.dial.stderr, "ERROR", fmt.Sprintf("[AdminClient clientId=adminclient-1] DeleteRecords request for topic partition %s failed due to an unexpected error %s",
					at, kerr.TypedErrorForCode(p.ErrorCode).Message), "org.apache.kafka.clients.admin.internals.DeleteRecordsHandler", nil)
				result[at] = "error: " + e.Error()
			}
		}
	}
}
