package tools

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestDefaultFormatter(t *testing.T) {
	records := []*kgo.Record{
		{Partition: 2, Offset: 7, Timestamp: time.UnixMilli(1700000000000), Key: []byte("k"), Value: []byte("v")},
		{Headers: []kgo.RecordHeader{{Key: "h1", Value: []byte("x")}, {Key: "h2"}}, Timestamp: time.UnixMilli(5)},
	}
	for _, c := range []struct{ props, want string }{
		{"", "v\nnull\n"},
		{"print.key=true", "k\tv\nnull\tnull\n"},
		{"print.key=true print.value=false", "k\nnull\n"},
		{"print.value=false", ""},
		{"print.timestamp=true print.partition=true print.offset=true print.delivery=true print.epoch=true print.headers=true print.key=true",
			"CreateTime:1700000000000\tPartition:2\tOffset:7\tDelivery:NOT_PRESENT\tEpoch:NOT_PRESENT\tNO_HEADERS\tk\tv\n" +
				"CreateTime:5\tPartition:0\tOffset:0\tDelivery:NOT_PRESENT\tEpoch:NOT_PRESENT\th1:x,h2:null\tnull\tnull\n"},
		{"print.headers=true headers.separator=; key.separator=: line.separator=| null.literal=NIL", "NO_HEADERS:v|h1:x;h2:NIL:NIL|"},
		{"print.key=yes", "v\nnull\n"},
	} {
		props := clientConfig{}
		props.addPairs(strings.Fields(c.props))
		var out, complaint bytes.Buffer
		f, err := newFormatter(&complaint, formatterPackage+"DefaultMessageFormatter", props)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			if err := f.write(&out, r); err != nil {
				t.Errorf("%s: %v", c.props, err)
			}
		}
		if diff := cmp.Diff(c.want, out.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.props, diff)
		}
		if complaint.Len() > 0 {
			t.Errorf("%s: complaint %q", c.props, complaint.String())
		}
	}
}

// A field that cannot be read ends its line where it stands.
func TestFormatterError(t *testing.T) {
	var out bytes.Buffer
	f, _ := newFormatter(&out, formatterPackage+"DefaultMessageFormatter", clientConfig{"print.key": "true", "value.deserializer": serializationPackage + "LongDeserializer"})
	err := f.write(&out, &kgo.Record{Key: []byte("k"), Value: []byte("v")})
	if err == nil || err.Error() != "org.apache.kafka.common.errors.SerializationException: Size of data received by LongDeserializer is not 8" {
		t.Errorf("error %v", err)
	}
	if out.String() != "k\t" {
		t.Errorf("output %q", out.String())
	}
}

func TestDeserializers(t *testing.T) {
	for _, c := range []struct{ class, in, want string }{
		{"StringDeserializer", "gr\xc3\xbc\xc3\x9fe", "grüße"},
		{"BytesDeserializer", "a\x00\\\xff", `a\x00\x5C\xFF`},
		{"LongDeserializer", "\xff\xff\xff\xff\xff\xff\xff\xfe", "-2"},
		{"IntegerDeserializer", "\x00\x00\x01\x00", "256"},
		{"ShortDeserializer", "\xff\xff", "-1"},
		{"DoubleDeserializer", "\x3f\xf0\x00\x00\x00\x00\x00\x00", "1.0"},
		{"DoubleDeserializer", "\x41\x63\x12\xd0\x00\x00\x00\x00", "1.0E7"},
		{"DoubleDeserializer", "\x3f\x40\x62\x4d\xd2\xf1\xa9\xfb", "4.999999999999999E-4"},
		{"FloatDeserializer", "\x3d\xcc\xcc\xcd", "0.1"},
		{"BooleanDeserializer", "\x01", "true"},
		{"UUIDDeserializer", "1-2-3-4-5", "00000001-0002-0003-0004-000000000005"},
		{"ByteBufferDeserializer", "ab", "java.nio.HeapByteBuffer[pos=0 lim=2 cap=2]"},
	} {
		d := newDeserializer(serializationPackage + c.class)
		if d == nil {
			t.Errorf("no %s", c.class)
			continue
		}
		if got, err := d([]byte(c.in)); err != nil || got != c.want {
			t.Errorf("%s of %q = %q, %v; want %q", c.class, c.in, got, err, c.want)
		}
	}
	for _, c := range []struct{ class, in, want string }{
		{"IntegerDeserializer", "12345", "Size of data received by IntegerDeserializer is not 4"},
		{"FloatDeserializer", "", "Size of data received by Deserializer is not 4"},
		{"BooleanDeserializer", "\x07", "Unexpected byte received by BooleanDeserializer: 7"},
		{"UUIDDeserializer", "not one", "Error parsing data into UUID"},
	} {
		if _, err := newDeserializer(serializationPackage + c.class)([]byte(c.in)); err == nil || asJava(err).message != c.want {
			t.Errorf("%s of %q: %v, want %s", c.class, c.in, err, c.want)
		}
	}
	if newDeserializer("no.such.Deserializer") != nil {
		t.Error("a class that is not Kafka's has a deserializer")
	}
}
