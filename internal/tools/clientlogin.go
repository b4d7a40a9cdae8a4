package tools

import (
	"context"
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
)

// loginFailure is what a broker said of a login that it refused, or why there was no handshake; nil if err is anything else.
func loginFailure(err error) *javaError {
	if isHandshakeFailure(err) {
		return asJava(err)
	}
	for _, refusal := range []error{kerr.SaslAuthenticationFailed, kerr.UnsupportedSaslMechanism, kerr.IllegalSaslState} {
		if errors.Is(err, refusal) {
			return asJava(err)
		}
	}
	return nil
}

// refusedLogin is the failure of a client's login or handshake, nil if it succeeds, or if there is none, or nobody to log in at. franz-go's
// consumers log in for ever, without a word; Java's end with the first refusal.
func refusedLogin(cl *kgo.Client) *javaError {
	mechanisms, _ := cl.OptValue(kgo.SASL).([]sasl.Mechanism)
	hooks, _ := cl.OptValue(kgo.WithHooks).([]kgo.Hook)
	encrypts := slices.ContainsFunc(hooks, func(h kgo.Hook) bool {
		watch, ok := h.(*dialWatch)
		return ok && watch.encrypts
	})
	if len(mechanisms) == 0 && !encrypts {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	return loginFailure(cl.Ping(ctx))
}
