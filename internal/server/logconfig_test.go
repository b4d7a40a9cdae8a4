package server

import "testing"

// The files of a new topic are made by its own settings, which the image that shows the topic is the first to have.
func TestFirstFilesFollowTheTopic(t *testing.T) {
	n := dataNode(t, "")
	dialNode(t, n).topic("t", 1, "segment.index.bytes", "1024")
	info, err := n.options.FS.Stat("data/t-0/00000000000000000000.index")
	if err != nil {
		t.Fatal(err)
	}
	if size := info.Size(); size != 1024 {
		t.Errorf("the first index is made with %d bytes, want segment.index.bytes, 1024", size)
	}
}
