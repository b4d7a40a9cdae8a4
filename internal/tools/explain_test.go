package tools

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// adminOf serves canned answers by path and query, and 404 for all else.
func adminOf(t *testing.T, answers map[string]string) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, ok := answers[r.URL.Path+"?"+r.URL.RawQuery]
		if !ok {
			http.Error(w, "there is no topic "+r.FormValue("topic"), http.StatusNotFound)
			return
		}
		fmt.Fprint(w, body)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestLikeKey(t *testing.T) {
	for _, c := range []struct{ refusal, key, want string }{
		{`topics have no setting "retention.msx"`, "retention.msx", "; did you mean retention.ms?"},
		{`topics have no setting "frobnicate"`, "frobnicate", ""},
		{`there is no topic "t"`, "retention.msx", ""},
		{`there is no topic "t"`, "", ""},
	} {
		if got := likeKey(c.refusal, c.key); got != c.want {
			t.Errorf("%s, key %q: %q, want %q", c.refusal, c.key, got, c.want)
		}
	}
}

func TestExplain(t *testing.T) {
	admin := adminOf(t, map[string]string{
		"/explain/retention?partition=3&topic=a-b": `[{"report":{"partition":"a-b-3","cleanupPolicy":"delete","logStartOffset":0,"logEndOffset":30,"bytes":200,"clock":"the producers'","age":{"says":"a while"},
			"segments":[{"baseOffset":0,"endOffset":20,"bytes":100,"largestTimestamp":1000,"earliest":5000,"keptBy":null,"goesBy":{"setting":"retention.ms","value":"5","says":"it is old"}},
			{"baseOffset":20,"endOffset":30,"bytes":100,"active":true,"largestTimestamp":1000,"earliest":86401000,"keptBy":[{"setting":"retention.ms","value":"86400000","says":"it is young"}]}]},
			"settings":[{"key":"retention.ms","source":"DYNAMIC_TOPIC_CONFIG"},{"key":"cleanup.policy","source":"DEFAULT_CONFIG"}]}]`,
		"/explain/compaction?topic=c-1": `[{"report":{"partition":"c-1-0","due":true,"says":"it is dirty","firstDirtyOffset":5,"error":"corrupt","failures":2,"retryAt":61000,"tombstones":"a day"}}]`,
		"/explain/config?key=k&topic=t": `{"key":"k","value":"v","source":"STATIC_BROKER_CONFIG","doc":"What it does.","otherLayers":[{"key":"log.k","value":"v","source":"STATIC_BROKER_CONFIG"},{"key":"k","value":"d","source":"DEFAULT_CONFIG"}]}`,
		"/events?": `[{"at":1000,"partition":"a-0","kind":"roll","offset":7,"cause":"asked for"},
			{"at":2000,"partition":"","kind":"disk-full","offset":-1,"cause":"there is no room"},{"at":3000,"partition":"a-0","kind":"delete-log","offset":-1,"cause":"asked for"}]`,
		"/events?topic=a-0":           `[]`,
		"/events?topic=quiet":         `[]`,
		"/events?partition=0&topic=a": `[{"at":1000,"partition":"a-0","kind":"roll","offset":7,"cause":"asked for"}]`,
	})
	for _, c := range []struct {
		args string
		code int
		want []string // lines of the output, or of the complaint
	}{
		{"retention a-b-3", 0, []string{
			"a-b-3: offsets 0 to 30, 200 bytes, cleanup.policy=delete (the default)",
			"    goes at the next check: retention.ms=5 (set on the topic): it is old",
			"  segment 20 to 30, 100 bytes, newest record 1970-01-01 00:00:01 UTC, active",
			"    kept: retention.ms=86400000 (set on the topic): it is young",
			"    goes by age at 1970-01-02 00:00:01 UTC or soon after"}},
		{"compaction c-1", 0, []string{"c-1-0: due: it is dirty", "  FAILED 2 times, tried again at 1970-01-01 00:01:01 UTC: corrupt"}},
		{"config t k", 0, []string{"k=v, from server.properties", "  * log.k=v, from server.properties", "    k=d, the default"}},
		{"events", 0, []string{"1970-01-01 00:00:01 UTC a-0 roll at 7: asked for", "1970-01-01 00:00:02 UTC disk-full: there is no room",
			"1970-01-01 00:00:03 UTC a-0 delete-log: asked for"}},
		{"events a-0", 0, []string{"1970-01-01 00:00:01 UTC a-0 roll at 7: asked for"}},
		{"retention nothing", 1, []string{"quire explain: there is no topic nothing"}},
		{"--json config t k", 0, []string{`{"key":"k","value":"v","source":"STATIC_BROKER_CONFIG","doc":"What it does.","otherLayers":[{"key":"log.k","value":"v","source":"STATIC_BROKER_CONFIG"},{"key":"k","value":"d","source":"DEFAULT_CONFIG"}]}`}},
		{"events quiet", 0, []string{"nothing worth telling has happened yet"}},
		{"--json events quiet", 0, []string{"[]"}},
		{"", 2, []string{"quire explain: it takes retention or compaction and a topic, config and a topic and a key, or events"}},
		{"retention a b", 2, []string{"quire explain: it takes retention or compaction and a topic, config and a topic and a key, or events"}},
		{"retention", 2, []string{"quire explain: retention of which topic?"}},
		{"config", 2, []string{"quire explain: config of which topic?"}},
		{"config t", 2, []string{"quire explain: which key of t, such as retention.ms?"}},
		{"retntion a", 2, []string{"quire explain: it does not explain \"retntion\"; did you mean retention?"}},
		{"--jsno events", 2, []string{"quire explain: unknown flag: --jsno; did you mean --json?"}},
		{"--nonsense", 2, []string{"quire explain: unknown flag: --nonsense"}},
		{"--help", 0, []string{"       quire explain config TOPIC KEY"}},
	} {
		var out, complaint bytes.Buffer
		code := explain(Env{Stdout: &out, Stderr: &complaint}, append(strings.Fields(c.args), "--admin-url", admin))
		if code != c.code {
			t.Errorf("%s: exit %d, want %d: %s", c.args, code, c.code, complaint.String())
		}
		said := "\n" + out.String() + complaint.String() + "\n"
		for _, line := range c.want {
			if !strings.Contains(said, "\n"+line+"\n") {
				t.Errorf("%s: no line %q in\n%s", c.args, line, said)
			}
		}
	}
	if code := explain(Env{Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}}, []string{"events", "--admin-url", "127.0.0.1:1"}); code != 1 {
		t.Errorf("nobody there: exit %d", code)
	}
}
