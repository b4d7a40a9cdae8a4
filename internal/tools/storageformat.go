package tools

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quire-log/quire/internal/config"
	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/metadata"
	"github.com/quire-log/quire/internal/storage"
	"github.com/quire-log/quire/internal/vfs"
)

// metadataPartition is where the log of metadata is kept.
const metadataPartition = "__cluster_metadata-0"

// formatting is one call of kafka-storage format.
type formatting struct {
	*storageConfig
	clusterID string
	ignore    bool
	release   int16
	levels    map[string]int16
	voters    []kmeta.QuorumVoter // of a dynamic quorum; nil: none is written down
	records   []kmeta.Record
}

func formatStorage(env Env, values *argValues) error {
	c, err := loadStorageConfig(values.text("config"))
	if err != nil {
		return err
	}
	f := &formatting{storageConfig: c, clusterID: values.text("cluster-id"), ignore: values.has("ignore-formatted"), release: metadata.LatestMetadataVersion}
	if values.has("release-version") {
		if f.release, err = parseRelease(values.text("release-version")); err != nil {
			return err
		}
	}
	if f.levels, err = featureLevels(values.all("feature")); err != nil {
		return err
	}
	if err := f.quorum(values); err != nil {
		return err
	}
	if err := f.checkLevels(values); err != nil {
		return err
	}
	f.records = metadata.BootstrapRecordsAt(f.release, f.levels)
	if scram := values.all("add-scram"); len(scram) > 0 {
		if f.release < scramSince {
			return terse("SCRAM is only supported in metadata.version %s or later.", metadata.MetadataVersionName(scramSince))
		}
		for _, text := range scram {
			credential, err := parseScram(text)
			if err != nil {
				return err
			}
			f.records = append(f.records, credential)
		}
	}
	return f.run(env)
}

// featureLevels reads feature=level pairs.
func featureLevels(pairs []string) (map[string]int16, error) {
	levels := make(map[string]int16)
	for _, pair := range pairs {
		fail := func(why string) error {
			return throw("java.lang.RuntimeException", fmt.Sprintf("Can't parse feature=level string %s: %s", pair, why))
		}
		name, digits, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, fail("equals sign not found.")
		}
		n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 16)
		if err != nil {
			return nil, fail("unable to parse " + strings.TrimSpace(digits) + " as a short.")
		}
		levels[strings.TrimSpace(name)] = int16(n)
	}
	return levels, nil
}

// quorum looks at what is said of the quorum.
func (f *formatting) quorum(values *argValues) error {
	static := len(f.storageConfig.voters) > 0
	standalone, initial, none := values.has("standalone"), values.has("initial-controllers"), values.has("no-initial-controllers")
	switch {
	case static && (standalone || initial):
		return terse("You cannot specify controller.quorum.voters and format the node with --initial-controllers or --standalone. " +
			"If you want to use dynamic quorum, please remove controller.quorum.voters and specify controller.quorum.bootstrap.servers instead.")
	case standalone && !f.controller():
		return terse("You can only use --standalone on a controller.")
	case standalone:
		voter, err := f.alone()
		if err != nil {
			return err
		}
		f.voters = []kmeta.QuorumVoter{voter}
	case initial:
		var err error
		if f.voters, err = f.parseVoters(values.text("initial-controllers")); err != nil {
			return err
		}
	case f.controller() && !static && !none:
		return terse("Because controller.quorum.voters is not set on this controller, you must specify one of the following: --standalone, --initial-controllers, or --no-initial-controllers.")
	}
	return nil
}

// kraftVersions is what a voter of this build supports.
var kraftVersions = kmeta.KRaftVersionRange{MinSupportedVersion: 0, MaxSupportedVersion: 1}

func (f *formatting) voter(id int32, host string, port uint16, dir kmeta.UUID) kmeta.QuorumVoter {
	return kmeta.QuorumVoter{VoterID: id, VoterDirectoryID: dir, KRaftVersionFeature: kraftVersions,
		Endpoints: []kmeta.VoterEndpoint{{Name: f.controllerListener(), Host: host, Port: port}}}
}

func (f *formatting) controllerListener() string {
	names := f.layers.Of("controller.listener.names").Items()
	if len(names) == 0 {
		return ""
	}
	return names[0]
}

// alone is this node as the only voter, at its controller listener's address.
func (f *formatting) alone() (v kmeta.QuorumVoter, err error) {
	for _, key := range []string{"advertised.listeners", "listeners"} {
		listeners, err := config.Listeners(f.layers.Static, key)
		if err != nil {
			return v, throw(configException, err.Error())
		}
		for _, l := range listeners {
			if !strings.EqualFold(l.Name, f.controllerListener()) {
				continue
			}
			host := l.Host
			if host == "" {
				host = "localhost"
			}
			return f.voter(f.nodeID, host, l.Port, kmeta.RandomUUID()), nil
		}
	}
	return v, throw("java.lang.RuntimeException", "No controller listeners found.")
}

