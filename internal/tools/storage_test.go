package tools

import (
	"bytes"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/metadata"
	"github.com/quire-log/quire/internal/storage"
	"github.com/quire-log/quire/internal/vfs"
)

const testCluster = "4L6g3nShT-eMCtK--X86sw"

// storageConfigFile writes a server.properties whose log.dirs are in the test's folder.
func storageConfigFile(t *testing.T, quorum string, dirs ...string) (file, dir string) {
	t.Helper()
	dir = t.TempDir()
	for i := range dirs {
		dirs[i] = filepath.Join(dir, dirs[i])
	}
	file = filepath.Join(dir, "server.properties")
	text := "process.roles=broker,controller\nnode.id=1\n" + quorum + "\nlisteners=PLAINTEXT://:9092,CONTROLLER://:9093\n" +
		"controller.listener.names=CONTROLLER\nlog.dirs=" + strings.Join(dirs, ",") + "\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file, dir
}

const (
	staticQuorum  = "controller.quorum.voters=1@localhost:9093"
	dynamicQuorum = "controller.quorum.bootstrap.servers=localhost:9093"
)

// runStorage calls kafka-storage; the folder is DIR in what it printed.
func runStorage(dir string, args ...string) (code int, stdout, stderr string) {
	var out, complaints bytes.Buffer
	code = kafkaStorage(Env{Stdout: &out, Stderr: &complaints}, args)
	return code, strings.ReplaceAll(out.String(), dir, "DIR"), strings.ReplaceAll(complaints.String(), dir, "DIR")
}

// What format wrote is what a node starts on.
func TestStorageFormat(t *testing.T) {
	file, dir := storageConfigFile(t, staticQuorum, "a", "b")
	code, out, complaints := runStorage(dir, "format", "-t", testCluster, "-c", file)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if code != 0 || complaints != "" || len(lines) != 3 || lines[1] != "Formatting data directory DIR/b with metadata.version 4.3-IV0." ||
		lines[2] != "Formatting metadata directory DIR/a with metadata.version 4.3-IV0." {
		t.Fatalf("code %d, %s%s", code, out, complaints)
	}
	seen := make(map[storage.TopicID]bool)
	for _, name := range []string{"a", "b"} {
		meta, ok, err := storage.Formatted(vfs.OS(), filepath.Join(dir, name))
		if err != nil || !ok || meta.ClusterID != testCluster || meta.NodeID != 1 {
			t.Errorf("%s: %+v, %v, %v", name, meta, ok, err)
		}
		seen[meta.DirectoryID] = true
		if s := readBootstrap(t, filepath.Join(dir, name, "bootstrap.checkpoint")); s.MetadataVersion() != metadata.LatestMetadataVersion {
			t.Errorf("%s: metadata.version %d", name, s.MetadataVersion())
		}
	}
	if len(seen) != 2 {
		t.Error("the directories share an id")
	}
	if code, _, complaints := runStorage(dir, "format", "-t", testCluster, "-c", file); code != 1 ||
		complaints != "Log directory DIR/b is already formatted. Use --ignore-formatted to ignore this directory and format the others.\n" {
		t.Errorf("again: code %d, %s", code, complaints)
	}
	if code, out, _ := runStorage(dir, "format", "-g", "-t", testCluster, "-c", file); code != 0 || out != "All of the log directories are already formatted.\n" {
		t.Errorf("again, ignoring: code %d, %s", code, out)
	}
	if code, _, complaints := runStorage(dir, "format", "-g", "-t", "other", "-c", file); code != 1 ||
		complaints != "Exception in thread \"main\" java.lang.RuntimeException: Invalid cluster.id in: DIR/a/meta.properties. Expected other, but read "+testCluster+"\n" {
		t.Errorf("another cluster: code %d, %s", code, complaints)
	}
	code, out, _ = runStorage(dir, "info", "-c", file)
	if code != 0 || !strings.HasPrefix(out, "Found log directories:\n  DIR/a\n  DIR/b\n\nFound metadata: {cluster.id="+testCluster+", directory.id=") {
		t.Errorf("info: code %d, %s", code, out)
	}
}

