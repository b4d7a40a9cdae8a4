// Command go hosts members of groups of Go's clients: franz-go, sarama and kafka-go. See ../README.md for what it reads and prints.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	sessionTimeout    = 10 * time.Second
	heartbeatInterval = time.Second
)

// A member says what happens to one consumer.
type member struct{ id string }

// output guards standard output, of which every member writes whole lines.
var output sync.Mutex

func (m member) say(format string, args ...any) {
	output.Lock()
	defer output.Unlock()
	fmt.Printf(m.id+" "+format+"\n", args...)
}

func (m member) read(partition int32, offset int64, value []byte) {
	m.say("read %d %d %s", partition, offset, value)
}

func (m member) committed(partition int32, next int64) { m.say("committed %d %d", partition, next) }

func (m member) assigned(partitions []int32) {
	slices.Sort(partitions)
	var text []string
	for _, p := range partitions {
		text = append(text, strconv.Itoa(int(p)))
	}
	if text == nil {
		text = []string{"-"}
	}
	m.say("assigned %s", strings.Join(text, ","))
}

// Each consumes until ctx is done, then leaves the group.
var clients = map[string]func(ctx context.Context, m member, bootstrap, group, topic, mode string) error{
	"franz-go": franz, "sarama": saramas, "kafka-go": segmentio,
}

func main() {
	if len(os.Args) != 3 || clients[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: go franz-go|sarama|kafka-go BOOTSTRAP")
		os.Exit(2)
	}
	consume, bootstrap := clients[os.Args[1]], os.Args[2]
	var members sync.WaitGroup
	leave := map[string]context.CancelFunc{}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		words := strings.Fields(in.Text())
		if words[0] == "leave" {
			leave[words[1]]()
			continue
		}
		m := member{words[1]}
		ctx, cancel := context.WithCancel(context.Background())
		leave[m.id] = cancel
		members.Go(func() {
			if err := consume(ctx, m, bootstrap, words[2], words[3], words[4]); err != nil {
				m.say("error %v", err)
				return
			}
			m.say("left")
		})
	}
	for _, cancel := range leave {
		cancel()
	}
	members.Wait()
}
