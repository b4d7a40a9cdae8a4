// Package txn decides what the transactions of one partition of __transaction_state do: who owns a transactional id, which
// partitions its transaction has, and how that ends. It reads no clock, opens no socket and touches no disk. Whoever runs a
// Shard hands in events, the time and the records of the log, and carries out the Effects that come back:
//
//	loading   NewShard, then Replay for what the partition holds, in order, then Loaded
//	leading   an event gives an Effect; its Records are appended as one batch, replayed at once, and once they are committed
//	          Then(nil) is called. If they cannot be appended they are not replayed, and Then gets the error
//	markers   Options.Markers hears which are to be written; once all of them are, MarkersWritten completes the transaction
//	timers    NextTimer says when Tick has something to do, and Tick is called until NextTimer lies in the future
//	ending    Unload, after which the Shard is not used any more: an append that may or may not have happened ends so too
//
// Between calls:
//
//	I1  durable state changes in Replay alone: loading any part of the log that compaction may have left gives the state that
//	    the whole log gives, but for the epoch before the last (lastEpoch), by which a repeated InitProducerId is recognised
//	I2  a transaction that is prepared is decided: it becomes complete with the same outcome or stays as it is. Its markers
//	    are asked for again by Loaded, so a coordinator that ends in between loses none
//	I3  markers are asked for only once the record that decides is committed, and the record of completion is written only
//	    once all of them are
//	I4  of a producer id no epoch is ever given to two clients, and an id is left before epoch 32767 would be given
//	I5  every reply is called exactly once, and not before the records that it tells of are committed
//	I6  nothing of a request is kept beyond its reply: requests may be views of a buffer
//
// One goroutine at a time uses a Shard. Effects are carried out in the order in which they came; the next event may be decided
// once the records before it are replayed, before they are committed.
// Authorisation, FindCoordinator and which partition an id belongs to are package server's business.
package txn
