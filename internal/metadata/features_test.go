package metadata

import (
	"fmt"
	"strings"
	"testing"

	"github.com/quire-log/quire/internal/kmeta"
)

// What kafka-storage version-mapping prints for a release.
func TestVersionMapping(t *testing.T) {
	for _, test := range []struct{ release, want string }{
		{"3.3-IV3", "metadata.version=7 kraft.version=0 transaction.version=0 group.version=0 eligible.leader.replicas.version=0 share.version=0 streams.version=0"},
		{"3.9", "metadata.version=21 kraft.version=1 transaction.version=0 group.version=0 eligible.leader.replicas.version=0 share.version=0 streams.version=0"},
		{"4.0", "metadata.version=25 kraft.version=1 transaction.version=2 group.version=1 eligible.leader.replicas.version=0 share.version=0 streams.version=0"},
		{"4.1", "metadata.version=27 kraft.version=1 transaction.version=2 group.version=1 eligible.leader.replicas.version=1 share.version=0 streams.version=0"},
		{"4.2.1", "metadata.version=29 kraft.version=1 transaction.version=2 group.version=1 eligible.leader.replicas.version=1 share.version=1 streams.version=1"},
		{"4.3-IV0", "metadata.version=30 kraft.version=1 transaction.version=2 group.version=1 eligible.leader.replicas.version=1 share.version=1 streams.version=1"},
	} {
		level, err := ParseMetadataVersion(test.release)
		if err != nil {
			t.Error(err)
			continue
		}
		var got []string
		for _, f := range Features {
			got = append(got, fmt.Sprintf("%s=%d", f.Name, f.Default(level)))
		}
		if s := strings.Join(got, " "); s != test.want {
			t.Errorf("%s:\n%s, want\n%s", test.release, s, test.want)
		}
	}
	for _, bad := range []string{"", "4", "4.", "4.9", "4.3-IV1", "3.3-IV2", "9.9", "4.3-"} {
		if level, err := ParseMetadataVersion(bad); err == nil {
			t.Errorf("%q is level %d", bad, level)
		}
	}
}

func TestFeatureTable(t *testing.T) {
	for i, v := range MetadataVersions {
		if want := OldestMetadataVersion + int16(i); v.Level != want {
			t.Errorf("%s is level %d, want %d", v.Name, v.Level, want)
		}
		if level, err := ParseMetadataVersion(v.Name); err != nil || level != v.Level || MetadataVersionName(level) != v.Name {
			t.Errorf("%s is read as %d (%s), %v", v.Name, level, MetadataVersionName(level), err)
		}
	}
	if last := MetadataVersions[len(MetadataVersions)-1].Level; last != LatestMetadataVersion {
		t.Errorf("the last level is %d", last)
	}
	if name := MetadataVersionName(31); name != "31" {
		t.Errorf("level 31 is %s", name)
	}
	for _, f := range Features {
		if f.Name != MetadataVersion && (len(f.Levels) != int(f.Max) || f.Min != 0) {
			t.Errorf("%s has levels %v, and goes from %d to %d", f.Name, f.Levels, f.Min, f.Max)
		}
		if _, ok := f.Step(f.Max + 1); ok {
			t.Errorf("%s has a level %d", f.Name, f.Max+1)
		}
	}
	elr, _ := FeatureByName(ELRVersion)
	if s, ok := elr.Step(1); !ok || s.Requires != 23 {
		t.Errorf("ELR level 1 is %+v", s)
	}
	if _, ok := FeatureByName("frob"); ok {
		t.Error("there is a feature frob")
	}
}

func TestBootstrapRecords(t *testing.T) {
	text := func(recs []kmeta.Record) (s string) {
		for _, r := range recs {
			f := r.(*kmeta.FeatureLevelRecord)
			s += fmt.Sprintf("%s=%d ", f.Name, f.FeatureLevel)
		}
		return s
	}
	if got, want := text(BootstrapRecords()), "metadata.version=30 eligible.leader.replicas.version=1 group.version=1 "+
		"share.version=1 streams.version=1 transaction.version=2 "; got != want {
		t.Errorf("new: %s, want %s", got, want)
	}
	if got, want := text(BootstrapRecordsAt(25, map[string]int16{TransactionVersion: 1, GroupVersion: 0})), "metadata.version=25 transaction.version=1 "; got != want {
		t.Errorf("4.0: %s, want %s", got, want)
	}
}
