// Package group decides what the groups of one partition of __consumer_offsets do: classic groups, consumer groups, and the
// offsets that both commit. It reads no clock, opens no socket and touches no disk. Whoever runs a Shard hands in requests,
// the time and the records of the log, and carries out the Effects that come back:
//
//	loading   NewShard, then Replay and ReplayMarker for what the partition holds, in order, then Loaded
//	          An Ahead may prepare records on the goroutine that reads them; then ReplayPrepared and ReplayAsIs
//	leading   an event gives an Effect; its Records are appended as one batch, replayed at once, and once they are committed
//	          Then(nil) is called. If they cannot be appended they are not replayed, and Then gets the error
//	timers    NextTimer says when Tick has something to do, and Tick is called until NextTimer lies in the future
//	ending    Unload, after which the Shard is not used any more: an append that may or may not have happened ends so too
//
// Between calls:
//
//	I1  durable state changes in Replay and ReplayMarker alone: offsets, and everything of a consumer group but its timers.
//	    Loading any part of the log that compaction may have left gives the state that the whole log gives
//	I2  of a classic group the log has generation, protocol, leader, and members with their assignments. Who waits, which state
//	    a rebalance is in and every timer is soft: it is gone after a load, and members find out by heartbeats
//	I3  every reply is called exactly once: by the event itself, by its Then, by a later event that ends the waiting, or by Unload
//	I4  no reply is called before the records that it tells of are committed
//	I5  an Effect's records concern one group, so a batch is bounded by what one group is
//	I6  nothing of a request is kept beyond its reply: requests may be views of a buffer
//
// One goroutine at a time uses a Shard. Effects are carried out in the order in which they came; the next event may be decided
// once the records before it are replayed, before they are committed. An append that was replayed and then turns out not to be
// committed ends the Shard. What is read (OffsetFetch, descriptions, lists) is what is replayed.
// Authorisation, FindCoordinator and which partition a group belongs to are package server's business.
package group
