package tools

import (
	"context"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sys/unix"
)

// socketBuffers are the sizes of a connection's buffers, of which the kernel makes twice what it is asked for.
func socketBuffers(t *testing.T, conn net.Conn) (send, receive int) {
	t.Helper()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var errs [2]error
	if err := raw.Control(func(fd uintptr) {
		send, errs[0] = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF)
		receive, errs[1] = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF)
	}); err != nil || errs[0] != nil || errs[1] != nil {
		t.Fatal(err, errs)
	}
	return send, receive
}

func TestSocketBuffers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dialed := func(c clientConfig) (send, receive int) {
		t.Helper()
		dial, err := c.netDialer()
		if err != nil {
			t.Fatal(err)
		}
		conn, err := dial(context.Background(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return socketBuffers(t, conn)
	}
	const size = 20000
	ownSend, ownReceive := dialed(clientConfig{})
	if send, receive := dialed(clientConfig{"send.buffer.bytes": "-1", "receive.buffer.bytes": "-1"}); send != ownSend || receive != ownReceive {
		t.Errorf("-1: %d and %d, want the kernel's %d and %d", send, receive, ownSend, ownReceive)
	}
	if send, receive := dialed(clientConfig{"send.buffer.bytes": "20000"}); send != 2*size || receive != ownReceive {
		t.Errorf("send.buffer.bytes: %d and %d", send, receive)
	}
	if send, receive := dialed(clientConfig{"receive.buffer.bytes": "20000"}); send != ownSend || receive != 2*size {
		t.Errorf("receive.buffer.bytes: %d and %d", send, receive)
	}
	for _, bad := range []string{"-2", "x"} {
		if _, err := (clientConfig{"receive.buffer.bytes": bad}).netDialer(); err == nil || !strings.Contains(err.Error(), "receive.buffer.bytes") {
			t.Errorf("%s: error %v", bad, err)
		}
	}
}

// The tools' own options are the properties' values, but for their defaults.
func TestSocketBufferOptions(t *testing.T) {
	perf := func(args ...string) string {
		t.Helper()
		set, err := consumerPerfParser().parse(append(args, "--bootstrap-server", "b:1", "--topic", "t"))
		if err != nil {
			t.Fatal(err)
		}
		props, err := consumerPerfProps(set)
		if err != nil {
			t.Fatal(err)
		}
		return props["receive.buffer.bytes"]
	}
	produce := func(args ...string) string {
		t.Helper()
		o, err := parseConsoleProducer(Env{}, append(args, "--bootstrap-server", "b:1", "--topic", "t"))
		if err != nil {
			t.Fatal(err)
		}
		props, err := o.props()
		if err != nil {
			t.Fatal(err)
		}
		return props["send.buffer.bytes"]
	}
	for _, test := range []struct{ got, want string }{
		{perf(), ""},
		{perf("--socket-buffer-size", "20000"), "20000"},
		{perf("--command-property", "receive.buffer.bytes=30000"), "30000"},
		{produce(), ""},
		{produce("--socket-buffer-size", "20000"), "20000"},
		{produce("--command-property", "send.buffer.bytes=30000"), "30000"},
	} {
		if test.got != test.want {
			t.Errorf("%q, want %q", test.got, test.want)
		}
	}
}

// connectHook notes the connections that franz-go makes.
type connectHook func(net.Conn)

func (h connectHook) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, conn net.Conn, err error) {
	if err == nil {
		h(conn)
	}
}

// The clients connect with the sizes that were asked for, whether they only read or compress what they send.
func TestClientsSocketBuffers(t *testing.T) {
	b := startFakeBroker(t, func(b *fakeBroker, _ kmsg.Request, resp kmsg.Response) bool {
		b.metadataOf(resp.(*kmsg.MetadataResponse), "t", 1)
		return true
	}, 3)
	props := clientConfig{"bootstrap.servers": b.address, "send.buffer.bytes": "20000", "receive.buffer.bytes": "30000", "compression.type": "zstd"}
	var mu sync.Mutex // guards sizes: a client connects in goroutines of its own
	var sizes [][2]int
	hook := connectHook(func(conn net.Conn) {
		for {
			switch own := conn.(type) {
			case *producerConn:
				conn = own.Conn
				continue
			case memberConn:
				conn = own.Conn
				continue
			}
			break
		}
		send, receive := socketBuffers(t, conn)
		mu.Lock()
		defer mu.Unlock()
		sizes = append(sizes, [2]int{send, receive})
	})
	consumer, err := props.consumer(io.Discard, "c")
	if err != nil {
		t.Fatal(err)
	}
	reads, err := kgo.NewClient(append(consumer.opts, kgo.WithHooks(hook))...)
	if err != nil {
		t.Fatal(err)
	}
	defer reads.Close()
	producer, err := props.producer(io.Discard, "p")
	if err != nil {
		t.Fatal(err)
	}
	writes, err := producer.client(kgo.WithHooks(hook))
	if err != nil {
		t.Fatal(err)
	}
	defer writes.Close()
	for _, cl := range []*kgo.Client{reads, writes} {
		mu.Lock()
		before := len(sizes)
		mu.Unlock()
		if err := cl.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		if len(sizes) == before || slices.ContainsFunc(sizes, func(s [2]int) bool { return s != [2]int{40000, 60000} }) {
			t.Errorf("sizes %v, of which %d were made before", sizes, before)
		}
		mu.Unlock()
	}
}
