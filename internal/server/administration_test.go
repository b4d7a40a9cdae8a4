package server

import (
	"reflect"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/metadata"
)

// codes collects the error codes of an answer, in their order.
func codes(v reflect.Value) (out []int64) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return codes(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			out = append(out, codes(v.Index(i))...)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			switch f := v.Type().Field(i); {
			case f.Name == "ErrorCode":
				out = append(out, v.Field(i).Int())
			case f.IsExported():
				out = append(out, codes(v.Field(i))...)
			}
		}
	}
	return out
}

// The codes are those of a Kafka 4.3.1 node without an authorizer, at every version.
func TestCodesOfClusterAdministration(t *testing.T) {
	n := startNode(t)
	createTopics(t, n, "orders")
	elect := kmsg.NewPtrElectLeadersRequest()
	elect.Topics = []kmsg.ElectLeadersRequestTopic{{Topic: "orders", Partitions: []int32{0, 99}}, {Topic: "none", Partitions: []int32{0}}}
	all := kmsg.NewPtrElectLeadersRequest()
	all.Topics = nil
	assign := func(topic string, replicas ...int32) *kmsg.AlterPartitionAssignmentsRequest {
		r := kmsg.NewPtrAlterPartitionAssignmentsRequest()
		r.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{{Topic: topic, Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{Replicas: replicas}}}}
		return r
	}
	quorum := func(topic string) *kmsg.DescribeQuorumRequest {
		r := kmsg.NewPtrDescribeQuorumRequest()
		r.Topics = []kmsg.DescribeQuorumRequestTopic{{Topic: topic, Partitions: []kmsg.DescribeQuorumRequestTopicPartition{{}}}}
		return r
	}
	create, remove := kmsg.NewPtrCreateACLsRequest(), kmsg.NewPtrDeleteACLsRequest()
	create.Creations = make([]kmsg.CreateACLsRequestCreation, 2)
	remove.Filters = make([]kmsg.DeleteACLsRequestFilter, 1)
	unknown, self := kmsg.NewPtrUnregisterBrokerRequest(), kmsg.NewPtrUnregisterBrokerRequest()
	unknown.BrokerID, self.BrokerID = 999, n.id
	voter := kmsg.NewPtrRemoveRaftVoterRequest()
	voter.VoterDirectoryID[0] = 1
	for _, c := range []struct {
		name   string
		lowest int16
		req    kmsg.Request
		want   []int64
	}{
		{"describe acls", 1, kmsg.NewPtrDescribeACLsRequest(), []int64{54}},
		{"create acls", 1, create, []int64{54, 54}},
		{"delete acls", 1, remove, []int64{54}},
		{"create token", 1, kmsg.NewPtrCreateDelegationTokenRequest(), []int64{64}},
		{"renew token", 1, kmsg.NewPtrRenewDelegationTokenRequest(), []int64{64}},
		{"expire token", 1, kmsg.NewPtrExpireDelegationTokenRequest(), []int64{64}},
		{"describe tokens", 1, kmsg.NewPtrDescribeDelegationTokenRequest(), []int64{64}},
		{"elect all", 1, all, []int64{0}},
		{"elect", 1, elect, []int64{0, 84, 3, 3}},
		{"cancel", 0, assign("orders"), []int64{0, 85}},
		{"reassign to itself", 0, assign("orders", n.id), []int64{0, 0}},
		{"reassign to nobody", 0, assign("orders", []int32{}...), []int64{0, 39}},
		{"reassign to a stranger", 0, assign("orders", 9), []int64{0, 39}},
		{"reassign twice to one", 0, assign("orders", n.id, n.id), []int64{0, 39}},
		{"reassign what is not there", 0, assign("none", n.id), []int64{0, 3}},
		{"list reassignments", 0, kmsg.NewPtrListPartitionReassignmentsRequest(), []int64{0}},
		{"describe quotas", 0, kmsg.NewPtrDescribeClientQuotasRequest(), []int64{0}},
		{"quorum", 0, quorum(metadataTopic), []int64{0, 0}},
		{"quorum of another log", 0, quorum("orders"), []int64{0, 3}},
		{"no features", 0, kmsg.NewPtrUpdateFeaturesRequest(), []int64{0}},
		{"unregister a stranger", 0, unknown, []int64{102}},
		{"unregister itself", 0, self, []int64{42}},
		{"add voter", 0, kmsg.NewPtrAddRaftVoterRequest(), []int64{42}},
		{"remove voter", 0, kmsg.NewPtrRemoveRaftVoterRequest(), []int64{42}},
		{"remove from a static quorum", 0, voter, []int64{35}},
	} {
		for version := c.lowest; version <= c.req.MaxVersion(); version++ {
			got := codes(reflect.ValueOf(ask[kmsg.Response](t, n.Addr(), version, c.req)))
			if !slices.Equal(got, c.want) {
				t.Errorf("%s v%d: codes %v, want %v", c.name, version, got, c.want)
			}
		}
	}
}

