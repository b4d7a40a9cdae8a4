// Package config is the table of settings: every topic, broker, group and client-metrics option of Kafka 4.3, and
// Quire's own, one row each: key, type, default, check, documentation, when it may change, what it is called on the
// broker, and whether Quire acts on it. DescribeConfigs, validation of changes, server.properties, --help and the
// reference page all read the same rows.
//
//	I1  a value that Parse accepted has its row's type and passes its check
//	I2  messages of refusals are Kafka's, word for word
//	I3  a key that Quire accepts and does not act on says so in its row (Inert)
//
// Where values come from (metadata, files) is the callers' knowledge; this package resolves precedence among those it is handed.
package config
