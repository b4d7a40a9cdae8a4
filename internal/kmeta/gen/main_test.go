package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

func TestGeneratedCodeIsUpToDate(t *testing.T) {
	for _, name := range []string{"records", "coordinator"} {
		schema, err := os.ReadFile("../" + name + ".schema")
		if err != nil {
			t.Fatal(err)
		}
		have, err := os.ReadFile("../" + name + "_gen.go")
		if err != nil {
			t.Fatal(err)
		}
		want, err := generate(name+".schema", string(schema))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(have, want) {
			t.Errorf("%s_gen.go is not what %s.schema says: run go generate ./internal/kmeta", name, name)
		}
	}
}

func TestSchemaErrors(t *testing.T) {
	for _, test := range []struct{ schema, want string }{
		{"recrd 1 A versions 0-0", `line 1: "recrd 1 A versions 0-0" begins no paragraph`},
		{"record x A versions 0-0", "line 1: strconv.Atoi"},
		{"record 1 A versions 0", `line 1: versions "0"`},
		{"record 1 A versions 0-1 at 1", `line 1: step "1"`},
		{"entry metadata 1 A versions 0-1", `line 1: "entry metadata 1 A versions 0-1" begins no paragraph`},
		{"entry offsets 1 A versions 0-1 flexible x", "line 1: strconv.Atoi"},
		{"record 1 A versions 0-1 highest", `line 1: "highest" is not known here`},
		{"\tName string", "line 1: a field outside of a paragraph"},
		{"struct A\n\tName", `line 2: "Name" needs a type`},
		{"struct A\n\tName text", `line 2: no type "text"`},
		{"struct A\n\tName []bytes", `line 2: no type "[]bytes"`},
		{"struct A\n\tName string since", `line 2: "since" needs a value`},
		{"struct A\n\tName string from 1", `line 2: "from" is not known here`},
		{"struct A\n\tName int32 nullable", "line 2: a nullable int32 has no Go type here"},
	} {
		if _, err := generate("x.schema", test.schema); err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%q: error %v, want %s…", test.schema, err, test.want)
		}
	}
}

func TestNames(t *testing.T) {
	for _, test := range []struct{ kafka, goName, json, constant string }{
		{"TopicId", "TopicID", "topicId", "TOPIC_ID_RECORD"},
		{"ProducerIds", "ProducerIDs", "producerIds", "PRODUCER_IDS_RECORD"},
		{"LastKnownElr", "LastKnownELR", "lastKnownElr", "LAST_KNOWN_ELR_RECORD"},
		{"NoOp", "NoOp", "noOp", "NO_OP_RECORD"},
		{"KRaftVersion", "KRaftVersion", "kRaftVersion", "K_RAFT_VERSION_RECORD"},
	} {
		if g, j, c := goName(test.kafka), jsonName(test.kafka), constant(test.kafka); g != test.goName || j != test.json || c != test.constant {
			t.Errorf("%s: %s, %s, %s; want %s, %s, %s", test.kafka, g, j, c, test.goName, test.json, test.constant)
		}
	}
}
