"""Groups of every client share one topic while members join, leave and are killed, and while the node is stopped and killed.

Every language has a program that hosts members (README.md says what they read and print); two of each run, one of them to be killed.
All groups go through the same phases at once, while records keep coming:

    1  two members join    2  a third joins    3  the second leaves    4  the third is killed
    5  the node stops and starts again    6  a fourth joins    7  the node is killed and starts again    8  all has been read, all leave

What must hold: in each phase the members alive share all partitions, each partition having one owner, and read all that is produced.
Of every record at most one reading was followed by an acknowledged commit of it, so that what is acknowledged is not read again. In phases
1 to 3, and by members that nobody kills, a record is read again only where its first reader was refused the commit, since a commit can cross
a rebalance; that is rare. The positions committed are the ends of the partitions, to the
record, after the node was killed once more, as Kafka's kafka-dump-log decodes the files, and as Kafka itself reads them in Quire's place.
"""
import collections, os, re, signal, subprocess, sys, threading, time

from confluent_kafka import Consumer, Producer, TopicPartition

import node
from node import Failed, Process, wait

TOPIC, PARTITIONS, PER_SECOND = "work", 6, 60
RESTARTS = 4  # reading from this phase on may be repeated where its commit was not acknowledged

# Of each group: where its members one to four are hosted, and each one's mode; "-" where the client has but one.
GROUPS = {f"{lang}-{mode}" if mode != "-" else lang: [(lang, mode)] * 4 for lang, modes in {
    "java": ["range", "cooperative-sticky", "consumer"],
    "python": ["range", "cooperative-sticky", "consumer"],
    "franz-go": ["range", "cooperative-sticky", "consumer"],
    "sarama": ["range"], "kafka-go": ["range"], "kafkajs": ["-"], "kcat": ["range"],
}.items() for mode in modes} | {
    # One group of many languages, one that passes from the classic protocol to the consumer protocol as it works, and one back.
    "mixed-range": [("java", "range"), ("sarama", "range"), ("python", "range"), ("franz-go", "range")],
    "mixed-consumer": [("python", "consumer"), ("java", "consumer"), ("franz-go", "consumer"), ("java", "consumer")],
    "upgraded": [("java", "range"), ("java", "range"), ("python", "consumer"), ("franz-go", "consumer")],
    "downgraded": [("franz-go", "range"), ("python", "consumer"), ("java", "consumer"), ("java", "range")],
}
SILENT = {"sarama", "kcat"}  # clients that do not say whether a commit was acknowledged
PROGRAMS = {
    "java": node.java("Members", heap="256M", properties=["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]),
    "python": [sys.executable, os.path.join(node.here, "python", "members.py")],
    "kafkajs": ["node", os.path.join(node.cache, "node", "members.js")],
    **{lang: [os.path.join(node.cache, "go", "members"), lang] for lang in ("franz-go", "sarama", "kafka-go")},
}

# One node is the whole cluster here: librdkafka's search for others, each time that it is away, can leave a client without any (seen with 2.16.0).
LIBRDKAFKA = {"metadata.recovery.strategy": "none", "log_level": 0}

Reading = collections.namedtuple("Reading", "member phase value")


class Member:
    def __init__(self, group, n, host):
        self.group, self.host, self.id = group, host, f"{group.name}.{n}"
        self.assigned, self.left, self.killed, self.error = set(), False, False, None
        self.open = collections.defaultdict(list)  # of each partition, offsets read since it was assigned, with no acknowledged commit since
        self.failures = []

    def line(self, verb, rest):
        self.group.run.note(f"{time.monotonic():.3f} {self.group.run.phase} {self.id} {verb} {rest}")
        if verb == "read":
            p, o, value = rest.split(" ")
            self.open[int(p)].append(int(o))
            self.group.readings[int(p), int(o)].append(Reading(self, self.group.run.phase, value))
        elif verb == "committed":
            p, n = map(int, rest.split(" "))
            for o in self.open[p]:
                if o < n:
                    self.group.covered[p, o].append(self)
            self.open[p] = [o for o in self.open[p] if o >= n]
        elif verb == "assigned":
            self.assigned = set() if rest == "-" else set(map(int, rest.split(",")))
            for p in self.open.keys() - self.assigned:
                del self.open[p]
        elif verb == "failed":
            self.failures.append(rest)
            self.group.refused.update((self, p, o) for p, read in self.open.items() for o in read)
        elif verb == "left":
            self.left, self.assigned = True, set()
        elif verb == "error":
            self.error = rest


class Kcat:
    """A host of one kcat, which prints records and says on standard error what is assigned to it."""

    def __init__(self, run, member, group, topic, mode):
        self.member = member
        self.process = Process(["sh", "-c", 'exec "$@" 2>&1', "kcat", "kcat", "-b", run.node.bootstrap, "-G", group, topic, "-E", "-u", "-f", "%p %o %s\n",
                                *(f"-X{k}" for k in ("auto.offset.reset=earliest", "session.timeout.ms=10000", "heartbeat.interval.ms=1000",
                                                     "auto.commit.interval.ms=200", "partition.assignment.strategy=" + mode))],
                               os.path.join(run.work, "kcat.log"), self.line)

    def line(self, line):
        changed = re.search(r"rebalanced.*(assigned|revoked): (.*)", line)
        if changed:
            ps = set(map(int, re.findall(r"\[(\d+)\]", changed[2])))
            self.member.assigned = self.member.assigned | ps if changed[1] == "assigned" else self.member.assigned - ps
        elif re.fullmatch(r"\d+ \d+ \d+", line):
            return self.member.line("read", line)
        self.member.line("says", line)

    def leave(self):
        if self.process.end() != 0:
            raise Failed(f"kcat ended with {self.process.p.returncode}: {self.process.tail()}")
        self.member.line("left", "")


class Group:
    def __init__(self, run, name, places):
        self.run, self.name, self.places = run, name, places
        self.members, self.broken, self.upto = [], False, 0
        self.readings = collections.defaultdict(list)  # of (partition, offset)
        self.covered = collections.defaultdict(list)  # by whom
        self.refused = set()  # readings (member, partition, offset) whose commit the member was refused

    def join(self, n):
        lang, mode = self.places[n - 1]
        doomed = n == 3
        m = Member(self, n, (lang, doomed))
        self.members.append(m)
        self.run.by_id[m.id] = m
        if lang == "kcat":
            self.run.kcats[m.id] = Kcat(self.run, m, self.name, TOPIC, mode)
        else:
            self.run.host(lang, doomed).say(f"join {m.id} {self.name} {TOPIC} {mode}")

    def leave(self, n):
        m = self.run.by_id[f"{self.name}.{n}"]
        if m.host[0] == "kcat":
            self.run.kcats[m.id].leave()
        else:
            self.run.host(*m.host).say("leave " + m.id)

    def alive(self):
        return [m for m in self.members if not m.left and not m.killed]

    def look(self):
        for m in self.alive():
            if m.error:
                raise Failed(f"{m.id}: {m.error}")

    def shared(self, members):
        """Whether the members numbered so, and nobody else, own the partitions."""
        self.look()
        alive = self.alive()
        if sorted(int(m.id.rsplit(".", 1)[1]) for m in alive) != sorted(members):
            return False
        return all(m.assigned for m in alive) and sorted(p for m in alive for p in m.assigned) == list(range(PARTITIONS))

    def read_all(self, n):
        """Whether the first n records acknowledged have been read."""
        self.look()
        while self.upto < n and self.run.order[self.upto] in self.readings:
            self.upto += 1
        return self.upto == n

    def state(self):
        unread = self.run.order[self.upto] if self.upto < len(self.run.order) else None
        return f"next to be read {unread}; " + "; ".join(f"{m.id}{' killed' if m.killed else ' left' if m.left else ''} has {sorted(m.assigned)}"
                         + (f", {len(m.failures)} commits failed, last: {m.failures[-1][:200]}" if m.failures else "") for m in self.members)

    def judge(self, ledger):
        """Raises Failed for what was read wrongly."""
        for at, readings in self.readings.items():
            if at not in ledger:
                raise Failed(f"{at} was read, and never acknowledged to the producer")
            for r in readings:
                if r.value != ledger[at]:
                    raise Failed(f"{at}: {r.member.id} read {r.value}, want {ledger[at]}")
            if len(self.covered[at]) > 1:
                raise Failed(f"{at} was committed, and read again: committed by {[m.id for m in self.covered[at]]}")
            for r in readings[:-1]:
                if r.phase < RESTARTS and not r.member.killed and (r.member, *at) not in self.refused:
                    raise Failed(f"{at} was read {len(readings)} times: by {[(x.member.id, x.phase) for x in readings]}, covered by {[m.id for m in self.covered[at]]}")
        again = sum(len(r) - 1 for at, r in self.readings.items() if any((x.member, *at) in self.refused and x.phase < RESTARTS for x in r[:-1]))
        if again > len(ledger) // 10:
            raise Failed(f"{again} records were read again since their first readers were refused the commit")
        lost = sorted(set(ledger) - set(self.readings))
        if lost:
            raise Failed(f"{len(lost)} records were not read, the first is {lost[0]}")


class Run:
    def __init__(self, checks, work):
        self.checks, self.work = checks, work
        # Members that are gone are given up after ten seconds, in both protocols.
        self.node = node.Node(work, num_partitions=PARTITIONS, group_consumer_min_session_timeout_ms=10000, group_consumer_session_timeout_ms=10000,
                              group_consumer_min_heartbeat_interval_ms=1000, group_consumer_heartbeat_interval_ms=1000)
        self.phase, self.by_id, self.hosts, self.kcats = 0, {}, {}, {}
        only = set(sys.argv[1:])
        self.groups = [Group(self, name, places) for name, places in GROUPS.items() if not only or name in only]
        self.ledger, self.order = {}, []  # the value at (partition, offset) as acknowledged, and these as they came
        self.stop_producing, self.pause, self.paused = threading.Event(), threading.Event(), False
        self.lock, self.trace = threading.Lock(), open(os.path.join(work, "trace"), "w")  # for whoever keeps the folder

    def note(self, line):
        with self.lock:
            self.trace.write(line + "\n")

    def host(self, lang, doomed):
        if (lang, doomed) not in self.hosts:
            self.hosts[lang, doomed] = Process(PROGRAMS[lang] + [self.node.bootstrap], os.path.join(self.work, f"{lang}-{doomed}.log"), self.line)
        return self.hosts[lang, doomed]

    def line(self, line):
        id, _, rest = line.partition(" ")
        verb, _, rest = rest.partition(" ")
        if id in self.by_id:
            self.by_id[id].line(verb, rest)

    def produce(self):
        errors = []
        p = Producer({**LIBRDKAFKA, "bootstrap.servers": self.node.bootstrap, "enable.idempotence": True, "linger.ms": 5, "message.timeout.ms": 600000})

        def delivered(err, m):
            if err:
                errors.append(err)
            else:
                self.ledger[m.partition(), m.offset()] = m.value().decode()
                self.order.append((m.partition(), m.offset()))

        n = 0
        while not self.stop_producing.is_set():
            if self.pause.is_set():
                p.flush(1)
                self.paused = len(self.ledger) == n
                continue
            self.paused = False
            p.produce(TOPIC, value=str(n), partition=n % PARTITIONS, on_delivery=delivered)
            n += 1
            p.poll(1 / PER_SECOND)
        left = p.flush(node.PATIENCE)
        if left or errors or len(self.ledger) != n:
            self.producing = f"{left} records left, {len(self.ledger)} of {n} acknowledged, errors {errors[:3]}"

    def each(self, what, ready):
        """A check a group that ready(group) comes to be true, for all within one patience."""
        end = time.monotonic() + node.PATIENCE
        for g in self.groups:
            if g.broken:
                continue
            before = self.checks.failed
            with self.checks.check(f"{g.name}: {what}"):
                try:
                    wait(what, lambda: ready(g), max(5, end - time.monotonic()))
                except Failed as e:
                    raise Failed(f"{e}\n{g.state()}")
            g.broken = self.checks.failed > before

    def flows(self, what, members):
        """The members share the partitions, then all is read that was produced until they did."""
        self.each(f"{what}: the partitions are shared", lambda g: g.shared(members))
        n = len(self.order)
        self.each(f"{what}: all is read", lambda g: g.read_all(n))

    def all(self, do):
        for g in self.groups:
            if not g.broken:
                do(g)

    def without_records(self, do):
        """Does something while there is nothing to read. kcat commits records that a signal then keeps it from printing."""
        self.pause.set()
        wait("the producer pauses", lambda: self.paused)
        self.each("all is read before", lambda g: g.read_all(len(self.order)))
        do()
        self.pause.clear()

    def ends(self):
        ends = collections.Counter(p for p, _ in self.ledger)
        return {p: ends[p] for p in range(PARTITIONS)}

    def committed(self, g):
        """Raises Failed unless the positions committed are the ends."""
        c = Consumer({**LIBRDKAFKA, "bootstrap.servers": self.node.bootstrap, "group.id": g.name})
        try:
            got = {tp.partition: tp.offset for tp in c.committed([TopicPartition(TOPIC, p) for p in range(PARTITIONS)], 30)}
        finally:
            c.close()
        if got != self.ends():
            raise RuntimeError(f"committed {got}, the ends are {self.ends()}")  # for wait: perhaps not yet
        return True

    def go(self):
        self.node.start()
        asks = Producer({**LIBRDKAFKA, "bootstrap.servers": self.node.bootstrap})
        wait("the topic is there", lambda: len(asks.list_topics(TOPIC, 30).topics[TOPIC].partitions) == PARTITIONS)
        self.producing = None
        producer = threading.Thread(target=self.produce, daemon=True)
        producer.start()

        self.phase = 1
        self.all(lambda g: (g.join(1), g.join(2)))
        self.flows("two members join", [1, 2])
        self.phase = 2
        self.all(lambda g: g.join(3))
        self.flows("a third joins", [1, 2, 3])
        self.phase = 3
        self.without_records(lambda: [g.leave(2) for g in self.groups if not g.broken and g.name.startswith("kcat")])
        self.all(lambda g: g.name.startswith("kcat") or g.leave(2))
        self.flows("the second leaves", [1, 3])
        self.phase = 4
        for (_, doomed), host in self.hosts.items():
            if doomed:
                host.kill()
        for g in self.groups:
            m = self.by_id.get(g.name + ".3")
            if m:
                if m.id in self.kcats:
                    self.kcats[m.id].process.kill()
                m.killed = True
        self.flows("the third is killed", [1])
        self.phase = 5
        with self.checks.check("the node stops while groups work"):
            self.node.stop()
        self.node.start()
        self.flows("the node was stopped", [1])
        self.phase = 6
        self.all(lambda g: g.join(4))
        self.flows("a fourth joins", [1, 4])
        self.phase = 7
        self.node.kill()
        self.node.start()
        self.flows("the node was killed", [1, 4])
        self.phase = 8
        self.stop_producing.set()
        producer.join()
        with self.checks.check(f"{len(self.ledger)} records were acknowledged"):
            if self.producing:
                raise Failed(self.producing)
        self.each("all is read in the end", lambda g: g.read_all(len(self.order)))
        self.each("all is committed, to the record", self.committed)
        self.all(lambda g: (g.leave(1), g.leave(4)))
        self.each("all leave", lambda g: g.look() or not g.alive())
        for g in self.groups:
            if not g.broken:
                with self.checks.check(f"{g.name}: nothing is lost, and nothing is doubled"):
                    g.judge(self.ledger)
        self.node.kill()
        self.node.start()
        self.each("what is committed outlives the node", self.committed)
        self.tools("Quire")
        with self.checks.check("the node stops"):
            self.node.stop()
        self.decoded()
        with self.checks.check("Apache Kafka starts in its place"):
            self.node.start_kafka()
        self.tools("Apache Kafka in its place")
        with self.checks.check("Apache Kafka stops"):
            self.node.stop()

    def kafka(self, main, *args):
        """The standard output of one of Kafka's tools."""
        done = subprocess.run(node.java(main, *args, heap="256M"), capture_output=True, text=True, timeout=3 * node.PATIENCE)
        if done.returncode:
            raise Failed(f"exit {done.returncode}: {done.stdout[-1000:]}{done.stderr[-1000:]}")
        return done.stdout

    def tools(self, who):
        """kafka-consumer-groups sees every group empty and without lag."""
        command = ["org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", "--bootstrap-server", self.node.bootstrap, "--describe", "--all-groups"]
        with self.checks.check(f"kafka-consumer-groups: {who} has the positions"):
            rows = [line.split() for line in self.kafka(*command, "--offsets").splitlines()]
            got = {(r[0], int(r[2])): r[3:6] for r in rows if len(r) > 5 and r[1] == TOPIC}
            for g in self.groups:
                for p, end in self.ends().items():
                    if not g.broken and got.get((g.name, p)) != [str(end), str(end), "0"]:
                        raise Failed(f"{g.name} {p}: position, end and lag are {got.get((g.name, p))}, want {end}, {end}, 0")
        with self.checks.check(f"kafka-consumer-groups: {who} has the groups, empty"):
            rows = [line.split() for line in self.kafka(*command, "--state").splitlines()]
            got = {r[0]: r[-2:] for r in rows if len(r) > 3}
            for g in self.groups:
                if not g.broken and got.get(g.name) != ["Empty", "0"]:
                    raise Failed(f"{g.name}: {got.get(g.name)}, want Empty with 0 members\n{rows}")

    def decoded(self):
        """kafka-dump-log decodes __consumer_offsets; the last position that it shows of each group and partition is the end."""
        with self.checks.check("kafka-dump-log --offsets-decoder reads __consumer_offsets"):
            data = os.path.join(self.work, "data")
            files = [os.path.join(data, d, f) for d in sorted(os.listdir(data)) if d.startswith("__consumer_offsets-")
                     for f in sorted(os.listdir(os.path.join(data, d))) if f.endswith(".log") and os.path.getsize(os.path.join(data, d, f))]
            out = self.kafka("org.apache.kafka.tools.DumpLogSegments", "--offsets-decoder", "--files", ",".join(files))
            wrong = ("isvalid: false", "Could not", "Exception", "invalid bytes", "UNKNOWN")
            bad = [line for line in out.splitlines() if any(w in line for w in wrong)]
            if bad:
                raise Failed("\n".join(bad[:5]))
            got = {}
            for group, partition, offset in re.findall(
                    r'"group":"([^"]+)","topic":"' + TOPIC + r'","partition":(\d+)\}\}.*? payload: \{"version":"\d+","data":\{"offset":(\d+)', out):
                got[group, int(partition)] = int(offset)
            for g in self.groups:
                for p, end in self.ends().items():
                    if not g.broken and got.get((g.name, p)) != end:
                        raise Failed(f"{g.name} {p}: {got.get((g.name, p))}, want {end}")


node.main(lambda checks, work: Run(checks, work).go())
