package server

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/config"
	"github.com/quire-log/quire/internal/controller"
	"github.com/quire-log/quire/internal/metadata"
	"github.com/quire-log/quire/internal/wire"
)

// DescribeConfigs, versions 1-4: v1 has sources and synonyms, v3 types and documentation.
// AlterConfigs, versions 0-2, and IncrementalAlterConfigs, versions 0-1: a change is visible to a describe as soon as it is
// answered; in Kafka metadata has to come round first. Levels of loggers belong to this process and are gone when it ends.
// ListConfigResources, versions 0-1: v0 (ListClientMetricsResources) lists client metrics alone.

const (
	codeUnknownTopic = 3

	resourceTopic         = kmsg.ConfigResourceType(metadata.TopicResource)
	resourceBroker        = kmsg.ConfigResourceType(metadata.BrokerResource)
	resourceBrokerLogger  = kmsg.ConfigResourceType(8)
	resourceClientMetrics = kmsg.ConfigResourceType(metadata.ClientMetricsResource)
	resourceGroup         = kmsg.ConfigResourceType(metadata.GroupResource)
)

// describedEntriesMax bounds the entries that one request has described: ten bytes can ask for a group that nobody made, and get 17 of them.
const describedEntriesMax = 1 << 20

func (n *Node) handleDescribeConfigs(_ context.Context, req *wire.Request) wire.Response {
	var r kmsg.DescribeConfigsRequest
	if err := req.Decode(&r); err != nil {
		return wire.Close(err)
	}
	return wire.Reply(n.describeConfigs(n.controller.Image(), &r, describedEntriesMax))
}

// describeConfigs refuses resources once room entries have been described.
func (n *Node) describeConfigs(img *metadata.Image, r *kmsg.DescribeConfigsRequest, room int) *kmsg.DescribeConfigsResponse {
	resp := r.ResponseKind().(*kmsg.DescribeConfigsResponse)
	layers := n.layers(img)
	for i := range r.Resources {
		in := &r.Resources[i]
		out := kmsg.NewDescribeConfigsResponseResource()
		out.ResourceType, out.ResourceName = in.ResourceType, in.ResourceName
		var entries []config.Entry
		err := invalidRequest("More than %d entries in one answer: ask for fewer resources at a time", describedEntriesMax)
		if room > 0 {
			entries, err = n.describeResource(img, layers, in.ResourceType, in.ResourceName)
			room -= len(entries)
		}
		if err != nil {
			out.ErrorCode = err.code
			if err.message != "" {
				out.ErrorMessage = &err.message
			}
			resp.Resources = append(resp.Resources, out)
			continue
		}
		for _, e := range entries {
			if len(in.ConfigNames) > 0 && !slices.Contains(in.ConfigNames, e.Key) {
				continue
			}
			out.Configs = append(out.Configs, wireEntry(e, r))
		}
		resp.Resources = append(resp.Resources, out)
	}
	return resp
}

// layers are the values that apply to this node under img.
func (n *Node) layers(img *metadata.Image) config.Layers {
	return config.Layers{
		DynamicBroker:  img.Configs(metadata.BrokerResource, itoa(int(n.id))),
		DynamicDefault: img.Configs(metadata.BrokerResource, ""),
		Static:         n.static,
	}
}

// A badRequest is a refusal with Kafka's code and words.
type badRequest struct {
	code    int16
	message string // "": none
}

func invalidRequest(format string, args ...any) *badRequest {
	return &badRequest{kerr.InvalidRequest.Code, fmt.Sprintf(format, args...)}
}

func (n *Node) describeResource(img *metadata.Image, layers config.Layers, kind kmsg.ConfigResourceType, name string) ([]config.Entry, *badRequest) {
	switch kind {
	case resourceTopic:
		if err := controller.CheckTopicName(name); err != nil {
			return nil, &badRequest{kerr.InvalidTopicException.Code, err.Error()}
		}
		if img.Topic(name) == nil {
			return nil, &badRequest{code: codeUnknownTopic}
		}
		return config.DescribeTopic(img.Configs(metadata.TopicResource, name), layers), nil
	case resourceBroker:
		if name == "" {
			return config.DescribeBrokerDefault(layers.DynamicDefault), nil
		}
		if id, err := strconv.ParseInt(name, 10, 32); err != nil {
			return nil, invalidRequest("Broker id must be an integer, but it is: %s", name)
		} else if int32(id) != n.id {
			return nil, invalidRequest("Unexpected broker id, expected %d or empty string, but received %s", n.id, name)
		}
		return config.DescribeBroker(layers), nil
	case resourceBrokerLogger:
		if name == "" {
			return nil, invalidRequest("Broker id must not be empty")
		}
		if id, err := strconv.ParseInt(name, 10, 32); err != nil {
			return nil, invalidRequest("Broker id must be an integer, but it is: %s", name)
		} else if int32(id) != n.id {
			return nil, invalidRequest("Unexpected broker id, expected %d but received %s", n.id, name)
		}
		return n.loggers.describe(), nil
	case resourceClientMetrics:
		if name == "" {
			return nil, invalidRequest("Client metrics subscription name must not be empty")
		}
		return config.DescribeClientMetrics(img.Configs(metadata.ClientMetricsResource, name)), nil
	case resourceGroup:
		if name == "" {
			return nil, invalidRequest("Group name must not be empty")
		}
		return config.DescribeGroup(img.Configs(metadata.GroupResource, name), layers), nil
	}
	return nil, invalidRequest("Unexpected resource type UNKNOWN for resource %s", name)
}

