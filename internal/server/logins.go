package server

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quire-log/quire/internal/auth"
	"github.com/quire-log/quire/internal/config"
	"github.com/quire-log/quire/internal/wire"
)

// What listeners demand of clients, by sasl.enabled.mechanisms, sasl.jaas.config and their kin. PLAIN's users are in the file and
// are read at the start; SCRAM's are in the cluster's metadata, and asked for at each login.

// prepareLogins reads what the listeners that speak SASL_PLAINTEXT demand. Its errors hold no secret.
func (n *Node) prepareLogins() error {
	if err := n.readLogins(); err != nil {
		return err
	}
	for key := range n.static {
		if base, _ := config.Base(key); base == "sasl.jaas.config" && !n.readsJAAS(key) {
			n.log.Warn("not read: a listener's logins are configured by listener.name.LISTENER.MECHANISM.sasl.jaas.config, in lower case", "key", key)
		}
	}
	return nil
}

func (n *Node) readLogins() error {
	for _, l := range n.listeners {
		if l.protocol != "SASL_PLAINTEXT" || l.controller {
			continue
		}
		var err error
		if l.login, err = n.loginOf(l); err != nil {
			return err
		}
	}
	return nil
}

// CheckLogins refuses properties, in order by config.CheckStatic, with which a start would find that a listener's logins are not.
func CheckLogins(properties map[string]string) error {
	n := &Node{static: config.Complete(properties)}
	var err error
	if n.listeners, err = parseListeners(n.static); err != nil {
		return err
	}
	return n.readLogins()
}

// jaasKey is the key of a listener's JAAS configuration for a mechanism.
func jaasKey(l *listener, mechanism string) string {
	return "listener.name." + strings.ToLower(l.name) + "." + strings.ToLower(mechanism) + ".sasl.jaas.config"
}

// readsJAAS tells whether a key says something of a mechanism that some listener offers.
func (n *Node) readsJAAS(key string) bool {
	return slices.ContainsFunc(n.listeners, func(l *listener) bool {
		return l.login != nil && slices.ContainsFunc(l.login.Mechanisms, func(m auth.Mechanism) bool { return jaasKey(l, m.Name()) == key })
	})
}

func (n *Node) loginOf(l *listener) (*wire.Login, error) {
	login := &wire.Login{
		TokenBytesMax: int32(max(n.listenerValue(l, "", "sasl.server.max.receive.size").Int64(), 0)),
		FailedDelay:   time.Duration(n.value("connection.failed.authentication.delay.ms").Int64()) * time.Millisecond,
		SessionMax:    map[string]time.Duration{},
	}
	enabled := n.listenerValue(l, "", "sasl.enabled.mechanisms")
	for _, name := range enabled.Items() {
		if _, twice := login.SessionMax[name]; twice {
			continue
		}
		m, err := n.mechanism(l, name)
		if err != nil {
			return nil, err
		}
		login.Mechanisms = append(login.Mechanisms, m)
		login.SessionMax[name] = time.Duration(min(n.listenerValue(l, name, "connections.max.reauth.ms").Int64(), sessionMsMax)) * time.Millisecond
	}
	if len(login.Mechanisms) == 0 {
		return nil, fmt.Errorf("listener %s: sasl.enabled.mechanisms is empty, so nobody could log in", l.name)
	}
	return login, nil
}

// sessionMsMax keeps the life of a login from overflowing: whoever means for ever writes 9223372036854775807.
const sessionMsMax = int64(1<<63-1) / int64(time.Millisecond) / 2

func (n *Node) mechanism(l *listener, name string) (auth.Mechanism, error) {
	key := jaasKey(l, name)
	jaas, configured := n.static[key]
	switch name {
	case "PLAIN":
		if !configured {
			return nil, fmt.Errorf("listener %s: PLAIN is among sasl.enabled.mechanisms, but %s, which names its users, is not set; "+
				`it can be org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";`, l.name, key)
		}
		users, err := auth.PlainUsers(jaas)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		return auth.NewPlain(users), nil
	case auth.ScramSHA256.Name, auth.ScramSHA512.Name:
		if configured {
			if err := auth.CheckScramJAAS(jaas); err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
		}
		if name == auth.ScramSHA256.Name {
			return n.scram(auth.ScramSHA256), nil
		}
		return n.scram(auth.ScramSHA512), nil
	}
	return nil, fmt.Errorf("listener %s: this version of Quire speaks PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512, but sasl.enabled.mechanisms (by default GSSAPI) has %s", l.name, name)
}

// scram logs in the users whose credentials the newest image has.
func (n *Node) scram(h *auth.ScramHash) *auth.Scram {
	return auth.NewScram(h, func(user string) (auth.Credential, bool) {
		c := n.controller.Image().ScramCredential(user, h.Number)
		if c == nil {
			return auth.Credential{}, false
		}
		return auth.Credential{Salt: c.Salt, StoredKey: c.StoredKey, ServerKey: c.ServerKey, Iterations: c.Iterations}, true
	})
}

// listenerValue resolves an option that a listener, and a mechanism of it, may have a value of its own for.
func (n *Node) listenerValue(l *listener, mechanism, key string) config.Value {
	prefix := "listener.name." + strings.ToLower(l.name) + "."
	o, ok := config.Lookup(config.Broker(), key)
	if !ok {
		panic("no broker option " + key)
	}
	for _, own := range []string{prefix + strings.ToLower(mechanism) + "." + key, prefix + key} {
		if text, ok := n.static[own]; ok {
			return config.BrokerValue(o, config.Layers{Static: map[string]string{key: text}})
		}
	}
	return n.value(key)
}
