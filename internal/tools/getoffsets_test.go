package tools

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// getOffsetsOf runs kafka-get-offsets against a broker whose partitions have leaders as leadersOf says at its n-th answer to Metadata.
func getOffsetsOf(t *testing.T, timeoutMs string, leadersOf func(n int32) []int32) (code int, stdout, stderr string) {
	var asked atomic.Int32
	b := startFakeBroker(t, func(b *fakeBroker, req kmsg.Request, resp kmsg.Response) bool {
		switch resp := resp.(type) {
		case *kmsg.MetadataResponse:
			b.metadataOf(resp, "t", leadersOf(asked.Add(1))...)
		case *kmsg.ListOffsetsResponse:
			for _, topic := range req.(*kmsg.ListOffsetsRequest).Topics {
				answer := kmsg.NewListOffsetsResponseTopic()
				answer.Topic = topic.Topic
				for _, p := range topic.Partitions {
					part := kmsg.NewListOffsetsResponseTopicPartition()
					part.Partition, part.Offset = p.Partition, 10+int64(p.Partition)
					answer.Partitions = append(answer.Partitions, part)
				}
				resp.Topics = append(resp.Topics, answer)
			}
		}
		return true
	}, 2, 3)
	config := filepath.Join(t.TempDir(), "client.properties")
	if err := os.WriteFile(config, []byte("default.api.timeout.ms="+timeoutMs+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	code = kafkaGetOffsets(Env{Stdout: &out, Stderr: &errs}, []string{"--bootstrap-server", b.address, "--command-config", config})
	return code, out.String(), errs.String()
}

// A partition without a leader is told of and left out, once it had the time of the call to get one. The text is what Kafka 4.3.1
// printed of a topic of which one data directory was gone.
func TestGetOffsetsWithoutLeader(t *testing.T) {
	const skips = "Skip getting offsets for topic-partition %s due to error: org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment. Call: listOffsets(api=METADATA)\n"
	for _, test := range []struct {
		name           string
		leaders        []int32
		stdout, stderr string
	}{
		{"one of three", []int32{1, -1, 1}, "t:0:10\nt:2:12\n", fmt.Sprintf(skips, "t-1")},
		{"none", []int32{-1}, "", fmt.Sprintf(skips, "t-0")},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			// The same time bounds each of the calls, which a busy machine must be able to make.
			code, stdout, stderr := getOffsetsOf(t, "15000", func(int32) []int32 { return test.leaders })
			if code != 0 || stdout != test.stdout || stderr != test.stderr {
				t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
			}
		})
	}
}

// A leader that is elected meanwhile is asked.
func TestGetOffsetsAwaitsLeader(t *testing.T) {
	code, stdout, stderr := getOffsetsOf(t, "60000", func(n int32) []int32 {
		if n == 1 {
			return []int32{1, -1}
		}
		return []int32{1, 1}
	})
	if code != 0 || stdout != "t:0:10\nt:1:11\n" || stderr != "" {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}
