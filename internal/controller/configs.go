package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/config"
	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/metadata"
)

// In Kafka the broker that is asked checks a change by its own settings, then hands it to the controller, which checks it by the
// cluster's. Here both happen in one decision, in that order, so that whoever fails first has Kafka's code and words.
// Levels of loggers are no metadata: the server changes them, and a wish for one that comes here is refused.

// configValueMax bounds a stored value, in UTF-16 units: Kafka's own bound, so that either can read the other's log.
const configValueMax = 32767

// A configChange is one resource of AlterConfigs or IncrementalAlterConfigs.
type configChange struct {
	resource int8
	name     string
	ops      []configOp
	// whole: what ops do not name is deleted (AlterConfigs).
	whole bool
	err   error
}

// A configOp changes one key.
type configOp struct {
	key   string
	op    kmsg.IncrementalAlterConfigOp
	value *string
}

// AlterConfigs replaces all values of each resource. Resources are decided each by itself; what is good is written as one batch.
func (c *Controller) AlterConfigs(ctx context.Context, r *kmsg.AlterConfigsRequest) *kmsg.AlterConfigsResponse {
	changes := make([]configChange, len(r.Resources))
	for i := range r.Resources {
		in := &r.Resources[i]
		changes[i] = configChange{resource: int8(in.ResourceType), name: in.ResourceName, whole: true}
		for _, kv := range in.Configs {
			changes[i].ops = append(changes[i].ops, configOp{kv.Name, kmsg.IncrementalAlterConfigOpSet, kv.Value})
		}
	}
	c.alter(ctx, changes, r.ValidateOnly)
	resp := r.ResponseKind().(*kmsg.AlterConfigsResponse)
	for _, ch := range changes {
		out := kmsg.NewAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName = kmsg.ConfigResourceType(ch.resource), ch.name
		out.ErrorCode, out.ErrorMessage = answer(ch.err)
		resp.Resources = append(resp.Resources, out)
	}
	return resp
}

// IncrementalAlterConfigs changes single values of each resource.
func (c *Controller) IncrementalAlterConfigs(ctx context.Context, r *kmsg.IncrementalAlterConfigsRequest) *kmsg.IncrementalAlterConfigsResponse {
	changes := make([]configChange, len(r.Resources))
	for i := range r.Resources {
		in := &r.Resources[i]
		changes[i] = configChange{resource: int8(in.ResourceType), name: in.ResourceName}
		for _, kv := range in.Configs {
			changes[i].ops = append(changes[i].ops, configOp{kv.Name, kv.Op, kv.Value})
		}
	}
	c.alter(ctx, changes, r.ValidateOnly)
	resp := r.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
	for _, ch := range changes {
		out := kmsg.NewIncrementalAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName = kmsg.ConfigResourceType(ch.resource), ch.name
		out.ErrorCode, out.ErrorMessage = answer(ch.err)
		resp.Resources = append(resp.Resources, out)
	}
	return resp
}

// alter decides changes and, unless validateOnly, writes what is good of them. Each change's err says what became of it.
func (c *Controller) alter(ctx context.Context, changes []configChange, validateOnly bool) {
	err := c.write(ctx, func(d draft) ([]kmeta.Record, error) {
		recs := c.decideChanges(d.img, changes)
		if validateOnly {
			return nil, nil
		}
		return recs, nil
	})
	for i := range changes {
		if changes[i].err == nil {
			changes[i].err = err
		}
	}
}

// decideChanges returns the records of those changes that may be, and leaves in the others' err why not.
func (c *Controller) decideChanges(img *metadata.Image, changes []configChange) []kmeta.Record {
	checkForm(changes)
	var recs []kmeta.Record
	for i := range changes {
		ch := &changes[i]
		if ch.err != nil {
			continue
		}
		own, err := c.decideChange(img, ch)
		if err != nil {
			ch.err = err
			continue
		}
		recs = append(recs, own...)
	}
	return append(recs, clearELR(img, recs)...)
}

// checkForm refuses what no state of the cluster could make good.
func checkForm(changes []configChange) {
	type resource struct {
		kind int8
		name string
	}
	named := make(map[resource]int, len(changes))
	for i := range changes {
		named[resource{changes[i].resource, changes[i].name}]++
	}
	for i := range changes {
		ch := &changes[i]
		if named[resource{ch.resource, ch.name}] > 1 {
			ch.err = refuse(kerr.InvalidRequest, "Each resource must appear at most once.")
			continue
		}
		ch.err = checkOps(ch.ops)
	}
}

