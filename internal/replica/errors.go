package replica

import "fmt"

// A NotLeaderError means that another node leads, or none (Leader -1).
type NotLeaderError struct {
	Partition TopicPartition
	Leader    int32
	Epoch     Epoch
}

func (e *NotLeaderError) Error() string {
	return fmt.Sprintf("%s: led by node %d since epoch %d, not by this one", e.Partition, e.Leader, e.Epoch)
}

// An EpochError means that the epoch given is older (Fenced) or newer than the current one.
type EpochError struct {
	Partition      TopicPartition
	Given, Current Epoch
}

func (e *EpochError) Fenced() bool { return e.Given < e.Current }
func (e *EpochError) Error() string {
	return fmt.Sprintf("%s: leader epoch %d was given, %d is current", e.Partition, e.Given, e.Current)
}

// An OfflineError means that the partition's log could not be opened or has failed.
type OfflineError struct {
	Partition TopicPartition
	Err       error
}

func (e *OfflineError) Error() string { return fmt.Sprintf("%s: offline: %v", e.Partition, e.Err) }
func (e *OfflineError) Unwrap() error { return e.Err }

// A NotEnoughReplicasError refuses acks=all.
type NotEnoughReplicasError struct {
	Partition   TopicPartition
	InSync, Min int
}

func (e *NotEnoughReplicasError) Error() string {
	return fmt.Sprintf("%s: %d replicas are in sync, min.insync.replicas is %d", e.Partition, e.InSync, e.Min)
}
