package kmeta

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestValueBytes(t *testing.T) {
	name := "Bootstrap records"
	for _, test := range []struct {
		r       Record
		version int16
		want    string
		json    string
	}{
		{
			&FeatureLevelRecord{Name: "metadata.version", FeatureLevel: 30}, 0,
			"01 0c 00 11 6d657461646174612e76657273696f6e 001e 00",
			`{"type":"FEATURE_LEVEL_RECORD","version":0,"data":{"name":"metadata.version","featureLevel":30}}`,
		},
		{&NoOpRecord{}, 0, "01 14 00 00", `{"type":"NO_OP_RECORD","version":0,"data":{}}`},
		{
			&BeginTransactionRecord{Name: &name}, 0,
			"01 17 00 01 00 12 12 426f6f747374726170207265636f726473",
			`{"type":"BEGIN_TRANSACTION_RECORD","version":0,"data":{"name":"Bootstrap records"}}`,
		},
		{
			// Tags go out in ascending order, the directories' (8) after the ELR's (6), though the JSON form has them before.
			&PartitionChangeRecord{
				PartitionID: 3, TopicID: UUID{15: 7}, ISR: []int32{}, Leader: -1, LeaderRecoveryState: -1,
				Directories: []UUID{{15: 9}}, EligibleLeaderReplicas: []int32{1},
			}, 2,
			"01 05 02 00000003 00000000000000000000000000000007 04" +
				"00 01 01" + "01 04 ffffffff" + "06 05 02 00000001" + "08 11 02 00000000000000000000000000000009",
			`{"type":"PARTITION_CHANGE_RECORD","version":2,"data":{"partitionId":3,"topicId":"AAAAAAAAAAAAAAAAAAAABw","isr":[],` +
				`"leader":-1,"directories":["AAAAAAAAAAAAAAAAAAAACQ"],"eligibleLeaderReplicas":[1]}}`,
		},
		{
			// Unknown tags come between the known ones.
			&BrokerRegistrationChangeRecord{
				BrokerID: 1, BrokerEpoch: 2, InControlledShutdown: 1, CordonedLogDirs: []UUID{},
				UnknownTags: []Tag{{2, []byte("b")}, {9, []byte{}}},
			}, 3,
			"01 11 03 00000001 0000000000000002 04" + "01 01 01" + "02 01 62" + "03 01 01" + "09 00",
			`{"type":"BROKER_REGISTRATION_CHANGE_RECORD","version":3,"data":{"brokerId":1,"brokerEpoch":2,"inControlledShutdown":1,"cordonedLogDirs":[]}}`,
		},
		{
			// What a version cannot say is left out.
			&PartitionRecord{PartitionID: 1, Replicas: []int32{5}, Leader: 5, Directories: []UUID{{1}}, LastKnownELR: []int32{2}}, 0,
			"01 03 00 00000001 00000000000000000000000000000000 02 00000005 01 01 01 00000005 00000000 00000000 00",
			`{"type":"PARTITION_RECORD","version":0,"data":{"partitionId":1,"topicId":"AAAAAAAAAAAAAAAAAAAAAA","replicas":[5],"isr":[],` +
				`"removingReplicas":[],"addingReplicas":[],"leader":5,"leaderEpoch":0,"partitionEpoch":0}}`,
		},
	} {
		got := AppendValue([]byte("x"), test.r, test.version)
		if !bytes.Equal(got[1:], unhex(t, test.want)) {
			t.Errorf("%s v%d = %x, want %s", test.r.TypeName(), test.version, got[1:], test.want)
		}
		if json := string(AppendJSON(nil, test.r, test.version)); json != test.json {
			t.Errorf("JSON = %s\nwant   %s", json, test.json)
		}
	}
}

func TestControlBytes(t *testing.T) {
	for _, test := range []struct {
		c          ControlRecord
		want, json string
	}{
		{
			&LeaderChange{LeaderID: 1, Voters: []Voter{{VoterID: 1}}, GrantingVoters: []Voter{{VoterID: 1}}},
			"0000 00000001 02 00000001 00 02 00000001 00 00",
			`{"version":0,"leaderId":1,"voters":[{"voterId":1}],"grantingVoters":[{"voterId":1}]}`,
		},
		{
			&LeaderChange{LeaderID: 1, Voters: []Voter{{VoterID: 1, VoterDirectoryID: UUID{15: 3}}}},
			"0001 00000001 02 00000001 00000000000000000000000000000003 00 01 00",
			`{"version":1,"leaderId":1,"voters":[{"voterId":1,"voterDirectoryId":"AAAAAAAAAAAAAAAAAAAAAw"}],"grantingVoters":[]}`,
		},
		{&SnapshotHeader{}, "0000 0000000000000000 00", `{"version":0,"lastContainedLogTimestamp":0}`},
		{&SnapshotFooter{}, "0000 00", `{"version":0}`},
		{&KRaftVersion{KRaftVersion: 1}, "0000 0001 00", `{"version":0,"kRaftVersion":1}`},
	} {
		got := AppendControl(nil, test.c, -1)
		if !bytes.Equal(got, unhex(t, test.want)) {
			t.Errorf("%s = %x, want %s", test.c.TypeName(), got, test.want)
		}
		back, v, err := ReadControl(test.c.ControlType(), got)
		if err != nil || !reflect.DeepEqual(back, test.c) {
			t.Errorf("%s comes back as %+v, %v", test.c.TypeName(), back, err)
		} else if json := string(AppendControlJSON(nil, back, v)); json != test.json {
			t.Errorf("JSON = %s\nwant   %s", json, test.json)
		}
	}
}