func checkOps(ops []configOp) error {
	seen := make(map[string]bool, len(ops))
	var null []string
	for _, op := range ops {
		if seen[op.key] {
			return refuse(kerr.InvalidRequest, "Error due to duplicate config keys")
		}
		seen[op.key] = true
		if op.value == nil && op.op != kmsg.IncrementalAlterConfigOpDelete {
			null = append(null, op.key)
		}
	}
	if len(null) > 0 {
		return refuse(kerr.InvalidRequest, "Null value not supported for : "+strings.Join(null, ", "))
	}
	for _, op := range ops {
		if op.op < kmsg.IncrementalAlterConfigOpSet || op.op > kmsg.IncrementalAlterConfigOpSubtract {
			return refuse(kerr.InvalidRequest, fmt.Sprintf("Unknown operation type %d for config key: %s", int8(op.op), op.key))
		}
	}
	return nil
}

// decideChange checks one resource's change by img, and returns the records of what it changes.
func (c *Controller) decideChange(img *metadata.Image, ch *configChange) ([]kmeta.Record, error) {
	table, err := c.checkResource(ch)
	if err != nil {
		return nil, err
	}
	before := img.Configs(ch.resource, ch.name)
	after, err := apply(table, before, ch)
	if err != nil {
		return nil, err
	}
	if ch.resource == metadata.BrokerResource {
		if err := config.CheckDynamic(after, ch.name != "", c.Layers(img, c.options.NodeID)); err != nil {
			// INVALID_REQUEST, though it is the value that is invalid: Kafka's broker says so, since long ago.
			return nil, refuse(kerr.InvalidRequest, err.Error())
		}
	}
	recs := difference(ch, before, after)
	if err := checkRecords(img, ch, recs); err != nil {
		return nil, err
	}
	if err := c.checkValues(img, ch, after); err != nil {
		return nil, err
	}
	if ch.resource == metadata.TopicResource && img.Topic(ch.name) == nil {
		return nil, refuse(kerr.UnknownTopicOrPartition, "The topic '"+ch.name+"' does not exist.")
	}
	return recs, nil
}

// checkResource checks whom the change is for, and returns the table of its options.
func (c *Controller) checkResource(ch *configChange) ([]config.Option, error) {
	switch ch.resource {
	case metadata.TopicResource:
		return config.Topic(), nil
	case metadata.BrokerResource:
		if ch.name == "" {
			return config.Broker(), nil
		}
		id, err := strconv.ParseInt(ch.name, 10, 32)
		if err != nil {
			return nil, refuse(kerr.InvalidRequest, "Node id must be an integer, but it is: "+ch.name)
		}
		if int32(id) != c.options.NodeID {
			return nil, refuse(kerr.InvalidRequest, fmt.Sprintf("Unexpected broker id, expected %d, but received %s", c.options.NodeID, ch.name))
		}
		ch.name = strconv.Itoa(int(id)) // "01" would be stored beside "1", and never found
		return config.Broker(), nil
	case metadata.ClientMetricsResource:
		return config.ClientMetrics(), nil
	case metadata.GroupResource:
		return config.Group(), nil
	}
	return nil, refuse(kerr.InvalidRequest, fmt.Sprintf("Unknown resource type %d", ch.resource))
}

// apply returns the values that a resource has after the change.
func apply(table []config.Option, before map[string]string, ch *configChange) (map[string]string, error) {
	after := map[string]string{}
	if !ch.whole {
		maps.Copy(after, before)
	}
	for _, op := range ch.ops {
		switch op.op {
		case kmsg.IncrementalAlterConfigOpSet:
			after[op.key] = *op.value
		case kmsg.IncrementalAlterConfigOpDelete:
			delete(after, op.key)
		default:
			o, ok := config.Lookup(table, op.key)
			if !ok || o.Type != config.List {
				return nil, refuseListOp(ch.resource, op, ok)
			}
			old, set := before[op.key]
			if !set {
				old = o.Default
			}
			after[op.key] = changeList(old, *op.value, op.op == kmsg.IncrementalAlterConfigOpAppend)
		}
	}
	return after, nil
}

func refuseListOp(resource int8, op configOp, known bool) error {
	name, verb := "APPEND", "append"
	if op.op == kmsg.IncrementalAlterConfigOpSubtract {
		name, verb = "SUBTRACT", "subtract"
	}
	switch {
	case resource == metadata.BrokerResource && !known:
		return refuse(kerr.InvalidConfig, "Unknown config name: "+op.key)
	case resource == metadata.BrokerResource:
		return refuse(kerr.InvalidConfig, "Config value "+verb+" is not allowed for config key: "+op.key)
	}
	return refuse(kerr.InvalidConfig, "Can't "+name+" to key "+op.key+" because its type is not LIST.")
}

