package tools

import (
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
)

// show writes a record on a line: headers, key, value; null is -.
func show(r *kgo.Record) string {
	field := func(b []byte) string {
		if b == nil {
			return "-"
		}
		return string(b)
	}
	var headers []string
	for _, h := range r.Headers {
		headers = append(headers, h.Key+"="+field(h.Value))
	}
	return strings.Join(headers, ",") + "|" + field(r.Key) + "|" + field(r.Value)
}

func TestLineReader(t *testing.T) {
	for _, c := range []struct {
		props string // with blanks between
		line  string
		want  string
		err   string
	}{
		{"", "a value", "|-|a value", ""},
		{"", "", "|-|", ""},
		{"parse.key=TRUE", "k\tv\tmore", "|k|v\tmore", ""},
		{"parse.key=true", "\tv", "||v", ""},
		{"parse.key=true key.separator=::", "a::b::c", "|a|b::c", ""},
		{"parse.key=true", "no tab", "", "No key separator found on line number 1: 'no tab'"},
		{"parse.key=true ignore.error=true", "no tab", "|-|no tab", ""},
		{"parse.headers=true", "h1:v1,h2:v2\tv", "h1=v1,h2=v2|-|v", ""},
		{"parse.headers=true", "h1:,:x\tv", "h1=,=x|-|v", ""},
		{"parse.headers=true", "h:a:b,,\tv", "h=a:b|-|v", ""},
		{"parse.headers=true parse.key=true", "h:1\tk\tv", "h=1|k|v", ""},
		{"parse.headers=true headers.delimiter=| headers.separator=; headers.key.separator==", "a=1;b=2|v", "a=1,b=2|-|v", ""},
		{"parse.headers=true", "no tab", "", "No headers delimiter found on line number 1: 'no tab'"},
		{"parse.headers=true", "novalue\tv", "", "No header key separator found in pair 'novalue' on line number 1"},
		{"parse.headers=true ignore.error=true", "novalue\tv", "novalue=-|-|v", ""},
		{"parse.key=true null.marker=NULL", "NULL\tNULL", "|-|-", ""},
		{"parse.headers=true null.marker=NULL", "NULL\tv", "|-|v", ""},
		{"parse.headers=true null.marker=NULL", "h:NULL\tv", "h=-|-|v", ""},
		{"parse.headers=true null.marker=NULL", "NULL:x\tv", "", "Header keys should not be equal to the null marker 'NULL' as they can't be null"},
		{"headers.separator=: headers.key.separator=:", "", "", "headers.separator and headers.key.separator may not be equal"},
		{"headers.delimiter=, parse.headers=true", "", "", "headers.delimiter and headers.separator may not be equal"},
		{"null.marker=, parse.headers=true", "", "", "null.marker and headers.separator may not be equal"},
		{"frob=true", "v", "|-|v", ""},
	} {
		props := clientConfig{"topic": "t"}
		props.addPairs(strings.Fields(c.props))
		r, err := newLineReader(props)
		var rec *kgo.Record
		if err == nil {
			rec, err = r.record(c.line)
		}
		switch {
		case c.err != "":
			if err == nil || asJava(err).Error() != kafkaException+": "+c.err {
				t.Errorf("%q, %q: error %v, want %s", c.props, c.line, err, c.err)
			}
		case err != nil:
			t.Errorf("%q, %q: %v", c.props, c.line, err)
		case show(rec) != c.want:
			t.Errorf("%q, %q: got %s, want %s", c.props, c.line, show(rec), c.want)
		}
	}
}

// oneByte gives a byte at a time, so that every line crosses reads.
type oneByte struct{ r io.Reader }

func (o oneByte) Read(p []byte) (int, error) { return o.r.Read(p[:1]) }

func TestLineScanner(t *testing.T) {
	for _, c := range []struct {
		in   string
		want []string
	}{
		{"", nil},
		{"\n", []string{""}},
		{"a\nb", []string{"a", "b"}},
		{"a\r\nb\rc\n\nd\r\n", []string{"a", "b", "c", "", "d"}},
		{"ü\xffx\n", []string{"ü\uFFFDx"}},
		{strings.Repeat("x", 200000) + "\ny\n", []string{strings.Repeat("x", 200000), "y"}},
	} {
		for _, in := range []io.Reader{strings.NewReader(c.in), oneByte{strings.NewReader(c.in)}} {
			s := newLineScanner(in)
			var got []string
			for {
				line, err := s.next()
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, line)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%.40q (-want +got):\n%s", c.in, diff)
			}
		}
	}
}

// The sizes are those in the messages of Kafka's producer.
func TestRecordSizeMost(t *testing.T) {
	for _, c := range []struct {
		rec  *kgo.Record
		want int64
	}{
		{&kgo.Record{Value: []byte("this record is larger than ten bytes")}, 121},
		{&kgo.Record{}, 85},
		{&kgo.Record{Key: []byte("k"), Value: []byte("v"), Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("x")}}}, 91},
	} {
		if got := recordSizeMost(c.rec); got != c.want {
			t.Errorf("%s: %d, want %d", show(c.rec), got, c.want)
		}
	}
}

func TestProducerConfig(t *testing.T) {
	for _, c := range []struct {
		props      string
		idempotent bool
		err        string
	}{
		{"", true, ""},
		{"acks=-1", true, ""},
		{"acks=1", false, ""},
		{"retries=0", false, ""},
		{"max.in.flight.requests.per.connection=6", false, ""},
		{"enable.idempotence=false", false, ""},
		{"enable.idempotence=true retries=0", false, "Must set retries to non-zero when using the idempotent producer."},
		{"acks=2", false, "Invalid value 2 for configuration acks: String must be one of: all, -1, 0, 1"},
		{"linger.ms=soon", false, "Invalid value soon for configuration linger.ms: Not a number of type LONG"},
		{"batch.size=-1", false, "Invalid value -1 for configuration batch.size: Value must be at least 0"},
		{"delivery.timeout.ms=1", false, "delivery.timeout.ms should be equal to or larger than linger.ms + request.timeout.ms"},
		{"linger.ms=9223372036854775807", true, ""},
	} {
		props := clientConfig{"bootstrap.servers": "127.0.0.1:9092"}
		props.addPairs(strings.Fields(c.props))
		p, err := props.producer(io.Discard, "test")
		switch {
		case c.err != "":
			if err == nil || asJava(err).Error() != configException+": "+c.err {
				t.Errorf("%s: error %v, want %s", c.props, err, c.err)
			}
		case err != nil:
			t.Errorf("%s: %v", c.props, err)
		case p.idempotent != c.idempotent:
			t.Errorf("%s: idempotent %t", c.props, p.idempotent)
		}
	}
}
