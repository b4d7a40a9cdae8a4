package storage

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// The directory of a partition is named TOPIC-PARTITION, and one that is on its way TOPIC-PARTITION.ID-KIND, where ID is 32
// random hex digits. A file system takes 255 bytes for a name, so of a long topic -delete and -stray keep only the head.
type dirKind string

const (
	dirLive    dirKind = ""
	dirDeleted dirKind = "-delete" // its partition was deleted; it goes after a delay
	dirFuture  dirKind = "-future" // a copy, not yet complete, that is to replace the partition's directory on another disk
	dirStray   dirKind = "-stray"  // metadata knows no such partition here; nothing removes it but its owner's hand
)

const (
	dirNameMax   = 255
	topicNameMax = 249

	metadataTopic = "__cluster_metadata"
	// remoteIndexCacheDir is tiered storage's, the one directory of Kafka's that is no partition.
	remoteIndexCacheDir = "remote-log-index-cache"
)

// MetadataPartition is the partition of the metadata log.
var MetadataPartition = TopicPartition{metadataTopic, 0}

// parseDirName reads a directory's name; of -delete and -stray the topic may be cut short. ok is false for what no broker makes.
func parseDirName(name string) (tp TopicPartition, kind dirKind, ok bool) {
	for _, k := range []dirKind{dirDeleted, dirFuture, dirStray} {
		rest, found := strings.CutSuffix(name, string(k))
		if !found {
			continue
		}
		dot := strings.LastIndexByte(rest, '.')
		if dot < 0 || dot == len(rest)-1 {
			return TopicPartition{}, "", false
		}
		name, kind = rest[:dot], k
		break
	}
	dash := strings.LastIndexByte(name, '-')
	if dash < 0 || !legalTopic(name[:dash]) {
		return TopicPartition{}, "", false
	}
	n, err := strconv.ParseInt(name[dash+1:], 10, 32)
	// orders-01 would be a second directory of orders-1.
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != name[dash+1:] {
		return TopicPartition{}, "", false
	}
	return TopicPartition{name[:dash], int32(n)}, kind, true
}

// formatDirName makes a name; every call for another kind than dirLive makes another one.
func formatDirName(tp TopicPartition, kind dirKind) string {
	if kind == dirLive {
		return tp.String()
	}
	id := RandomID()
	tail := fmt.Sprintf("-%d.%s%s", tp.Partition, hex.EncodeToString(id[:]), kind)
	topic := tp.Topic
	if kind != dirFuture { // a -future directory becomes the partition's: it must keep the name whole
		topic = topic[:min(len(topic), dirNameMax-len(tail))]
	}
	return topic + tail
}

func legalTopic(name string) bool {
	if name == "" || name == "." || name == ".." || len(name) > topicNameMax {
		return false
	}
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}
