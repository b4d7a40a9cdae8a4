package tools

import (
	"bytes"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/quire-log/quire/internal/kmeta"
)

func TestInternalFormatters(t *testing.T) {
	commit := kmeta.NewOffsetCommitValue()
	commit.Offset, commit.CommitTimestamp = 2, 5
	at := &kmeta.OffsetCommitKey{Group: "g", Topic: "t", Partition: 1}
	group := &kmeta.GroupMetadataKey{Group: "g"}
	records := []*kgo.Record{
		{},
		{Key: kmeta.AppendKey(nil, at), Value: kmeta.AppendVersioned(nil, commit, 3)},
		{Key: kmeta.AppendKey(nil, at)},
		{Key: kmeta.AppendKey(nil, group)},
		{Key: []byte{0, 99, 1}}, // of a version to come
	}
	for class, want := range map[string]string{
		"OffsetsMessageFormatter": `{"key":{"type":1,"data":{"group":"g","topic":"t","partition":1}},"value":{"version":3,"data":{"offset":2,"leaderEpoch":-1,"metadata":"","commitTimestamp":5}}}` +
			`{"key":{"type":1,"data":{"group":"g","topic":"t","partition":1}},"value":null}`,
		"GroupMetadataMessageFormatter": `{"key":{"type":2,"data":{"group":"g"}},"value":null}`,
	} {
		var out bytes.Buffer
		f, err := newFormatter(&out, formatterPackage+class, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			if err := f.write(&out, r); err != nil {
				t.Errorf("%s: %v", class, err)
			}
		}
		if out.String() != want {
			t.Errorf("%s printed\n%s\nwant\n%s", class, out.String(), want)
		}
	}
	f, err := newFormatter(nil, formatterPackage+"OffsetsMessageFormatter", nil)
	if err != nil {
		t.Fatal(err)
	}
	err = f.write(new(bytes.Buffer), &kgo.Record{Offset: 7, Key: kmeta.AppendKey(nil, at), Value: []byte{0, 3, 1}})
	if want := "java.lang.RuntimeException: Could not read record at offset 7 due to: Could not read record with version 3 from value's buffer due to: null."; err == nil || err.Error() != want {
		t.Errorf("a value cut short: %v", err)
	}
}
