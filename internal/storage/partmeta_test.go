package storage

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/quire-log/quire/internal/vfs"
)

func TestPartitionMetadata(t *testing.T) {
	m := vfs.NewMem()
	id, err := ParseTopicID("ZFkOhdZhQCqCaLughEDlbw")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := readPartitionMetadata(m, "partition.metadata"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
	if err := writePartitionMetadata(m, "partition.metadata", id); err != nil {
		t.Fatal(err)
	}
	b, err := vfs.ReadFile(m, "partition.metadata")
	if want := "version: 0\ntopic_id: ZFkOhdZhQCqCaLughEDlbw"; err != nil || string(b) != want {
		t.Errorf("bytes %q, %v, want %q", b, err, want)
	}
	if got, err := readPartitionMetadata(m, "partition.metadata"); got != id || err != nil {
		t.Errorf("read %v, %v", got, err)
	}
	for _, bad := range []string{
		"", "version: 0", "version: 1\ntopic_id: ZFkOhdZhQCqCaLughEDlbw", "version: -1\ntopic_id: ZFkOhdZhQCqCaLughEDlbw",
		"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", "version: 0\ntopic_id: short", "version: 0\ntopic_id:ZFkOhdZhQCqCaLughEDlbw",
		"topic_id: ZFkOhdZhQCqCaLughEDlbw\nversion: 0", "version: 0\ntopic_id: ZFkOhdZhQCqCaLughEDl\rw", "\x00\x00\x00",
		"version: 0\ntopic_id: ZFkOhdZhQCqCaLughEDlbw\n\n",
	} {
		if id, err := parsePartitionMetadata(bad); err == nil {
			t.Errorf("%q: read as %v", bad, id)
		}
	}
	if _, err := parsePartitionMetadata("version: 0\ntopic_id: ZFkOhdZhQCqCaLughEDlbw\n"); err != nil {
		t.Errorf("with a last newline: %v", err)
	}
}

func TestTopicIDText(t *testing.T) {
	metadata := TopicID{15: 1}
	if got, want := metadata.String(), "AAAAAAAAAAAAAAAAAAAAAQ"; got != want {
		t.Errorf("id of the metadata topic = %q, want %q", got, want)
	}
	for range 1000 {
		id := RandomID()
		if id.String()[0] == '-' || id.reserved() {
			t.Fatalf("drew %v", id)
		}
		if got, err := ParseTopicID(id.String()); got != id || err != nil {
			t.Fatalf("%v read as %v, %v", id, got, err)
		}
	}
	for _, bad := range []string{"", "ZFkOhdZhQCqCaLughEDlb", "ZFkOhdZhQCqCaLughEDlbw=", "ZFkOhdZhQCqCaLughED+bw", "ZFkOhdZhQCqCaLughED\nbw", "ZFkOhdZhQCqCaLughEDl\r\n"} {
		if id, err := ParseTopicID(bad); err == nil {
			t.Errorf("%q read as %v", bad, id)
		}
	}
}
