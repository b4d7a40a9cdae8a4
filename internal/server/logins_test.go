package server

import (
	"bytes"
	"context"
	"crypto/pbkdf2"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	saslscram "github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/quire-log/quire/internal/auth"
	"github.com/quire-log/quire/internal/metadata"
	"github.com/quire-log/quire/internal/vfs"
)

// withLogins are the properties of a node with a listener for everybody and one for those who log in, in pairs.
func withLogins(more ...string) []string {
	return append([]string{
		"listeners", "PLAINTEXT://127.0.0.1:0,SASL://127.0.0.1:0",
		"listener.security.protocol.map", "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
		"sasl.enabled.mechanisms", "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
		"listener.name.sasl.plain.sasl.jaas.config", `org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="alice-secret";`,
		"listener.name.sasl.scram-sha-256.sasl.jaas.config", "org.apache.kafka.common.security.scram.ScramLoginModule required;",
		"connection.failed.authentication.delay.ms", "1",
	}, more...)
}

func upsertion(t *testing.T, h *auth.ScramHash, user, password string) kmsg.AlterUserSCRAMCredentialsRequestUpsertion {
	t.Helper()
	u := kmsg.NewAlterUserSCRAMCredentialsRequestUpsertion()
	u.Name, u.Mechanism, u.Iterations, u.Salt = user, h.Number, 4096, []byte("salt of "+user)
	var err error
	if u.SaltedPassword, err = pbkdf2.Key(h.New, password, u.Salt, 4096, h.Size); err != nil {
		t.Fatal(err)
	}
	return u
}

// alterScram sends upsertions and deletions and returns what became of each user, as user:code.
func alterScram(t *testing.T, n *Node, r *kmsg.AlterUserSCRAMCredentialsRequest) string {
	t.Helper()
	var all []string
	for _, u := range ask[*kmsg.AlterUserSCRAMCredentialsResponse](t, n.Addr(), 0, r).Results {
		all = append(all, fmt.Sprintf("%s:%d", u.User, u.ErrorCode))
	}
	return strings.Join(all, " ")
}

