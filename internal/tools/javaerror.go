package tools

import (
	"errors"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
)

// A javaError is a failure as Kafka's tools tell it: the class of the exception, its message, and what caused it.
type javaError struct {
	class, message string
	cause          error // nil: nothing but itself
	blank          bool  // the message is there, and empty
}

func throw(class, message string) *javaError { return &javaError{class: class, message: message} }

// because returns e with its cause.
func (e *javaError) because(cause error) *javaError {
	e.cause = cause
	return e
}

// Unwrap returns the cause.
func (e *javaError) Unwrap() error { return e.cause }

// trace is what is left of a stack trace without its frames: the exception and its causes.
func (e *javaError) trace() string {
	text := e.Error()
	if e.cause != nil {
		text += "\nCaused by: " + asJava(e.cause).trace()
	}
	return text
}

const (
	kafkaErrors     = "org.apache.kafka.common.errors."
	kafkaException  = "org.apache.kafka.common.KafkaException"
	configException = "org.apache.kafka.common.config.ConfigException"
	illegalArgument = "java.lang.IllegalArgumentException"
	numberFormat    = "java.lang.NumberFormatException"
)

// Error is what Java's toString prints.
func (e *javaError) Error() string {
	if e.message == "" && !e.blank {
		return e.class
	}
	return e.class + ": " + e.message
}

// text is what Java's getMessage gives.
func (e *javaError) text() string {
	if e.message == "" && !e.blank {
		return "null"
	}
	return e.message
}

// asJava returns any error as a javaError.
func asJava(err error) *javaError {
	if e, ok := errors.AsType[*javaError](err); ok {
		return e
	}
	if e, ok := errors.AsType[*joptError](err); ok {
		return e.java()
	}
	if e, ok := errors.AsType[*kerr.Error](err); ok {
		// Where a broker said more than its code, franz-go puts that behind the code's own text.
		if _, message, ok := strings.Cut(err.Error(), e.Error()+": "); ok {
			return brokerError(e.Code, &message)
		}
		return brokerError(e.Code, nil)
	}
	return throw(kafkaException, err.Error())
}

// brokerError returns the exception for an error code of the protocol, with the broker's own words if it sent any;
// nil for code 0.
func brokerError(code int16, message *string) *javaError {
	if code == 0 {
		return nil
	}
	e := kerr.TypedErrorForCode(code)
	if e == nil {
		e = kerr.UnknownServerError
	}
	text := errorTexts[e.Code]
	if text == "" {
		text = e.Description
	}
	if message != nil {
		text = *message
	}
	return &javaError{class: errorClass(e), message: text, blank: message != nil && text == ""}
}

// errorCode is the code whose exception e is; UNKNOWN_SERVER_ERROR if it is none's.
func errorCode(e *javaError) int16 {
	for code := int16(1); code < errorCodesEnd; code++ {
		if k := kerr.TypedErrorForCode(code); k != nil && errorClass(k) == e.class {
			return code
		}
	}
	return kerr.UnknownServerError.Code
}

// errorCodesEnd is beyond the codes that Kafka has.
const errorCodesEnd = 200

// errorClass derives a class from an error's name: TOPIC_DELETION_DISABLED is thrown as TopicDeletionDisabledException.
func errorClass(e *kerr.Error) string {
	if e.Code == kerr.InvalidRecord.Code {
		return "org.apache.kafka.common.InvalidRecordException"
	}
	if class, ok := errorClasses[e.Code]; ok {
		return kafkaErrors + class
	}
	var class strings.Builder
	for word := range strings.SplitSeq(e.Message, "_") {
		class.WriteString(word[:1] + strings.ToLower(word[1:]))
	}
	return kafkaErrors + class.String() + "Exception"
}

// errorClasses are the classes whose names do not follow from the errors'.
var errorClasses = map[int16]string{
	-1:  "UnknownServerException",
	2:   "CorruptRecordException",
	7:   "TimeoutException",
	10:  "RecordTooLargeException",
	11:  "ControllerMovedException",
	12:  "OffsetMetadataTooLarge",
	13:  "NetworkException",
	17:  "InvalidTopicException",
	18:  "RecordBatchTooLargeException",
	29:  "TopicAuthorizationException",
	30:  "GroupAuthorizationException",
	31:  "ClusterAuthorizationException",
	36:  "TopicExistsException",
	40:  "InvalidConfigurationException",
	45:  "OutOfOrderSequenceException",
	46:  "DuplicateSequenceException",
	49:  "InvalidPidMappingException",
	50:  "InvalidTxnTimeoutException",
	53:  "TransactionalIdAuthorizationException",
	56:  "KafkaStorageException",
	58:  "SaslAuthenticationException",
	61:  "DelegationTokenDisabledException",
	64:  "UnsupportedByAuthenticationException",
	65:  "DelegationTokenAuthorizationException",
	68:  "GroupNotEmptyException",
	97:  "PrincipalDeserializationException",
	106: "FetchSessionTopicIdException",
	128: "InvalidRegularExpression",
}

// errorTexts are Kafka's words for errors where kerr's differ.
var errorTexts = map[int16]string{
	6:   "For requests intended only for the leader, this error indicates that the broker is not the current leader. For requests intended for any replica, this error indicates that the broker is not a replica of the topic partition.",
	9:   "The replica is not available for the requested topic-partition. Produce/Fetch requests and other requests intended only for the leader or follower return NOT_LEADER_OR_FOLLOWER if the broker is not a replica of the topic-partition.",
	10:  "The request included a message larger than the max message size the server will accept.",
	24:  "The group id is invalid.",
	29:  "Topic authorization failed.",
	30:  "Group authorization failed.",
	47:  "Producer attempted to produce with an old epoch.",
	53:  "Transactional Id authorization failed.",
	59:  "This exception is raised by the broker if it could not locate the producer metadata associated with the producerId in question. This could happen if, for instance, the producer's records were deleted because their retention time had elapsed. Once the last records of the producerId are removed, the producer's metadata is removed from the broker, and future appends by the producer will return this exception.",
	74:  "The leader epoch in the request is older than the epoch on the broker.",
	75:  "The leader epoch in the request is newer than the epoch on the broker.",
	77:  "Broker epoch has changed.",
	78:  "The leader high watermark has not caught up from a recent leader election so the offsets cannot be guaranteed to be monotonically increasing.",
	79:  "The group member needs to have a valid member id before actually entering a consumer group.",
	80:  "The preferred leader was not available.",
	81:  "The group has reached its maximum size.",
	83:  "Eligible topic partition leaders are not available.",
	84:  "Leader election not needed for topic partition.",
	87:  "This record has failed the validation on broker and hence will be rejected.",
	94:  "Indicates that the either the sender or recipient of a voter-only request is not one of the expected voters.",
	116: "This controller ID is not known.",
	124: "The share coordinator rejected the request because the share-group state epoch did not match.",
}
