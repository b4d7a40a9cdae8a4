package server

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/quire-log/quire/internal/config"
	"github.com/quire-log/quire/internal/metadata"
	"github.com/quire-log/quire/internal/wire"
)

// A listener is one entry of listeners with what advertised.listeners says of it.
type listener struct {
	name string // upper case
	host string // to bind; "": all addresses
	port int    // to bind; 0: any
	// advertisedHost is what clients are told; "": the address that they dialled.
	advertisedHost string
	advertisedPort int
	controller     bool        // listed in controller.listener.names
	dynamic        bool        // the system chooses the port
	protocol       string      // by listener.security.protocol.map: PLAINTEXT or SASL_PLAINTEXT
	login          *wire.Login // nil: clients need not say who they are
	bound          net.Listener
}

// parseListeners takes listeners, advertised.listeners and controller.listener.names, which CheckStatic has found to be in order.
func parseListeners(static map[string]string) ([]*listener, error) {
	bound, err := config.Listeners(static, "listeners")
	if err != nil {
		return nil, err
	}
	advertised, err := config.Listeners(static, "advertised.listeners")
	if err != nil {
		return nil, err
	}
	controllers := splitList(strings.ToUpper(static["controller.listener.names"]))
	var all []*listener
	for _, a := range bound {
		l := &listener{name: a.Name, host: a.Host, port: int(a.Port), dynamic: a.Port == 0, protocol: a.Protocol, controller: slices.Contains(controllers, a.Name)}
		switch i := slices.IndexFunc(advertised, func(b config.ListenerAddress) bool { return b.Name == a.Name }); {
		case i >= 0:
			l.advertisedHost, l.advertisedPort = advertised[i].Host, int(advertised[i].Port)
		case (len(advertised) == 0 || l.controller) && !wildcard(l.host): // a controller's need not be advertised
			l.advertisedHost, l.advertisedPort = l.host, l.port
		}
		all = append(all, l)
	}
	return all, nil
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
	e := metadata.Endpoint{Listener: l.name, Host: host, Port: uint16(port)}
	if l.protocol == "SASL_PLAINTEXT" {
		e.Protocol = metadata.ProtocolSASLPlaintext
	}
	return e
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
