package tools

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/quire-log/quire/internal/config"
	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/metadata"
	"github.com/quire-log/quire/internal/storage"
	"github.com/quire-log/quire/internal/vfs"
)

const releaseRange = "The minimum is 3.3-IV3; the default is 4.3-IV0"

func storageParser() *argParser {
	configFile := &argument{flags: []string{"--config", "-c"}, required: true, help: "The Kafka configuration file to use."}
	quorum := &argGroup{exclusive: true}
	return &argParser{
		prog:        "kafka-storage",
		description: "The Kafka storage tool.",
		commands: []*argParser{
			{name: "info", help: "Get information about the Kafka log directories on this node.", arguments: []*argument{configFile}},
			{name: "format", help: "Format the Kafka log directories on this node.", arguments: []*argument{
				configFile,
				{flags: []string{"--cluster-id", "-t"}, required: true, help: "The cluster ID to use."},
				{flags: []string{"--add-scram", "-S"}, action: appendArg, help: "A SCRAM_CREDENTIAL to add to the __cluster_metadata log e.g.\n" +
					"'SCRAM-SHA-256=[name=alice,password=alice-secret]'\n'SCRAM-SHA-512=[name=alice,iterations=8192,salt=\"N3E=\",saltedpassword=\"YCE=\"]'"},
				{flags: []string{"--ignore-formatted", "-g"}, action: storeTrue, help: "When this option is passed, the format command will skip over already formatted directories rather than failing."},
				{flags: []string{"--release-version", "-r"}, help: "The release version to use for the initial feature settings. " + releaseRange},
				{flags: []string{"--feature", "-f"}, action: appendArg, help: "The setting to use for a specific feature, in feature=level format. For example: `kraft.version=1`."},
				{flags: []string{"--standalone", "-s"}, action: storeTrue, group: quorum, help: "Used to initialize a controller as a single-node dynamic quorum. When setting this flag, " +
					"the controller.quorum.voters config must not be set, and controller.quorum.bootstrap.servers is set instead."},
				{flags: []string{"--no-initial-controllers", "-N"}, action: storeTrue, group: quorum, help: "Used to initialize a server without specifying a dynamic quorum. When setting this flag, " +
					"the controller.quorum.voters config should not be set, and controller.quorum.bootstrap.servers is set instead."},
				{flags: []string{"--initial-controllers", "-I"}, group: quorum, help: "Used to initialize a server with the specified dynamic quorum. The argument is a comma-separated list of id@hostname:port:directory. " +
					"The same values must be used to format all nodes. For example:\n" +
					"0@example.com:8082:JEXY6aqzQY-32P5TStzaFg,1@example.com:8083:MvDxzVmcRsaTz33bUuRU6A,2@example.com:8084:07R5amHmR32VDA6jHkGbTA\n. " +
					"When setting this flag, the controller.quorum.voters config must not be set, and controller.quorum.bootstrap.servers is set instead."},
			}},
			{name: "version-mapping", help: "Look up the corresponding features for a given metadata version. Using the command with no --release-version  argument " +
				"will return the mapping for the latest stable metadata version", arguments: []*argument{
				{flags: []string{"--release-version", "-r"}, help: "The release version to use for the corresponding feature mapping. " + releaseRange},
			}},
			{name: "feature-dependencies", help: "Look up dependencies for a given feature version. If the feature is not known or the version not yet defined, an error is thrown. " +
				"Multiple features can be specified.", arguments: []*argument{
				{flags: []string{"--feature", "-f"}, action: appendArg, required: true, help: "The features and their versions to look up dependencies for, in feature=version format. For example: `metadata.version=5`."},
			}},
			{name: "random-uuid", help: "Print a random UUID."},
		},
	}
}

// A terseFailure ends kafka-storage with one line on stderr.
type terseFailure struct{ message string }

func (e *terseFailure) Error() string { return e.message }

func terse(format string, a ...any) error { return &terseFailure{fmt.Sprintf(format, a...)} }

// kafkaStorage is kafka-storage. It works on directories, and needs no broker.
func kafkaStorage(env Env, args []string) int {
	values, err := storageParser().parse(args)
	if err != nil {
		return printArgError(env, err, 0)
	}
	code := 0
	switch values.command {
	case "info":
		var c *storageConfig
		if c, err = loadStorageConfig(values.text("config")); err == nil {
			code = c.info(env)
		}
	case "format":
		err = formatStorage(env, values)
	case "version-mapping":
		err = versionMapping(env, values)
	case "feature-dependencies":
		err = featureDependencies(env, values)
	case "random-uuid":
		fmt.Fprintln(env.Stdout, kmeta.RandomUUID())
	}
	if e, ok := errors.AsType[*terseFailure](err); ok {
		fmt.Fprintln(env.Stderr, e.message)
		return 1
	}
	if err != nil {
		return uncaught(env, err)
	}
	return code
}

// storageConfig is what kafka-storage takes from server.properties. Other rules of the file are for whoever starts on it.
type storageConfig struct {
	layers      config.Layers
	roles       []string
	nodeID      int32
	dirs        []string // sorted, that of metadata among them
	metadataDir string
	voters      []string // of a static quorum
}

