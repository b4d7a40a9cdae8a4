package tools

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// describe prints what holds for the entities named, or for all of the type.
func (c *configsCommand) describe() error {
	switch typ := c.types[0]; typ {
	case userEntity, clientEntity:
		if err := c.describeQuotas(); err != nil {
			return err
		}
		if c.is(clientEntity) || slices.Contains(c.names, "") {
			return nil
		}
		return c.describeCredentials()
	case ipEntity:
		return c.describeQuotas()
	default:
		return c.describeResources(typ)
	}
}

// singular is a type without its final letter: topics are topic, client-metrics are client-metric.
func singular(typ string) string { return typ[:len(typ)-1] }

// entityResource returns what the protocol calls an entity type, and the source of values that belong to an entity named
// so; -1: all do.
func entityResource(typ, name string) (kmsg.ConfigResourceType, kmsg.ConfigSource) {
	switch typ {
	case topicEntity:
		return kmsg.ConfigResourceTypeTopic, kmsg.ConfigSourceDynamicTopicConfig
	case loggerEntity:
		return kmsg.ConfigResourceTypeBrokerLogger, -1
	case metricsEntity:
		return kmsg.ConfigResourceTypeClientMetrics, kmsg.ConfigSourceClientMetricsConfig
	case groupEntity:
		return kmsg.ConfigResourceTypeGroupConfig, kmsg.ConfigSourceGroupConfig
	}
	if name == "" {
		return kmsg.ConfigResourceTypeBroker, kmsg.ConfigSourceDynamicDefaultBrokerConfig
	}
	return kmsg.ConfigResourceTypeBroker, kmsg.ConfigSourceDynamicBrokerConfig
}

func (c *configsCommand) describeResources(typ string) error {
	all := c.set.has("all")
	names := c.names
	if len(names) > 1 {
		names = names[:1]
	}
	if len(names) == 1 && !all {
		known, err := c.isKnown(typ, names[0])
		if err != nil {
			return err
		}
		if !known {
			fmt.Fprintf(c.env.Stdout, "The %s '%s' doesn't exist and doesn't have dynamic config.\n", singular(typ), names[0])
			return nil
		}
	}
	if len(names) == 0 {
		var err error
		if names, err = c.entities(typ); err != nil {
			return err
		}
		if typ == brokerEntity || typ == loggerEntity {
			names = append(names, "")
		}
	}
	for _, name := range names {
		kind := "Dynamic"
		if all {
			kind = "All"
		}
		if name == "" {
			fmt.Fprintf(c.env.Stdout, "Default configs for %s in the cluster are:\n", typ)
		} else {
			fmt.Fprintf(c.env.Stdout, "%s configs for %s %s are:\n", kind, singular(typ), name)
		}
		entries, err := c.resourceConfigs(typ, name, all)
		if err != nil {
			return err
		}
		for _, e := range entries {
			fmt.Fprintln(c.env.Stdout, configLine(e))
		}
	}
	return nil
}

// configLine is one value, and what stands behind it in order of precedence.
func configLine(e kmsg.DescribeConfigsResponseResourceConfig) string {
	synonyms := make([]string, len(e.ConfigSynonyms))
	for i, s := range e.ConfigSynonyms {
		synonyms[i] = fmt.Sprintf("%s:%s=%s", sourceName(s.Source), s.Name, orNull(s.Value))
	}
	return fmt.Sprintf("  %s=%s sensitive=%t synonyms={%s}", e.Name, orNull(e.Value), e.IsSensitive, strings.Join(synonyms, ", "))
}

// sourceName is Java's name of a source, where kmsg leaves out the word dynamic.
func sourceName(s kmsg.ConfigSource) string {
	switch s {
	case kmsg.ConfigSourceClientMetricsConfig:
		return "DYNAMIC_CLIENT_METRICS_CONFIG"
	case kmsg.ConfigSourceGroupConfig:
		return "DYNAMIC_GROUP_CONFIG"
	}
	return s.String()
}

func orNull(text *string) string {
	if text == nil {
		return "null"
	}
	return *text
}

// isKnown reports whether an entity is there.
func (c *configsCommand) isKnown(typ, name string) (bool, error) {
	switch typ {
	case topicEntity:
		if err := checkTopicName(name); err != nil {
			return false, err
		}
	case brokerEntity, loggerEntity:
		if name == "" {
			return true, nil
		}
	}
	names, err := c.entities(typ)
	return slices.Contains(names, name), err
}