func TestReadValueErrors(t *testing.T) {
	for _, test := range []struct{ name, src, want string }{
		{"empty", "", "metadata record: byte 0: varint of 1 bytes, 0 left"},
		{"other frame", "69 0c 00", "metadata record: byte 0: frame version 105, want 1"},
		{"unused type", "01 06 00 00", "unknown metadata record type 6, version 0"},
		{"type to come", "01 1d 02 00", "unknown metadata record type 29, version 2"},
		{"type over 16 bits", "01 8080 04 00 00", "unknown metadata record type 65536, version 0"},
		{"version to come", "01 02 01 00", "TOPIC_RECORD: unknown version 1, known are 0-0"},
		{"version before", "01 11 04", "BROKER_REGISTRATION_CHANGE_RECORD: unknown version 4, known are 0-3"},
		{"endless varint", "01 ff ff ff ff ff ff", "metadata record: byte 6: varint over 32 bits"},
		{"varint of 35 bits", "01 ff ff ff ff 7f", "metadata record: byte 6: varint over 32 bits"},
		{"short", "01 01 00 00000001 0000", "UNREGISTER_BROKER_RECORD v0: byte 7: int64 of 8 bytes, 2 left"},
		{"long string", "01 1c 00 ffffffff0f 61", "CLEAR_ELR_RECORD v0: byte 8: string of 4294967294, 1 bytes left"},
		{"null string", "01 1c 00 00 00", "CLEAR_ELR_RECORD v0: byte 4: null for a string"},
		{"null bytes", "01 0b 00 02 61 01 00", "USER_SCRAM_CREDENTIAL_RECORD v0: byte 7: null for bytes"},
		{"null array", "01 0e 00 00 00", "CLIENT_QUOTA_RECORD v0: byte 4: null for an array"},
		{"array of more than there is", "01 03 00 00000001 00000000000000000000000000000000 80808001 00000005",
			"PARTITION_RECORD v0: byte 27: array of 2097151, 4 bytes left"},
		{"bytes after", "01 14 00 00 00", "NO_OP_RECORD v0: byte 4: 1 bytes too many"},
		{"tags out of order", "01 14 00 02 03 00 02 00", "NO_OP_RECORD v0: byte 7: tag 2 after 3"},
		{"a tag twice", "01 14 00 02 03 00 03 00", "NO_OP_RECORD v0: byte 7: tag 3 after 3"},
		{"tag longer than what is left", "01 14 00 01 03 05 00", "NO_OP_RECORD v0: byte 6: tag 3 of 5 bytes, 1 left"},
		{"tag longer than its field", "01 11 00 00000001 0000000000000002 01 00 02 01 00",
			"BROKER_REGISTRATION_CHANGE_RECORD v0: byte 19: tag 0 has 1 bytes too many"},
		{"field longer than its tag", "01 17 00 01 00 02 12 61", "BEGIN_TRANSACTION_RECORD v0: byte 7: string of 17, 1 bytes left"},
		{"more tags than there are", "01 14 00 ffffffff0f", "NO_OP_RECORD v0: byte 8: varint of 1 bytes, 0 left"},
	} {
		if r, _, err := ReadValue(unhex(t, test.src)); err == nil || err.Error() != test.want {
			t.Errorf("%s: %+v, %v; want %s", test.name, r, err, test.want)
		}
	}
	var typeErr *TypeError
	if _, _, err := ReadControl(7, unhex(t, "0000 00")); !errors.As(err, &typeErr) || err.Error() != "unknown control record type 7" {
		t.Errorf("control type 7: %v", err)
	}
	var versionErr *VersionError
	if _, _, err := ReadControl(4, unhex(t, "ffff 00")); !errors.As(err, &versionErr) || err.Error() != "SnapshotFooter: unknown version -1, known are 0-0" {
		t.Errorf("footer of version -1: %v", err)
	}
	if _, _, err := ReadControl(4, []byte{0}); err == nil {
		t.Error("a control record of one byte was read")
	}
}

