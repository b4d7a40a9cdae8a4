package auth

// A Mechanism is a way to log in.
type Mechanism interface {
	Name() string // as SASL has it: PLAIN, SCRAM-SHA-256
	Begin() Exchange
}

// An Exchange is one client's attempt to log in. It belongs to one goroutine.
type Exchange interface {
	// Step takes the client's next token, of which nothing is kept, and returns the answer to it. done: the client is User.
	// An error is a *Failure, and final.
	Step(token []byte) (answer []byte, done bool, err error)
	User() string
}

// A Failure is an attempt that failed.
type Failure struct {
	Message string // what the client is told: of one mechanism's wrong names and wrong passwords the same
	Reason  string // what was wrong, for the log: neither names nor secrets
}

func (f *Failure) Error() string { return f.Reason }

// malformed is a token that is none of the mechanism's.
func malformed(mechanism, reason string) *Failure {
	return &Failure{invalidCredentials(mechanism), mechanism + ": " + reason}
}

// invalidCredentials is what Kafka's clients are told by all mechanisms but PLAIN, which has words of its own.
func invalidCredentials(mechanism string) string {
	return "Authentication failed during authentication due to invalid credentials with SASL mechanism " + mechanism
}

const reasonOver = "a token after the end of the exchange"
