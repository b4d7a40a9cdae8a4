package tools

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/metadata"
)

func featuresParser() *argParser {
	where := &argGroup{exclusive: true}
	change := func(verb, example, dryRun string, more ...*argument) []*argument {
		all := []*argument{
			{flags: []string{"--metadata"}, help: "DEPRECATED -- The level to which we should " + verb + " the metadata. For example, " + example + "."},
			{flags: []string{"--release-version"}, help: "The release version to " + strings.Replace(verb, "upgrade", "update", 1) + " all features to. For example, 3.9-IV0 will set metadata.version=21 and kraft.version=1. " +
				"Use the version-mapping command to learn which features will be set for any given version."},
			{flags: []string{"--feature"}, action: appendArg, help: "A feature " + verb + " we should perform, in feature=level format. For example: `metadata.version=5`."},
		}
		return append(append(all, more...), &argument{flags: []string{"--dry-run"}, action: storeTrue, help: dryRun})
	}
	return &argParser{
		prog:        "kafka-features",
		description: "This tool manages feature flags in Kafka.",
		arguments: []*argument{
			{flags: []string{"--bootstrap-server"}, group: where, help: "A comma-separated list of host:port pairs to use for establishing the connection to the Kafka cluster."},
			{flags: []string{"--bootstrap-controller"}, group: where, help: "A comma-separated list of host:port pairs to use for establishing the connection to the KRaft quorum."},
			{flags: []string{"--command-config"}, help: "Property file containing configs to be passed to Admin Client."},
		},
		commands: []*argParser{
			{name: "describe", help: "Describes the current active feature flags.", arguments: []*argument{
				{flags: []string{"--node-id"}, typ: "Integer", help: "The node id to which the requests should be sent. If not specified, the requests will be sent to an arbitrary controller/broker."}}},
			{name: "upgrade", help: "Upgrade one or more feature flags.", arguments: change("upgrade", "3.3-IV3", "Validate this upgrade, but do not perform it.")},
			{name: "downgrade", help: "Downgrade one or more feature flags.", arguments: change("downgrade", "3.3-IV0", "Validate this downgrade, but do not perform it.",
				&argument{flags: []string{"--unsafe"}, action: storeTrue, help: "Perform this downgrade even if it may irreversibly destroy metadata."})},
			{name: "disable", help: "Disable one or more feature flags. This is the same as downgrading the version to zero.", arguments: []*argument{
				{flags: []string{"--feature"}, action: appendArg, help: "A feature flag to disable."},
				{flags: []string{"--unsafe"}, action: storeTrue, help: "Disable this feature flag even if it may irreversibly destroy metadata."},
				{flags: []string{"--dry-run"}, action: storeTrue, help: "Perform a dry-run of this disable operation."}}},
			{name: "version-mapping", help: "Look up the corresponding features for a given metadata version. Using the command with no --release-version  argument " +
				"will return the mapping for the latest stable metadata version", arguments: []*argument{
				{flags: []string{"--release-version"}, help: "The release version to use for the corresponding feature mapping. " + releaseRange}}},
			{name: "feature-dependencies", help: "Look up dependencies for a given feature version. If the feature is not known or the version not yet defined, an error is thrown. " +
				"Multiple features can be specified.", arguments: []*argument{
				{flags: []string{"--feature"}, action: appendArg, required: true, help: "The feature and version to look up dependencies for, in feature=version format. For example: `metadata.version=5`."}}},
		},
	}
}

// kafkaFeatures is kafka-features. It tells errors in a way of its own: one line, that of the command line without an end.
func kafkaFeatures(env Env, args []string) int {
	values, err := featuresParser().parse(args)
	if e, ok := err.(*argError); ok {
		if e.shown != "" {
			fmt.Fprint(env.Stdout, e.shown)
			return 0
		}
		return featuresUsage(env, e.message)
	}
	if err == nil {
		err = features(env, values)
	}
	switch e := err.(type) {
	case nil:
		return 0
	case *argError:
		return featuresUsage(env, e.message)
	case *terseFailure:
		fmt.Fprintln(env.Stderr, e.message)
	default:
		fmt.Fprintln(env.Stderr, asJava(err).text())
	}
	return 1
}