func TestClientQuotas(t *testing.T) {
	n := startNode(t)
	name := func(s string) *string { return &s }
	alter := func(key string, value float64, remove bool, entity ...kmsg.AlterClientQuotasRequestEntryEntity) string {
		r := kmsg.NewPtrAlterClientQuotasRequest()
		r.Entries = []kmsg.AlterClientQuotasRequestEntry{{Entity: entity, Ops: []kmsg.AlterClientQuotasRequestEntryOp{{Key: key, Value: value, Remove: remove}}}}
		e := ask[*kmsg.AlterClientQuotasResponse](t, n.Addr(), 1, r).Entries[0]
		if (e.ErrorCode == 0) != (e.ErrorMessage == nil) || e.ErrorCode != 0 && e.ErrorCode != 42 {
			t.Errorf("code %d with message %v", e.ErrorCode, e.ErrorMessage)
		}
		if e.ErrorMessage == nil {
			return ""
		}
		return *e.ErrorMessage
	}
	type part = kmsg.AlterClientQuotasRequestEntryEntity
	ann, app, anyIP := part{Type: "user", Name: name("ann")}, part{Type: "client-id", Name: name("app")}, part{Type: "ip"}
	for _, c := range []struct{ got, want string }{
		{alter("producer_byte_rate", 1024, false, ann), ""},
		{alter("request_percentage", 12.5, false, app, ann), ""},
		{alter("controller_mutation_rate", 5, false, part{Type: "user"}), ""},
		{alter("connection_creation_rate", 10, false, anyIP), ""},
		{alter("producer_byte_rate", 1.5, false, ann), "producer_byte_rate cannot be a fractional value."},
		{alter("producer_byte_rate", 0, false, ann), "Quota producer_byte_rate must be greater than 0"},
		{alter("connection_creation_rate", 1, false, ann), "Invalid configuration key connection_creation_rate"},
		{alter("connection_creation_rate", 1<<40, false, anyIP), "Proposed value for connection_creation_rate is too large for an INT."},
		{alter("producer_byte_rate", 1, false), "Invalid empty client quota entity"},
		{alter("producer_byte_rate", 1, false, part{Type: "frob"}), "Unhandled client quota entity type: frob"},
		{alter("producer_byte_rate", 1, false, part{Type: "user", Name: name("")}), "Empty user not supported"},
		{alter("connection_creation_rate", 1, true, anyIP), ""},
	} {
		if c.got != c.want {
			t.Errorf("said %q, want %q", c.got, c.want)
		}
	}
	count := func(strict bool, components ...kmsg.DescribeClientQuotasRequestComponent) int {
		r := kmsg.NewPtrDescribeClientQuotasRequest()
		r.Strict, r.Components = strict, components
		resp := ask[*kmsg.DescribeClientQuotasResponse](t, n.Addr(), 1, r)
		if resp.ErrorCode != 0 {
			return -int(resp.ErrorCode)
		}
		return len(resp.Entries)
	}
	type filter = kmsg.DescribeClientQuotasRequestComponent
	for _, c := range []struct {
		name      string
		got, want int
	}{
		{"all", count(false), 3},
		{"ann", count(false, filter{EntityType: "user", Match: name("ann")}), 2},
		{"ann alone", count(true, filter{EntityType: "user", Match: name("ann")}), 1},
		{"default user", count(false, filter{EntityType: "user", MatchType: matchDefault}), 1},
		{"any user", count(false, filter{EntityType: "user", MatchType: matchAny}), 3},
		{"any client", count(false, filter{EntityType: "client-id", MatchType: matchAny}), 1},
		{"an ip, whose quota was removed", count(false, filter{EntityType: "ip", MatchType: matchAny}), 0},
		{"exact without a name", count(false, filter{EntityType: "user"}), -42},
		{"unknown type", count(false, filter{EntityType: "frob", MatchType: matchAny}), -35},
		{"ip and user", count(false, filter{EntityType: "ip", MatchType: matchAny}, filter{EntityType: "user", MatchType: matchAny}), -42},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d entries, want %d", c.name, c.got, c.want)
		}
	}
}

