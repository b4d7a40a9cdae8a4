package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/quire-log/quire/internal/config"
	"github.com/quire-log/quire/internal/metadata"
	"github.com/quire-log/quire/internal/storage"
)

// Why data is still there, or no longer, as JSON on the admin listener:
//
//	/explain/retention?topic=T[&partition=P]    per segment which rule keeps it, and when it goes
//	/explain/compaction?topic=T[&partition=P]   why the cleaner cleans it, or does not
//	/explain/config?topic=T&key=K               a setting's value, and where it came from
//	/events?[topic=T][&partition=P][&kind=K][&limit=N]   what was decided about data, the newest first

// An explanation answers /explain/…: a partition's report, and the settings that decide.
type explanation struct {
	Report   any       `json:"report"`
	Settings []setting `json:"settings"`
}

// A setting is a value and where it came from.
type setting struct {
	Key      string    `json:"key"`
	Value    string    `json:"value"`
	Source   string    `json:"source"`
	Doc      string    `json:"doc,omitempty"`
	Inert    bool      `json:"withoutEffect,omitempty"`
	Synonyms []setting `json:"otherLayers,omitempty"` // what holds where this layer is taken away, strongest first
}

var (
	retentionKeys  = []string{"cleanup.policy", "retention.ms", "retention.bytes", "segment.ms", "segment.bytes", "message.timestamp.type", "file.delete.delay.ms"}
	compactionKeys = []string{"cleanup.policy", "min.cleanable.dirty.ratio", "min.compaction.lag.ms", "max.compaction.lag.ms", "delete.retention.ms", "segment.ms"}
)

// eventsShownMax bounds one answer of /events.
const eventsShownMax = 1000

func (n *Node) explainRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /explain/retention", n.explain(retentionKeys, func(tp storage.TopicPartition) (any, error) {
		if r := n.logs.ExplainRetention(tp); r != nil {
			return r, nil
		}
		return nil, errNoLog
	}))
	mux.HandleFunc("GET /explain/compaction", n.explain(compactionKeys, func(tp storage.TopicPartition) (any, error) {
		r, err := n.logs.ExplainCompaction(tp)
		if r == nil && err == nil {
			err = errNoLog
		}
		return r, err
	}))
	mux.HandleFunc("GET /explain/config", n.explainConfig)
	mux.HandleFunc("GET /events", n.showEvents)
}

var errNoLog = errors.New("this node has no log of it")

// askedTopic finds the topic that a request names, or answers that there is none.
func (n *Node) askedTopic(w http.ResponseWriter, r *http.Request) (*metadata.Image, string, int) {
	img, topic := n.controller.Image(), r.FormValue("topic")
	t := img.Topic(topic)
	if t == nil {
		http.Error(w, fmt.Sprintf("there is no topic %q", topic), http.StatusNotFound)
		return nil, "", 0
	}
	return img, topic, len(t.Partitions)
}

func (n *Node) explain(keys []string, report func(storage.TopicPartition) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		img, topic, partitions := n.askedTopic(w, r)
		if img == nil {
			return
		}
		from, to := 0, partitions
		if text := r.FormValue("partition"); text != "" {
			p, err := strconv.Atoi(text)
			if err != nil || p < 0 || p >= partitions {
				http.Error(w, fmt.Sprintf("topic %s has no partition %q", topic, text), http.StatusNotFound)
				return
			}
			from, to = p, p+1
		}
		settings := n.topicSettings(img, topic, keys)
		all := []explanation{}
		for p := from; p < to; p++ {
			one, err := report(storage.TopicPartition{Topic: topic, Partition: int32(p)})
			if errors.Is(err, errNoLog) {
				continue // another node has it
			}
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			all = append(all, explanation{one, settings})
		}
		writeJSON(w, all)
	}
}

func (n *Node) topicSettings(img *metadata.Image, topic string, keys []string) (all []setting) {
	layers, overrides := n.layers(img), img.Configs(metadata.TopicResource, topic)
	for _, key := range keys {
		if o, ok := config.Lookup(config.Topic(), key); ok {
			all = append(all, settingOf(key, config.TopicValue(o, overrides, layers)))
		}
	}
	return all
}

func settingOf(key string, v config.Value) setting {
	s := setting{Key: key, Value: v.Text, Source: v.Source.String(), Inert: v.Option.Inert, Doc: v.Option.Doc}
	for _, y := range v.Synonyms {
		s.Synonyms = append(s.Synonyms, setting{Key: y.Key, Value: y.Text, Source: y.Source.String()})
	}
	if v.Option.Sensitive() { // its name and source may be known, no more
		s.Value, s.Synonyms = "", nil
	}
	return s
}

func (n *Node) explainConfig(w http.ResponseWriter, r *http.Request) {
	img, topic, _ := n.askedTopic(w, r)
	if img == nil {
		return
	}
	all := n.topicSettings(img, topic, []string{r.FormValue("key")})
	if len(all) == 0 {
		http.Error(w, fmt.Sprintf("topics have no setting %q", r.FormValue("key")), http.StatusNotFound)
		return
	}
	writeJSON(w, all[0])
}

// A shownEvent is an event as JSON.
type shownEvent struct {
	At        int64          `json:"at"`        // ms
	Partition string         `json:"partition"` // "" for what is of a whole directory
	Kind      string         `json:"kind"`
	Offset    storage.Offset `json:"offset"` // -1 where there is none
	Cause     string         `json:"cause"`
}

func (n *Node) showEvents(w http.ResponseWriter, r *http.Request) {
	limit, err := strconv.Atoi(r.FormValue("limit"))
	if err != nil || limit <= 0 || limit > eventsShownMax {
		limit = eventsShownMax
	}
	topic, partition, kind := r.FormValue("topic"), r.FormValue("partition"), r.FormValue("kind")
	all := []shownEvent{}
	for _, e := range n.events.Last(limit, func(e *storage.Event) bool {
		return (topic == "" || e.Partition.Topic == topic) && (kind == "" || e.Kind == kind) &&
			(partition == "" || partition == strconv.Itoa(int(e.Partition.Partition)))
	}) {
		shown := shownEvent{At: e.At.UnixMilli(), Kind: e.Kind, Offset: e.Offset, Cause: e.Cause}
		if e.Partition.Topic != "" {
			shown.Partition = e.Partition.String()
		}
		all = append(all, shown)
	}
	writeJSON(w, all)
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	_ = enc.Encode(v) // whoever went away needs no answer
}