func wireEntry(e config.Entry, r *kmsg.DescribeConfigsRequest) kmsg.DescribeConfigsResponseResourceConfig {
	out := kmsg.NewDescribeConfigsResponseResourceConfig()
	out.Name, out.ReadOnly, out.IsSensitive = e.Key, e.ReadOnly, e.Sensitive
	out.Source, out.ConfigType = kmsg.ConfigSource(e.Source), kmsg.ConfigType(e.Type)
	if !e.Null {
		text := e.Text
		out.Value = &text
	}
	if r.IncludeSynonyms {
		for _, s := range e.Synonyms {
			syn := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
			syn.Name, syn.Source = s.Key, kmsg.ConfigSource(s.Source)
			if !s.Null {
				text := s.Text
				syn.Value = &text
			}
			out.ConfigSynonyms = append(out.ConfigSynonyms, syn)
		}
	}
	// Unknown keys have no documentation, loggers an empty one.
	if r.IncludeDocumentation && (e.Doc != "" || e.Source == config.DynamicBrokerLogger) {
		doc := e.Doc
		out.Documentation = &doc
	}
	return out
}

func (n *Node) handleAlterConfigs(ctx context.Context, req *wire.Request) wire.Response {
	var r kmsg.AlterConfigsRequest
	if err := req.Decode(&r); err != nil {
		return wire.Close(err)
	}
	return wire.Reply(n.controller.AlterConfigs(ctx, &r))
}

func (n *Node) handleIncrementalAlterConfigs(ctx context.Context, req *wire.Request) wire.Response {
	var r kmsg.IncrementalAlterConfigsRequest
	if err := req.Decode(&r); err != nil {
		return wire.Close(err)
	}
	return wire.Reply(n.alterIncrementally(&r, func(r *kmsg.IncrementalAlterConfigsRequest) *kmsg.IncrementalAlterConfigsResponse {
		return n.controller.IncrementalAlterConfigs(ctx, r)
	}))
}

// alterIncrementally changes levels of loggers here, and has the controller change the rest.
func (n *Node) alterIncrementally(r *kmsg.IncrementalAlterConfigsRequest, rest func(*kmsg.IncrementalAlterConfigsRequest) *kmsg.IncrementalAlterConfigsResponse) *kmsg.IncrementalAlterConfigsResponse {
	isLogger := func(in kmsg.IncrementalAlterConfigsRequestResource) bool {
		return in.ResourceType == resourceBrokerLogger
	}
	if !slices.ContainsFunc(r.Resources, isLogger) {
		return rest(r)
	}
	resp := r.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
	others := *r
	others.Resources = nil
	named := map[string]int{}
	for _, in := range r.Resources {
		if isLogger(in) {
			named[in.ResourceName]++
		}
	}
	for _, in := range r.Resources {
		if !isLogger(in) {
			others.Resources = append(others.Resources, in)
			continue
		}
		out := kmsg.NewIncrementalAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName = in.ResourceType, in.ResourceName
		err := invalidRequest("Each resource must appear at most once.")
		if named[in.ResourceName] == 1 {
			err = n.alterLoggers(&in, r.ValidateOnly)
		}
		if err != nil {
			out.ErrorCode, out.ErrorMessage = err.code, &err.message
		}
		resp.Resources = append(resp.Resources, out)
	}
	if len(others.Resources) > 0 {
		resp.Resources = append(resp.Resources, rest(&others).Resources...)
	}
	return resp
}

