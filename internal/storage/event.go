package storage

// An Event is a decision about somebody's data, with its cause.
type Event struct {
	Partition TopicPartition
	Kind      string // "roll", "scan" (all of a segment was read), "recover" (something was mended), "truncate", "delete-segment", "rebuild-index", "log-start", "compact", "future-timestamp"; of the Manager "clean-failed", "log-failed", "log-online", "log-missing", "stray", "delete-log"; of a directory, without a Partition, "dir-offline", "dir-online", "disk-full", "disk-freed"
	Offset    Offset // where
	Cause     string // which rule, which value, such as "segment.bytes 1048576 would be exceeded"
}
