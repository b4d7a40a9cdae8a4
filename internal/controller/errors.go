package controller

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/quire-log/quire/internal/config"
	"github.com/quire-log/quire/internal/storage"
)

// A refusal is a wish that a client may not have: a Kafka error code and what Kafka's controller says with it.
type refusal struct {
	code    int16
	message string // "": null on the wire
}

func (r *refusal) Error() string { return r.message }

func refuse(e *kerr.Error, message string) *refusal { return &refusal{e.Code, message} }

// answer turns what became of a wish into code and message.
func answer(err error) (code int16, message *string) {
	var r *refusal
	var invalid *config.InvalidError
	var full *storage.DiskFullError
	var failed *storage.FailedError
	switch {
	case err == nil:
		return 0, nil
	case errors.As(err, &r):
		if r.message == "" {
			return r.code, nil
		}
		return r.code, &r.message
	case errors.As(err, &invalid):
		return kerr.InvalidConfig.Code, &invalid.Message
	case errors.As(err, &full), errors.As(err, &failed):
		text := err.Error()
		return kerr.KafkaStorageError.Code, &text
	case errors.Is(err, ErrClosed):
		return kerr.NotController.Code, nil
	default:
		text := err.Error()
		return kerr.UnknownServerError.Code, &text
	}
}
