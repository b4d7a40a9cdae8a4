// Package server is one node: it opens the data directories, the controller and the replicas, answers each API of the
// protocol (a handler file per family), and stops cleanly.
//
//	I1  a request reads one metadata image from beginning to end
//	I2  one function (errorCode) turns errors of the floors below into Kafka's codes
//	I3  a listener accepts only once every partition that this node leads takes a produce
//	I4  Close returns once everything that was acknowledged is on disk by the policy, and no goroutine is left
package server