func TestUpdateFeatures(t *testing.T) {
	n := startNode(t)
	update := func(feature string, level int16, kind int8, validate bool) (int16, string) {
		r := kmsg.NewPtrUpdateFeaturesRequest()
		r.ValidateOnly = validate
		r.FeatureUpdates = []kmsg.UpdateFeaturesRequestFeatureUpdate{{Feature: feature, MaxVersionLevel: level, UpgradeType: kind}}
		resp := ask[*kmsg.UpdateFeaturesResponse](t, n.Addr(), 2, r)
		if resp.ErrorMessage == nil {
			return resp.ErrorCode, ""
		}
		return resp.ErrorCode, *resp.ErrorMessage
	}
	const failed = "The update failed for all features since the following feature had an error: "
	for _, c := range []struct {
		feature  string
		level    int16
		kind     int8
		validate bool
		message  string
		after    int16
	}{
		{"group.version", 1, 1, false, "", 1},
		{"transaction.version", 1, 2, true, "", 2},
		{"transaction.version", 1, 2, false, "", 1},
		{"transaction.version", 2, 1, false, "", 2},
		{"streams.version", 0, 2, false, "", 0},
		{"streams.version", 1, 1, false, "", 1},
		{"group.version", 7, 1, false, failed + "Invalid update version 7 for feature group.version. Local controller 1 only supports versions 0-1", 1},
		{"frob", 1, 1, false, failed + "Invalid update version 1 for feature frob. Local controller 1 does not support this feature.", 0},
		{"frob", 0, 3, false, failed + "Invalid update version 0 for feature frob. Feature frob not found.", 0},
		{"kraft.version", 1, 2, false, failed + "Invalid update version 1 for feature kraft.version. Can't downgrade to a newer version.", 0},
		{"metadata.version", 27, 2, false, failed + "Unsupported metadata.version downgrade from 30 to 27. Refusing to perform the requested downgrade because it might delete metadata information.", 30},
		{metadata.ELRVersion, 0, 2, false, "", 0},
		{metadata.ELRVersion, 1, 1, false, "", 1},
	} {
		code, message := update(c.feature, c.level, c.kind, c.validate)
		if message != c.message || (code == 95) != (c.message != "") || code != 95 && code != 0 {
			t.Errorf("%s=%d: code %d, %q, want %q", c.feature, c.level, code, message, c.message)
		}
		if got := n.controller.Image().Feature(c.feature); got != c.after {
			t.Errorf("%s=%d left level %d, want %d", c.feature, c.level, got, c.after)
		}
	}
}