// checkTopicName refuses names that no topic can have.
func checkTopicName(name string) error {
	complaint := ""
	switch {
	case name == "":
		complaint = "the empty string is not allowed"
	case name == "." || name == "..":
		complaint = "'" + name + "' is not allowed"
	case len(name) > topicNameMax:
		complaint = fmt.Sprintf("the length of '%s' is longer than the max allowed length %d", name, topicNameMax)
	case strings.ContainsFunc(name, func(r rune) bool {
		return r != '.' && r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}):
		complaint = fmt.Sprintf("'%s' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'", name)
	default:
		return nil
	}
	return throw(kafkaErrors+"InvalidTopicException", "Topic name is invalid: "+complaint)
}

const topicNameMax = 249

// entities lists all of a type.
func (c *configsCommand) entities(typ string) ([]string, error) {
	switch typ {
	case topicEntity:
		return c.topicNames()
	case brokerEntity, loggerEntity:
		return c.brokerIDs()
	case metricsEntity:
		names, err := c.configured(kmsg.ConfigResourceTypeClientMetrics)
		return names, executionError(err)
	}
	names, err := c.configured(kmsg.ConfigResourceTypeGroupConfig)
	if err != nil {
		return nil, executionError(err)
	}
	resp, err := call[*kmsg.ListGroupsResponse](c.admin, "listGroups", kmsg.NewPtrListGroupsRequest())
	if err != nil {
		return nil, executionError(err)
	}
	for _, g := range resp.Groups {
		if !slices.Contains(names, g.Group) {
			names = append(names, g.Group)
		}
	}
	return names, nil
}

// executionError wraps an error as Java's futures do; nil stays nil.
func executionError(err error) error {
	if err == nil {
		return nil
	}
	return executionException(err)
}

func (c *configsCommand) topicNames() ([]string, error) {
	if err := c.brokersOnly(); err != nil {
		return nil, executionError(err)
	}
	resp, err := c.metadata("listTopics", nil)
	if err != nil {
		return nil, executionError(err)
	}
	names := make([]string, len(resp.Topics))
	for i, t := range resp.Topics {
		names[i] = *t.Topic
	}
	javaMapOrder(names, javaHash, javaMapCapacity)
	return names, nil
}

func (c *configsCommand) brokerIDs() ([]string, error) {
	resp, err := c.cluster(brokerEndpoints, false)
	if err != nil {
		return nil, executionError(err)
	}
	var ids []string
	for _, b := range resp.Brokers {
		ids = append(ids, strconv.Itoa(int(b.NodeID)))
	}
	return ids, nil
}

// cluster describes the cluster. With a client of controllers, its nodes are those.
func (a *admin) cluster(endpoints int8, fenced bool) (*kmsg.DescribeClusterResponse, error) {
	req := kmsg.NewPtrDescribeClusterRequest()
	req.EndpointType, req.IncludeFencedBrokers = endpoints, fenced
	resp, err := call[*kmsg.DescribeClusterResponse](a, "listNodes", req)
	if err != nil {
		return nil, err
	}
	if e := brokerError(resp.ErrorCode, resp.ErrorMessage); e != nil {
		return nil, e
	}
	return resp, nil
}

// configured lists the resources of a type that have values of their own.
func (a *admin) configured(typ kmsg.ConfigResourceType) ([]string, error) {
	if err := a.brokersOnly(); err != nil {
		return nil, err
	}
	req := kmsg.NewPtrListConfigResourcesRequest()
	req.ResourceTypes = []int8{int8(typ)}
	resp, err := call[*kmsg.ListConfigResourcesResponse](a, "listConfigResources", req)
	if err != nil {
		return nil, err
	}
	if e := brokerError(resp.ErrorCode, nil); e != nil {
		return nil, e
	}
	var names []string
	for _, r := range resp.ConfigResources {
		names = append(names, r.Name)
	}
	return names, nil
}

// resourceConfigs returns the values that belong to an entity itself, or all that hold for it, sorted by name.
func (c *configsCommand) resourceConfigs(typ, name string, all bool) ([]kmsg.DescribeConfigsResponseResourceConfig, error) {
	if typ == topicEntity && name != "" {
		if err := checkTopicName(name); err != nil {
			return nil, err
		}
	}
	resource, own := entityResource(typ, name)
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName = resource, name
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Resources, req.IncludeSynonyms = append(req.Resources, r), true
	resp, err := call[*kmsg.DescribeConfigsResponse](c.admin, "describeConfigs", req)
	if err != nil {
		return nil, executionError(err)
	}
	var entries []kmsg.DescribeConfigsResponseResourceConfig
	for _, r := range resp.Resources {
		if e := brokerError(r.ErrorCode, r.ErrorMessage); e != nil {
			return nil, executionError(e)
		}
		for _, e := range r.Configs {
			if all || own < 0 || e.Source == own {
				entries = append(entries, e)
			}
		}
	}
	slices.SortFunc(entries, func(a, b kmsg.DescribeConfigsResponseResourceConfig) int { return cmp.Compare(a.Name, b.Name) })
	return entries, nil
}
