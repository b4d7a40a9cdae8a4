package tools

import (
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/quire-log/quire/internal/auth"
)

// login returns how a client with security.protocol=SASL_PLAINTEXT or SASL_SSL says who it is, by sasl.mechanism and sasl.jaas.config. Its errors hold no secret.
func (c clientConfig) login() (sasl.Mechanism, error) {
	mechanism, ok := c["sasl.mechanism"]
	if !ok {
		mechanism = "GSSAPI" // Java's default
	}
	switch mechanism {
	case "PLAIN", auth.ScramSHA256.Name, auth.ScramSHA512.Name:
	default:
		return nil, throw("java.lang.UnsupportedOperationException", "sasl.mechanism="+mechanism+": quire's tools speak PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512")
	}
	text, ok := c["sasl.jaas.config"]
	if !ok {
		return nil, throw(illegalArgument, "sasl.jaas.config, which says who logs in, is not set")
	}
	module, err := auth.ParseJAAS(text)
	if err != nil {
		return nil, throw(illegalArgument, "sasl.jaas.config: "+err.Error())
	}
	user, password := module.Options["username"], module.Options["password"]
	if user == "" || password == "" {
		return nil, throw(illegalArgument, "sasl.jaas.config: username and password are expected among its options")
	}
	switch mechanism {
	case auth.ScramSHA256.Name:
		return scram.Auth{User: user, Pass: password}.AsSha256Mechanism(), nil
	case auth.ScramSHA512.Name:
		return scram.Auth{User: user, Pass: password}.AsSha512Mechanism(), nil
	}
	return plain.Auth{User: user, Pass: password}.AsMechanism(), nil
}
