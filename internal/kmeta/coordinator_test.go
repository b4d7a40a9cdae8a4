package kmeta

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

var allLogs = []Log{OffsetsLog, TransactionsLog, SharesLog}

// The bytes that facts of Kafka's format were written down with.
func TestCoordinatorBytes(t *testing.T) {
	const at = 1767225600000
	id := UUID{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
	for _, test := range []struct {
		key     Key
		value   Value
		version int16
		keyHex  string
		hex     string
		json    string
	}{
		{
			&OffsetCommitKey{Group: "g1", Topic: "orders"}, &OffsetCommitValue{Offset: 42, LeaderEpoch: 5, CommitTimestamp: at}, 3,
			"0001 0002 6731 0006 6f7264657273 00000000", "0003 000000000000002a 00000005 0000 0000019b76daa800",
			`{"version":3,"data":{"offset":42,"leaderEpoch":5,"metadata":"","commitTimestamp":1767225600000}}`,
		},
		{
			&OffsetCommitKey{Group: "g1", Topic: "orders"}, &OffsetCommitValue{Offset: 42, LeaderEpoch: 5, CommitTimestamp: at, TopicID: id}, 4,
			"0001 0002 6731 0006 6f7264657273 00000000",
			"0004 000000000000002a 00000005 01 0000019b76daa800 01 00 10 000102030405060708090a0b0c0d0e0f",
			`{"version":4,"data":{"offset":42,"leaderEpoch":5,"metadata":"","commitTimestamp":1767225600000,"topicId":"AAECAwQFBgcICQoLDA0ODw"}}`,
		},
		{
			&OffsetCommitKey{Group: "g1", Topic: "t"}, &OffsetCommitValue{Offset: 4, LeaderEpoch: -1, Metadata: "m", CommitTimestamp: 1, ExpireTimestamp: 2}, 1,
			"0001 0002 6731 0001 74 00000000", "0001 0000000000000004 0001 6d 0000000000000001 0000000000000002",
			`{"version":1,"data":{"offset":4,"metadata":"m","commitTimestamp":1,"expireTimestamp":2}}`,
		},
		{
			&ConsumerGroupMetadataKey{GroupID: "g1"}, &ConsumerGroupMetadataValue{Epoch: 1}, 0,
			"0003 0002 6731", "0000 00000001 00", `{"version":0,"data":{"epoch":1}}`,
		},
		{
			&TransactionLogKey{TransactionalID: "tx1"},
			&TransactionLogValue{
				ProducerID: 4000, PreviousProducerID: -1, NextProducerID: -1, ProducerEpoch: 3, NextProducerEpoch: -1, TransactionTimeoutMs: 60000,
				TransactionStatus: 1, TransactionPartitions: []TxnPartitions{{Topic: "orders", PartitionIDs: []int32{0}}},
				TransactionLastUpdateTimestampMs: at, TransactionStartTimestampMs: at, ClientTransactionVersion: 2,
			}, 1,
			"0000 0003 747831",
			"0001 0000000000000fa0 0003 0000ea60 01 02 07 6f7264657273 02 00000000 00 0000019b76daa800 0000019b76daa800 01 02 02 0002",
			`{"version":1,"data":{"producerId":4000,"producerEpoch":3,"transactionTimeoutMs":60000,"transactionStatus":1,` +
				`"transactionPartitions":[{"topic":"orders","partitionIds":[0]}],"transactionLastUpdateTimestampMs":1767225600000,` +
				`"transactionStartTimestampMs":1767225600000,"clientTransactionVersion":2}}`,
		},
		{
			&ShareSnapshotKey{GroupID: "g", TopicID: id},
			&ShareSnapshotValue{
				LeaderEpoch: 5, StartOffset: 100, DeliveryCompleteCount: -1, CreateTimestamp: at, WriteTimestamp: at,
				StateBatches: []ShareStateBatch{{FirstOffset: 100, LastOffset: 109, DeliveryState: 2, DeliveryCount: 1}},
			}, 0,
			"0000 0001 67 000102030405060708090a0b0c0d0e0f 00000000",
			"0000 00000000 00000000 00000005 0000000000000064 0000019b76daa800 0000019b76daa800 02 0000000000000064 000000000000006d 02 0001 00 00",
			`{"version":0,"data":{"snapshotEpoch":0,"stateEpoch":0,"leaderEpoch":5,"startOffset":100,"createTimestamp":1767225600000,` +
				`"writeTimestamp":1767225600000,"stateBatches":[{"firstOffset":100,"lastOffset":109,"deliveryState":2,"deliveryCount":1}]}}`,
		},
	} {
		if got := AppendKey(nil, test.key); !bytes.Equal(got, unhex(t, test.keyHex)) {
			t.Errorf("%s = %x, want %s", test.key.TypeName(), got, test.keyHex)
		}
		if got := AppendVersioned(nil, test.value, test.version); !bytes.Equal(got, unhex(t, test.hex)) {
			t.Errorf("%s v%d = %x, want %s", test.value.TypeName(), test.version, got, test.hex)
		}
		if got := string(AppendVersionedJSON(nil, test.value, test.version, false)); got != test.json {
			t.Errorf("JSON = %s\nwant   %s", got, test.json)
		}
	}
}

func TestCoordinatorErrors(t *testing.T) {
	var unknown *KeyTypeError
	if _, err := ReadKey(OffsetsLog, unhex(t, "0009 0000")); !errors.As(err, &unknown) || err.Error() != "__consumer_offsets: unknown type 9 of key" {
		t.Errorf("type 9: %v", err)
	}
	for _, test := range []struct {
		log              Log
		key, value, want string
	}{
		{OffsetsLog, "00", "", "__consumer_offsets key v0: byte 0: 1 bytes, want a type"},
		{OffsetsLog, "0002 0002 67", "", "GroupMetadataKey v0: byte 2: string of 2, 1 bytes left"},
		{OffsetsLog, "0002 ffff", "", "GroupMetadataKey v0: byte 2: null for a string"},
		{OffsetsLog, "0002 fffe", "", "GroupMetadataKey v0: byte 2: string of -2, 0 bytes left"},
		{OffsetsLog, "0002 0001 67 00", "", "GroupMetadataKey v0: byte 3: 1 bytes too many"},
		{OffsetsLog, "0002 0001 67", "00", "GroupMetadataValue v0: byte 0: 1 bytes, want a version"},
		{OffsetsLog, "0002 0001 67", "0005", "GroupMetadataValue: unknown version 5, known are 0-4"},
		{OffsetsLog, "0002 0001 67", "0000 0000 00000000 ffff ffff 7fffffff 00", "GroupMetadataValue v0: byte 14: array of 2147483647, 1 bytes left"},
		{OffsetsLog, "0005 0001 67 0001 6d", "0000 00 00 01 01 01 00 00000000 00 01 00 01 02", "ConsumerGroupMemberMetadataValue v0: byte 15: 2 where a struct is 1 and null is 0"},
	} {
		k, err := ReadKey(test.log, unhex(t, test.key))
		if err == nil {
			_, _, err = ReadVersioned(k, unhex(t, test.value))
		}
		if err == nil || err.Error() != test.want {
			t.Errorf("%s | %s: %v; want %s", test.key, test.value, err, test.want)
		}
	}
}

// I1 for every type at its highest version.
func TestCoordinatorRoundTrip(t *testing.T) {
	for _, log := range allLogs {
		for typ := range int16(30) {
			if newKey(log, typ) == nil {
				continue
			}
			t.Run(newKey(log, typ).TypeName(), rapid.MakeCheck(func(t *rapid.T) {
				k, v := newKey(log, typ), newValue(log, typ)
				draw(t, reflect.ValueOf(k).Elem())
				draw(t, reflect.ValueOf(v).Elem())
				if v, ok := v.(*OffsetCommitValue); ok {
					v.ExpireTimestamp = -1 // of version 1 alone
				}
				backKey, err := ReadKey(log, AppendKey(nil, k))
				if err != nil || !reflect.DeepEqual(k, backKey) {
					t.Fatalf("%+v\ncomes back as %+v, %v", k, backKey, err)
				}
				back, version, err := ReadVersioned(k, AppendVersioned(nil, v, v.HighestVersion()))
				if err != nil || version != v.HighestVersion() || !reflect.DeepEqual(v, back) {
					t.Fatalf("%+v\ncomes back as %+v (v%d), %v", v, back, version, err)
				}
			}))
		}
	}
}

func TestConsumerProtocol(t *testing.T) {
	rack := "r1"
	in := ConsumerSubscription{
		Topics: []string{"a", "b"}, UserData: []byte{1}, GenerationID: 7, RackID: &rack,
		OwnedPartitions: []ConsumerTopicPartitions{{Topic: "a", Partitions: []int32{0, 1}}},
	}
	b := append(AppendSubscription(nil, &in, 3), 9, 9) // what a newer version might add
	if got, v, err := ReadSubscription(b); err != nil || v != 3 || !reflect.DeepEqual(got, in) {
		t.Errorf("%+v v%d, %v", got, v, err)
	}
	if got, v, err := ReadSubscription(AppendSubscription(nil, &in, 0)); err != nil || v != 0 || got.GenerationID != -1 || got.RackID != nil {
		t.Errorf("version 0: %+v v%d, %v", got, v, err)
	}
	for _, bad := range []string{"", "00", "ffff 00000000", "0000 7fffffff", "0001 00000000 ffffffff"} {
		if s, _, err := ReadSubscription(unhex(t, bad)); err == nil {
			t.Errorf("%q is read as %+v", bad, s)
		}
	}
}

func FuzzReadCoordinator(f *testing.F) {
	f.Add(int8(0), unhex(f, "0001 0002 6731 0006 6f7264657273 00000000"), unhex(f, "0004 000000000000002a 00000005 01 0000019b76daa800 00"))
	f.Add(int8(0), unhex(f, "0002 0001 67"), unhex(f, "0003 0000 00000000 ffff ffff 0000019b76daa800 00000000"))
	f.Add(int8(0), unhex(f, "0008 0001 67 0001 6d"), unhex(f, "0000 00000002 00000000 00 02 000102030405060708090a0b0c0d0e0f 02 00000000 01 00 05 02 00000002 01 00"))
	f.Add(int8(1), unhex(f, "0000 0003 747831"), unhex(f, "0001 0000000000000fa0 0003 0000ea60 01 00 0000019b76daa800 0000019b76daa800 00"))
	f.Add(int8(2), unhex(f, "0001 0001 67 000102030405060708090a0b0c0d0e0f 00000000"), unhex(f, "0000 00000000 00000005 0000000000000064 01 00"))
	f.Fuzz(func(t *testing.T, log int8, key, value []byte) {
		if log < 0 || log > 2 {
			return
		}
		k, err := ReadKey(Log(log), key)
		if err != nil {
			return
		}
		if again := AppendKey(nil, k); !bytes.Equal(again, key) {
			t.Fatalf("key %x is written again as %x", key, again)
		}
		_ = AppendKeyJSON(nil, k, true)
		v, version, err := ReadVersioned(k, value)
		if err != nil {
			return
		}
		_ = AppendDumpJSON(nil, v, version)
		once := AppendVersioned(nil, v, version)
		back, _, err := ReadVersioned(k, once)
		if err != nil {
			t.Fatalf("%x is not read again: %v", once, err)
		}
		if twice := AppendVersioned(nil, back, version); !bytes.Equal(once, twice) {
			t.Fatalf("%x, then %x", once, twice)
		}
	})
}
