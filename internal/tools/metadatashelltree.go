package tools

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/metadata"
)

// A shellNode is a place in the tree that the shell shows: a directory, or a file of one line. Children are made when they are asked
// for, and know their names only by their directory.
type shellNode interface{ isDirectory() bool }

// A shellFile is what a file says.
type shellFile string

// A shellDirectory has children: names gives theirs, in any order; child is nil for a name that is not there. It may know a
// child by more names than it lists: partition 07 is 7.
type shellDirectory struct {
	names func() []string
	child func(name string) shellNode
}

func (shellFile) isDirectory() bool       { return false }
func (*shellDirectory) isDirectory() bool { return true }

// sortedNames are the names of a directory's children, in order.
func (d *shellDirectory) sortedNames() []string { return slices.Sorted(slices.Values(d.names())) }

// directoryOf is a directory whose children are all at hand.
func directoryOf(children map[string]shellNode) *shellDirectory {
	return &shellDirectory{
		names: func() []string { return slices.Collect(maps.Keys(children)) },
		child: func(name string) shellNode { return children[name] },
	}
}

// root is the whole tree.
func (m *shownMetadata) root() *shellDirectory {
	return directoryOf(map[string]shellNode{
		"image": m.imageNode(),
		"local": directoryOf(map[string]shellNode{"version": shellFile(kafkaVersion), "commitId": shellFile(kafkaCommit)}),
	})
}

// imageNode is the cluster as the file has it. Its directories are made when one goes into them: of a large cluster most is never looked at.
func (m *shownMetadata) imageNode() *shellDirectory {
	directories := map[string]func(*metadata.Image) shellNode{
		"acls":            aclsNode,
		"clientQuotas":    quotasNode,
		"cluster":         clusterNode,
		"configs":         configsNode,
		"delegationToken": tokensNode,
		"features":        featuresNode,
		"producerIds":     producerIDsNode,
		"provenance":      m.provenanceNode,
		"scram":           scramNode,
		"topics":          topicsNode,
	}
	return &shellDirectory{
		names: func() []string { return slices.Collect(maps.Keys(directories)) },
		child: func(name string) shellNode {
			if open, ok := directories[name]; ok {
				return open(m.image)
			}
			return nil
		},
	}
}

func (m *shownMetadata) provenanceNode(*metadata.Image) shellNode {
	at := time.UnixMilli(m.time).UTC()
	sign := ""
	if at.Year() > 9999 {
		sign = "+"
	}
	return shellFile(fmt.Sprintf("offset %d, epoch %d, time %s%sZ[UTC]", m.image.Offset(), m.image.Epoch(), sign, at.Format("2006-01-02T15:04:05.999")))
}

func aclsNode(i *metadata.Image) shellNode {
	byID := &shellDirectory{
		names: func() (names []string) {
			for a := range i.ACLs() {
				names = append(names, a.ID.String())
			}
			return names
		},
		child: func(name string) shellNode {
			id, err := kmeta.ParseUUID(name)
			if err != nil {
				return nil
			}
			a := i.ACL(id)
			if a == nil {
				return nil
			}
			return shellFile(fmt.Sprintf("StandardAcl[resourceType=%s, resourceName=%s, patternType=%s, principal=%s, host=%s, operation=%s, permissionType=%s]",
				kmsg.ACLResourceType(a.ResourceType), a.ResourceName, kmsg.ACLResourcePatternType(a.PatternType), a.Principal, a.Host,
				aclOperationName(kmsg.ACLOperation(a.Operation)), kmsg.ACLPermissionType(a.PermissionType)))
		},
	}
	return directoryOf(map[string]shellNode{"byId": byID})
}

func clusterNode(i *metadata.Image) shellNode {
	return directoryOf(map[string]shellNode{
		"brokers": &shellDirectory{
			names: func() (names []string) {
				for b := range i.Brokers() {
					names = append(names, strconv.Itoa(int(b.ID)))
				}
				return names
			},
			child: func(name string) shellNode {
				id, err := javaInt(name, 32)
				if err != nil || i.Broker(int32(id)) == nil {
					return nil
				}
				return shellFile(brokerText(i.Broker(int32(id))))
			},
		},
		"controllers": &shellDirectory{
			names: func() (names []string) {
				for c := range i.Controllers() {
					names = append(names, strconv.Itoa(int(c.ID)))
				}
				return names
			},
			child: func(name string) shellNode {
				id, err := javaInt(name, 32)
				if err != nil || i.Controller(int32(id)) == nil {
					return nil
				}
				c := i.Controller(int32(id))
				return shellFile(fmt.Sprintf("ControllerRegistration(id=%d, incarnationId=%s, zkMigrationReady=%t, listeners=[%s], supportedFeatures={%s})",
					c.ID, c.IncarnationID, c.ZKMigrationReady, endpointsText(c.Endpoints), featureRangesText(c.Features)))
			},
		},
	})
}

