package metadata

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/quire-log/quire/internal/kmeta"
)

// A world draws records that make sense one after the other.
type world struct {
	t          *rapid.T
	next       byte
	topics     []byte
	partitions map[byte]int32
	brokers    []int32
	acls       []byte
}

func (w *world) record() kmeta.Record {
	t := w.t
	text := rapid.SampledFrom([]string{"", "a", "b", "é c"})
	lists := rapid.SliceOfN(rapid.Int32Range(0, 4), 0, 3)
	maybe := rapid.Bool()
	kind := rapid.IntRange(0, 15).Draw(t, "kind")
	if len(w.topics) == 0 && kind >= 1 && kind <= 5 || len(w.brokers) == 0 && (kind == 7 || kind == 8) || len(w.acls) == 0 && kind == 12 {
		kind = 0
	}
	topic := func() byte { return rapid.SampledFrom(w.topics).Draw(t, "topic") }
	change := func(name string) []int32 {
		if maybe.Draw(t, name) {
			return nil
		}
		return lists.Draw(t, name)
	}
	switch kind {
	case 0:
		w.next++
		w.topics = append(w.topics, w.next)
		return topicRecord(w.next)
	case 1, 2:
		n := topic()
		r := partitionRecord(n, w.partitions[n])
		r.ISR, r.EligibleLeaderReplicas, r.LastKnownELR = lists.Draw(t, "isr"), change("elr"), change("last")
		w.partitions[n]++
		return r
	case 3:
		n := topic()
		if w.partitions[n] == 0 {
			return &kmeta.NoOpRecord{}
		}
		return partitionChange(n, rapid.Int32Range(0, w.partitions[n]-1).Draw(t, "partition"), func(r *kmeta.PartitionChangeRecord) {
			r.Leader = rapid.Int32Range(-2, 3).Draw(t, "leader")
			r.ISR, r.Replicas, r.AddingReplicas = change("isr"), change("replicas"), change("adding")
			r.EligibleLeaderReplicas, r.LastKnownELR = change("elr"), change("last")
		})
	case 4:
		n := topic()
		w.topics = slices.DeleteFunc(w.topics, func(o byte) bool { return o == n })
		return &kmeta.RemoveTopicRecord{TopicID: UUID{n}}
	case 5:
		if maybe.Draw(t, "all") {
			return &kmeta.ClearELRRecord{}
		}
		return &kmeta.ClearELRRecord{TopicName: topicRecord(topic()).Name}
	case 6:
		id := rapid.Int32Range(1, 3).Draw(t, "broker")
		if !slices.Contains(w.brokers, id) {
			w.brokers = append(w.brokers, id)
		}
		return brokerRecord(id, 5)
	case 7:
		return &kmeta.BrokerRegistrationChangeRecord{
			BrokerID: rapid.SampledFrom(w.brokers).Draw(t, "broker"), BrokerEpoch: 5,
			Fenced: rapid.Int8Range(-1, 1).Draw(t, "fenced"), InControlledShutdown: rapid.Int8Range(0, 1).Draw(t, "shutdown"),
		}
	case 8:
		id := rapid.SampledFrom(w.brokers).Draw(t, "broker")
		w.brokers = slices.DeleteFunc(w.brokers, func(o int32) bool { return o == id })
		return &kmeta.UnregisterBrokerRecord{BrokerID: id, BrokerEpoch: 5}
	case 9:
		r := &kmeta.ConfigRecord{
			ResourceType: rapid.SampledFrom([]int8{2, 4, 16, 32, -1}).Draw(t, "type"), ResourceName: text.Draw(t, "name"), Name: text.Draw(t, "key"),
		}
		if maybe.Draw(t, "set") {
			r.Value = ptr(text.Draw(t, "value"))
		}
		return r
	case 10:
		entity := []kmeta.EntityData{{EntityType: "user"}, {EntityType: "client-id", EntityName: ptr(text.Draw(t, "client"))}}
		if maybe.Draw(t, "turned") {
			slices.Reverse(entity)
		}
		return &kmeta.ClientQuotaRecord{Entity: entity, Key: text.Draw(t, "key"), Value: 1.5, Remove: maybe.Draw(t, "remove")}
	case 11:
		w.next++
		w.acls = append(w.acls, w.next)
		return &kmeta.AccessControlEntryRecord{ID: UUID{w.next}, Principal: text.Draw(t, "principal")}
	case 12:
		id := w.acls[0]
		w.acls = w.acls[1:]
		return &kmeta.RemoveAccessControlEntryRecord{ID: UUID{id}}
	case 13:
		if maybe.Draw(t, "remove") {
			return &kmeta.RemoveUserScramCredentialRecord{Name: text.Draw(t, "user"), Mechanism: 1}
		}
		return &kmeta.UserScramCredentialRecord{Name: text.Draw(t, "user"), Mechanism: 1, Iterations: 4096}
	case 14:
		if maybe.Draw(t, "remove") {
			return &kmeta.RemoveDelegationTokenRecord{TokenID: text.Draw(t, "token")}
		}
		return &kmeta.DelegationTokenRecord{TokenID: text.Draw(t, "token"), Owner: text.Draw(t, "owner")}
	default:
		if maybe.Draw(t, "producers") {
			return &kmeta.ProducerIDsRecord{NextProducerID: rapid.Int64Range(1, 9).Draw(t, "next")}
		}
		return &kmeta.FeatureLevelRecord{
			Name: rapid.SampledFrom([]string{MetadataVersion, GroupVersion}).Draw(t, "feature"), FeatureLevel: rapid.Int16Range(0, 30).Draw(t, "level"),
		}
	}
}

