package tools

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
)

// loginFailure is what a broker said of a login that it refused; nil if err is anything else.
func loginFailure(err error) *javaError {
	for _, refusal := range []error{kerr.SaslAuthenticationFailed, kerr.UnsupportedSaslMechanism, kerr.IllegalSaslState} {
		if errors.Is(err, refusal) {
			return asJava(err)
		}
	}
	return nil
}

// refusedLogin is the failure of a client's login, nil if it succeeds, or if there is none, or nobody to log in at. franz-go's consumers
// log in for ever, without a word; Java's end with the first refusal.
func refusedLogin(cl *kgo.Client) *javaError {
	if mechanisms, ok := cl.OptValue(kgo.SASL).([]sasl.Mechanism); !ok || len(mechanisms) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	return loginFailure(cl.Ping(ctx))
}
