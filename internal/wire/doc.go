// Package wire is the Kafka protocol as bytes on connections: listeners, frames, header versions, the table of APIs,
// and responses that leave in the order of their requests, with regions of files by sendfile.
//
//	I1  the requests of a connection are handled one after the other, on that connection's goroutine, and answered in order. It has
//	    one at a time
//	I2  a buffer for a frame is asked for with no more than four times what has come of it (or 16 KiB), or the largest frame
//	    that the connection has sent whole (up to provenMax); no frame exceeds its bound, whatever length a client names
//	I3  a handler that panics costs its connection, and is logged; no client can disturb another
//	I4  a connection that waits for its next request holds no buffers
//	I5  answers that are gathered to leave together leave before their connection waits for anything
//	I6  Shutdown returns once no goroutine of a connection is left
//	I7  on a listener with a Login nothing but ApiVersions, SaslHandshake and SaslAuthenticate reaches a handler before the
//	    client has logged in, and no frame of such a client exceeds Login.TokenBytesMax
//
// A connection is one goroutine: read a frame, handle it, write the answer. One more goroutine, the sweeper, looks at all
// connections now and then: it closes those that idle or whose client takes nothing, and ends the waiting of handlers whose
// client is gone.
//
// Topics, logs and configs are not known here.
package wire