// changeList adds the items that are missing, or takes the items away. An empty list has no first comma.
func changeList(old, items string, add bool) string {
	list := slices.DeleteFunc(strings.Split(old, ","), func(s string) bool { return s == "" })
	for item := range strings.SplitSeq(items, ",") {
		has := slices.Index(list, item)
		switch {
		case add && has < 0 && item != "":
			list = append(list, item)
		case !add && has >= 0:
			list = slices.Delete(list, has, has+1)
		}
	}
	return strings.Join(list, ",")
}

// difference returns what must be recorded, by key. Strings are copied: those of a request are views of its frame.
func difference(ch *configChange, before, after map[string]string) []kmeta.Record {
	var recs []kmeta.Record
	add := func(key string, value *string) {
		recs = append(recs, &kmeta.ConfigRecord{ResourceType: ch.resource, ResourceName: strings.Clone(ch.name), Name: strings.Clone(key), Value: value})
	}
	keys := map[string]bool{}
	for key := range before {
		keys[key] = true
	}
	for key := range after {
		keys[key] = true
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		was, had := before[key]
		is, has := after[key]
		switch {
		case has && (!had || was != is):
			value := strings.Clone(is)
			add(key, &value)
		case had && !has:
			add(key, nil)
		}
	}
	return recs
}

const minISR = "min.insync.replicas"

// checkRecords refuses values that are too long, and changes that would pull the ground from under eligible leader replicas.
func checkRecords(img *metadata.Image, ch *configChange, recs []kmeta.Record) error {
	elr := img.Features()[metadata.ELRVersion] > 0
	for _, r := range recs {
		r := r.(*kmeta.ConfigRecord)
		switch {
		case elr && r.Name == minISR && ch.resource == metadata.BrokerResource && ch.name != "":
			return refuse(kerr.InvalidConfig, "Broker-level min.insync.replicas cannot be altered while ELR is enabled.")
		case elr && r.Name == minISR && ch.resource == metadata.BrokerResource && r.Value == nil:
			return refuse(kerr.InvalidConfig, "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.")
		case r.Value != nil:
			if err := checkLength(*r.Value); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkLength(value string) error {
	if units(value) > configValueMax {
		return refuse(kerr.InvalidConfig, fmt.Sprintf("The configuration value cannot be added because it exceeds the maximum value size of %d bytes.", configValueMax))
	}
	return nil
}

// units counts as Java's String.length does.
func units(s string) int {
	if len(s) <= configValueMax {
		return len(s) // more bytes than units, and few enough
	}
	n := 0
	for _, r := range s {
		n += utf16.RuneLen(r)
	}
	return n
}

// checkValues checks what a resource comes to.
func (c *Controller) checkValues(img *metadata.Image, ch *configChange, after map[string]string) error {
	switch ch.resource {
	case metadata.TopicResource:
		if ch.name == "" {
			return refuse(kerr.InvalidRequest, "Default topic resources are not allowed.")
		}
		if err := CheckTopicName(ch.name); err != nil {
			return err
		}
		return config.ValidateTopicOn(after, c.Layers(img, c.options.NodeID))
	case metadata.ClientMetricsResource:
		if ch.name == "" {
			return refuse(kerr.InvalidRequest, "Default client metrics resources are not allowed.")
		}
		err := config.ValidateClientMetrics(after)
		var invalid *config.InvalidError
		if errors.As(err, &invalid) && invalid.Key != "match" {
			return refuse(kerr.InvalidRequest, invalid.Message)
		}
		return err
	case metadata.GroupResource:
		if ch.name == "" {
			return refuse(kerr.InvalidRequest, "Default group resources are not allowed.")
		}
		return config.ValidateGroup(after, c.Layers(img, c.options.NodeID))
	}
	return nil
}

// clearELR returns the records that forget who was eligible to lead, where recs change how many replicas must be in sync:
// eligibility was measured by the old number. A change of the cluster's default concerns all topics.
func clearELR(img *metadata.Image, recs []kmeta.Record) []kmeta.Record {
	if img.Features()[metadata.ELRVersion] == 0 {
		return nil
	}
	var clear []kmeta.Record
	for _, r := range recs {
		r, ok := r.(*kmeta.ConfigRecord)
		if !ok || r.Name != minISR {
			continue
		}
		if r.ResourceType == metadata.TopicResource {
			clear = append(clear, &kmeta.ClearELRRecord{TopicName: r.ResourceName})
		} else {
			clear = append(clear, &kmeta.ClearELRRecord{})
		}
	}
	return clear
}
