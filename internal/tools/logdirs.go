package tools

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const logDirsPurpose = "This tool helps to query log directory usage on the specified brokers."

func logDirsParser() *joptParser {
	return newJopt(
		joptOption{name: "bootstrap-server", arg: requiredArg, what: "The server(s) to use for bootstrapping", help: "REQUIRED: the server(s) to use for bootstrapping"},
		joptOption{name: "command-config", arg: requiredArg, what: "Admin client property file", help: "Property file containing configs to be passed to Admin Client."},
		joptOption{name: "describe", help: "Describe the specified log directories on the specified brokers."},
		joptOption{name: "topic-list", arg: requiredArg, what: "Topic list", help: "The list of topics to be queried in the form \"topic1,topic2,topic3\". All topics will be queried if no topic list is specified (default: )"},
		joptOption{name: "broker-list", arg: requiredArg, what: "Broker list", help: "The list of brokers to be queried in the form \"0,1,2\". All brokers in the cluster will be queried if no broker list is specified (default: )"},
	)
}

// kafkaLogDirs is kafka-log-dirs.
func kafkaLogDirs(env Env, args []string) int { return endTool(env, logDirs(env, args)) }

func logDirs(env Env, args []string) error {
	set, err := logDirsParser().parse(args)
	if err != nil {
		return err
	}
	if err := set.helpOrVersion(env, args, logDirsPurpose); err != nil {
		return err
	}
	if err := set.require("bootstrap-server", "describe"); err != nil {
		return err
	}
	client, err := clientOf(env, set, "log-dirs-tool")
	if err != nil {
		return err
	}
	defer client.close()
	topics, err := logDirsWords(set, "topic-list")
	if err != nil {
		return err
	}
	brokers, err := client.logDirsBrokers(env, set)
	if err != nil {
		return err
	}
	fmt.Fprintln(env.Stdout, "Querying brokers for log directories information")
	report := logDirsReport{Version: 1, Brokers: []brokerDirs{}}
	for _, b := range brokers {
		dirs, err := client.logDirsOf(b, topics)
		if err != nil {
			return executionException(err)
		}
		report.Brokers = append(report.Brokers, brokerDirs{b, dirs})
	}
	fmt.Fprintf(env.Stdout, "Received log directory information from brokers %s\n", joinIDs(brokers, ","))
	encoder := json.NewEncoder(env.Stdout)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(report)
}

// logDirsReport and what it holds are what is printed, with fields in the order of Kafka's tool.
type logDirsReport struct {
	Brokers []brokerDirs `json:"brokers"`
	Version int          `json:"version"`
}

type brokerDirs struct {
	Broker  int32    `json:"broker"`
	LogDirs []oneDir `json:"logDirs"`
}

type oneDir struct {
	Partitions []dirPartition `json:"partitions"`
	Error      *string        `json:"error"` // the class of the exception
	LogDir     string         `json:"logDir"`
}

type dirPartition struct {
	Partition string `json:"partition"`
	Size      int64  `json:"size"`
	OffsetLag int64  `json:"offsetLag"`
	IsFuture  bool   `json:"isFuture"`
}

// logDirsWords reads a list with commas, each word once; nil is all.
func logDirsWords(set *joptSet, option string) ([]string, error) {
	text, _, err := set.text(option)
	if err != nil {
		return nil, err
	}
	var words []string
	for word := range strings.SplitSeq(text, ",") {
		if word != "" && !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	return words, nil
}

// logDirsBrokers are the brokers to ask, all of which must be there.
func (a *admin) logDirsBrokers(env Env, set *joptSet) ([]int32, error) {
	cluster, err := a.cluster(brokerEndpoints, false)
	if err != nil {
		return nil, executionException(err)
	}
	var present []int32
	for _, b := range cluster.Brokers {
		present = append(present, b.NodeID)
	}
	slices.Sort(present)
	words, err := logDirsWords(set, "broker-list")
	if err != nil || words == nil {
		return present, err
	}
	var wanted, unknown []int32
	for _, word := range words {
		id, err := javaInt(word, 32)
		if err != nil {
			return nil, err
		}
		wanted = append(wanted, int32(id))
		if !slices.Contains(present, int32(id)) {
			unknown = append(unknown, int32(id))
		}
	}
	if unknown != nil {
		fmt.Fprintf(env.Stderr, "ERROR: The given brokers do not exist from --broker-list: %s. Current existent brokers: %s\n", joinIDs(unknown, ","), joinIDs(present, ","))
		return nil, &exitError{1}
	}
	slices.Sort(wanted)
	return wanted, nil
}

// logDirsOf asks one broker, and keeps what is of the topics wanted.
func (a *admin) logDirsOf(broker int32, topics []string) ([]oneDir, error) {
	resp, err := callBroker[*kmsg.DescribeLogDirsResponse](a, "describeLogDirs", broker, kmsg.NewPtrDescribeLogDirsRequest())
	if err != nil {
		return nil, err
	}
	if e := brokerError(resp.ErrorCode, nil); e != nil {
		return nil, e
	}
	dirs := []oneDir{}
	for _, d := range resp.Dirs {
		one := oneDir{Partitions: []dirPartition{}, LogDir: d.Dir}
		if e := kerr.TypedErrorForCode(d.ErrorCode); e != nil {
			class := errorClass(e)
			one.Error = &class
		}
		for _, t := range d.Topics {
			if topics != nil && !slices.Contains(topics, t.Topic) {
				continue
			}
			for _, p := range t.Partitions {
				one.Partitions = append(one.Partitions, dirPartition{partitionName(t.Topic, p.Partition), p.Size, p.OffsetLag, p.IsFuture})
			}
		}
		dirs = append(dirs, one)
	}
	return dirs, nil
}

// callBroker is call for a request that one broker must answer.
func callBroker[R kmsg.Response](a *admin, name string, broker int32, req kmsg.Request) (R, error) {
	return call[R](a, name, &brokerRequest{req, broker})
}

// A brokerRequest goes to a broker of the caller's choice.
type brokerRequest struct {
	kmsg.Request
	broker int32
}
