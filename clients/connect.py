"""Kafka Connect, distributed, on a node of Quire: a file goes into a topic and out into another file, exactly once, as workers come and go.

The workers form a group of the protocol type `connect`, keep their configurations, offsets and states in compacted topics, and the source
writes in transactions (exactly.once.source.support), so that each line is in the topic once even if its worker is killed.
"""
import json, os, subprocess, urllib.request

import node
from node import Failed, Process, wait

TOPIC = "lines"


class Worker:
    def __init__(self, run, n):
        self.url = f"http://127.0.0.1:{node.free_port()}"
        config = os.path.join(run.work, f"worker-{n}.properties")
        with open(config, "w") as f:
            f.writelines(f"{k}={v}\n" for k, v in {
                "bootstrap.servers": run.node.bootstrap, "group.id": "connect", "listeners": self.url, "plugin.discovery": "service_load",
                "key.converter": "org.apache.kafka.connect.storage.StringConverter", "value.converter": "org.apache.kafka.connect.storage.StringConverter",
                "config.storage.topic": "connect-configs", "offset.storage.topic": "connect-offsets", "status.storage.topic": "connect-status",
                "config.storage.replication.factor": 1, "offset.storage.replication.factor": 1, "status.storage.replication.factor": 1,
                "offset.storage.partitions": 3, "status.storage.partitions": 2, "offset.flush.interval.ms": 1000, "exactly.once.source.support": "enabled",
                # A worker that is gone is given up after ten seconds, and its tasks move at once.
                "session.timeout.ms": 10000, "heartbeat.interval.ms": 1000, "scheduled.rebalance.max.delay.ms": 0,
            }.items())
        self.process = Process(node.java("org.apache.kafka.connect.cli.ConnectDistributed", config, heap="256M"), os.path.join(run.work, f"worker-{n}.log"))

    def ask(self, path, body=None, method=None):
        request = urllib.request.Request(self.url + path, body and json.dumps(body).encode(), {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=90) as answer:
            return json.loads(answer.read() or b"null")

    def ready(self):
        if not self.process.alive():
            raise Failed("the worker ended: " + self.process.tail())
        return self.ask("/")["kafka_cluster_id"]


class Run:
    def __init__(self, checks, work):
        self.checks, self.work, self.node = checks, work, node.Node(work)
        self.source, self.sink, self.written = os.path.join(work, "in.txt"), os.path.join(work, "out.txt"), []

    def write(self, n):
        lines = [f"line {i}" for i in range(len(self.written), len(self.written) + n)]
        with open(self.source, "a") as f:
            f.write("".join(line + "\n" for line in lines))
        self.written += lines

    def arrived(self, exactly):
        """Whether the sink has all lines. A worker that was killed may have written some of them twice, in order all the same."""
        with open(self.sink) as f:
            got = f.read().splitlines()
        if len(set(got)) < len(self.written):
            return False
        if list(dict.fromkeys(got)) != self.written or exactly and got != self.written:
            raise Failed(f"{len(got)} lines, want {len(self.written)}: {next((g, w) for g, w in zip(got, self.written) if g != w)} differ first")
        return True

    def tasks(self, worker):
        """Where each connector and its task runs, if all do."""
        at = {}
        for name in ("source", "sink"):
            status = worker.ask(f"/connectors/{name}/status")
            for what in [status["connector"], *status["tasks"]]:
                if what["state"] == "FAILED":
                    raise Failed(f"{name}: {what.get('trace', '')[:1000]}")
            if status["connector"]["state"] != "RUNNING" or [t["state"] for t in status["tasks"]] != ["RUNNING"]:
                return None
            at[name] = status["connector"]["worker_id"], status["tasks"][0]["worker_id"]
        return at

    def kafka(self, main, *args):
        return subprocess.run(node.java(main, *args), capture_output=True, text=True, timeout=node.PATIENCE).stdout

    def go(self):
        check = self.checks.check
        self.node.start()
        with check("connect: a worker starts, and knows the cluster"):
            first = Worker(self, 1)
            wait("the worker answers", first.ready)
        with check("connect: a file goes through a topic into a file"):
            self.write(1000)
            for name, config in {
                "source": {"connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector", "file": self.source, "topic": TOPIC,
                           "exactly.once.support": "required", "transaction.boundary": "interval", "transaction.boundary.interval.ms": "200"},
                "sink": {"connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector", "file": self.sink, "topics": TOPIC,
                         "consumer.override.isolation.level": "read_committed"},
            }.items():
                wait(f"{name} is accepted", lambda: first.ask(f"/connectors/{name}/config", {"tasks.max": "1", **config}, "PUT"))
            wait("tasks run", lambda: self.tasks(first))
            wait("the lines arrive", lambda: self.arrived(True))
        with check("connect: the worker stops"):
            first.process.end()
        self.write(1000)
        with check("connect: another worker goes on where it stood"):
            second = Worker(self, 2)
            wait("the worker answers", second.ready)
            wait("the lines arrive", lambda: self.arrived(True))
        with check("connect: a third worker shares the work"):
            third = Worker(self, 3)
            wait("the worker answers", third.ready)
            wait("tasks run on both", lambda: len({w for c in (self.tasks(third) or {}).values() for w in c}) == 2)
            self.write(1000)
            wait("the lines arrive", lambda: self.arrived(True))
        with check("connect: the groups are listed by their types"):
            out = self.kafka("org.apache.kafka.tools.GroupsCommand", "--bootstrap-server", self.node.bootstrap, "--list")
            rows = {tuple(line.split()) for line in out.splitlines()}
            if not {("connect", "Classic", "connect"), ("connect-sink", "Classic", "consumer")} <= rows:
                raise Failed(out)
        with check("connect: the other goes on when one is killed"):
            second.process.kill()
            self.write(1000)
            wait("the lines arrive", lambda: self.arrived(False))
            wait("tasks run on one", lambda: len({w for c in (self.tasks(third) or {}).values() for w in c}) == 1)
        with check("connect: the node stops and starts again under it"):
            self.node.stop()
            self.write(500)
            self.node.start()
            wait("the lines arrive", lambda: self.arrived(False))
        with check("connect: each line is in the topic once"):
            out = self.kafka("org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", self.node.bootstrap, "--topic", TOPIC, "--from-beginning",
                             "--isolation-level", "read_committed", "--timeout-ms", "10000").splitlines()
            if out != self.written:
                raise Failed(f"{len(out)} lines, want {len(self.written)}")
        with check("connect: the last worker stops"):
            third.process.end()
        with check("connect: the node stops"):
            self.node.stop()


node.main(lambda checks, work: Run(checks, work).go())
