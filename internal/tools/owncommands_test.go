package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

func TestVersion(t *testing.T) {
	var out bytes.Buffer
	env := Env{Stdout: &out, Stderr: &out}
	if code := quireVersion(env, nil); code != 0 || !strings.HasPrefix(out.String(), "quire ") || !strings.HasSuffix(out.String(), ", Kafka 4.3.1\n") {
		t.Errorf("code %d, printed %q", code, out.String())
	}
	out.Reset()
	var v map[string]any
	if code := quireVersion(env, []string{"--json"}); code != 0 || json.Unmarshal(out.Bytes(), &v) != nil || v["kafka"] != "4.3.1" || v["version"] == "" {
		t.Errorf("code %d, printed %q", code, out.String())
	}
}

// A command's help is found from either side, and link's exit code says whether it was asked for.
// A command of quire's own that could not say its answer has not done its work; where nobody listens any more that is no news.
func TestOutputThatTakesNothing(t *testing.T) {
	dir := t.TempDir()
	properties := filepath.Join(dir, "server.properties")
	if err := os.WriteFile(properties, []byte("log.dirs="+dir+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		err  error
		code int
		says string
	}{
		{"help", syscall.ENOSPC, exitBad, "quire help: the output is not complete: no space left on device\n"},
		{"config show " + properties, syscall.ENOSPC, exitBad, "the output is not complete"},
		{"completion bash", syscall.EIO, exitBad, "the output is not complete"},
		{"help", syscall.EPIPE, exitGood, ""},
		{"kafka-topics --version", syscall.ENOSPC, exitGood, ""}, // as Kafka's
	} {
		var stderr bytes.Buffer
		code := Main(append([]string{"quire"}, strings.Fields(c.args)...), strings.NewReader(""), refusing{c.err}, &stderr)
		if code != c.code || !strings.Contains(stderr.String(), c.says) || c.says == "" && stderr.Len() > 0 {
			t.Errorf("%s, %v: code %d, %q", c.args, c.err, code, stderr.String())
		}
	}
}

type refusing struct{ err error }

func (r refusing) Write([]byte) (int, error) { return 0, r.err }

func TestHelpOfCommands(t *testing.T) {
	for _, c := range []struct {
		args, want string
		code       int
	}{
		{"help", "Commands:\n", exitGood},
		{"help help", "Commands:\n", exitGood},
		{"help nothing", "Commands:\n", exitGood},
		{"help serve", "Usage: quire serve", exitGood},
		{"help group lag", "Usage: quire group lag", exitGood},
		{"help kafka-topics.sh", "--bootstrap-server", 1},
		{"help link", "Usage: quire link DIR", exitGood},
		{"link --help", "Usage: quire link DIR", exitGood},
		{"link", "quire link: which directory?", exitMisuse},
	} {
		var out bytes.Buffer
		if code := Main(append([]string{"quire"}, strings.Fields(c.args)...), strings.NewReader(""), &out, &out); code != c.code || !strings.Contains(out.String(), c.want) {
			t.Errorf("%s: code %d, printed\n%s", c.args, code, out.String())
		}
	}
}

func TestPlainText(t *testing.T) {
	for text, want := range map[string]string{
		"java.lang.RuntimeException: java.text.ParseException: Error parsing timestamp.": "Error parsing timestamp.",
		"org.apache.kafka.common.errors.TimeoutException":                                "org.apache.kafka.common.errors.TimeoutException",
		"open server.properties: no such file":                                           "open server.properties: no such file",
	} {
		if got := plainText(errors.New(text)); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func TestCompletions(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"veri", "verify"},
		{"config ", "check show"},
		{"completion z", "zsh"},
		{"verify --h", ""},
		{"config check --eff", "--effective"},
		{"kafka-groups --con", "--consumer"},
		{"group ", "events lag reset"},
		{"group reset --to-d", "--to-datetime"},
		{"group lag --adm", "--admin-url"},
		{"classic im", "import"},
		{"classic import --bootstrap-s", "--bootstrap-server"},
		{"kafka-topics --describ", "--describe"},
		{"kafka-topics.sh --describ", "--describe"},
		{"kafka-storage ", "info format version-mapping feature-dependencies random-uuid"},
		{"kafka-storage format --sta", "--standalone"},
		{"kafka-storage format x", ""},
		{"kafka-metadata-quorum --bootstrap-server ", ""},
		{"kafka-metadata-quorum --bootstrap-server localhost:9092 desc", "describe"},
		{"kafka-metadata-quorum --bootstrap-server localhost:9092 describe --repl", "--replication"},
		{"kafka-transactions list --dur", "--duration-filter"},
		{"frob --", ""},
		{"completion --", ""},
	} {
		if got := strings.Join(completions(strings.Split(c.line, " ")), " "); got != c.want {
			t.Errorf("%q: %q, want %q", c.line, got, c.want)
		}
	}
	for _, c := range commands() {
		if strings.HasPrefix(c.name, toolPrefix) && len(optionsOf(c.name, "")) == 0 {
			t.Errorf("%s: no options found", c.name)
		}
	}
	var out bytes.Buffer
	if code := quireCompletion(Env{Stdout: &out, Stderr: &out}, []string{"tcsh"}); code != exitMisuse {
		t.Errorf("an unknown shell: code %d", code)
	}
}

// A dev node serves until it is asked to end, and leaves nothing behind.
func TestDev(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	var stdout, stderr lockedBuffer
	signals := make(chan os.Signal, 1)
	ended := make(chan int, 1)
	env := Env{Stdout: &started{&stdout, func() { signals <- syscall.SIGINT }}, Stderr: &stderr, Interrupted: func() <-chan os.Signal { return signals }}
	go func() { ended <- quireDev(env, nil) }()
	if code := <-ended; code != 0 {
		t.Fatalf("code %d\n%s%s", code, stdout.String(), stderr.String())
	}
	if !regexp.MustCompile(`^A node serves Kafka clients at 127\.0\.0\.1:\d+\.`).MatchString(stdout.String()) || stderr.String() != "" {
		t.Errorf("it printed\n%s%s", stdout.String(), stderr.String())
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("it left %v (%v)", left, err)
	}
	// At a second signal it ends at once, and what it began to write goes, too.
	for range 20 {
		signals := make(chan os.Signal, 2)
		env.Stdout = &started{&stdout, func() { signals <- syscall.SIGINT; signals <- syscall.SIGINT }}
		env.Interrupted = func() <-chan os.Signal { return signals }
		_ = quireDev(env, nil)
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Fatalf("at a second signal it left %v (%v)", left, err)
		}
	}
	for _, args := range [][]string{{"--brokers", "3"}, {"file"}, {"--port", "high"}} {
		var out bytes.Buffer
		if code := quireDev(Env{Stdout: &out, Stderr: &out}, args); code != exitMisuse || !strings.Contains(out.String(), "Example:\n  quire dev\n") {
			t.Errorf("%v: code %d\n%s", args, code, out.String())
		}
	}
}