// A count that lies costs no memory.
func TestReadAllocates(t *testing.T) {
	hostile := unhex(t, "01 1b 00 00000001 00000000000000000000000000000000 00 feffffff0f 00 00 00 00")
	if n := testing.AllocsPerRun(100, func() { _, _, _ = ReadValue(hostile) }); n > 10 {
		t.Errorf("%v allocations for a count that lies", n)
	}
}

func TestVersionAt(t *testing.T) {
	for _, test := range []struct {
		r     Record
		level int16
		want  int16
	}{
		{&RegisterBrokerRecord{}, 7, 1},
		{&RegisterBrokerRecord{}, 8, 2},
		{&RegisterBrokerRecord{}, 16, 2},
		{&RegisterBrokerRecord{}, 17, 3},
		{&RegisterBrokerRecord{}, 29, 3},
		{&RegisterBrokerRecord{}, 30, 4},
		{&PartitionRecord{}, 16, 0},
		{&PartitionRecord{}, 22, 1},
		{&PartitionRecord{}, 23, 2},
		{NewPartitionChangeRecord(), 30, 2},
		{&BrokerRegistrationChangeRecord{Fenced: -1}, 30, 0},
		{&BrokerRegistrationChangeRecord{InControlledShutdown: 1}, 30, 1},
		{&BrokerRegistrationChangeRecord{LogDirs: []UUID{{1}}}, 30, 2},
		{&BrokerRegistrationChangeRecord{CordonedLogDirs: []UUID{}}, 30, 3},
		{&TopicRecord{}, 30, 0},
	} {
		if got := VersionAt(test.r, test.level); got != test.want {
			t.Errorf("%+v at %d: version %d, want %d", test.r, test.level, got, test.want)
		}
	}
}

// I1, for every type at every version that can say what the record says.
func TestRoundTrip(t *testing.T) {
	for typ := range int16(100) {
		empty := newRecord(typ)
		if empty == nil {
			continue
		}
		t.Run(empty.TypeName(), rapid.MakeCheck(func(t *rapid.T) {
			r := newRecord(typ)
			draw(t, reflect.ValueOf(r).Elem())
			for v := r.LowestVersion(); v <= r.HighestVersion(); v++ {
				b := AppendValue(nil, r, v)
				back, version, err := ReadValue(b)
				if err != nil || version != v || !reflect.DeepEqual(r, back) {
					t.Fatalf("v%d: %+v\ncomes back as %+v (v%d), %v", v, r, back, version, err)
				}
			}
		}))
	}
	for typ := range int16(10) {
		if newControl(typ) == nil {
			continue
		}
		t.Run(newControl(typ).TypeName(), rapid.MakeCheck(func(t *rapid.T) {
			c := newControl(typ)
			draw(t, reflect.ValueOf(c).Elem())
			for v := c.LowestVersion(); v <= c.HighestVersion(); v++ {
				back, version, err := ReadControl(typ, AppendControl(nil, c, v))
				if err != nil || version != v || !reflect.DeepEqual(c, back) {
					t.Fatalf("v%d: %+v\ncomes back as %+v (v%d), %v", v, c, back, version, err)
				}
			}
		}))
	}
}

// draw fills v with anything that reads back as it was: lists are nil rather than empty, since those that are not nullable come
// back so.
func draw(t *rapid.T, v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(rapid.Int64().Draw(t, "int") >> (64 - v.Type().Bits()))
	case reflect.Uint8, reflect.Uint16:
		v.SetUint(rapid.Uint64().Draw(t, "uint") >> (64 - v.Type().Bits()))
	case reflect.Float64:
		v.SetFloat(rapid.Float64().Draw(t, "float"))
	case reflect.String:
		v.SetString(rapid.StringN(0, 200, -1).Draw(t, "string"))
	case reflect.Array:
		for i := range v.Len() {
			draw(t, v.Index(i))
		}
	case reflect.Pointer:
		if rapid.Bool().Draw(t, "null") {
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		draw(t, v.Elem())
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[[]Tag]() {
			num := uint32(20) // above all that are known
			for range rapid.IntRange(0, 2).Draw(t, "tags") {
				num += rapid.Uint32Range(1, 1000).Draw(t, "gap")
				v.Set(reflect.Append(v, reflect.ValueOf(Tag{num, rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "data")})))
			}
			return
		}
		for range rapid.IntRange(0, 3).Draw(t, "len") {
			e := reflect.New(v.Type().Elem()).Elem()
			draw(t, e)
			v.Set(reflect.Append(v, e))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			draw(t, v.Field(i))
		}
	default:
		t.Fatalf("no way to draw a %s", v.Type())
	}
}

