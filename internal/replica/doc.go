// Package replica is this node's share of the partitions: who leads them, which replicas are in sync, how far they agree
// (the high watermark), and who waits for that to change. Today a node is alone, so the in-sync set is {self} and the
// high watermark follows the log's end; followers and fetchers dock here.
//
//	I1  only the leader of the current epoch appends for clients; the epoch is in the log's cache before its first batch
//	I2  high watermark <= log end offset, and it never falls while this node leads
//	I3  whoever waits is woken when an offset it waits for is reached, leadership moves, or the partition goes
//	I4  mu of a partition is taken before its log's own lock; no disk or network under it but the append
//	    itself and the epoch that an append must find written
//	I5  metadata shows a change only after Apply of its delta returned: a leader that a client can see takes a produce
//	I6  an offset that was given out once more, since the log lost what was there, is of a later leader epoch: see Shorter
//
// Sockets and Kafka's error codes are not known here.
package replica