func featuresUsage(env Env, message string) int {
	fmt.Fprintf(env.Stderr, "Command line error: %s. Type --help for help.", message)
	return 1
}

func features(env Env, values *argValues) error {
	switch values.command {
	case "version-mapping":
		return versionMapping(env, values)
	case "feature-dependencies":
		return featureDependencies(env, values)
	}
	props := clientConfig{}
	if path := values.text("command-config"); path != "" {
		var err error
		if props, err = loadProperties(path); err != nil {
			return err
		}
	}
	servers, controllers := values.text("bootstrap-server"), values.text("bootstrap-controller")
	if servers == "" && controllers == "" {
		return &argError{message: "You must specify either --bootstrap-controller or --bootstrap-server."}
	}
	client, err := newAdminOf(env, props, servers, controllers)
	if err != nil {
		return err
	}
	defer client.close()
	switch values.command {
	case "describe":
		return client.describeFeatures(env, values)
	case "disable":
		return client.disableFeatures(env, values)
	}
	return client.changeFeatures(env, values)
}

// featureLevel is a level as text: that of the metadata version has a name.
func featureLevel(feature string, level int16) string {
	if feature != metadata.MetadataVersion {
		return strconv.Itoa(int(level))
	}
	if name := metadata.MetadataVersionName(level); name != "" {
		return name
	}
	return fmt.Sprintf("UNKNOWN %d", level)
}

func (a *admin) describeFeatures(env Env, values *argValues) error {
	var resp *kmsg.ApiVersionsResponse
	var err error
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "quire-tools", kafkaVersion
	if id, ok := values.number("node-id"); ok {
		if id < 0 {
			return terse("Invalid node id %d: must be non-negative.", id)
		}
		there, e := a.present(int32(id))
		if e != nil {
			return executionException(e)
		}
		if !there {
			return executionException(noNode("describeFeatures"))
		}
		resp, err = callBroker[*kmsg.ApiVersionsResponse](a, "describeFeatures", int32(id), req)
	} else {
		resp, err = call[*kmsg.ApiVersionsResponse](a, "describeFeatures", req)
	}
	if err == nil {
		err = brokerErrorOrNil(resp.ErrorCode, nil)
	}
	if err != nil {
		return executionException(err)
	}
	epoch := "-"
	if resp.FinalizedFeaturesEpoch >= 0 {
		epoch = strconv.FormatInt(resp.FinalizedFeaturesEpoch, 10)
	}
	slices.SortFunc(resp.SupportedFeatures, func(a, b kmsg.ApiVersionsResponseSupportedFeature) int { return cmp.Compare(a.Name, b.Name) })
	for _, f := range resp.SupportedFeatures {
		level := int16(0)
		for _, finalized := range resp.FinalizedFeatures {
			if finalized.Name == f.Name {
				level = finalized.MaxVersionLevel
			}
		}
		finalized := "0"
		if level != 0 {
			finalized = featureLevel(f.Name, level)
		}
		fmt.Fprintf(env.Stdout, "Feature: %-40s  SupportedMinVersion: %-15s  SupportedMaxVersion: %-15s  FinalizedVersionLevel: %-15s  Epoch: %s\n",
			f.Name, featureLevel(f.Name, f.MinVersion), featureLevel(f.Name, f.MaxVersion), finalized, epoch)
	}
	return nil
}

// The protocol's kinds of a change of features.
const (
	featureUpgrade         int8 = 1
	featureDowngrade       int8 = 2
	featureDowngradeUnsafe int8 = 3
)

func (a *admin) disableFeatures(env Env, values *argValues) error {
	levels := map[string]int16{}
	for _, name := range values.all("feature") {
		if _, twice := levels[name]; twice {
			return terse("Feature %s was specified more than once.", name)
		}
		levels[name] = 0
	}
	kind := featureDowngrade
	if values.has("unsafe") {
		kind = featureDowngradeUnsafe
	}
	return a.updateFeatures(env, values, kind, levels)
}