// parseVoters reads id@host:port:directory, separated by commas.
func (f *formatting) parseVoters(text string) ([]kmeta.QuorumVoter, error) {
	var voters []kmeta.QuorumVoter
	for item := range strings.SplitSeq(text, ",") {
		item = strings.TrimSpace(item)
		bad := func(why string) error { return throw(illegalArgument, why) }
		idText, rest, ok := strings.Cut(item, "@")
		if !ok {
			return nil, bad("No @ found in dynamic voter string.")
		}
		id, err := strconv.ParseInt(idText, 10, 32)
		if err != nil {
			return nil, bad("Failed to parse node id in dynamic voter string.")
		}
		if id < 0 {
			return nil, bad("Invalid negative node id in dynamic voter string.")
		}
		hostEnd := strings.IndexByte(rest, ':')
		if strings.HasPrefix(rest, "[") {
			hostEnd = strings.IndexByte(rest, ']') + 1
			if hostEnd == 0 {
				return nil, bad("Hostname began with left bracket, but no right bracket was found.")
			}
		}
		if hostEnd <= 0 || hostEnd >= len(rest) || rest[hostEnd] != ':' {
			return nil, bad("No colon following hostname could be found.")
		}
		host := strings.Trim(rest[:hostEnd], "[]")
		portText, dirText, ok := strings.Cut(rest[hostEnd+1:], ":")
		if !ok {
			return nil, bad("No colon following port could be found.")
		}
		port, err := net.LookupPort("tcp", portText)
		if n, e := strconv.ParseUint(portText, 10, 16); e != nil || err != nil || int(n) != port {
			return nil, bad("Failed to parse port in dynamic voter string.")
		}
		dir, err := kmeta.ParseUUID(dirText)
		if err != nil {
			return nil, bad("Failed to parse directory ID in dynamic voter string.")
		}
		voters = append(voters, f.voter(int32(id), host, uint16(port), dir))
	}
	slices.SortFunc(voters, func(a, b kmeta.QuorumVoter) int { return int(a.VoterID) - int(b.VoterID) })
	for i := 1; i < len(voters); i++ {
		if voters[i].VoterID == voters[i-1].VoterID {
			return nil, throw(illegalArgument, fmt.Sprintf("Node id %d was specified more than once.", voters[i].VoterID))
		}
	}
	return voters, nil
}

// checkLevels holds the levels asked for against what there is, and takes metadata.version's for the release.
func (f *formatting) checkLevels(values *argValues) error {
	if level, ok := f.levels[metadata.MetadataVersion]; ok {
		if values.has("release-version") {
			return terse("Use --release-version instead of --feature metadata.version=X to avoid ambiguity.")
		}
		feature, _ := metadata.FeatureByName(metadata.MetadataVersion)
		if _, known := feature.Step(level); !known {
			return throw(illegalArgument, fmt.Sprintf("No MetadataVersion with feature level %d", level))
		}
		f.release = level
		delete(f.levels, metadata.MetadataVersion)
	}
	for _, name := range slices.Sorted(maps.Keys(f.levels)) {
		if _, ok := metadata.FeatureByName(name); !ok {
			var known []string
			for _, feature := range metadata.Features {
				if feature.Name != metadata.MetadataVersion {
					known = append(known, feature.Name)
				}
			}
			slices.Sort(known)
			return terse("Unsupported feature: %s. Supported features are: %s", name, strings.Join(known, ", "))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.levels)) {
		feature, _ := metadata.FeatureByName(name)
		step, ok := feature.Step(f.levels[name])
		if !ok {
			return throw(illegalArgument, fmt.Sprintf("No feature:%s with feature level %d", name, f.levels[name]))
		}
		if name == metadata.KRaftVersion {
			const dynamic = "controller.quorum.voters is empty and one of the flags --standalone, --initial-controllers, or --no-initial-controllers is used. For dynamic controllers support, try "
			switch quorum := len(f.storageConfig.voters) == 0; {
			case step.Level > 0 && !quorum:
				return terse("Cannot set kraft.version to %d unless "+dynamic+"using one of --standalone, --initial-controllers, or --no-initial-controllers and removing controller.quorum.voters.", step.Level)
			case step.Level == 0 && quorum:
				return terse("Cannot set kraft.version to %d if "+dynamic+"removing the --feature flag for kraft.version.", step.Level)
			}
		}
	}
	return nil
}

