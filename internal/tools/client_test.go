package tools

import (
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestBootstrap(t *testing.T) {
	for _, c := range []struct {
		servers string
		want    []string
		err     string
	}{
		{"127.0.0.1:9092", []string{"127.0.0.1:9092"}, ""},
		{" 127.0.0.1:1 ,, PLAINTEXT://127.0.0.1:2", []string{"127.0.0.1:1", "127.0.0.1:2"}, ""},
		{"[::1]:9092", []string{"[::1]:9092"}, ""},
		{"nonsense", nil, "Invalid url in bootstrap.servers: nonsense"},
		{"127.0.0.1:70000", nil, "Invalid port in bootstrap.servers: 127.0.0.1:70000"},
		{"", nil, "No resolvable bootstrap urls given in bootstrap.servers"},
	} {
		got, err := clientConfig{"bootstrap.servers": c.servers}.bootstrap(io.Discard)
		if c.err != "" {
			if err == nil || asJava(err).message != c.err {
				t.Errorf("%q: error %v, want %s", c.servers, err, c.err)
			}
			continue
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%q = %q, %v; want %q", c.servers, got, err, c.want)
		}
	}
}

// Nobody listens: the tool gives up after default.api.timeout.ms, in Java's words, and tells once of the connection.
func TestUnreachable(t *testing.T) {
	const address = "127.0.0.1:1"
	var complaint lockedBuffer
	client, err := newAdmin(Env{Stderr: &complaint}, clientConfig{"bootstrap.servers": address, "default.api.timeout.ms": "200"}, "test")
	if err != nil {
		t.Fatal(err)
	}
	defer client.close()
	told := 0
	for begin := time.Now(); told == 0 && time.Since(begin) < time.Minute; { // a busy machine may not get to dial in that time
		_, err = client.metadata("listTopics", nil)
		if err == nil || err.Error() != "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment. Call: listTopics" {
			t.Errorf("error %v", err)
		}
		told = strings.Count(complaint.String(), "[AdminClient clientId=test] Connection to node -1 (/"+address+") could not be established.")
	}
	if told != 1 {
		t.Errorf("told %d times of the connection:\n%s", told, complaint.String())
	}
}

func TestBrokerErrors(t *testing.T) {
	own := "the broker's own words"
	for _, c := range []struct {
		code    int16
		message *string
		want    string
	}{
		{36, nil, "org.apache.kafka.common.errors.TopicExistsException: Topic with this name already exists."},
		{36, &own, "org.apache.kafka.common.errors.TopicExistsException: " + own},
		{3, nil, "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: This server does not host this topic-partition."},
		{87, nil, "org.apache.kafka.common.InvalidRecordException: This record has failed the validation on broker and hence will be rejected."},
		{-1, nil, "org.apache.kafka.common.errors.UnknownServerException: The server experienced an unexpected error when processing the request."},
		{9999, nil, "org.apache.kafka.common.errors.UnknownServerException: The server experienced an unexpected error when processing the request."},
	} {
		if got := brokerError(c.code, c.message); got.Error() != c.want {
			t.Errorf("%d: %s, want %s", c.code, got, c.want)
		}
	}
	if brokerError(0, nil) != nil {
		t.Error("code 0 is an error")
	}
}

func TestTopicFilter(t *testing.T) {
	for _, c := range []struct {
		pattern, topic string
		want           bool
	}{
		{"a", "a", true}, {"a", "ab", false}, {"a,b", "b", true}, {"a.*", "abc", true}, {` "a|b" `, "b", true}, {"", "a", false},
	} {
		f, err := newTopicFilter(c.pattern)
		if err != nil {
			t.Fatal(err)
		}
		if f.allows(c.topic) != c.want {
			t.Errorf("%q allows %s: %t", c.pattern, c.topic, !c.want)
		}
	}
	if _, err := newTopicFilter("a("); err == nil || err.Error() != "java.lang.RuntimeException: a( is an invalid regex." {
		t.Errorf("a(: %v", err)
	}
}
