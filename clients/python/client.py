"""confluent-kafka-python: client.py produce|consume BOOTSTRAP TOPIC CODEC RECORDS"""
import base64, json, sys
from confluent_kafka import Consumer, Producer, TopicPartition, OFFSET_BEGINNING

verb, bootstrap, topic, codec, count = sys.argv[1:6]


def text(b):
    return None if b is None else base64.b64encode(b).decode()


if verb == "produce":
    failed = []
    p = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 50, "enable.idempotence": True})
    for r in json.load(sys.stdin):
        un = lambda s: None if s is None else base64.b64decode(s)
        p.produce(topic, key=un(r["key"]), value=un(r["value"]), partition=0, headers=[(n, un(v)) for n, v in r["headers"]],
                  on_delivery=lambda err, m: failed.append(err) if err else None)
    if p.flush(30) or failed:
        sys.exit(f"not delivered: {failed}")
else:
    c = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False, "check.crcs": True})
    c.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    for _ in range(int(count)):
        m = c.poll(30)
        if m is None or m.error():
            sys.exit(f"no message: {m and m.error()}")
        print(json.dumps({"key": text(m.key()), "value": text(m.value()), "headers": [[n, text(v)] for n, v in m.headers() or []]}))
    c.close()
