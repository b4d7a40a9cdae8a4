package server

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/storage"
)

func askExplain(t *testing.T, n *Node, path string, into any) int {
	t.Helper()
	resp, err := http.Get("http://" + n.AdminAddr() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode == http.StatusOK {
		if err := json.Unmarshal(body, into); err != nil {
			t.Fatalf("%s: %v in %s", path, err, body)
		}
	}
	return resp.StatusCode
}

// The admin listener says what keeps a segment, with the setting and where it came from, why the cleaner waits, and what happened.
func TestExplainOverHTTP(t *testing.T) {
	n := startForConfigs(t, "admin.listener", "127.0.0.1:0", "log.retention.ms", "7200000")
	l := n.replicas.Partition("orders", 0).Log()
	b := record.NewBuilder()
	b.Add(record.Record{Timestamp: time.Now().Add(-time.Hour).UnixMilli(), Key: []byte("k"), Value: []byte("v")})
	batch, err := b.Batch(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(batch, storage.AppendOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := l.Roll(); err != nil {
		t.Fatal(err)
	}
	var retention []struct {
		Report   storage.RetentionReport
		Settings []setting
	}
	if code := askExplain(t, n, "/explain/retention?topic=orders", &retention); code != 200 || len(retention) != 1 || len(retention[0].Report.Segments) != 2 {
		t.Fatalf("%d %+v", code, retention)
	}
	kept := retention[0].Report.Segments[0].Kept
	if len(kept) == 0 || kept[0].Setting != "retention.ms" || kept[0].Value != "7200000" || !strings.Contains(kept[0].Says, "is 1h") {
		t.Errorf("kept by %+v", kept)
	}
	source := ""
	for _, s := range retention[0].Settings {
		if s.Key == "retention.ms" {
			source = s.Source
		}
	}
	if source != "STATIC_BROKER_CONFIG" {
		t.Errorf("retention.ms comes from %s", source)
	}
	var compaction []struct{ Report storage.CompactionReport }
	if code := askExplain(t, n, "/explain/compaction?topic=orders&partition=0", &compaction); code != 200 || !strings.Contains(compaction[0].Report.Says, "cleanup.policy is not compact") {
		t.Errorf("%d %+v", code, compaction)
	}
	var s setting
	if code := askExplain(t, n, "/explain/config?topic=orders&key=retention.ms", &s); code != 200 || s.Value != "7200000" || len(s.Synonyms) < 2 {
		t.Errorf("%d %+v", code, s)
	}
	var events []shownEvent
	if code := askExplain(t, n, "/events?topic=orders&kind=roll", &events); code != 200 || len(events) == 0 || events[0].Partition != "orders-0" {
		t.Errorf("%d %+v", code, events)
	}
	for _, path := range []string{"/explain/retention?topic=none", "/explain/retention?topic=orders&partition=1", "/explain/retention?topic=orders&partition=x", "/explain/config?topic=orders&key=none"} {
		if code := askExplain(t, n, path, nil); code != 404 {
			t.Errorf("%s: %d", path, code)
		}
	}
}
