package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// killRounds is how often TestKill kills the broker.
const killRounds = 50

const (
	killTopic      = "kept"
	killPartitions = 3
)

// TestKill kills the real process under load again and again. Whatever was acknowledged is there after each restart, once, at the
// offset that was named, and records of a partition are in the order in which they were written.
func TestKill(t *testing.T) {
	if testing.Short() {
		t.Skip("kills a broker fifty times")
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "quire")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("building: %v\n%s", err, out)
	}
	addr := fixedAddr(t)

	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	lot := rand.New(rand.NewPCG(seed, 0))
	acked := ackedRecords{at: map[place]string{}}
	for round := range killRounds {
		b := startBroker(t, program, filepath.Join(dir, "data"), addr)
		if round == 0 {
			createKept(t, addr)
		}
		ctx, stop := context.WithCancel(t.Context())
		var writers sync.WaitGroup
		for w := range 3 {
			writers.Go(func() { acked.write(ctx, addr, fmt.Sprintf("%d-%d", round, w)) })
		}
		// When the blow falls is what is varied: some time after the round's first record was acknowledged, or wherever the start is.
		if before := acked.count(); lot.IntN(8) > 0 {
			for begin := time.Now(); acked.count() == before && time.Since(begin) < time.Minute; time.Sleep(time.Millisecond) {
			}
		}
		time.Sleep(time.Duration(lot.IntN(80)) * time.Millisecond)
		b.kill()
		stop()
		writers.Wait()
	}
	b := startBroker(t, program, filepath.Join(dir, "data"), addr)
	acked.check(t, addr)
	b.kill()
	if len(acked.at) < killRounds {
		t.Errorf("only %d records were acknowledged in %d rounds: nothing was shown", len(acked.at), killRounds)
	}
	t.Logf("%d records acknowledged", len(acked.at))
}

// fixedAddr is an address that stays free while the broker is down between two rounds: its port lies below those that systems give to
// outgoing connections, such as those of this test's clients, which would otherwise take it now and then.
func fixedAddr(t *testing.T) string {
	t.Helper()
	for range 100 {
		addr := fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(10000))
		if l, err := net.Listen("tcp", addr); err == nil {
			l.Close()
			return addr
		}
	}
	t.Fatal("a hundred ports are taken")
	return ""
}

// A process is the broker under test.
type process struct {
	cmd *exec.Cmd
	log *bytes.Buffer
}

func (p process) kill() {
	p.cmd.Process.Signal(syscall.SIGKILL)
	p.cmd.Wait()
}

func startBroker(t *testing.T, program, data, addr string) process {
	t.Helper()
	p := process{exec.Command(program, "serve", "--override", "log.dirs="+data, "--override", "listeners=PLAINTEXT://"+addr,
		"--override", "admin.listener=", "--override", "log.segment.bytes=1048576"), new(bytes.Buffer)}
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		if conn, err := net.Dial("tcp", addr); err == nil {
			conn.Close()
			return p
		}
		if time.Now().After(deadline) {
			p.kill()
			t.Fatalf("the broker does not serve:\n%s", p.log)
		}
	}
}

func createKept(t *testing.T, addr string) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = killTopic, killPartitions, 1
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(t.Context(), cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A place is where a record was said to be.
type place struct {
	partition int32
	offset    int64
}

type ackedRecords struct {
	mu sync.Mutex // guards at
	at map[place]string
}

// write produces records that say who wrote them and in what order, until ctx ends, and keeps those that were acknowledged.
func (a *ackedRecords) write(ctx context.Context, addr, writer string) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.DefaultProduceTopic(killTopic), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()),
		kgo.ProducerLinger(0), kgo.MaxBufferedRecords(200))
	if err != nil {
		return
	}
	var told sync.WaitGroup // of each record what became of it: the client may tell after it is closed
	defer told.Wait()
	defer cl.Close()
	for n := 0; ctx.Err() == nil; n++ {
		value := fmt.Sprintf("%s/%06d", writer, n)
		told.Add(1)
		cl.Produce(ctx, &kgo.Record{Value: append([]byte(value), make([]byte, 500)...)}, func(r *kgo.Record, err error) {
			defer told.Done()
			if err != nil {
				return
			}
			a.mu.Lock()
			defer a.mu.Unlock()
			a.at[place{r.Partition, r.Offset}] = value
		})
	}
}

func (a *ackedRecords) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.at)
}

func (a *ackedRecords) check(t *testing.T, addr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	offsets := map[int32]kgo.Offset{}
	for p := range int32(killPartitions) {
		offsets[p] = kgo.NewOffset().AtStart()
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{killTopic: offsets}))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	left, seen := map[place]bool{}, map[string]place{}
	for at := range a.at {
		left[at] = true
	}
	type line struct {
		writer    string
		partition int32
	}
	last := map[line]string{}
	for len(left) > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("%d of %d acknowledged records did not come back: %v", len(left), len(a.at), err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			value := string(bytes.TrimRight(r.Value, "\x00"))
			at := place{r.Partition, r.Offset}
			if want, ok := a.at[at]; ok && want != value {
				t.Errorf("partition %d offset %d holds %s, acknowledged was %s", r.Partition, r.Offset, value, want)
			}
			if first, twice := seen[value]; twice {
				t.Errorf("%s is at %v and at %v", value, first, at)
			}
			seen[value] = at
			writer, _, _ := bytes.Cut([]byte(value), []byte("/"))
			l := line{string(writer), r.Partition}
			if value <= last[l] {
				t.Errorf("partition %d: %s comes after %s", r.Partition, value, last[l])
			}
			last[l] = value
			delete(left, at)
		})
	}
}