// state is an image as text, by its records.
func state(img *Image) string {
	var b []byte
	for _, r := range img.Records() {
		b = append(kmeta.AppendJSON(b, r, r.HighestVersion()), '\n')
	}
	return fmt.Sprintf("%d %d %d %d\n%s", img.Offset(), img.Epoch(), img.TopicCount(), img.PartitionCount(), b)
}

// I1, I2 and I4: one batch, a batch for each record and batches by lot give the same image, also when a transaction is around some
// of the records or an aborted one between them; no image changes after it was shown; an image written and replayed is itself; and what a delta does not name is the same in both of its images.
func TestReplayProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{t: t, partitions: map[byte]int32{}}
		var recs []kmeta.Record
		for range rapid.IntRange(1, 60).Draw(t, "records") {
			recs = append(recs, w.record())
		}
		last := Offset(1000)
		whole := replayBatch(t, NewReplayer(Empty()), recs, last)

		shown := map[*Image]string{}
		r := NewReplayer(Empty())
		for n := range recs {
			before := r.Image()
			img, delta, err := r.Replay(recs[n:n+1], last-Offset(len(recs)-1-n), 0)
			if err != nil {
				t.Fatal(err)
			}
			shown[img] = state(img)
			checkDelta(t, delta, before, img)
		}
		if got, want := state(r.Image()), state(whole); got != want {
			t.Fatalf("one by one:\n%s\nas one batch:\n%s", got, want)
		}

		// The same records with transactions put between them: one around some, and one that is aborted.
		var wrapped []kmeta.Record
		begin := rapid.IntRange(0, len(recs)).Draw(t, "begin")
		end := rapid.IntRange(begin, len(recs)).Draw(t, "end")
		wrapped = append(wrapped, recs[:begin]...)
		wrapped = append(wrapped, &kmeta.BeginTransactionRecord{}, topicRecord(255), partitionRecord(255, 0), &kmeta.AbortTransactionRecord{}, &kmeta.BeginTransactionRecord{})
		wrapped = append(wrapped, recs[begin:end]...)
		wrapped = append(wrapped, &kmeta.EndTransactionRecord{})
		wrapped = append(wrapped, recs[end:]...)
		r = NewReplayer(Empty())
		for at := 0; at < len(wrapped); {
			n := rapid.IntRange(1, len(wrapped)-at).Draw(t, "batch")
			at += n
			before := r.Image()
			img, delta, err := r.Replay(wrapped[at-n:at], last-Offset(len(wrapped)-at), 0)
			if err != nil {
				t.Fatal(err)
			}
			shown[img] = state(img)
			checkDelta(t, delta, before, img)
		}
		if got, want := state(r.Image()), state(whole); got != want {
			t.Fatalf("cut by lot:\n%s\nas one batch:\n%s", got, want)
		}

		again := replayBatch(t, NewReplayer(Empty()), whole.Records(), last)
		if got, want := state(again), state(whole); got != want {
			t.Fatalf("written and replayed:\n%s\nwas:\n%s", got, want)
		}
		for img, was := range shown {
			if is := state(img); is != was {
				t.Fatalf("an image changed after it was shown:\n%s\nwas:\n%s", is, was)
			}
		}
	})
}

func replayBatch(t *rapid.T, r *Replayer, recs []kmeta.Record, last Offset) *Image {
	img, _, err := r.Replay(recs, last, 0)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func checkDelta(t *rapid.T, d *Delta, before, after *Image) {
	if d.Before != before || d.After != after {
		t.Fatal("a delta of other images")
	}
	created, deleted, changed := map[UUID]bool{}, map[UUID]bool{}, map[PartitionChange]bool{}
	for _, topic := range d.Created {
		created[topic.ID] = true
	}
	for _, topic := range d.Deleted {
		deleted[topic.ID] = true
	}
	for _, c := range d.Changed {
		changed[c] = true
	}
	for topic := range before.Topics() {
		if gone := after.TopicByID(topic.ID) == nil; gone != deleted[topic.ID] {
			t.Fatalf("topic %s gone %v, deleted in the delta %v", topic.Name, gone, deleted[topic.ID])
		}
	}
	for topic := range after.Topics() {
		was := before.TopicByID(topic.ID)
		if (was == nil) != created[topic.ID] {
			t.Fatalf("topic %s new %v, created in the delta %v", topic.Name, was == nil, created[topic.ID])
		}
		for n, p := range topic.Partitions {
			same := was == nil || n < len(was.Partitions) && reflect.DeepEqual(was.Partitions[n], p)
			if named := changed[PartitionChange{topic, int32(n)}]; named == same && (named || was != nil) {
				t.Fatalf("%s-%d the same %v, changed in the delta %v", topic.Name, n, same, named)
			}
		}
	}
	if (before.NextProducerID() != after.NextProducerID() || d.Features) && before == after {
		t.Fatal("an image changed in place")
	}
}
