package tools

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/config"
)

// ports looks whether a node's ports are free, or its own if it runs, and whether the addresses that clients are told lead to it.
func (d *doctor) ports(static map[string]string, running bool) {
	listeners, err := config.Listeners(static, "listeners")
	if err != nil {
		d.problem("port", "", "%v", err)
		return
	}
	advertised, err := config.Listeners(static, "advertised.listeners")
	if err != nil {
		d.problem("address", "", "%v", err)
		return
	}
	controllers := strings.Split(static["controller.listener.names"], ",")
	for _, a := range listeners {
		address := net.JoinHostPort(a.Host, strconv.Itoa(int(a.Port)))
		isController := slices.ContainsFunc(controllers, func(name string) bool { return strings.EqualFold(strings.TrimSpace(name), a.Name) })
		l, err := net.Listen("tcp", address)
		switch {
		case err == nil:
			d.ok("port", "%s is free for listener %s", address, a.Name)
			if running && !isController {
				d.warn("port", "was it started with another file?", "a node uses the directory, but does not listen at %s", address)
			}
		case errors.Is(err, syscall.EADDRINUSE) && running:
			d.ok("port", "%s is taken, by the running node it seems", address)
		case errors.Is(err, syscall.EADDRINUSE):
			d.problem("port", "stop what listens there (ss -ltnp shows it), or change listeners", "%s of listener %s is taken", address, a.Name)
		default:
			d.problem("port", "the host of a listener has to be an address of this machine, and ports below 1024 need leave", "%s of listener %s: %v", address, a.Name, err)
		}
		if !isController {
			d.advertised(a, advertised, l)
		}
		if l != nil {
			l.Close()
		}
	}
}

// advertised dials the address that clients of a listener are told. If nobody listens yet, l is our own socket in the node's place, and
// what is dialled has to come out there.
func (d *doctor) advertised(a config.ListenerAddress, advertised []config.ListenerAddress, l net.Listener) {
	told := a
	for _, b := range advertised {
		if b.Name == a.Name {
			told = b
		}
	}
	if told.Host == "" {
		name, err := hostName()
		if err != nil {
			d.problem("address", "set advertised.listeners", "listener %s advertises this machine's name, which is not known: %v", a.Name, err)
			return
		}
		told.Host = name
	}
	if told.Port == 0 {
		return // known once it runs
	}
	address := net.JoinHostPort(told.Host, strconv.Itoa(int(told.Port)))
	if err := d.leadsBack(address, l); err != nil {
		d.problem("address", "clients are told this address (advertised.listeners): it has to lead to the node from where they are", "%s of listener %s: %v", address, a.Name, err)
		return
	}
	d.ok("address", "%s, which clients of listener %s are told, leads to it from here", address, a.Name)
	if ip := net.ParseIP(told.Host); told.Host == "localhost" || ip != nil && ip.IsLoopback() {
		d.say("note", "address", "%s means the client's own machine elsewhere: only clients here find this node", address)
	}
}

// leadsBack dials an address: what answers has to be l, or a broker if l is nil.
func (d *doctor) leadsBack(address string, l net.Listener) error {
	if l == nil {
		_, err := d.probe(address)
		return err
	}
	conn, err := net.DialTimeout("tcp", address, d.timeout)
	if err != nil {
		return err
	}
	defer conn.Close()
	token := make([]byte, 16)
	_, _ = rand.Read(token)
	if _, err := conn.Write(token); err != nil {
		return err
	}
	deadline := time.Now().Add(d.timeout)
	for {
		if t, ok := l.(*net.TCPListener); ok {
			_ = t.SetDeadline(deadline)
		}
		in, err := l.Accept()
		if err != nil {
			return errors.New("something answers there, but it is not this machine's listener")
		}
		got := make([]byte, len(token))
		_ = in.SetDeadline(deadline)
		_, err = io.ReadFull(in, got)
		in.Close()
		if err == nil && string(got) == string(token) {
			return nil
		}
	}
}

// probeMax bounds the answer to a probe.
const probeMax = 1 << 20

// probe asks whoever listens at an address which requests it serves, and returns how long that took. It needs no login.
func (d *doctor) probe(address string) (time.Duration, error) {
	began := time.Now()
	conn, err := net.DialTimeout("tcp", address, d.timeout)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(d.timeout))
	const correlation = 1
	req := kmsg.NewPtrApiVersionsRequest() // of version 0, which everybody serves
	if _, err := conn.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID("quire-doctor")).AppendRequest(nil, req, correlation)); err != nil {
		return 0, err
	}
	var head [8]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return 0, fmt.Errorf("it takes the connection, but does not answer as a broker does (TLS?): %w", err)
	}
	size := binary.BigEndian.Uint32(head[:])
	if size < 4 || size > probeMax || binary.BigEndian.Uint32(head[4:]) != correlation {
		return 0, errors.New("what listens there is no broker, or one with TLS")
	}
	return time.Since(began), nil
}

