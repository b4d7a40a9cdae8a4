package server

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/quire-log/quire/internal/metadata"
)

// A listener is one entry of listeners with what advertised.listeners says of it.
type listener struct {
	name string // upper case
	host string // to bind; "": all addresses
	port int    // to bind; 0: any
	// advertisedHost is what clients are told; "": the address that they dialled.
	advertisedHost string
	advertisedPort int
	controller     bool // listed in controller.listener.names
	dynamic        bool // the system chooses the port
	bound          net.Listener
}

const plaintext = "PLAINTEXT"

// parseListeners reads listeners, advertised.listeners, listener.security.protocol.map and controller.listener.names.
func parseListeners(static map[string]string) ([]*listener, error) {
	all, err := parseEndpoints("listeners", static["listeners"])
	if err != nil {
		return nil, err
	}
	controllers := splitList(strings.ToUpper(static["controller.listener.names"]))
	protocols, err := parseProtocols(static["listener.security.protocol.map"])
	if err != nil {
		return nil, err
	}
	clients := 0
	for i, l := range all {
		if slices.ContainsFunc(all[:i], func(o *listener) bool { return o.name == l.name }) {
			return nil, fmt.Errorf("listeners: each listener must have a different name, and %s is there twice", l.name)
		}
		if l.controller = slices.Contains(controllers, l.name); l.controller {
			continue
		}
		clients++
		if p := protocols(l.name); p != plaintext {
			return nil, fmt.Errorf("listeners: %s has the security protocol %q; only %s can be served yet", l.name, p, plaintext)
		}
	}
	if clients == 0 {
		return nil, errors.New("listeners: there is none for clients")
	}
	if static["advertised.listeners"] == "" {
		for _, l := range all {
			if !wildcard(l.host) {
				l.advertisedHost, l.advertisedPort = l.host, l.port
			}
		}
		return all, nil
	}
	advertised, err := parseEndpoints("advertised.listeners", static["advertised.listeners"])
	if err != nil {
		return nil, err
	}
	for _, a := range advertised {
		i := slices.IndexFunc(all, func(l *listener) bool { return l.name == a.name })
		switch {
		case i < 0:
			return nil, fmt.Errorf("advertised.listeners: %s is not one of listeners", a.name)
		case a.host != "" && wildcard(a.host):
			return nil, fmt.Errorf("advertised.listeners: %s means every address, and none that a client could dial", a.host)
		}
		all[i].advertisedHost, all[i].advertisedPort = a.host, a.port
	}
	return all, nil
}

// parseEndpoints reads a list of NAME://host:port.
func parseEndpoints(key, text string) ([]*listener, error) {
	var all []*listener
	for _, entry := range splitList(text) {
		name, address, ok := strings.Cut(entry, "://")
		if !ok || name == "" {
			return nil, fmt.Errorf("%s: %q is not of the form NAME://host:port", key, entry)
		}
		host, portText, err := net.SplitHostPort(address)
		if err != nil {
			return nil, fmt.Errorf("%s: %q: %w", key, entry, err)
		}
		port, err := strconv.ParseUint(portText, 10, 16)
		if err != nil {
			return nil, fmt.Errorf("%s: %q: the port must be a number from 0 to 65535", key, entry)
		}
		all = append(all, &listener{name: strings.ToUpper(name), host: host, port: int(port), dynamic: port == 0})
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: it is empty", key)
	}
	return all, nil
}

// parseProtocols reads NAME:PROTOCOL pairs and returns their lookup; a name that is itself a protocol needs no entry.
func parseProtocols(text string) (func(name string) string, error) {
	m := map[string]string{}
	for _, entry := range splitList(text) {
		name, protocol, ok := strings.Cut(entry, ":")
		if !ok {
			return nil, fmt.Errorf("listener.security.protocol.map: %q is not of the form NAME:PROTOCOL", entry)
		}
		m[strings.ToUpper(strings.TrimSpace(name))] = strings.ToUpper(strings.TrimSpace(protocol))
	}
	return func(name string) string {
		if p, ok := m[name]; ok {
			return p
		}
		return name
	}, nil
}

func splitList(text string) []string {
	var items []string
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}

// wildcard tells whether a host to bind means every address, which no client could dial.
func wildcard(host string) bool {
	if host == "" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsUnspecified()
}

func (l *listener) address() string { return net.JoinHostPort(l.host, strconv.Itoa(l.port)) }

// bind takes the listener's port, unless it has it already.
func (l *listener) bind(listen func(network, address string) (net.Listener, error)) error {
	if l.bound != nil {
		return nil
	}
	nl, err := listen("tcp", l.address())
	if err != nil {
		return fmt.Errorf("listener %s: %w", l.name, err)
	}
	l.bound = nl
	if _, port := splitAddr(nl.Addr()); port != 0 {
		l.port = int(port)
		if l.advertisedPort == 0 {
			l.advertisedPort = l.port
		}
	}
	return nil
}

// endpoint is how the listener is registered: a host must be named there, whatever clients dial.
func (l *listener) endpoint() metadata.Endpoint {
	host := l.advertisedHost
	if host == "" {
		if name, err := os.Hostname(); err == nil {
			host = name
		} else {
			host = "localhost"
		}
	}
	port := l.advertisedPort
	if port == 0 {
		port = l.port
	}
	return metadata.Endpoint{Listener: l.name, Host: host, Port: uint16(port)}
}

// splitAddr is an address as Metadata names it.
func splitAddr(a net.Addr) (host string, port int32) {
	host, text, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String(), 0
	}
	n, _ := strconv.Atoi(text)
	return host, int32(n)
}

func itoa(n int) string { return strconv.Itoa(n) }