func loadStorageConfig(file string) (*storageConfig, error) {
	props, err := loadProperties(file)
	if err != nil {
		return nil, err
	}
	for key, value := range props {
		o, ok := config.BrokerOption(key)
		if !ok {
			continue
		}
		if err := o.Validate(value); err != nil {
			return nil, throw(configException, err.Error())
		}
	}
	node := props["node.id"]
	if node == "" {
		node = props["broker.id"]
	}
	for key, value := range map[string]string{"process.roles": props["process.roles"], "node.id": node} {
		if value == "" && (key == "process.roles" || props["process.roles"] != "") {
			return nil, throw(configException, fmt.Sprintf("Missing required configuration \"%s\" which has no default value.", key))
		}
	}
	c := &storageConfig{layers: config.Layers{Static: props}}
	id, err := strconv.ParseInt(strings.TrimSpace(node), 10, 32)
	if err != nil || id < 0 {
		return nil, configError("node.id", node, "Value must be at least 0")
	}
	c.nodeID = int32(id)
	c.roles = c.layers.Of("process.roles").Items()
	c.voters = c.layers.Of("controller.quorum.voters").Items()
	c.dirs = c.layers.Of("log.dirs").Items()
	if len(c.dirs) == 0 {
		c.dirs = c.layers.Of("log.dir").Items()
	}
	if len(c.dirs) == 0 {
		return nil, throw(illegalArgument, "requirement failed: At least one log directory must be defined via log.dirs or log.dir.")
	}
	c.metadataDir = c.layers.Of("metadata.log.dir").Text
	if c.metadataDir == "" {
		c.metadataDir = c.dirs[0]
	}
	c.dirs = append(slices.Clone(c.dirs), c.metadataDir)
	slices.Sort(c.dirs)
	c.dirs = slices.Compact(c.dirs)
	return c, nil
}

func (c *storageConfig) controller() bool { return slices.Contains(c.roles, "controller") }

// info tells what is in the directories. It returns the exit code.
func (c *storageConfig) info(env Env) int {
	var problems, found []string
	var first *storage.Meta
	for _, dir := range c.dirs {
		stat, err := os.Stat(dir)
		switch {
		case err != nil:
			problems = append(problems, dir+" does not exist")
			continue
		case !stat.IsDir():
			problems = append(problems, dir+" is not a directory")
			continue
		}
		found = append(found, dir)
		meta, formatted, err := storage.Formatted(vfs.OS(), dir)
		switch {
		case err != nil:
			problems = append(problems, fmt.Sprintf("Error loading %s: %v", path.Join(dir, "meta.properties"), err))
		case !formatted:
			problems = append(problems, dir+" is not formatted.")
		case first == nil:
			first = &meta
		case first.ClusterID != meta.ClusterID:
			problems = append(problems, "Mismatched cluster IDs between storage directories.")
		case first.NodeID != meta.NodeID:
			problems = append(problems, "Mismatched node IDs between storage directories.")
		}
	}
	list := func(one, many string, lines []string) {
		switch len(lines) {
		case 0:
			return
		case 1:
			fmt.Fprintln(env.Stdout, one)
		default:
			fmt.Fprintln(env.Stdout, many)
		}
		fmt.Fprintf(env.Stdout, "  %s\n\n", strings.Join(lines, "\n  "))
	}
	list("Found log directory:", "Found log directories:", found)
	if first != nil {
		directory := ""
		if first.DirectoryID != (storage.TopicID{}) {
			directory = "directory.id=" + first.DirectoryID.String() + ", "
		}
		fmt.Fprintf(env.Stdout, "Found metadata: {cluster.id=%s, %snode.id=%d, version=1}\n\n", first.ClusterID, directory, first.NodeID)
	}
	list("Found problem:", "Found problems:", problems)
	if problems != nil {
		return 1
	}
	return 0
}

// parseRelease reads a release. Kafka's list of what it knows depends on who asks: of a mapping one may ask a release to come.
func parseRelease(name string, toCome ...string) (int16, error) {
	level, err := metadata.ParseMetadataVersion(name)
	if err == nil {
		return level, nil
	}
	var known []string
	for _, v := range metadata.MetadataVersions {
		known = append(known, v.Name)
	}
	return 0, terse("Unknown metadata.version '%s'. Supported metadata.version are: %s", name, strings.Join(append(known, toCome...), ", "))
}

func versionMapping(env Env, values *argValues) error {
	level, name := metadata.LatestMetadataVersion, metadata.MetadataVersionName(metadata.LatestMetadataVersion)
	if values.has("release-version") {
		name = values.text("release-version")
		var err error
		if level, err = parseRelease(name, "4.4-IV0"); err != nil {
			return err
		}
	}
	for _, f := range metadata.Features {
		if f.Name == metadata.MetadataVersion {
			fmt.Fprintf(env.Stdout, "%s=%d (%s)\n", f.Name, level, name)
			continue
		}
		fmt.Fprintf(env.Stdout, "%s=%d\n", f.Name, f.Default(level))
	}
	return nil
}

func featureDependencies(env Env, values *argValues) error {
	for _, text := range values.all("feature") {
		name, digits, ok := strings.Cut(text, "=")
		if !ok {
			return terse("Invalid feature format: %s. Expected format: 'feature=version' (e.g. 'group.version=1')", text)
		}
		n, err := javaInt(digits, 16)
		if err != nil {
			return terse("Invalid version format: %s for feature %s", digits, name)
		}
		level := int16(n)
		f, known := metadata.FeatureByName(name)
		if !known {
			return terse("Unknown feature: %s", name)
		}
		step, ok := f.Step(level)
		if !ok {
			if name == metadata.MetadataVersion {
				return terse("Unknown metadata.version %d", level)
			}
			return terse("Feature level %d is not supported for feature %s", level, name)
		}
		if name == metadata.MetadataVersion {
			text += " (" + metadata.MetadataVersionName(level) + ")"
		}
		if step.Requires == 0 {
			fmt.Fprintf(env.Stdout, "%s has no dependencies.\n", text)
			continue
		}
		fmt.Fprintf(env.Stdout, "%s requires:\n    metadata.version=%d (%s)\n", text, step.Requires, metadata.MetadataVersionName(step.Requires))
	}
	return nil
}