func brokerText(b *metadata.Broker) string {
	rack := "Optional.empty"
	if b.Rack != nil {
		rack = "Optional[" + *b.Rack + "]"
	}
	cordoned := "null"
	if b.CordonedDirectories != nil {
		cordoned = uuidsText(sortedUUIDs(b.CordonedDirectories))
	}
	return fmt.Sprintf("BrokerRegistration(id=%d, epoch=%d, incarnationId=%s, listeners=[%s], supportedFeatures={%s}, rack=%s, fenced=%t,"+
		" inControlledShutdown=%t, isMigratingZkBroker=false, directories=%s, cordonedDirectories=%s)", b.ID, b.Epoch, b.IncarnationID,
		endpointsText(b.Endpoints), featureRangesText(b.Features), rack, b.Fenced, b.InControlledShutdown, uuidsText(sortedUUIDs(b.Directories)), cordoned)
}

// sortedUUIDs are ids in the order of Java's, whose two halves are numbers with a sign.
func sortedUUIDs(ids []kmeta.UUID) []kmeta.UUID {
	return slices.SortedFunc(slices.Values(ids), func(a, b kmeta.UUID) int {
		a[0], b[0], a[8], b[8] = a[0]^0x80, b[0]^0x80, a[8]^0x80, b[8]^0x80
		return bytes.Compare(a[:], b[:])
	})
}

func endpointsText(endpoints []metadata.Endpoint) string {
	sorted := slices.SortedFunc(slices.Values(endpoints), func(a, b metadata.Endpoint) int { return strings.Compare(a.Listener, b.Listener) })
	parts := make([]string, len(sorted))
	for i, e := range sorted {
		parts[i] = fmt.Sprintf("Endpoint(listenerName='%s', securityProtocol=%s, host='%s', port=%d)", e.Listener, securityProtocolName(e.Protocol), e.Host, e.Port)
	}
	return strings.Join(parts, ", ")
}

func securityProtocolName(protocol int16) string {
	if names := []string{"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"}; protocol >= 0 && int(protocol) < len(names) {
		return names[protocol]
	}
	return strconv.Itoa(int(protocol))
}

func featureRangesText(features []metadata.FeatureRange) string {
	sorted := slices.SortedFunc(slices.Values(features), func(a, b metadata.FeatureRange) int { return strings.Compare(a.Name, b.Name) })
	parts := make([]string, len(sorted))
	for i, f := range sorted {
		parts[i] = fmt.Sprintf("%s: %d-%d", f.Name, f.Min, f.Max)
		switch f.Max {
		case f.Min:
			parts[i] = fmt.Sprintf("%s: %d", f.Name, f.Min)
		case math.MaxInt16:
			parts[i] = fmt.Sprintf("%s: %d+", f.Name, f.Min)
		}
	}
	return strings.Join(parts, ", ")
}