func (a *admin) changeFeatures(env Env, values *argValues) error {
	levels := map[string]int16{}
	if release := values.text("release-version"); release != "" {
		if values.has("metadata") || values.has("feature") {
			return terse("Can not specify `release-version` with other feature flags.")
		}
		level, err := parseRelease(release, "4.4-IV0")
		if err != nil {
			return err
		}
		for _, f := range metadata.Features {
			if f.Name == metadata.MetadataVersion {
				levels[f.Name] = level
			} else {
				levels[f.Name] = f.Default(level)
			}
		}
	}
	if release := values.text("metadata"); release != "" {
		fmt.Fprintln(env.Stdout, " `metadata` flag is deprecated and may be removed in a future release.")
		level, err := parseRelease(release, "4.4-IV0")
		if err != nil {
			return err
		}
		levels[metadata.MetadataVersion] = level
	}
	for _, text := range values.all("feature") {
		name, digits, ok := strings.Cut(text, "=")
		if !ok {
			return terse("Can't parse feature=level string %s: equals sign not found.", text)
		}
		level, err := strconv.ParseInt(digits, 10, 16)
		if err != nil {
			return terse("Can't parse feature=level string %s: unable to parse %s as a short.", text, digits)
		}
		if _, twice := levels[name]; twice {
			return terse("Feature %s was specified more than once.", name)
		}
		levels[name] = int16(level)
	}
	kind := featureUpgrade
	if values.command == "downgrade" {
		kind = featureDowngrade
		if values.has("unsafe") {
			kind = featureDowngradeUnsafe
		}
	}
	return a.updateFeatures(env, values, kind, levels)
}

// updateFeatures changes features, all or none, and tells of each.
func (a *admin) updateFeatures(env Env, values *argValues, kind int8, levels map[string]int16) error {
	verb := values.command
	if len(levels) == 0 {
		return terse("You must specify at least one feature to %s", verb)
	}
	var names []string
	for name := range levels {
		names = append(names, name)
	}
	slices.Sort(names)
	req := kmsg.NewPtrUpdateFeaturesRequest()
	req.TimeoutMillis, req.ValidateOnly = a.timeoutMillis(), values.has("dry-run")
	for _, name := range names {
		update := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
		update.Feature, update.MaxVersionLevel, update.UpgradeType, update.AllowDowngrade = name, levels[name], kind, kind != featureUpgrade
		req.FeatureUpdates = append(req.FeatureUpdates, update)
	}
	failed := map[string]*javaError{}
	resp, err := call[*kmsg.UpdateFeaturesResponse](a, "updateFeatures", req)
	var whole *javaError
	if err != nil {
		whole = asJava(err)
	} else {
		whole = brokerError(resp.ErrorCode, resp.ErrorMessage)
		for _, r := range resp.Results {
			if e := brokerError(r.ErrorCode, r.ErrorMessage); e != nil {
				failed[r.Feature] = e
			}
		}
	}
	can, cannot := "was ", "Could not "
	if req.ValidateOnly {
		can, cannot = "can be ", "Can not "
	}
	failures := 0
	for _, name := range names {
		e := failed[name]
		if whole != nil {
			e = whole
		}
		switch {
		case e != nil && verb == "disable":
			fmt.Fprintf(env.Stdout, "%s%s %s. %s\n", cannot, verb, name, e.text())
		case e != nil:
			fmt.Fprintf(env.Stdout, "%s%s %s to %d. %s\n", cannot, verb, name, levels[name], e.text())
		case verb == "disable":
			fmt.Fprintf(env.Stdout, "%s %sdisabled.\n", name, can)
		default:
			fmt.Fprintf(env.Stdout, "%s %s%sd to %d.\n", name, can, verb, levels[name])
		}
		if e != nil {
			failures++
		}
	}
	if failures > 0 {
		return terse("%d out of %d operation(s) failed.", failures, len(names))
	}
	return nil
}
