package controller

import (
	"context"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/metadata"
)

// How a feature's level may move.
const (
	featureUpgrade         = 1
	featureSafeDowngrade   = 2
	featureUnsafeDowngrade = 3
)

// changedMetadata are the levels of metadata.version that brought new records or fields: below them the log may hold what a node of
// that level does not know.
var changedMetadata = []int16{8, 11, 12, 13, 14, 15, 16, 17, 18, 20, 21, 23, 30}

// KRaftVersion is the level of kraft.version, 0 for a quorum that is written in the configuration.
func (c *Controller) KRaftVersion() int16 { return c.quorum.level() }

// UpdateFeatures changes levels of features, all or none of them.
func (c *Controller) UpdateFeatures(ctx context.Context, r *kmsg.UpdateFeaturesRequest) *kmsg.UpdateFeaturesResponse {
	resp := r.ResponseKind().(*kmsg.UpdateFeaturesResponse)
	err := c.write(ctx, func(d draft) ([]kmeta.Record, error) {
		recs, err := c.decideFeatures(d.img, r)
		if err != nil || r.Version >= 1 && r.ValidateOnly {
			return nil, err
		}
		return recs, nil
	})
	if resp.ErrorCode, resp.ErrorMessage = answer(err); err != nil {
		return resp
	}
	for _, u := range r.FeatureUpdates {
		result := kmsg.NewUpdateFeaturesResponseResult()
		result.Feature = u.Feature
		resp.Results = append(resp.Results, result)
	}
	return resp
}

func (c *Controller) decideFeatures(img *metadata.Image, r *kmsg.UpdateFeaturesRequest) ([]kmeta.Record, error) {
	levels := img.Features()
	levels[metadata.KRaftVersion] = c.KRaftVersion()
	wished := img.Features() // as they will be, for what depends on another feature of the same request
	for _, u := range r.FeatureUpdates {
		wished[u.Feature] = u.MaxVersionLevel
	}
	var recs []kmeta.Record
	seen := map[string]bool{}
	for _, u := range r.FeatureUpdates {
		if seen[u.Feature] {
			return nil, refuse(kerr.InvalidRequest, "Feature "+u.Feature+" is named more than once.")
		}
		seen[u.Feature] = true
		move := u.UpgradeType
		if r.Version == 0 {
			if move = featureUpgrade; u.AllowDowngrade {
				move = featureSafeDowngrade
			}
		}
		if why := c.featureObstacle(u.Feature, levels[u.Feature], u.MaxVersionLevel, move, wished); why != "" {
			return nil, refuse(kerr.InvalidUpdateVersion, "The update failed for all features since the following feature had an error: "+why)
		}
		if u.MaxVersionLevel != levels[u.Feature] {
			recs = append(recs, c.featureRecords(img, u.Feature, u.MaxVersionLevel)...)
		}
	}
	return recs, nil
}

// featureObstacle is why a feature cannot move from one level to another, "" if it can.
func (c *Controller) featureObstacle(name string, from, to int16, move int8, wished map[string]int16) string {
	invalid := func(why string) string {
		return fmt.Sprintf("Invalid update version %d for feature %s. %s", to, name, why)
	}
	if move < featureUpgrade || move > featureUnsafeDowngrade {
		return invalid("The controller does not support the given upgrade type.")
	}
	if to < 0 {
		return invalid("A feature version cannot be less than 0.")
	}
	f, known := metadata.FeatureByName(name)
	switch {
	case !known && to == 0:
		return invalid("Feature " + name + " not found.")
	case !known:
		return invalid(fmt.Sprintf("Local controller %d does not support this feature.", c.options.NodeID))
	case to < f.Min || to > f.Max:
		return invalid(fmt.Sprintf("Local controller %d only supports versions %d-%d", c.options.NodeID, f.Min, f.Max))
	case to < from && move == featureUpgrade:
		return invalid("Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade.")
	case to > from && move != featureUpgrade:
		return invalid("Can't downgrade to a newer version.")
	case to == from:
		return ""
	case name == metadata.KRaftVersion:
		return invalid("The version of this quorum is settled when its directory is formatted.")
	case name == metadata.MetadataVersion:
		return metadataObstacle(from, to, move)
	}
	if step, _ := f.Step(to); step.Requires > wished[metadata.MetadataVersion] {
		return invalid(fmt.Sprintf("%s could not be set to %d because it depends on %s level %d", name, to, metadata.MetadataVersion, step.Requires))
	}
	return ""
}

func metadataObstacle(from, to int16, move int8) string {
	if to > from {
		return ""
	}
	complain := func(why string) string {
		return fmt.Sprintf("Unsupported metadata.version downgrade from %d to %d. %s", from, to, why)
	}
	for _, level := range changedMetadata {
		if level <= to || level > from {
			continue
		}
		if move == featureUnsafeDowngrade {
			return complain("Unsafe metadata downgrade is not supported in this version.")
		}
		return complain("Refusing to perform the requested downgrade because it might delete metadata information.")
	}
	return ""
}

// featureRecords are the records of a feature's new level, and of what must be so with it.
func (c *Controller) featureRecords(img *metadata.Image, name string, level int16) []kmeta.Record {
	recs := []kmeta.Record{&kmeta.FeatureLevelRecord{Name: strings.Clone(name), FeatureLevel: level}}
	if name != metadata.ELRVersion {
		return recs
	}
	if level == 0 {
		// Nobody keeps account of eligible leaders any more, and what is not kept up must not be believed.
		return append(recs, &kmeta.ClearELRRecord{})
	}
	// Eligible leaders are counted against one value that all nodes agree on: it lives at the cluster, and nowhere below it.
	const key = "min.insync.replicas"
	if _, ok := img.Config(metadata.BrokerResource, "", key); !ok {
		value := c.static(key).Text
		recs = append(recs, &kmeta.ConfigRecord{ResourceType: metadata.BrokerResource, Name: key, Value: &value})
	}
	for _, broker := range img.ConfigResources(metadata.BrokerResource) {
		if _, ok := img.Config(metadata.BrokerResource, broker, key); ok && broker != "" {
			recs = append(recs, &kmeta.ConfigRecord{ResourceType: metadata.BrokerResource, ResourceName: broker, Name: key})
		}
	}
	return recs
}