// uuidsText and idsText are lists as Java prints them.
func uuidsText(ids []kmeta.UUID) string {
	parts := make([]string, len(ids))
	for i, id := range ids {
		parts[i] = id.String()
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

func idsText(ids []int32) string {
	parts := make([]string, len(ids))
	for i, id := range ids {
		parts[i] = strconv.Itoa(int(id))
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// configResourceTypes are the types of resources with dynamic values, as directories name them.
var configResourceTypes = []struct {
	typ  int8
	name string
}{
	{metadata.GroupResource, "GROUP"}, {metadata.ClientMetricsResource, "CLIENT_METRICS"},
	{metadata.BrokerResource, "BROKER"}, {metadata.TopicResource, "TOPIC"},
}

// configsNode has a directory for each resource: TOPIC:orders, BROKER:1; BROKER is the default of all brokers.
func configsNode(i *metadata.Image) shellNode {
	return &shellDirectory{
		names: func() (names []string) {
			for _, t := range configResourceTypes {
				for _, resource := range i.ConfigResources(t.typ) {
					if resource == "" {
						names = append(names, t.name)
						continue
					}
					names = append(names, t.name+":"+resource)
				}
			}
			return names
		},
		child: func(name string) shellNode {
			typ, resource, _ := strings.Cut(name, ":")
			for _, t := range configResourceTypes {
				if t.name != typ {
					continue
				}
				if values := i.Configs(t.typ, resource); values != nil {
					files := make(map[string]shellNode, len(values))
					for key, value := range values {
						files[key] = shellFile(value)
					}
					return directoryOf(files)
				}
			}
			return nil
		},
	}
}

func tokensNode(i *metadata.Image) shellNode {
	return &shellDirectory{
		names: func() (names []string) {
			for t := range i.DelegationTokens() {
				names = append(names, t.TokenID)
			}
			return names
		},
		child: func(name string) shellNode {
			t := i.DelegationToken(name)
			if t == nil {
				return nil
			}
			// The parentheses are as they are in Kafka's.
			return shellFile(fmt.Sprintf("DelegationTokenDatatokenId=%s(owner=%s(tokenRequester=%s(renewers=%s, issueTimestamp=%d, maxTimestamp=%d), expiryTimestamp=%d",
				t.TokenID, t.Owner, t.Requester, strings.Join(t.Renewers, " "), t.IssueTimestamp, t.MaxTimestamp, t.ExpirationTimestamp))
		},
	}
}

// finalizedPrefix begins the name of a feature's file.
const finalizedPrefix = "finalized_"

func featuresNode(i *metadata.Image) shellNode {
	return &shellDirectory{
		names: func() []string {
			names := []string{"metadataVersion"}
			for feature := range i.Features() {
				if feature != metadata.MetadataVersion {
					names = append(names, finalizedPrefix+feature)
				}
			}
			return names
		},
		child: func(name string) shellNode {
			feature, ok := strings.CutPrefix(name, finalizedPrefix)
			switch {
			case name == "metadataVersion" && i.MetadataVersion() == 0:
				return shellFile("Optional.empty")
			case name == "metadataVersion":
				return shellFile("Optional[" + metadata.MetadataVersionName(i.MetadataVersion()) + "]")
			case !ok:
				return nil
			case feature == metadata.MetadataVersion: // it is apart from the others
				return shellFile("0")
			}
			return shellFile(strconv.Itoa(int(i.Feature(feature))))
		},
	}
}

func producerIDsNode(i *metadata.Image) shellNode {
	next := i.NextProducerID()
	if next == 0 { // no block was ever given
		next = -1
	}
	return directoryOf(map[string]shellNode{"nextProducerId": shellFile(strconv.FormatInt(next, 10))})
}

var scramMechanisms = map[string]int8{"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}

func scramNode(i *metadata.Image) shellNode {
	children := make(map[string]shellNode, len(scramMechanisms))
	for name, mechanism := range scramMechanisms {
		children[name] = &shellDirectory{
			names: func() (names []string) {
				for c := range i.ScramCredentials() {
					if c.Mechanism == mechanism {
						names = append(names, c.Name)
					}
				}
				return names
			},
			child: func(user string) shellNode {
				c := i.ScramCredential(user, mechanism)
				if c == nil {
					return nil
				}
				return shellFile(fmt.Sprintf("ScramCredentialData(salt=%s, storedKey=%s, serverKey=%s, iterations=%d)",
					hex.EncodeToString(c.Salt), hex.EncodeToString(c.StoredKey), hex.EncodeToString(c.ServerKey), c.Iterations))
			},
		}
	}
	return directoryOf(children)
}

func topicsNode(i *metadata.Image) shellNode {
	return directoryOf(map[string]shellNode{
		"byId": &shellDirectory{
			names: func() (names []string) {
				for t := range i.Topics() {
					names = append(names, t.ID.String())
				}
				return names
			},
			child: func(name string) shellNode {
				id, err := kmeta.ParseUUID(name)
				if err != nil {
					return nil
				}
				return topicNode(i.TopicByID(id))
			},
		},
		"byName": &shellDirectory{
			names: func() (names []string) {
				for t := range i.Topics() {
					names = append(names, t.Name)
				}
				return names
			},
			child: func(name string) shellNode { return topicNode(i.Topic(name)) },
		},
	})
}

// topicNode is a topic's directory; nil if there is no topic.
func topicNode(t *metadata.Topic) shellNode {
	if t == nil {
		return nil
	}
	return &shellDirectory{
		names: func() []string {
			names := []string{"name", "id"}
			for n := range t.Partitions {
				names = append(names, strconv.Itoa(n))
			}
			return names
		},
		child: func(name string) shellNode {
			switch name {
			case "name":
				return shellFile(t.Name)
			case "id":
				return shellFile(t.ID.String())
			}
			n, err := javaInt(name, 32)
			if err != nil || n < 0 || n >= int64(len(t.Partitions)) {
				return nil
			}
			return shellFile(partitionText(t.Partitions[n]))
		},
	}
}

func partitionText(p *metadata.Partition) string {
	state := "RECOVERED"
	if p.LeaderRecoveryState != 0 {
		state = "RECOVERING"
	}
	return fmt.Sprintf("PartitionRegistration(replicas=%s, directories=%s, isr=%s, removingReplicas=%s, addingReplicas=%s, elr=%s, lastKnownElr=%s,"+
		" leader=%d, leaderRecoveryState=%s, leaderEpoch=%d, partitionEpoch=%d)", idsText(p.Replicas), uuidsText(p.Directories), idsText(p.ISR),
		idsText(p.Removing), idsText(p.Adding), idsText(p.ELR), idsText(p.LastKnownELR), p.Leader, state, p.LeaderEpoch, p.PartitionEpoch)
}

// A quota's directory is named for whom it is: clientId(C)_ip(I)_user(U), without the parts that it does not have. A backslash and
// parentheses within a name have a backslash before them. Whoever has no quota of his own has that of user(<default>); Kafka's shell
// has no name for it, and fails where it comes by.
const quotaDefault = "<default>"

// quotaTitles are the types of entities as the directories have them, if they do not have them to the letter.
var quotaTitles = map[string]string{"client-id": "clientId"}

var quotaEscapes = strings.NewReplacer(`\`, `\\`, "(", `\(`, ")", `\)`)

func quotaName(q *metadata.Quota) string {
	var parts []string
	for _, e := range q.Entity { // by type, as the parts are
		title, name := e.Type, quotaDefault
		if t, ok := quotaTitles[title]; ok {
			title = t
		}
		if e.Name != nil {
			name = quotaEscapes.Replace(*e.Name)
		}
		parts = append(parts, title+"("+name+")")
	}
	return strings.Join(parts, "_")
}

// quotaEntity reads the name of a quota's directory, whose parts may stand in any order. Nil: it is none.
func quotaEntity(name string) (entity []metadata.QuotaEntity) {
	for {
		title, rest, ok := strings.Cut(name, "(")
		if !ok {
			return nil
		}
		value, rest, ok := cutQuotaValue(rest)
		if !ok {
			return nil
		}
		part := metadata.QuotaEntity{Type: title, Name: &value}
		for typ, t := range quotaTitles {
			if t == title {
				part.Type = typ
			}
		}
		if value == quotaDefault {
			part.Name = nil
		}
		entity = append(entity, part)
		if rest == "" {
			return entity
		}
		if name, ok = strings.CutPrefix(rest, "_"); !ok {
			return nil
		}
	}
}

// cutQuotaValue cuts text behind the parenthesis that closes a value.
func cutQuotaValue(text string) (value, rest string, ok bool) {
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == ')':
			return out.String(), text[i+1:], true
		case c == '\\' && i+1 < len(text):
			i++
			out.WriteByte(text[i])
		case c != '\\':
			out.WriteByte(c)
		}
	}
	return "", "", false
}

func quotasNode(i *metadata.Image) shellNode {
	return &shellDirectory{
		names: func() (names []string) {
			for q := range i.Quotas() {
				names = append(names, quotaName(q))
			}
			return names
		},
		child: func(name string) shellNode {
			entity := quotaEntity(name)
			if entity == nil {
				return nil
			}
			q := i.Quota(entity)
			if q == nil {
				return nil
			}
			files := make(map[string]shellNode, len(q.Values))
			for key, value := range q.Values {
				files[key] = shellFile(javaFloat(value, 64))
			}
			return directoryOf(files)
		},
	}
}
