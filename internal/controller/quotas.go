package controller

import (
	"context"
	"fmt"
	"math"
	"net"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/metadata"
)

// Types of an entity that quotas are for.
const (
	quotaUser     = "user"
	quotaClientID = "client-id"
	quotaIP       = "ip"
)

// A quotaKey is what can be limited; whole values have a greatest one, fractional ones none.
type quotaKey struct {
	integral string // "": any number; else Kafka's name of the type
	max      float64
}

var (
	userQuotas = map[string]quotaKey{
		"producer_byte_rate":       {"LONG", math.MaxInt64},
		"consumer_byte_rate":       {"LONG", math.MaxInt64},
		"request_percentage":       {},
		"controller_mutation_rate": {},
	}
	ipQuotas = map[string]quotaKey{"connection_creation_rate": {"INT", math.MaxInt32}}
)

// AlterClientQuotas sets and removes quotas of entities, each decided by itself; what is good is written as one batch.
func (c *Controller) AlterClientQuotas(ctx context.Context, r *kmsg.AlterClientQuotasRequest) *kmsg.AlterClientQuotasResponse {
	errs := make([]error, len(r.Entries))
	for i := range r.Entries {
		errs[i] = checkIP(ctx, r.Entries[i].Entity)
	}
	err := c.write(ctx, func(d draft) ([]kmeta.Record, error) {
		recs := decideQuotas(d.img, r.Entries, errs)
		if r.ValidateOnly {
			return nil, nil
		}
		return recs, nil
	})
	resp := r.ResponseKind().(*kmsg.AlterClientQuotasResponse)
	for i, in := range r.Entries {
		if errs[i] == nil {
			errs[i] = err
		}
		out := kmsg.NewAlterClientQuotasResponseEntry()
		out.ErrorCode, out.ErrorMessage = answer(errs[i])
		for _, e := range in.Entity {
			part := kmsg.NewAlterClientQuotasResponseEntryEntity()
			part.Type, part.Name = e.Type, e.Name
			out.Entity = append(out.Entity, part)
		}
		resp.Entries = append(resp.Entries, out)
	}
	return resp
}

// checkIP refuses an address that is none and does not resolve to one. It may ask the network, so no decision does it.
func checkIP(ctx context.Context, entity []kmsg.AlterClientQuotasRequestEntryEntity) error {
	for _, e := range entity {
		if e.Type != quotaIP || e.Name == nil || *e.Name == "" || net.ParseIP(*e.Name) != nil {
			continue
		}
		if _, err := net.DefaultResolver.LookupHost(ctx, *e.Name); err != nil {
			return refuse(kerr.InvalidRequest, *e.Name+" is not a valid IP or resolvable host.")
		}
	}
	return nil
}

// decideQuotas returns the records of those entries that may be, and leaves in the others' errs why not.
func decideQuotas(img *metadata.Image, entries []kmsg.AlterClientQuotasRequestEntry, errs []error) []kmeta.Record {
	var recs []kmeta.Record
	for i := range entries {
		keys, err := checkQuotaEntity(entries[i].Entity)
		if err == nil {
			err = errs[i]
		}
		var more []kmeta.Record
		if err == nil {
			more, err = quotaRecords(img, &entries[i], keys)
		}
		errs[i] = err
		recs = append(recs, more...)
	}
	return recs
}

// checkQuotaEntity returns what can be limited for an entity.
func checkQuotaEntity(entity []kmsg.AlterClientQuotasRequestEntryEntity) (map[string]quotaKey, error) {
	if len(entity) == 0 {
		return nil, refuse(kerr.InvalidRequest, "Invalid empty client quota entity")
	}
	var types []string
	for _, e := range entity {
		switch {
		case e.Type != quotaUser && e.Type != quotaClientID && e.Type != quotaIP:
			return nil, refuse(kerr.InvalidRequest, "Unhandled client quota entity type: "+e.Type)
		case e.Name != nil && *e.Name == "":
			return nil, refuse(kerr.InvalidRequest, "Empty "+e.Type+" not supported")
		case slices.Contains(types, e.Type):
			return nil, refuse(kerr.InvalidRequest, "The entity has the type "+e.Type+" more than once.")
		}
		types = append(types, e.Type)
	}
	if !slices.Contains(types, quotaIP) {
		return userQuotas, nil
	}
	if len(types) > 1 {
		return nil, refuse(kerr.InvalidRequest, "Invalid quota entity combination, IP entity should not be combined with User or ClientId")
	}
	return ipQuotas, nil
}

// quotaRecords are the records that make an entity's quotas what the entry says, where they are not so already.
func quotaRecords(img *metadata.Image, entry *kmsg.AlterClientQuotasRequestEntry, keys map[string]quotaKey) ([]kmeta.Record, error) {
	entity := make([]metadata.QuotaEntity, len(entry.Entity))
	parts := make([]kmeta.EntityData, len(entry.Entity))
	for i, e := range entry.Entity {
		entity[i] = metadata.QuotaEntity{Type: e.Type, Name: e.Name}
		parts[i].EntityType = strings.Clone(e.Type) // what came is a view of the request
		if e.Name != nil {
			name := strings.Clone(*e.Name)
			parts[i].EntityName = &name
		}
	}
	var now map[string]float64
	if q := img.Quota(entity); q != nil {
		now = q.Values
	}
	var recs []kmeta.Record
	for _, op := range entry.Ops {
		key, known := keys[op.Key]
		if !known {
			return nil, refuse(kerr.InvalidRequest, "Invalid configuration key "+op.Key)
		}
		old, set := now[op.Key]
		if op.Remove {
			if set {
				recs = append(recs, &kmeta.ClientQuotaRecord{Entity: parts, Key: strings.Clone(op.Key), Remove: true})
			}
			continue
		}
		if err := key.check(op.Key, op.Value); err != nil {
			return nil, err
		}
		if !set || old != op.Value {
			recs = append(recs, &kmeta.ClientQuotaRecord{Entity: parts, Key: strings.Clone(op.Key), Value: op.Value})
		}
	}
	return recs, nil
}

func (k quotaKey) check(name string, value float64) error {
	switch {
	case !(value > 0): // nor a value that is no number
		return refuse(kerr.InvalidRequest, "Quota "+name+" must be greater than 0")
	case k.integral == "":
		return nil
	case value > k.max:
		return refuse(kerr.InvalidRequest, fmt.Sprintf("Proposed value for %s is too large for %s.", name, map[string]string{"INT": "an INT", "LONG": "a LONG"}[k.integral]))
	case math.Abs(value-math.Round(value)) > 1e-6:
		return refuse(kerr.InvalidRequest, name+" cannot be a fractional value.")
	}
	return nil
}
