// Package classic keeps the log as it was before offsets counted records: the form of Kafka 0.7 and of the design page of
// Kafka 0.8. A log is a run of entries in files; an offset is the byte position of an entry in the run of all entries that
// were ever appended to the partition.
//
//	0         4       5           9                      magic 0
//	+---------+-------+-----------+----------- - -
//	| length  | magic |   crc     | payload              length  of what follows it: 1 + 4 + n
//	+---------+-------+-----------+----------- - -       crc     CRC-32 (IEEE) of the payload, as it is stored
//	0         4       5       6           10             magic 1
//	+---------+-------+-------+-----------+----------- - -
//	| length  | magic | attrs |   crc     | payload      length  1 + 1 + 4 + n
//	+---------+-------+-------+-----------+----------- - -
//	                                                     attrs   bits 0-1: 0 none, 1 gzip, 2 snappy
//
// Numbers are big-endian. A compressed payload inflates to a run of entries, which share the outer entry's offset.
//
// A file is named for the offset of its first entry, in at least eleven digits: 00000000000.kafka. The files of partition 1
// of my_topic lie in my_topic_1, or in my_topic-1 where Kafka 0.7 itself wrote them.
//
// Between calls:
//
//	I1  offset = the file's name + position in the file; the end offset is where the next entry goes
//	I2  every file but the newest is whole on disk, and so is its name: only the newest can be torn
//	I3  readers see whole entries only, up to the end offset published last, in a list of segments that never changes
//	I4  an append that failed left nothing behind; when that cannot be had, the log is failed and every later call says so
//	I5  the newest file is never deleted, so an offset is never given twice
//	I6  what is not flushed is fewer than FlushMessages messages, none of them older than FlushInterval
//	I7  between files may be holes, where some were lost: a Reader goes on behind a hole
//
// One goroutine at a time appends (mu), any number read. Of today's protocol nothing is known here; Server speaks the one
// of 0.7.
package classic