func (n *Node) alterLoggers(in *kmsg.IncrementalAlterConfigsRequestResource, validateOnly bool) *badRequest {
	if id, err := strconv.ParseInt(in.ResourceName, 10, 32); err != nil {
		return invalidRequest("Node id must be an integer, but it is: %s", in.ResourceName)
	} else if int32(id) != n.id {
		return invalidRequest("Unexpected broker id, expected %d, but received %s", n.id, in.ResourceName)
	}
	seen := map[string]bool{}
	for _, kv := range in.Configs {
		if seen[kv.Name] {
			return invalidRequest("Error due to duplicate config keys")
		}
		seen[kv.Name] = true
		if kv.Value == nil && kv.Op != kmsg.IncrementalAlterConfigOpDelete {
			return invalidRequest("Null value not supported for : %s", kv.Name)
		}
	}
	for _, kv := range in.Configs {
		if !n.loggers.has(kv.Name) {
			return &badRequest{kerr.InvalidConfig.Code, "Logger " + kv.Name + " does not exist!"}
		}
		switch kv.Op {
		case kmsg.IncrementalAlterConfigOpSet:
			if _, ok := logLevels[*kv.Value]; !ok {
				return &badRequest{kerr.InvalidConfig.Code, fmt.Sprintf("Cannot set the log level of %s to %s as it is not a supported log level. "+
					"Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN", kv.Name, *kv.Value)}
			}
		case kmsg.IncrementalAlterConfigOpDelete:
			if kv.Name == rootLogger {
				return invalidRequest("Removing the log level of the root logger is not allowed")
			}
		case kmsg.IncrementalAlterConfigOpAppend:
			return invalidRequest("APPEND operation is not allowed for the BROKER_LOGGER resource")
		case kmsg.IncrementalAlterConfigOpSubtract:
			return invalidRequest("SUBTRACT operation is not allowed for the BROKER_LOGGER resource")
		default:
			return invalidRequest("Unknown operation type %d is not allowed for the BROKER_LOGGER resource", int8(kv.Op))
		}
	}
	if validateOnly {
		return nil
	}
	for _, kv := range in.Configs {
		if kv.Op == kmsg.IncrementalAlterConfigOpDelete {
			n.loggers.unset(kv.Name)
		} else {
			n.loggers.set(kv.Name, logLevels[*kv.Value])
		}
	}
	return nil
}

// followConfigs has what is no log's act on the broker's dynamic values. Logs follow through replicas.
func (n *Node) followConfigs(img *metadata.Image, d *metadata.Delta) {
	for _, c := range d.Configs {
		if c.Type == metadata.BrokerResource {
			n.limitConnections(img)
			n.followStorage(img)
			return
		}
	}
}

func (n *Node) limitConnections(img *metadata.Image) {
	if n.wire == nil {
		return // not serving yet: listen asks again
	}
	l := n.layers(img)
	n.wire.SetConnectionsMax(int(l.Of("max.connections").Int64()), int(l.Of("max.connections.per.ip").Int64()))
}

func (n *Node) handleListConfigResources(_ context.Context, req *wire.Request) wire.Response {
	var r kmsg.ListConfigResourcesRequest
	if err := req.Decode(&r); err != nil {
		return wire.Close(err)
	}
	return wire.Reply(n.listConfigResources(n.controller.Image(), &r))
}

func (n *Node) listConfigResources(img *metadata.Image, r *kmsg.ListConfigResourcesRequest) *kmsg.ListConfigResourcesResponse {
	resp := r.ResponseKind().(*kmsg.ListConfigResourcesResponse)
	kinds := []kmsg.ConfigResourceType{resourceTopic, resourceBroker, resourceBrokerLogger, resourceClientMetrics, resourceGroup}
	if r.Version == 0 {
		kinds = []kmsg.ConfigResourceType{resourceClientMetrics}
	} else if len(r.ResourceTypes) > 0 {
		asked := kinds[:0:0]
		for _, t := range r.ResourceTypes {
			kind := kmsg.ConfigResourceType(t)
			if !slices.Contains(kinds, kind) {
				resp.ErrorCode = codeUnsupportedVersion
				return resp
			}
			if !slices.Contains(asked, kind) {
				asked = append(asked, kind)
			}
		}
		kinds = asked
	}
	for _, kind := range kinds {
		add := func(name string) {
			c := kmsg.NewListConfigResourcesResponseConfigResource()
			c.Name, c.Type = name, int8(kind)
			resp.ConfigResources = append(resp.ConfigResources, c)
		}
		switch kind {
		case resourceTopic: // all of them, with and without values of their own, as in Kafka
			for t := range img.Topics() {
				add(t.Name)
			}
		case resourceBroker, resourceBrokerLogger:
			for b := range img.Brokers() {
				if !b.Fenced {
					add(itoa(int(b.ID)))
				}
			}
		default:
			for _, name := range img.ConfigResources(int8(kind)) {
				add(name)
			}
		}
	}
	return resp
}