// cluster looks at a running broker as its clients do.
func (d *doctor) cluster(login clientConfig, clients []clientSizes) {
	for address := range strings.SplitSeq(login["bootstrap.servers"], ",") {
		took, err := d.probe(strings.TrimSpace(address))
		if err != nil {
			d.problem("broker", "does the broker run, and is this its listener?", "%s: %v", address, err)
			continue
		}
		d.ok("broker", "%s answers in %s", address, roundTime(took))
	}
	if d.problems > 0 {
		return
	}
	login["default.api.timeout.ms"] = strconv.FormatInt(max(1, d.timeout.Milliseconds()), 10)
	a, err := newAdmin(d.env, login, "quire-doctor")
	if err != nil {
		d.problem("broker", "", "%v", err)
		return
	}
	defer a.close()
	resp, err := a.metadata("listNodes", nil)
	if err != nil {
		d.problem("broker", "a broker that wants a login is asked with --command-config", "%v", err)
		return
	}
	for _, b := range resp.Brokers {
		address := net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
		took, err := d.probe(address)
		if err != nil {
			d.problem("address", fmt.Sprintf("set advertised.listeners of broker %d to an address that clients reach from where they are", b.NodeID),
				"broker %d tells clients to come to %s, which fails from here: %v", b.NodeID, address, err)
			continue
		}
		d.ok("address", "broker %d tells clients to come to %s, which answers from here in %s", b.NodeID, address, roundTime(took))
	}
	d.partitions(resp)
	d.brokerSizes(a, resp, clients)
}

// partitions looks for those that nobody leads, or whose replicas are not all in sync.
func (d *doctor) partitions(resp *kmsg.MetadataResponse) {
	var all, leaderless, behind int64
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			all++
			switch {
			case p.Leader < 0:
				leaderless++
			case len(p.ISR) < len(p.Replicas):
				behind++
			}
		}
	}
	switch {
	case leaderless > 0:
		d.problem("partitions", "kafka-topics --describe --unavailable-partitions lists them", "%s of %d without a leader", counted(leaderless, "partition"), all)
	case behind > 0:
		d.warn("partitions", "kafka-topics --describe --under-replicated-partitions lists them", "%s of %d with replicas out of sync", counted(behind, "partition"), all)
	default:
		d.ok("partitions", "%s of %s, each with a leader and all replicas in sync", counted(all, "partition"), counted(int64(len(resp.Topics)), "topic"))
	}
}

// brokerSizes asks brokers and topics for their limits.
func (d *doctor) brokerSizes(a *admin, meta *kmsg.MetadataResponse, clients []clientSizes) {
	var topics []topicSizes
	var names []string
	for _, t := range meta.Topics {
		if t.Topic != nil && !t.IsInternal && t.ErrorCode == 0 {
			names = append(names, *t.Topic)
		}
	}
	slices.Sort(names)
	described, err := a.settings(kmsg.ConfigResourceTypeTopic, names, -1)
	if err != nil {
		d.warn("sizes", "", "topics cannot be asked for their limits: %v", err)
	}
	for _, name := range names {
		if values := described[name]; values != nil {
			topics = append(topics, topicSizes{name, sizeSetting(values, "max.message.bytes"), sizeSetting(values, "segment.bytes")})
		}
	}
	for _, b := range meta.Brokers {
		name := strconv.Itoa(int(b.NodeID))
		values, err := a.settings(kmsg.ConfigResourceTypeBroker, []string{name}, b.NodeID)
		if err != nil {
			d.warn("sizes", "", "broker %s cannot be asked for its limits: %v", name, err)
			continue
		}
		v := values[name]
		d.sizes(brokerSizes{"broker " + name, sizeSetting(v, "message.max.bytes"), sizeSetting(v, "replica.fetch.max.bytes"), sizeSetting(v, "fetch.max.bytes"),
			sizeSetting(v, "socket.request.max.bytes"), sizeSetting(v, "log.segment.bytes")}, topics, clients)
	}
}

// settings describes resources: their values by name of the resource. broker < 0: any broker may answer.
func (a *admin) settings(typ kmsg.ConfigResourceType, names []string, broker int32) (map[string]map[string]string, error) {
	req := kmsg.NewPtrDescribeConfigsRequest()
	for _, name := range names {
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName = typ, name
		req.Resources = append(req.Resources, r)
	}
	var ask kmsg.Request = req
	if broker >= 0 {
		ask = &brokerRequest{req, broker}
	}
	resp, err := call[*kmsg.DescribeConfigsResponse](a, "describeConfigs", ask)
	if err != nil {
		return nil, err
	}
	all := map[string]map[string]string{}
	for _, r := range resp.Resources {
		if r.ErrorCode != 0 {
			continue
		}
		values := map[string]string{}
		for _, c := range r.Configs {
			if c.Value != nil {
				values[c.Name] = *c.Value
			}
		}
		all[r.ResourceName] = values
	}
	return all, nil
}

// hostName is the name that a node advertises when none is given.
func hostName() (string, error) {
	name, err := os.Hostname()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if _, err := net.DefaultResolver.LookupHost(ctx, name); err != nil {
		return "", err
	}
	return name, nil
}
