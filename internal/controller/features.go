package controller

import (
	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/metadata"
)

// Features that decisions here depend on.
const (
	featureMetadataVersion = "metadata.version"
	featureELR             = "eligible.leader.replicas.version"
)

// SupportedFeatures are the ranges of Kafka 4.3.1, which a node must cover to be registered in a cluster that has finalized them.
func SupportedFeatures() []metadata.FeatureRange {
	return []metadata.FeatureRange{
		{Name: featureELR, Max: 1},
		{Name: "group.version", Max: 1},
		{Name: "kraft.version", Max: 1},
		{Name: featureMetadataVersion, Min: 7, Max: 30},
		{Name: "share.version", Max: 1},
		{Name: "streams.version", Max: 1},
		{Name: "transaction.version", Max: 2},
	}
}

// newClusterFeatures are the records that a new 4.3 cluster begins with.
func newClusterFeatures() []kmeta.Record {
	return []kmeta.Record{
		&kmeta.FeatureLevelRecord{Name: featureMetadataVersion, FeatureLevel: 30},
		&kmeta.FeatureLevelRecord{Name: featureELR, FeatureLevel: 1},
		&kmeta.FeatureLevelRecord{Name: "group.version", FeatureLevel: 1},
		&kmeta.FeatureLevelRecord{Name: "share.version", FeatureLevel: 1},
		&kmeta.FeatureLevelRecord{Name: "streams.version", FeatureLevel: 1},
		&kmeta.FeatureLevelRecord{Name: "transaction.version", FeatureLevel: 2},
	}
}
