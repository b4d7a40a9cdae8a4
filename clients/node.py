"""A node of Quire as a process, programs beside it, and checks that are counted: what the parts of `run` share."""
import contextlib, os, signal, socket, subprocess, sys, tempfile, threading, time, traceback
from contextlib import nullcontext as nothing

here = os.path.dirname(os.path.abspath(__file__))
cache = os.path.join(here, ".cache")
quire = os.environ.get("QUIRE", os.path.join(here, "..", "bin", "quire"))
class_path = ":".join(os.path.join(cache, "java", d) for d in ("libs/*", "classes"))
PATIENCE = 180  # seconds that anything may take: a machine under load is slow, not wrong


class Failed(Exception):
    """Why a check failed."""


def java(main, *args, heap="128M", properties=()):
    return ["java", "-Xmx" + heap, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", *properties, "-cp", class_path, main, *args]


def free_port():
    # Below the ports that the kernel hands out, so that no client's connection takes it while the node is away.
    for port in range(20000 + os.getpid() % 10000, 32000):
        with contextlib.closing(socket.socket()) as s:
            with contextlib.suppress(OSError):
                s.bind(("127.0.0.1", port))
                if port not in free_port.given:
                    free_port.given.add(port)
                    return port
    raise Failed("no free port")


free_port.given = set()


def wait(what, ready, patience=PATIENCE):
    """Polls until ready() is true, and returns what it is. What it raises counts as not yet; a Failed ends the wait."""
    last, end = None, time.monotonic() + patience
    while time.monotonic() < end:
        try:
            got = ready()
            if got:
                return got
        except Failed:
            raise
        except Exception as e:
            last = e
        time.sleep(0.05)
    raise Failed(f"{what}: not after {patience} s" + (f"; {last}" if last else ""))


class Checks:
    """Counts `ok` and `FAIL`, and ends the program accordingly."""

    def __init__(self):
        self.passed, self.failed = 0, 0

    def ok(self, name):
        self.passed += 1
        print("ok   " + name, flush=True)

    def fail(self, name, why):
        self.failed += 1
        print("FAIL " + name, flush=True)
        for line in str(why).strip().splitlines()[:20]:
            print("     | " + line[:400], flush=True)

    @contextlib.contextmanager
    def check(self, name):
        """A check of what its block does. What fails in it is told, and the program goes on behind it."""
        try:
            yield
        except Failed as e:
            self.fail(name, e)
        except Exception:
            self.fail(name, traceback.format_exc(limit=-3))
        else:
            self.ok(name)


class Process:
    """A program whose output goes to a file, or line by line to a function."""

    all = []

    def __init__(self, args, log, on_line=None, env=None):
        self.log, self.name = log, os.path.basename(args[0])
        err = open(log, "ab")
        self.p = subprocess.Popen(args, stdin=subprocess.PIPE if on_line else subprocess.DEVNULL, stdout=subprocess.PIPE if on_line else err, stderr=err,
                                  env={**os.environ, **(env or {})})
        err.close()
        Process.all.append(self)
        if on_line:
            self.reader = threading.Thread(target=lambda: [on_line(line.decode(errors="replace").rstrip("\n")) for line in self.p.stdout], daemon=True)
            self.reader.start()

    def say(self, line):
        self.p.stdin.write(line.encode() + b"\n")
        self.p.stdin.flush()

    def alive(self):
        return self.p.poll() is None

    def tail(self, n=5):
        with open(self.log, errors="replace") as f:
            return "".join(f.readlines()[-n:])

    def end(self, sig=signal.SIGTERM, patience=PATIENCE):
        """Returns the exit code; one that does not end in time is killed, and that fails."""
        if self.alive():
            self.p.send_signal(sig)
        try:
            return self.p.wait(patience)
        except subprocess.TimeoutExpired:
            self.p.kill()
            self.p.wait()
            raise Failed(f"{self.name} did not end by signal {sig}")

    def kill(self):
        self.end(signal.SIGKILL)


class Node:
    """One directory and one port, served by Quire, and by Apache Kafka after it. With QUIRE=kafka it is Kafka from the start, as a measure."""

    def __init__(self, work, **more):
        self.work, self.port, self.process = work, free_port(), None
        self.bootstrap, controller = f"127.0.0.1:{self.port}", f"127.0.0.1:{free_port()}"
        self.properties = os.path.join(work, "server.properties")
        config = {
            "process.roles": "broker,controller", "node.id": 1, "controller.quorum.voters": "1@" + controller, "log.dirs": os.path.join(work, "data"),
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{controller}", "advertised.listeners": "PLAINTEXT://" + self.bootstrap,
            "controller.listener.names": "CONTROLLER", "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "offsets.topic.replication.factor": 1, "transaction.state.log.replication.factor": 1, "transaction.state.log.min.isr": 1,
            "group.initial.rebalance.delay.ms": 500, **{k.replace("_", "."): v for k, v in more.items()},
        }
        with open(self.properties, "w") as f:
            f.writelines(f"{k}={v}\n" for k, v in config.items())

    def start(self):
        if quire == "kafka":
            return self.start_kafka()
        self._start([quire, "serve", self.properties, "--override", "admin.listener="], "quire.log")

    def start_kafka(self):
        if not os.path.exists(os.path.join(self.work, "data", "meta.properties")):
            subprocess.run(java("kafka.tools.StorageTool", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c", self.properties, "--ignore-formatted"), check=True)
        self._start(java("kafka.Kafka", self.properties, heap="512M"), "kafka.log")

    def _start(self, args, log):
        self.process = Process(args, os.path.join(self.work, log))
        wait("the node listens", self._listens)

    def _listens(self):
        if not self.process.alive():
            raise Failed("the node ended: " + self.process.tail())
        socket.create_connection(("127.0.0.1", self.port), 1).close()
        return True

    def stop(self):
        code = self.process.end()
        if code not in (0, 143):  # a JVM ends by the signal
            raise Failed(f"exit code {code}: " + self.process.tail())

    def kill(self):
        self.process.kill()


def main(part):
    """Runs part(checks, work) with a temporary folder, ends all processes after it, and exits as the checks say."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    checks, keep = Checks(), os.environ.get("QUIRE_KEEP")
    with contextlib.ExitStack() as stack:
        work = keep or stack.enter_context(tempfile.TemporaryDirectory(prefix="quire-clients-"))
        os.makedirs(work, exist_ok=True)
        try:
            with checks.check(os.path.basename(sys.argv[0]).removesuffix(".py") + " runs to its end"):
                part(checks, work)
        finally:
            for p in Process.all:
                with contextlib.suppress(Exception):
                    p.p.kill()
                    p.p.wait()
    sys.exit(0 if checks.failed == 0 else 1)