// started calls then after the first write.
type started struct {
	*lockedBuffer
	then func()
}

func (s *started) Write(p []byte) (int, error) {
	n, err := s.lockedBuffer.Write(p)
	if s.then != nil {
		s.then()
		s.then = nil
	}
	return n, err
}

// The scripts are what the shells take, as far as these are here; bash is asked to complete with one.
func TestCompletionScripts(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		t.Run(shell, func(t *testing.T) {
			path, err := exec.LookPath(shell)
			if err != nil {
				t.Skipf("there is no %s", shell)
			}
			file := filepath.Join(t.TempDir(), "quire")
			if err := os.WriteFile(file, []byte(completionScript(shell)), 0o644); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command(path, "-n", file).CombinedOutput(); err != nil || len(out) > 0 {
				t.Fatalf("%v\n%s", err, out)
			}
			if shell != "bash" {
				return
			}
			for _, c := range []struct{ line, asked string }{
				{"quire kafka-topics --des", "quire completion words -- kafka-topics --des"},
				{"/opt/quire kafka-topics ''", "/opt/quire completion words -- kafka-topics "},
				{"/opt/kafka-topics.sh --des", "quire completion words -- kafka-topics.sh --des"},
			} {
				// A function stands for the program: it says what it was asked, and knows one word.
				script := `source "$0"
quire() { echo "quire $*" >&3; echo --describe; }
/opt/quire() { echo "/opt/quire $*" >&3; echo --describe; }
COMP_WORDS=(` + c.line + `) COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_quire "${COMP_WORDS[0]}" "${COMP_WORDS[COMP_CWORD]}" 3>&1
echo "${COMPREPLY[*]}"`
				out, err := exec.Command(path, "-c", script, file).CombinedOutput()
				if want := c.asked + "\n--describe\n"; err != nil || string(out) != want {
					t.Errorf("%s: %v\n%s, want\n%s", c.line, err, out, want)
				}
			}
		})
	}
}
