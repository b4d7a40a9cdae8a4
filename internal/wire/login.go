package wire

import (
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/auth"
)

// A Login is what a listener demands of its clients before it serves them: SASL.
type Login struct {
	Mechanisms []auth.Mechanism
	// TokenBytesMax bounds every frame of a client that is not logged in: sasl.server.max.receive.size.
	TokenBytesMax int32
	// FailedDelay is how long a client waits for the answer that its login failed: connection.failed.authentication.delay.ms.
	FailedDelay time.Duration
	// SessionMax is how long a login holds, by mechanism: connections.max.reauth.ms. Zero: as long as the connection.
	SessionMax map[string]time.Duration
}

// A session is where a connection of a listener with a Login stands. It belongs to the connection's goroutine.
//
//	connected --SaslHandshake--> exchanging --last token--> logged in --SaslHandshake (where logins end)--> exchanging
type session struct {
	login    *Login
	exchange auth.Exchange // nil: none has begun, or it has ended
	raw      bool          // tokens of the exchange come as frames of their own, not in SaslAuthenticate

	mechanism string
	user      string // "": nobody is logged in
	began     time.Time
	ends      time.Time // of the login; zero: never
}

// reloginMin is the least time between two logins of a connection, as in Kafka: they cost more than other requests.
const reloginMin = time.Second

// ErrNoLogin is a login where none is due: on a listener without, or on a connection whose login holds. (ILLEGAL_SASL_STATE)
var ErrNoLogin = errors.New("no login is due on this connection")

// An UnknownMechanismError is a login by a mechanism that the listener does not offer.
type UnknownMechanismError struct{ Offered []string }

func (e *UnknownMechanismError) Error() string {
	return fmt.Sprintf("a login by a mechanism that is not among %v", e.Offered)
}

// admit tells whether a request may be handled as the connection stands. keeps I7
func (s *session) admit(key int16, now time.Time) error {
	switch handshake, token := key == kmsg.SASLHandshake.Int16(), key == kmsg.SASLAuthenticate.Int16(); {
	case s.exchange != nil:
		if !token && key != apiVersionsKey {
			return fmt.Errorf("%s while the client logs in", kmsg.NameForKey(key))
		}
	case s.user == "":
		if !handshake && key != apiVersionsKey {
			return fmt.Errorf("%s before the client has logged in", kmsg.NameForKey(key))
		}
	case !s.ends.IsZero() && !now.Before(s.ends) && !handshake:
		return fmt.Errorf("%s after the login has run out", kmsg.NameForKey(key))
	}
	return nil
}

// frameMax bounds the next frame.
func (c *Conn) frameMax() int32 {
	if s := c.session; s != nil && s.user == "" {
		return min(s.login.TokenBytesMax, c.server.limits.RequestBytesMax)
	}
	return c.server.limits.RequestBytesMax
}

// User is who the client is; "": it was not asked, or has not proved it yet. For the connection's goroutine.
func (c *Conn) User() string {
	if c == nil || c.session == nil {
		return ""
	}
	return c.session.user
}

// BeginLogin begins a login by a mechanism, for the handler of SaslHandshake. raw: tokens follow as frames of their own.
// offered are the mechanisms of the listener. Errors: ErrNoLogin, *UnknownMechanismError.
func (c *Conn) BeginLogin(mechanism string, raw bool) (offered []string, err error) {
	if c == nil || c.session == nil {
		return nil, ErrNoLogin
	}
	s, now := c.session, time.Now()
	var chosen auth.Mechanism
	for _, m := range s.login.Mechanisms {
		offered = append(offered, m.Name())
		if m.Name() == mechanism {
			chosen = m
		}
	}
	if s.user != "" && (raw || s.ends.IsZero() || now.Sub(s.began) < reloginMin || mechanism != s.mechanism) {
		return offered, ErrNoLogin
	}
	if chosen == nil {
		return offered, &UnknownMechanismError{offered}
	}
	s.exchange, s.mechanism, s.raw, s.began = chosen.Begin(), chosen.Name(), raw, now
	return offered, nil
}

// Login takes a token, for the handler of SaslAuthenticate. holds is how long the login that this token completed lasts, zero:
// as long as the connection, or it is not complete. Errors: ErrNoLogin, *auth.Failure; after a failure the connection must end.
func (c *Conn) Login(token []byte) (answer []byte, holds time.Duration, err error) {
	if c == nil || c.session == nil || c.session.exchange == nil {
		return nil, 0, ErrNoLogin
	}
	s := c.session
	answer, done, err := s.exchange.Step(token)
	if err != nil || !done {
		return answer, 0, err
	}
	user := s.exchange.User()
	if s.user != "" && s.user != user {
		return nil, 0, &auth.Failure{
			Message: "Cannot change principals during re-authentication from User:" + s.user + " to User:" + user,
			Reason:  "another user than before",
		}
	}
	s.user, s.exchange, s.raw, s.ends = user, nil, false, time.Time{}
	if holds = s.login.SessionMax[s.mechanism]; holds > 0 {
		s.ends = s.began.Add(holds) // what the exchange took is part of it
		holds = max(time.Until(s.ends), time.Millisecond)
	}
	return answer, holds, nil
}

// answerToken handles a token that is a frame of its own, as is the answer to it. Of a failure there is no answer but the connection's end.
func (c *Conn) answerToken(token []byte) error {
	c.enter(handling)
	answer, _, err := c.Login(token)
	if err != nil {
		c.delayFailure()
		return &closeError{fmt.Errorf("the login failed: %w", err)}
	}
	at := c.begin()
	c.out = append(c.out, answer...)
	c.finish(at, 0)
	return nil
}

// delayFailure waits as long as a client has to that could not log in: whoever guesses passwords guesses slowly.
func (c *Conn) delayFailure() {
	if c.session == nil || c.session.login.FailedDelay <= 0 {
		return
	}
	c.flushBeforeWait() // keeps I5
	// The sweeper would let nothing wait for longer than IdleMax either.
	t := time.NewTimer(min(c.session.login.FailedDelay, c.server.limits.IdleMax))
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.ctx.Done():
	}
}
