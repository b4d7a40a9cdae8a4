package tools_test

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/quire-log/quire/internal/tools"
	"github.com/quire-log/quire/quiretest"
)

// kafka-consumer-perf-test --group begins where the group has committed, commits what it counted, and shares with other members so
// that together they count every record once.
func TestConsumerPerfGroup(t *testing.T) {
	address := quiretest.Start(t, quiretest.With("group.initial.rebalance.delay.ms", "0"), quiretest.With("group.consumer.assignment.interval.ms", "0")).Addr()
	tool(t, address, "", "kafka-topics", "--create", "--topic", "cpg", "--partitions", "4")
	const all = 20000
	tool(t, address, "", "kafka-producer-perf-test", "--topic", "cpg", "--num-records", fmt.Sprint(all), "--record-size", "20", "--throughput", "-1",
		"--command-property", "batch.size=2000")
	cl, err := kgo.NewClient(kgo.SeedBrokers(address))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	committed := func(group string) (sum int64) {
		t.Helper()
		offsets, err := kadm.NewClient(cl).FetchOffsets(context.Background(), group)
		if err != nil {
			t.Fatal(err)
		}
		offsets.Each(func(o kadm.OffsetResponse) {
			if o.Metadata != "" {
				t.Errorf("%s: metadata %q", group, o.Metadata)
			}
			sum += o.At
		})
		return sum
	}
	read := func(want int, args ...string) int64 {
		var stdout, stderr bytes.Buffer
		argv := append([]string{"kafka-consumer-perf-test", "--bootstrap-server", address, "--hide-header", "--timeout", "60000", "--num-records", fmt.Sprint(want)}, args...)
		if code := tools.Main(argv, strings.NewReader(""), &stdout, &stderr); code != 0 {
			t.Errorf("%q: code %d\n%s%s", args, code, stdout.String(), stderr.String())
			return 0
		}
		lines := strings.Split(strings.TrimSpace(stdout.String()), "\n")
		row := strings.Split(lines[len(lines)-1], ", ")
		n, err := strconv.ParseInt(row[4], 10, 64)
		if err != nil {
			t.Errorf("%q printed\n%s", args, stdout.String())
		}
		return n
	}
	for _, protocol := range []string{"classic", "consumer"} {
		group := "cpg-" + protocol
		args := []string{"--topic", "cpg", "--group", group, "--command-property", "group.protocol=" + protocol, "--command-property", "max.poll.records=1"}
		if n := read(700, args...); n != 700 || committed(group) != 700 {
			t.Errorf("%s: %d records, %d committed; want 700", group, n, committed(group))
		}
		if n := read(all-700, args...); n != all-700 || committed(group) != all {
			t.Errorf("%s: %d more records, %d committed", group, n, committed(group))
		}

		group += "-shared"
		// Whoever has enough goes, and leaves its partitions to the others.
		args = []string{"--include", "cp.", "--group", group, "--fetch-size", "1",
			"--command-property", "group.protocol=" + protocol, "--command-property", "max.poll.records=1"}
		var members sync.WaitGroup
		for _, want := range []int{all / 4, all / 4, all / 2} {
			members.Go(func() {
				if n := read(want, args...); n != int64(want) {
					t.Errorf("%s: %d records, want %d", group, n, want)
				}
			})
		}
		members.Wait()
		if n := committed(group); n != all {
			t.Errorf("%s: %d committed; want %d", group, n, all)
		}

		group = "cpg-none-" + protocol
		args = []string{"--topic", "cpg", "--group", group, "--command-property", "enable.auto.commit=false", "--command-property", "group.protocol=" + protocol}
		if n := read(all, args...); n != all || committed(group) != 0 {
			t.Errorf("%s: %d records, %d committed", group, n, committed(group))
		}
	}
}
