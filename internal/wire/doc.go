// Package wire is the Kafka protocol as bytes on connections: listeners, frames, header versions, the table of APIs,
// and responses that leave in the order of their requests, with regions of files by sendfile.
//
//	I1  the requests of a connection are handled one after the other, on that connection's goroutine, and answered in order
//	I2  nothing is allocated by a length that a client named until that many bytes have come, and no frame exceeds its bound
//	I3  a handler that panics costs its connection, and is logged; no client can disturb another
//	I4  a connection that waits for its next request holds no buffers
//	I5  Close returns once no goroutine of a connection is left
//
// Topics, logs and configs are not known here.
package wire