func TestJSONValues(t *testing.T) {
	for _, test := range []struct {
		v    float64
		want string
	}{
		{0, "0.0"}, {math.Copysign(0, -1), "-0.0"}, {1, "1.0"}, {12.5, "12.5"}, {1048576, "1048576.0"}, {9999999, "9999999.0"},
		{1e7, "1.0E7"}, {-12345678, "-1.2345678E7"}, {0.001, "0.001"}, {0.00025, "2.5E-4"}, {1e300, "1.0E300"},
		{math.NaN(), `"NaN"`}, {math.Inf(1), `"Infinity"`}, {math.Inf(-1), `"-Infinity"`},
	} {
		if got := string(jsonFloat64(nil, test.v)); got != test.want {
			t.Errorf("%v = %s, want %s", test.v, got, test.want)
		}
	}
	if got, want := string(jsonString(nil, "a\"\\\b\t\n\f\r\x00\x1f/<é\u2028\xff")), `"a\"\\\b\t\n\f\r\u0000\u001F/<é`+"\u2028\ufffd\""; got != want {
		t.Errorf("string = %s, want %s", got, want)
	}
}

func TestUUID(t *testing.T) {
	u := UUID{0xde, 0xad, 15: 0xff}
	if s := u.String(); s != "3q0AAAAAAAAAAAAAAAAA_w" {
		t.Errorf("text form %s", s)
	} else if back, err := ParseUUID(s); err != nil || back != u {
		t.Errorf("%s is read as %v, %v", s, back, err)
	}
	for _, bad := range []string{"", "3q0AAAAAAAAAAAAAAAAA_", "3q0AAAAAAAAAAAAAAAAA_w=", "3q0AAAAAAAAAAAAAAAAA+w", "3q0AAAAAAAAAAAAAAAAA_ww"} {
		if u, err := ParseUUID(bad); err == nil {
			t.Errorf("%q is read as %v", bad, u)
		}
	}
	for range 1000 {
		if u := RandomUUID(); u.IsReserved() || u.String()[0] == '-' {
			t.Fatalf("drew %v", u)
		}
	}
	if !MetadataTopicID.IsReserved() || !(UUID{15: 99}).IsReserved() || (UUID{15: 100}).IsReserved() || (UUID{0: 1}).IsReserved() {
		t.Error("not the first hundred are reserved")
	}
}

func FuzzReadValue(f *testing.F) {
	name := "orders"
	for _, r := range []Record{
		&RegisterBrokerRecord{Rack: &name, EndPoints: []Endpoint{{Name: name}}, Features: []Feature{{Name: name}}, CordonedLogDirs: []UUID{}},
		&PartitionRecord{Replicas: []int32{1}, LeaderRecoveryState: 1, Directories: []UUID{{}}, LastKnownELR: []int32{}},
		&ClientQuotaRecord{Entity: []EntityData{{EntityType: name}}, Value: math.NaN()},
		&UserScramCredentialRecord{Name: name, Salt: []byte(name)},
		&AbortTransactionRecord{Reason: &name, UnknownTags: []Tag{{7, []byte(name)}}},
	} {
		f.Add(AppendValue(nil, r, r.HighestVersion()))
	}
	f.Add(unhex(f, "01 1b 00 00000001 00000000000000000000000000000000 00 feffffff0f 00"))
	f.Fuzz(func(t *testing.T, src []byte) {
		r, v, err := ReadValue(src)
		if err != nil {
			return
		}
		_ = AppendJSON(nil, r, v)
		// Bytes may come in more than one form (a varint with zeros before it, a tag with its default); a record has one.
		once := AppendValue(nil, r, v)
		again, _, err := ReadValue(once)
		if err != nil {
			t.Fatalf("%x is not read again: %v", once, err)
		}
		if twice := AppendValue(nil, again, v); !bytes.Equal(once, twice) {
			t.Fatalf("%x, then %x", once, twice)
		}
	})
}

func FuzzReadControl(f *testing.F) {
	f.Add(int16(6), AppendControl(nil, &KRaftVoters{Voters: []QuorumVoter{{VoterID: 1, Endpoints: []VoterEndpoint{{Name: "C", Host: "h", Port: 9}}}}}, 0))
	f.Add(int16(2), unhex(f, "0001 00000001 02 00000001 00000000000000000000000000000003 00 01 00"))
	f.Fuzz(func(t *testing.T, typ int16, src []byte) {
		c, v, err := ReadControl(typ, src)
		if err != nil {
			return
		}
		once := AppendControl(nil, c, v)
		again, _, err := ReadControl(typ, once)
		if err != nil {
			t.Fatalf("%x is not read again: %v", once, err)
		}
		if twice := AppendControl(nil, again, v); !bytes.Equal(once, twice) {
			t.Fatalf("%x, then %x", once, twice)
		}
	})
}
