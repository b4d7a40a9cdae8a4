"""Members of groups of confluent-kafka-python, as ../README.md says: members.py BOOTSTRAP. Modes: range, cooperative-sticky, consumer."""
import sys, threading
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

bootstrap = sys.argv[1]
lock = threading.Lock()
AGAIN = {KafkaError.REBALANCE_IN_PROGRESS, KafkaError.ILLEGAL_GENERATION, KafkaError._WAIT_COORD, KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
         KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.STALE_MEMBER_EPOCH}


def say(line):
    with lock:
        print(line, flush=True)


class Member(threading.Thread):
    """One consumer, on a thread of its own."""

    def __init__(self, id, group, topic, mode):
        super().__init__()
        self.id, self.topic, self.leaving = id, topic, threading.Event()
        self.read, self.assigned, self.incremental = {}, set(), mode != "range"
        config = {"bootstrap.servers": bootstrap, "group.id": group, "client.id": id, "auto.offset.reset": "earliest", "enable.auto.commit": False,
                  # One node is the whole cluster: the search for others while it is away can leave a client without any (seen with 2.16.0).
                  "metadata.recovery.strategy": "none", "log_level": 0}
        if mode == "consumer":
            config["group.protocol"] = "consumer"
        else:
            config |= {"session.timeout.ms": 10000, "heartbeat.interval.ms": 1000, "partition.assignment.strategy": mode}
        self.consumer = Consumer(config)

    def run(self):
        c = self.consumer
        c.subscribe([self.topic], on_assign=self.on_assign, on_revoke=self.on_revoke, on_lost=self.on_lost)
        try:
            while not self.leaving.is_set():
                for m in c.consume(100, 0.2):
                    if m.error():
                        if m.error().fatal():
                            raise KafkaException(m.error())
                        continue  # the library goes on by itself
                    if m.partition() in self.assigned:
                        say(f"{self.id} read {m.partition()} {m.offset()} {m.value().decode()}")
                        self.read[m.partition()] = m.offset() + 1
                self.commit(set(self.read))
            self.commit(set(self.read))
            c.close()
        except Exception as e:
            say(f"{self.id} error {e}")
            return
        say(f"{self.id} left")

    def commit(self, partitions):
        """Tries; what was not committed because the group or the node changes is tried again after the next poll."""
        at = [TopicPartition(self.topic, p, self.read[p]) for p in partitions & self.read.keys()]
        if not at:
            return
        try:
            done = self.consumer.commit(offsets=at, asynchronous=False)
            error = next((tp.error for tp in done if tp.error), None)
        except KafkaException as e:
            error = e.args[0]
        if error:
            say(f"{self.id} failed {error}")
            if error.code() in AGAIN:
                return
        else:
            for tp in at:
                say(f"{self.id} committed {tp.partition} {tp.offset}")
        for p in partitions:
            self.read.pop(p, None)

    def tell(self):
        say(f"{self.id} assigned {','.join(map(str, sorted(self.assigned))) or '-'}")

    def on_assign(self, c, partitions):
        self.assigned |= {tp.partition for tp in partitions}
        self.tell()

    def on_revoke(self, c, partitions):
        self.commit({tp.partition for tp in partitions})
        self.on_lost(c, partitions)

    def on_lost(self, c, partitions):
        gone = {tp.partition for tp in partitions}
        self.assigned -= gone
        for p in gone:
            self.read.pop(p, None)
        self.tell()


members = {}
for line in sys.stdin:
    verb, id, *rest = line.split()
    if verb == "join":
        members[id] = Member(id, *rest)
        members[id].start()
    else:
        members[id].leaving.set()
for m in members.values():
    m.leaving.set()
for m in members.values():
    m.join()
