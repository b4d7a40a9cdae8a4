package server

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/metadata"
	"github.com/quire-log/quire/internal/wire"
)

// DescribeClientQuotas and AlterClientQuotas, versions 0-1: v1 is flexible, and nothing else changed. Quotas are kept and described;
// nothing is slowed down by them yet.

// Kinds of a filter's component.
const (
	matchExact   = 0
	matchDefault = 1
	matchAny     = 2
)

// A quotaFilter is what of the quotas is asked for.
type quotaFilter struct {
	named  map[string]*string // by type: the name, nil for the default
	any    map[string]bool    // types that an entity must have, whatever the name
	strict bool               // and no other type than these
}

func newQuotaFilter(r *kmsg.DescribeClientQuotasRequest) (f quotaFilter, code int16, message string) {
	f = quotaFilter{named: map[string]*string{}, any: map[string]bool{}, strict: r.Strict}
	for _, c := range r.Components {
		_, twice := f.named[c.EntityType]
		switch {
		case c.EntityType == "":
			return f, codeInvalidRequest, "Invalid empty entity type."
		case twice || f.any[c.EntityType]:
			return f, codeInvalidRequest, fmt.Sprintf("Entity type %s cannot appear more than once in the filter.", c.EntityType)
		case c.EntityType != "user" && c.EntityType != "client-id" && c.EntityType != "ip":
			return f, codeUnsupportedVersion, "Unsupported entity type " + c.EntityType
		}
		switch c.MatchType {
		case matchExact:
			if c.Match == nil {
				return f, codeInvalidRequest, "Request specified MATCH_TYPE_EXACT, but set match string to null."
			}
			f.named[c.EntityType] = c.Match
		case matchDefault:
			if c.Match != nil {
				return f, codeInvalidRequest, "Request specified MATCH_TYPE_DEFAULT, but also specified a match string."
			}
			f.named[c.EntityType] = nil
		case matchAny:
			if c.Match != nil {
				return f, codeInvalidRequest, "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string."
			}
			f.any[c.EntityType] = true
		default:
			return f, codeInvalidRequest, fmt.Sprintf("Unknown match type %d", c.MatchType)
		}
	}
	if _, ip := f.named["ip"]; (ip || f.any["ip"]) && len(f.named)+len(f.any) > 1 {
		return f, codeInvalidRequest, "Invalid entity filter component combination. IP entity type cannot be combined with other entity types."
	}
	return f, codeNone, ""
}

func (f quotaFilter) matches(entity []metadata.QuotaEntity) bool {
	matched := 0
	for _, e := range entity {
		name, named := f.named[e.Type]
		switch {
		case named && (name == nil) == (e.Name == nil) && (name == nil || *name == *e.Name), f.any[e.Type]:
			matched++
		case f.strict:
			return false
		}
	}
	return matched == len(f.named)+len(f.any)
}

func (n *Node) handleDescribeClientQuotas(_ context.Context, req *wire.Request) wire.Response {
	var r kmsg.DescribeClientQuotasRequest
	if err := req.Decode(&r); err != nil {
		return wire.Close(err)
	}
	resp := r.ResponseKind().(*kmsg.DescribeClientQuotasResponse)
	filter, code, message := newQuotaFilter(&r)
	if code != codeNone {
		resp.ErrorCode, resp.ErrorMessage = code, &message
		return wire.Reply(resp)
	}
	resp.Entries = []kmsg.DescribeClientQuotasResponseEntry{} // null is for errors
	for q := range n.controller.Image().Quotas() {
		if !filter.matches(q.Entity) {
			continue
		}
		entry := kmsg.NewDescribeClientQuotasResponseEntry()
		for _, e := range q.Entity {
			part := kmsg.NewDescribeClientQuotasResponseEntryEntity()
			part.Type, part.Name = e.Type, e.Name
			entry.Entity = append(entry.Entity, part)
		}
		for key, v := range q.Values {
			value := kmsg.NewDescribeClientQuotasResponseEntryValue()
			value.Key, value.Value = key, v
			entry.Values = append(entry.Values, value)
		}
		slices.SortFunc(entry.Values, func(a, b kmsg.DescribeClientQuotasResponseEntryValue) int { return strings.Compare(a.Key, b.Key) })
		resp.Entries = append(resp.Entries, entry)
	}
	return wire.Reply(resp)
}

func (n *Node) handleAlterClientQuotas(ctx context.Context, req *wire.Request) wire.Response {
	var r kmsg.AlterClientQuotasRequest
	if err := req.Decode(&r); err != nil {
		return wire.Close(err)
	}
	return wire.Reply(n.controller.AlterClientQuotas(ctx, &r))
}
