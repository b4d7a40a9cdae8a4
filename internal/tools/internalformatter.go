package tools

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/quire-log/quire/internal/kmeta"
)

// internalFormatters are those of Kafka's internal topics: what each topic's log holds, and the types of keys that are shown.
var internalFormatters = map[string]internalFormatter{
	"OffsetsMessageFormatter":         {kmeta.OffsetsLog, []int16{0, 1}},
	"GroupMetadataMessageFormatter":   {kmeta.OffsetsLog, []int16{2}},
	"TransactionLogMessageFormatter":  {kmeta.TransactionsLog, []int16{0}},
	"ShareGroupStateMessageFormatter": {kmeta.SharesLog, []int16{0, 1}},
}

// An internalFormatter writes a coordinator's records as JSON, with nothing between them, and passes over those that are not its own.
type internalFormatter struct {
	log  kmeta.Log
	keys []int16
}

func (f internalFormatter) write(w io.Writer, r *kgo.Record) error {
	if r.Key == nil {
		return nil
	}
	fail := func(part string, b []byte, err error) error {
		return throw("java.lang.RuntimeException", fmt.Sprintf("Could not read record at offset %d due to: %s", r.Offset, versionedComplaint(part, b, err)))
	}
	k, err := kmeta.ReadKey(f.log, r.Key)
	if _, unknown := errors.AsType[*kmeta.KeyTypeError](err); unknown {
		return nil
	}
	if err != nil {
		return fail("key", r.Key, err)
	}
	text := append([]byte(`{"key":`), kmeta.AppendKeyJSON(nil, k, false)...)
	text = append(text, `,"value":`...)
	if r.Value == nil {
		text = append(text, "null"...)
	} else {
		v, version, err := kmeta.ReadVersioned(k, r.Value)
		if err != nil {
			return fail("value", r.Value, err)
		}
		text = kmeta.AppendVersionedJSON(text, v, version, false)
	}
	if !slices.Contains(f.keys, int16(r.Key[0])<<8|int16(r.Key[1])) {
		return nil
	}
	_, err = w.Write(append(text, '}'))
	return err
}
