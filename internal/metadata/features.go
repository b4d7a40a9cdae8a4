package metadata

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Names of features.
const (
	MetadataVersion    = "metadata.version"
	KRaftVersion       = "kraft.version"
	TransactionVersion = "transaction.version"
	GroupVersion       = "group.version"
	ELRVersion         = "eligible.leader.replicas.version"
	ShareVersion       = "share.version"
	StreamsVersion     = "streams.version"
)

// The levels of metadata.version that are known here: 3.3-IV3 is the oldest that 4.x can run at.
const (
	OldestMetadataVersion int16 = 7
	LatestMetadataVersion int16 = 30
)

// A Feature is a row of the table of features.
type Feature struct {
	Name     string
	Min, Max int16
	// Levels are those above 0, ascending; nil for metadata.version, whose levels are MetadataVersions.
	Levels []FeatureStep
}

// A FeatureStep is one level of a feature.
type FeatureStep struct {
	Level int16
	// Since is the metadata.version from which a new cluster has the level.
	Since int16
	// Requires is the metadata.version without which the level cannot be, 0 if none.
	Requires int16
}

// Features are those of Kafka 4.3, in the order in which its tools list them. ApiVersions, registration, the controller and the
// tools read these rows.
var Features = []Feature{
	{Name: MetadataVersion, Min: OldestMetadataVersion, Max: LatestMetadataVersion},
	{Name: KRaftVersion, Max: 1, Levels: []FeatureStep{{1, 21, 0}}},
	{Name: TransactionVersion, Max: 2, Levels: []FeatureStep{{1, 24, 0}, {2, 24, 0}}},
	{Name: GroupVersion, Max: 1, Levels: []FeatureStep{{1, 22, 0}}},
	{Name: ELRVersion, Max: 1, Levels: []FeatureStep{{1, 26, 23}}},
	{Name: ShareVersion, Max: 1, Levels: []FeatureStep{{1, 28, 0}}},
	{Name: StreamsVersion, Max: 1, Levels: []FeatureStep{{1, 29, 0}}},
}

// FeatureByName returns a row of the table.
func FeatureByName(name string) (Feature, bool) {
	for _, f := range Features {
		if f.Name == name {
			return f, true
		}
	}
	return Feature{}, false
}

func featuresByName() []Feature {
	return slices.SortedFunc(slices.Values(Features), func(a, b Feature) int { return cmp.Compare(a.Name, b.Name) })
}

// Default is the level that a new cluster has at a metadata.version. That of kraft.version holds for a dynamic quorum: a static one has 0.
func (f Feature) Default(metadataVersion int16) (level int16) {
	if f.Name == MetadataVersion {
		return metadataVersion
	}
	for _, s := range f.Levels {
		if s.Since <= metadataVersion {
			level = s.Level
		}
	}
	return level
}

// Step returns a level's row. Level 0 of a feature needs nothing.
func (f Feature) Step(level int16) (FeatureStep, bool) {
	if level < f.Min || level > f.Max {
		return FeatureStep{}, false
	}
	for _, s := range f.Levels {
		if s.Level == level {
			return s, true
		}
	}
	return FeatureStep{Level: level}, true
}

// SupportedFeatures is what a node of this build registers.
func SupportedFeatures() []FeatureRange {
	out := make([]FeatureRange, len(Features))
	for i, f := range Features {
		out[i] = FeatureRange{f.Name, f.Min, f.Max}
	}
	return out
}

// A Release is a level of metadata.version under its name.
type Release struct {
	Level int16
	Name  string // such as 4.3-IV0
}

// MetadataVersions are the known levels of metadata.version, ascending.
var MetadataVersions = []Release{
	{7, "3.3-IV3"},
	{8, "3.4-IV0"},
	{9, "3.5-IV0"}, {10, "3.5-IV1"}, {11, "3.5-IV2"},
	{12, "3.6-IV0"}, {13, "3.6-IV1"}, {14, "3.6-IV2"},
	{15, "3.7-IV0"}, {16, "3.7-IV1"}, {17, "3.7-IV2"}, {18, "3.7-IV3"}, {19, "3.7-IV4"},
	{20, "3.8-IV0"},
	{21, "3.9-IV0"},
	{22, "4.0-IV0"}, {23, "4.0-IV1"}, {24, "4.0-IV2"}, {25, "4.0-IV3"},
	{26, "4.1-IV0"}, {27, "4.1-IV1"},
	{28, "4.2-IV0"}, {29, "4.2-IV1"},
	{30, "4.3-IV0"},
}

// MetadataVersionName is the name of a level, its digits if it is not known.
func MetadataVersionName(level int16) string {
	if i := int(level - OldestMetadataVersion); i >= 0 && i < len(MetadataVersions) {
		return MetadataVersions[i].Name
	}
	return strconv.Itoa(int(level))
}

// ParseMetadataVersion returns the level of a name: 4.3-IV0, or 4.1 for the last one of that release. A third number of a release
// does not matter: 4.1.2 is 4.1.
func ParseMetadataVersion(name string) (int16, error) {
	release := name
	if parts := strings.Split(name, "."); len(parts) > 2 && !strings.Contains(name, "-") {
		release = parts[0] + "." + parts[1]
	}
	for i := len(MetadataVersions) - 1; i >= 0; i-- {
		if v := MetadataVersions[i]; v.Name == name || strings.HasPrefix(v.Name, release+"-") {
			return v.Level, nil
		}
	}
	return 0, fmt.Errorf("unknown metadata.version %q", name)
}