// Real clients log in by each mechanism, produce, and stay outside with a wrong name or password.
func TestClientsLogIn(t *testing.T) {
	n := startNode(t, withLogins()...)
	address := n.listenerNamed("SASL").bound.Addr().String()
	add := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	add.Upsertions = append(add.Upsertions, upsertion(t, auth.ScramSHA256, "carol", "carol-secret"), upsertion(t, auth.ScramSHA512, "da,v=e", "dave-secret"))
	if got := alterScram(t, n, add); got != "carol:0 da,v=e:0" {
		t.Fatalf("credentials: %s", got)
	}
	try := func(m sasl.Mechanism) error {
		cl, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.SASL(m), kgo.AllowAutoTopicCreation(), kgo.RequestRetries(3), kgo.RecordRetries(3))
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := cl.Ping(ctx); err != nil {
			return err
		}
		return cl.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: []byte("v")}).FirstErr()
	}
	for name, m := range map[string]sasl.Mechanism{
		"PLAIN":         plain.Auth{User: "alice", Pass: "alice-secret"}.AsMechanism(),
		"PLAIN as":      plain.Auth{Zid: "alice", User: "alice", Pass: "alice-secret"}.AsMechanism(),
		"SCRAM-SHA-256": saslscram.Auth{User: "carol", Pass: "carol-secret"}.AsSha256Mechanism(),
		"SCRAM-SHA-512": saslscram.Auth{User: "da,v=e", Pass: "dave-secret"}.AsSha512Mechanism(),
	} {
		if err := try(m); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, m := range map[string]sasl.Mechanism{
		"PLAIN, wrong password":           plain.Auth{User: "alice", Pass: "carol-secret"}.AsMechanism(),
		"PLAIN, a SCRAM user":             plain.Auth{User: "carol", Pass: "carol-secret"}.AsMechanism(),
		"SCRAM-SHA-256, wrong password":   saslscram.Auth{User: "carol", Pass: "x"}.AsSha256Mechanism(),
		"SCRAM-SHA-256, unknown user":     saslscram.Auth{User: "mallory", Pass: "x"}.AsSha256Mechanism(),
		"SCRAM-SHA-512, other mechanism":  saslscram.Auth{User: "carol", Pass: "carol-secret"}.AsSha512Mechanism(),
		"SCRAM-SHA-256, a token's id":     saslscram.Auth{User: "carol", Pass: "carol-secret", IsToken: true}.AsSha256Mechanism(),
		"SCRAM-SHA-256, acting as others": saslscram.Auth{Zid: "dave", User: "carol", Pass: "carol-secret"}.AsSha256Mechanism(),
	} {
		if err := try(m); !errors.Is(err, kerr.SaslAuthenticationFailed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	remove := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	remove.Deletions = append(remove.Deletions, kmsg.AlterUserSCRAMCredentialsRequestDeletion{Name: "carol", Mechanism: 1})
	if got := alterScram(t, n, remove); got != "carol:0" {
		t.Fatalf("removal: %s", got)
	}
	if err := try(saslscram.Auth{User: "carol", Pass: "carol-secret"}.AsSha256Mechanism()); !errors.Is(err, kerr.SaslAuthenticationFailed) {
		t.Errorf("a removed user: %v", err)
	}
}

// A login that ends is renewed by clients, and they go on.
func TestClientsLogInAgain(t *testing.T) {
	// franz-go logs in again a second before a login ends, and no connection may do so within a second.
	n := startNode(t, withLogins("listener.name.sasl.plain.connections.max.reauth.ms", "2500")...)
	logins := new(loginCount)
	cl, err := kgo.NewClient(kgo.SeedBrokers(n.listenerNamed("SASL").bound.Addr().String()), kgo.SASL(plain.Auth{User: "alice", Pass: "alice-secret"}.AsMechanism()),
		kgo.WithHooks(logins))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	begin := time.Now()
	for first := int32(0); ; time.Sleep(10 * time.Millisecond) {
		// On a busy machine a login may end before it is renewed, and its connection with it: the next one goes on.
		if err := cl.Ping(t.Context()); err != nil && time.Since(begin) > time.Minute {
			t.Fatal(err)
		}
		if first == 0 {
			first = logins.Load() // of each connection
		}
		if logins.Load() >= first+2 {
			break
		}
	}
}

// A loginCount counts the SaslAuthenticate requests that a client was answered.
type loginCount struct{ atomic.Int32 }

func (c *loginCount) OnBrokerRead(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	if key == int16(kmsg.SASLAuthenticate) && err == nil {
		c.Add(1)
	}
}

func TestAlterScramCredentials(t *testing.T) {
	n := startNode(t)
	change := func(edit func(r *kmsg.AlterUserSCRAMCredentialsRequest)) string {
		r := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
		edit(r)
		return alterScram(t, n, r)
	}
	deletion := func(user string, mechanism int8) kmsg.AlterUserSCRAMCredentialsRequestDeletion {
		return kmsg.AlterUserSCRAMCredentialsRequestDeletion{Name: user, Mechanism: mechanism}
	}
	good := func(user string) kmsg.AlterUserSCRAMCredentialsRequestUpsertion {
		return upsertion(t, auth.ScramSHA256, user, "x")
	}
	for _, q := range []struct {
		name string
		edit func(r *kmsg.AlterUserSCRAMCredentialsRequest)
		want string
	}{
		{"nothing", func(r *kmsg.AlterUserSCRAMCredentialsRequest) {}, ""},
		{"two users, one of whom has too few iterations", func(r *kmsg.AlterUserSCRAMCredentialsRequest) {
			few := good("b")
			few.Iterations = 4095
			r.Upsertions = append(r.Upsertions, good("a"), few)
		}, "a:0 b:93"},
		{"too many iterations", func(r *kmsg.AlterUserSCRAMCredentialsRequest) {
			many := good("b")
			many.Iterations = 16385
			r.Upsertions = append(r.Upsertions, many)
		}, "b:93"},
		{"no name, unknown mechanisms, no salt, a long one", func(r *kmsg.AlterUserSCRAMCredentialsRequest) {
			bad, long, unknown := good("b"), good("c"), good("d")
			bad.Salt, long.Salt, unknown.Mechanism = nil, make([]byte, 1025), 3
			r.Upsertions = append(r.Upsertions, good(""), bad, long, unknown)
			r.Deletions = append(r.Deletions, deletion("e", 0))
		}, "e:33 :93 b:93 c:93 d:33"},
		{"one user twice", func(r *kmsg.AlterUserSCRAMCredentialsRequest) {
			r.Upsertions = append(r.Upsertions, good("a"), upsertion(t, auth.ScramSHA512, "a", "x"), good("c"))
		}, "a:92 c:0"},
		{"set and deleted", func(r *kmsg.AlterUserSCRAMCredentialsRequest) {
			r.Deletions = append(r.Deletions, deletion("a", 1))
			r.Upsertions = append(r.Upsertions, upsertion(t, auth.ScramSHA512, "a", "x"))
		}, "a:92"},
		{"of another mechanism", func(r *kmsg.AlterUserSCRAMCredentialsRequest) { r.Deletions = append(r.Deletions, deletion("a", 2)) }, "a:91"},
		{"deleted", func(r *kmsg.AlterUserSCRAMCredentialsRequest) { r.Deletions = append(r.Deletions, deletion("c", 1)) }, "c:0"},
		{"deleted again", func(r *kmsg.AlterUserSCRAMCredentialsRequest) { r.Deletions = append(r.Deletions, deletion("c", 1)) }, "c:91"},
		{"a second mechanism", func(r *kmsg.AlterUserSCRAMCredentialsRequest) {
			r.Upsertions = append(r.Upsertions, upsertion(t, auth.ScramSHA512, "a", "x"))
		}, "a:0"},
	} {
		if got := change(q.edit); got != q.want {
			t.Errorf("%s: %s, want %s", q.name, got, q.want)
		}
	}
	describe := func(users ...string) string {
		r := kmsg.NewPtrDescribeUserSCRAMCredentialsRequest()
		for _, u := range users {
			r.Users = append(r.Users, kmsg.DescribeUserSCRAMCredentialsRequestUser{Name: u})
		}
		var all []string
		for _, u := range ask[*kmsg.DescribeUserSCRAMCredentialsResponse](t, n.Addr(), 0, r).Results {
			text := fmt.Sprintf("%s:%d", u.User, u.ErrorCode)
			for _, c := range u.CredentialInfos {
				text += fmt.Sprintf(" %d=%d", c.Mechanism, c.Iterations)
			}
			all = append(all, text)
		}
		return strings.Join(all, ", ")
	}
	if got := describe(); got != "a:0 1=4096 2=4096" {
		t.Errorf("all: %s", got)
	}
	if got := describe("b", "a", "b", "c"); got != "b:92, a:0 1=4096 2=4096, c:91" {
		t.Errorf("some: %s", got)
	}
}

// What would leave a listener open, or shut to everybody, is refused at the start, without a word of the secrets.
func TestRefusedLogins(t *testing.T) {
	const jaas = "listener.name.sasl.plain.sasl.jaas.config"
	for _, q := range []struct{ key, value, want string }{
		{"sasl.enabled.mechanisms", "GSSAPI", "has GSSAPI"},
		{"sasl.enabled.mechanisms", "PLAIN,OAUTHBEARER", "has OAUTHBEARER"},
		{"listener.name.sasl.sasl.enabled.mechanisms", "plain", "has plain"},
		{"sasl.enabled.mechanisms", "", "nobody could log in"},
		{jaas, `org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="hunter2`, jaas + ": column"},
		{jaas, `com.example.Mine required user_alice="hunter2";`, "must be org.apache.kafka.common.security.plain.PlainLoginModule"},
		{"listener.name.sasl.scram-sha-256.sasl.jaas.config", "com.example.Mine required;", "ScramLoginModule"},
		{"listener.security.protocol.map", "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL:SASL_SSL", "no TLS"},
		{"authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer", "no authorizer"},
	} {
		o := Options{FS: vfs.NewMem(), Properties: map[string]string{"admin.listener": ""}}
		for i, pairs := 0, withLogins(q.key, q.value); i < len(pairs); i += 2 {
			o.Properties[pairs[i]] = pairs[i+1]
		}
		n, err := Start(t.Context(), o)
		if err == nil {
			n.Abort()
			t.Errorf("%s=%s: started", q.key, q.value)
			continue
		}
		if !strings.Contains(err.Error(), q.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s=%s: %v, want %q", q.key, q.value, err, q.want)
		}
	}
}

// lockedBuffer takes log lines from many goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// No password of the configuration is logged or described, and one that nobody reads is warned of. The listener is registered as what it is.
func TestLoginsTellNoSecrets(t *testing.T) {
	log := &lockedBuffer{}
	o := Options{FS: vfs.NewMem(), Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})), Properties: map[string]string{"admin.listener": ""}}
	for i, pairs := 0, withLogins("sasl.jaas.config", "hunter2"); i < len(pairs); i += 2 {
		o.Properties[pairs[i]] = pairs[i+1]
	}
	n, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Abort()
	r := kmsg.NewPtrDescribeConfigsRequest()
	r.IncludeSynonyms, r.IncludeDocumentation = true, true
	r.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeBroker, ResourceName: itoa(int(n.id))}}
	resp := ask[*kmsg.DescribeConfigsResponse](t, n.Addr(), 4, r)
	if text := string(resp.AppendTo(nil)); strings.Contains(text, "alice-secret") || strings.Contains(text, "hunter2") || !strings.Contains(text, "listener.name.sasl.plain.sasl.jaas.config") {
		t.Error("DescribeConfigs tells a password, or lacks its key")
	}
	for _, e := range n.controller.Image().Broker(n.id).Endpoints {
		if want := map[string]int16{"PLAINTEXT": 0, "SASL": metadata.ProtocolSASLPlaintext}[e.Listener]; e.Protocol != want {
			t.Errorf("listener %s is registered as protocol %d", e.Listener, e.Protocol)
		}
	}
	log.mu.Lock()
	defer log.mu.Unlock()
	text := log.b.String()
	if strings.Contains(text, "secret") || strings.Contains(text, "hunter2") || !strings.Contains(text, "key=sasl.jaas.config") {
		t.Errorf("log: %s", text)
	}
}