func readBootstrap(t *testing.T, file string) *metadata.Snapshot {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s, err := metadata.ReadSnapshot(b)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A dynamic quorum begins with a snapshot that names its voters, this one by its directory's id.
func TestStorageFormatStandalone(t *testing.T) {
	file, dir := storageConfigFile(t, dynamicQuorum, "a")
	if code, _, complaints := runStorage(dir, "format", "-t", testCluster, "-c", file, "--standalone"); code != 0 {
		t.Fatal(complaints)
	}
	s := readBootstrap(t, filepath.Join(dir, "a", metadataPartition, "00000000000000000000-0000000000.checkpoint"))
	meta, _, err := storage.Formatted(vfs.OS(), filepath.Join(dir, "a"))
	if err != nil || s.Voters == nil || len(s.Voters.Voters) != 1 {
		t.Fatalf("%v, %+v", err, s)
	}
	v := s.Voters.Voters[0]
	if storage.TopicID(v.VoterDirectoryID) != meta.DirectoryID || v.VoterID != 1 || s.KRaftVersion.KRaftVersion != 1 ||
		len(v.Endpoints) != 1 || v.Endpoints[0].Host != "localhost" || v.Endpoints[0].Port != 9093 || v.Endpoints[0].Name != "CONTROLLER" {
		t.Errorf("%+v", v)
	}
}

// Refusals come before anything is written.
func TestStorageFormatRefuses(t *testing.T) {
	for _, test := range []struct{ quorum, args, want string }{
		{staticQuorum, "--standalone", "You cannot specify controller.quorum.voters and format the node with --initial-controllers or --standalone. If you want to use dynamic quorum, please remove controller.quorum.voters and specify controller.quorum.bootstrap.servers instead."},
		{staticQuorum, "--feature group.version=9", `Exception in thread "main" java.lang.IllegalArgumentException: No feature:group.version with feature level 9`},
		{staticQuorum, "--feature frob=1", "Unsupported feature: frob. Supported features are: eligible.leader.replicas.version, group.version, kraft.version, share.version, streams.version, transaction.version"},
		{staticQuorum, "--feature group.version", `Exception in thread "main" java.lang.RuntimeException: Can't parse feature=level string group.version: equals sign not found.`},
		{staticQuorum, "--feature metadata.version=9 -r 4.0", "Use --release-version instead of --feature metadata.version=X to avoid ambiguity."},
		{dynamicQuorum, "", "Because controller.quorum.voters is not set on this controller, you must specify one of the following: --standalone, --initial-controllers, or --no-initial-controllers."},
		{dynamicQuorum, "-I 1@localhost:9093", `Exception in thread "main" java.lang.IllegalArgumentException: No colon following port could be found.`},
		{staticQuorum, "-S frob", "Failed to find equals sign in SCRAM argument 'frob'"},
		{staticQuorum, "-S SCRAM-SHA-1=[name=ann,password=x]", "The add-scram mechanism SCRAM-SHA-1 is not supported."},
		{staticQuorum, "-S SCRAM-SHA-256=[password=x]", "You must supply 'name' to add-scram"},
		{staticQuorum, "-S SCRAM-SHA-256=[name=ann]", "You must supply one of 'password' or 'saltedpassword' to add-scram"},
		{staticQuorum, "-S SCRAM-SHA-256=[name=ann,password=x,iterations=100]", "The 'iterations' value must be >= 4096 for add-scram using SCRAM_SHA_256"},
		{staticQuorum, "-S SCRAM-SHA-256=[name=ann,saltedpassword=YQ==]", "You must supply 'salt' with 'saltedpassword' to add-scram"},
		{staticQuorum, "-S SCRAM-SHA-256=[name=ann,password=x,iterations=abc]", "Failed to parse iterations count: abc"},
		{staticQuorum, "-S SCRAM-SHA-256=[name=ann,password]", "No equals sign found in SCRAM component: password"},
		{staticQuorum, "-S SCRAM-SHA-256=name=ann", "Expected configuration string to start with ["},
		{staticQuorum, "-S SCRAM-SHA-256=[name=ann,password=x,salt=!!]", "Failed to decode given salt: !!"},
		{staticQuorum, "-S SCRAM-SHA-256=[name=ann,password=x] -r 3.4", "SCRAM is only supported in metadata.version 3.5-IV2 or later."},
		{staticQuorum, "-S SCRAM-SHA-256=[name=ann,saltedpassword=YQ==,frob=1,salt=YQ==]", "Unknown SCRAM configurations: frob"},
	} {
		file, dir := storageConfigFile(t, test.quorum, "a")
		code, _, complaints := runStorage(dir, append([]string{"format", "-t", testCluster, "-c", file}, strings.Fields(test.args)...)...)
		if code != 1 || complaints != test.want+"\n" {
			t.Errorf("%s: code %d, %s\nwant %s", test.args, code, complaints, test.want)
		}
		if _, err := os.Stat(filepath.Join(dir, "a")); err == nil {
			t.Errorf("%s: a directory was made", test.args)
		}
	}
}

// The exchange of RFC 7677, section 3, has these keys.
func TestParseScram(t *testing.T) {
	const salt = "W22ZaJ0SNY7soEsUEjb6gQ=="
	r, err := parseScram(`SCRAM-SHA-256=[name=user,password=pencil,salt="` + salt + `",iterations=4096]`)
	if err != nil {
		t.Fatal(err)
	}
	const stored, server = "WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=", "wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
	if got := base64.StdEncoding.EncodeToString(r.StoredKey); got != stored {
		t.Errorf("stored key %s, want %s", got, stored)
	}
	if got := base64.StdEncoding.EncodeToString(r.ServerKey); got != server {
		t.Errorf("server key %s, want %s", got, server)
	}
	if r.Name != "user" || r.Mechanism != 1 || r.Iterations != 4096 || base64.StdEncoding.EncodeToString(r.Salt) != salt {
		t.Errorf("%+v", r)
	}
}

// A credential given at format is in what the metadata log begins with.
func TestStorageFormatScram(t *testing.T) {
	file, dir := storageConfigFile(t, staticQuorum, "a")
	code, _, complaints := runStorage(dir, "format", "-t", testCluster, "-c", file, "-S", "SCRAM-SHA-512=[name=ann,password=x]", "-S", "SCRAM-SHA-256=[name=ann,password=x]")
	if code != 0 {
		t.Fatal(complaints)
	}
	var found []int8
	for _, r := range readBootstrap(t, filepath.Join(dir, "a", "bootstrap.checkpoint")).Records {
		if r, ok := r.(*kmeta.UserScramCredentialRecord); ok && r.Name == "ann" {
			found = append(found, r.Mechanism)
		}
	}
	if len(found) != 2 || found[0] != 2 || found[1] != 1 {
		t.Errorf("mechanisms %v", found)
	}
}