// run formats the directories that are not yet. The one of metadata comes last: with its meta.properties the node can start.
func (f *formatting) run(env Env) error {
	fsys := vfs.OS()
	var bare, done []string
	for _, dir := range f.dirs {
		meta, formatted, err := storage.Formatted(fsys, dir)
		switch {
		case err != nil:
			return throw("java.lang.RuntimeException", err.Error())
		case !formatted:
			bare = append(bare, dir)
			continue
		case meta.ClusterID != "" && meta.ClusterID != f.clusterID:
			return throw("java.lang.RuntimeException", fmt.Sprintf("Invalid cluster.id in: %s. Expected %s, but read %s", path.Join(dir, "meta.properties"), f.clusterID, meta.ClusterID))
		case meta.NodeID >= 0 && meta.NodeID != f.nodeID:
			return throw("java.lang.RuntimeException", fmt.Sprintf("Stored node id %d doesn't match previous node id %d in %s. If you moved your data, make sure your configured node id matches. "+
				"If you intend to create a new node, you should remove all data in your data directories.", meta.NodeID, f.nodeID, path.Join(dir, "meta.properties")))
		}
		done = append(done, dir)
	}
	last := func(a, b string) int { return boolCompare(a == f.metadataDir, b == f.metadataDir) }
	slices.SortStableFunc(bare, last)
	slices.SortStableFunc(done, last)
	switch {
	case len(done) > 0 && !f.ignore:
		return terse("Log directory %s is already formatted. Use --ignore-formatted to ignore this directory and format the others.", done[0])
	case len(bare) == 0:
		fmt.Fprintln(env.Stdout, "All of the log directories are already formatted.")
		return nil
	}
	fmt.Fprintf(env.Stdout, "Bootstrap metadata: %s\n", f.describe())
	for _, dir := range bare {
		if err := f.directory(env, fsys, dir); err != nil {
			if errors.Is(err, fs.ErrExist) { // another process was faster
				return terse("Log directory %s is already formatted. Use --ignore-formatted to ignore this directory and format the others.", dir)
			}
			return terse("Error while writing meta.properties file %s: %v", dir, err)
		}
	}
	return nil
}

func boolCompare(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// directory formats one.
func (f *formatting) directory(env Env, fsys vfs.FS, dir string) error {
	meta := storage.Meta{ClusterID: f.clusterID, NodeID: f.nodeID, DirectoryID: storage.TopicID(kmeta.RandomUUID())}
	kind := "data directory"
	if dir == f.metadataDir {
		kind = "metadata directory"
		if f.voters != nil {
			kind = "dynamic metadata directory"
		}
		for _, v := range f.voters {
			if v.VoterID == f.nodeID {
				kind, meta.DirectoryID = "dynamic metadata voter directory", storage.TopicID(v.VoterDirectoryID)
			}
		}
	}
	now := time.Now().UnixMilli()
	bootstrap := metadata.Snapshot{Records: f.records}
	data, err := bootstrap.AppendTo(nil, now)
	if err != nil {
		return err
	}
	fmt.Fprintf(env.Stdout, "Formatting %s %s with metadata.version %s.\n", kind, dir, metadata.MetadataVersionName(f.release))
	if dir == f.metadataDir && f.voters != nil {
		if err := f.writeVoters(fsys, dir, now); err != nil {
			return err
		}
	}
	return storage.Format(fsys, dir, meta, data)
}

// writeVoters writes the snapshot from which a dynamic quorum learns who belongs to it.
func (f *formatting) writeVoters(fsys vfs.FS, dir string, now int64) error {
	snapshot := metadata.Snapshot{LastContainedTimestamp: now, KRaftVersion: &kmeta.KRaftVersion{KRaftVersion: 1}, Voters: &kmeta.KRaftVoters{Voters: f.voters}}
	data, err := snapshot.AppendTo(nil, now)
	if err != nil {
		return err
	}
	partition := path.Join(dir, metadataPartition)
	if err := fsys.MkdirAll(partition, 0o755); err != nil {
		return err
	}
	if err := vfs.WriteFile(fsys, path.Join(partition, "00000000000000000000-0000000000.checkpoint"), data); err != nil {
		return err
	}
	// storage.Format syncs what lies above dir, which it finds there already: so this is done here.
	for d := dir; ; d = path.Dir(d) {
		if err := fsys.SyncDir(d); err != nil {
			return err
		}
		if d == path.Dir(d) {
			return nil
		}
	}
}

// describe is the bootstrap metadata as Java prints it.
func (f *formatting) describe() string {
	var out strings.Builder
	out.WriteString("BootstrapMetadata(records=[")
	for i, r := range f.records {
		if i > 0 {
			out.WriteString(", ")
		}
		out.WriteString("ApiMessageAndVersion(")
		switch r := r.(type) {
		case *kmeta.FeatureLevelRecord:
			fmt.Fprintf(&out, "FeatureLevelRecord(name='%s', featureLevel=%d)", r.Name, r.FeatureLevel)
		case *kmeta.UserScramCredentialRecord:
			fmt.Fprintf(&out, "UserScramCredentialRecord(name='%s', mechanism=%d, salt=%s, storedKey=%s, serverKey=%s, iterations=%d)",
				r.Name, r.Mechanism, javaBytes(r.Salt), javaBytes(r.StoredKey), javaBytes(r.ServerKey), r.Iterations)
		}
		out.WriteString(" at version 0)")
	}
	fmt.Fprintf(&out, "], metadataVersionLevel=%d, source=format command)", f.release)
	return out.String()
}

// javaBytes is Arrays.toString: signed numbers.
func javaBytes(b []byte) string {
	texts := make([]string, len(b))
	for i, c := range b {
		texts[i] = strconv.Itoa(int(int8(c)))
	}
	return "[" + strings.Join(texts, ", ") + "]"
}
