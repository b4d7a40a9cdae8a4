// Package auth is how clients say who they are: the SASL mechanisms PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512 as pure state
// machines, from a client's token to the server's answer, and the little of JAAS that names PLAIN's users.
//
//	I1  an exchange succeeds at most once, and only for a client that proved to know the password; whatever comes after
//	    success or failure fails
//	I2  what a client is told of a failure does not depend on whether its user exists: same text, same number of steps
//	I3  secrets are compared in constant time
//	I4  no error of this package holds a password, a key, a token, or what stands where one is expected
//
// Sockets, frames, delays and where credentials are kept are not known here.
package auth
