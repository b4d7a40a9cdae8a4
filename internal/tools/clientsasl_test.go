package tools_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quire-log/quire/internal/tools"
	"github.com/quire-log/quire/quiretest"
)

// Tools log in by each mechanism, also as a user whom another tool made, and say so when they may not.
func TestToolsLogIn(t *testing.T) {
	address := quiretest.Start(t,
		quiretest.With("listeners", "SASL_PLAINTEXT://127.0.0.1:0"),
		quiretest.With("sasl.enabled.mechanisms", "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"),
		quiretest.With("listener.name.sasl_plaintext.plain.sasl.jaas.config", `org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="alice-secret";`),
	).Addr()
	run := func(mechanism, jaas string, args ...string) (int, string) {
		file := filepath.Join(t.TempDir(), "client.properties")
		text := "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=" + mechanism + "\nsasl.jaas.config=" + jaas + "\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var stdout, stderr bytes.Buffer
		argv := append([]string{args[0], "--bootstrap-server", address, "--command-config", file}, args[1:]...)
		code := tools.Main(argv, strings.NewReader("a line\n"), &stdout, &stderr)
		return code, stdout.String() + stderr.String()
	}
	alice := `org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="alice-secret";`
	carol := `org.apache.kafka.common.security.scram.ScramLoginModule required username="carol" password="carol-secret";`
	for _, mechanism := range []string{"SCRAM-SHA-256", "SCRAM-SHA-512"} {
		code, text := run("PLAIN", alice, "kafka-configs", "--alter", "--entity-type", "users", "--entity-name", "carol", "--add-config", mechanism+"=[password=carol-secret]")
		if code != 0 {
			t.Fatalf("making carol: %s", text)
		}
		if code, text := run(mechanism, carol, "kafka-topics", "--list"); code != 0 {
			t.Errorf("%s: %s", mechanism, text)
		}
	}
	for _, q := range []struct{ mechanism, jaas, want string }{
		{"PLAIN", strings.Replace(alice, "alice-secret", "hunter2", 1), "SaslAuthenticationException: Authentication failed: Invalid username or password"},
		{"SCRAM-SHA-256", strings.Replace(carol, "carol-secret", "hunter2", 1),
			"SaslAuthenticationException: Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256"},
		{"GSSAPI", alice, "sasl.mechanism=GSSAPI"},
		{"PLAIN", "org.apache.kafka.common.security.plain.PlainLoginModule required password=hunter2", "sasl.jaas.config: column"},
		{"PLAIN", "org.apache.kafka.common.security.plain.PlainLoginModule required password=hunter2;", "username and password are expected"},
	} {
		if code, text := run(q.mechanism, q.jaas, "kafka-topics", "--list"); code != 1 || !strings.Contains(text, q.want) || strings.Contains(text, "hunter2") {
			t.Errorf("%s, %s: code %d: %s", q.mechanism, q.want, code, text)
		}
	}
	// Those that produce and consume end with the first refusal, as Kafka's do: the console's tools, which tell of it, with exit code 0.
	for _, args := range [][]string{
		{"kafka-console-producer", "--topic", "t"},
		{"kafka-console-consumer", "--topic", "t"},
		{"kafka-console-consumer", "--topic", "t", "--partition", "0"},
		{"kafka-console-share-consumer", "--topic", "t"},
		{"kafka-consumer-perf-test", "--topic", "t", "--num-records", "1"},
		{"kafka-share-consumer-perf-test", "--topic", "t", "--num-records", "1"},
		{"kafka-verifiable-consumer", "--topic", "t", "--group-id", "g"},
		{"kafka-verifiable-share-consumer", "--topic", "t", "--group-id", "g"},
	} {
		code, text := run("PLAIN", strings.Replace(alice, "alice-secret", "hunter2", 1), args...)
		const want = "\norg.apache.kafka.common.errors.SaslAuthenticationException: Authentication failed: Invalid username or password\n"
		wantCode := 0
		if strings.HasSuffix(args[0], "-perf-test") {
			wantCode = 1
		}
		if code != wantCode || !strings.Contains("\n"+text, want) || strings.Contains(text, "hunter2") {
			t.Errorf("%q: exit code %d: %s", args, code, text)
		}
	}
	// And those that ask all brokers say that it was the login.
	for _, args := range [][]string{{"kafka-transactions", "list"}, {"kafka-groups", "--list"}, {"kafka-consumer-groups", "--list"}, {"kafka-share-groups", "--list"}} {
		_, text := run("PLAIN", strings.Replace(alice, "alice-secret", "hunter2", 1), args...)
		if strings.Contains(text, "Timed out") || !strings.Contains(text, "Authentication failed: Invalid username or password") {
			t.Errorf("%q: %s", args, text)
		}
	}
}
