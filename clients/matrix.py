"""Every client of other languages writes with every codec that it has, and every one reads all of it back.

matrix.py BOOTSTRAP [PREFIX]: prints `ok NAME` or `FAIL NAME: reason` a check, exits 1 on a failure. See README.md.
"""
import base64, concurrent.futures, json, os, subprocess, sys

here = os.path.dirname(os.path.abspath(__file__))
cache = os.path.join(here, ".cache")
bootstrap, prefix = sys.argv[1], "".join(sys.argv[2:3])
java = ["java", "-Xmx128M", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", os.path.join(cache, "java", "libs", "*") + ":" + os.path.join(cache, "java", "classes")]

CLIENTS = {  # command, the codecs it writes, and what it cannot say of records.json
    "kcat": (["python3", os.path.join(here, "kcat", "client.py")], ["none", "gzip", "snappy", "lz4", "zstd"], {"empty", "nullheader"}),
    "python": ([os.path.join(cache, "venv", "bin", "python"), os.path.join(here, "python", "client.py")], ["none", "gzip", "snappy", "lz4", "zstd"], set()),
    "kafkajs": (["node", os.path.join(cache, "node", "client.js")], ["none", "gzip", "snappy"], {"nullheader"}),
    "java": (java + ["Client"], ["none", "gzip", "snappy", "lz4", "zstd"], set()),
}
READS = {"kcat": None, "python": None, "kafkajs": {"none", "gzip", "snappy"}, "java": None}  # codecs that it can read; None: all


def records(lacking):
    all_of_them = json.load(open(os.path.join(here, "records.json")))
    for r in all_of_them:
        if isinstance(r["value"], dict):
            r["value"] = base64.b64encode(base64.b64decode(r["value"]["repeat"]) * r["value"]["times"]).decode()
    return [{k: r[k] for k in ("key", "value", "headers")} for r in all_of_them if not lacking & r.keys()]


def run(client, verb, topic, codec, count, stdin=None):
    out = subprocess.run(CLIENTS[client][0] + [verb, bootstrap, topic, codec, str(count)], input=stdin, capture_output=True, text=True, timeout=120)
    if out.returncode:
        raise RuntimeError(f"exit {out.returncode}: {(out.stderr or out.stdout).strip()[-600:]}")
    return [json.loads(line) for line in out.stdout.splitlines() if line.startswith("{")]


def check(name, f):
    try:
        f()
        print("ok   " + name, flush=True)
        return True
    except Exception as e:  # whatever it is, it is this check's failure
        print(f"FAIL {name}: {e}", flush=True)
        return False


def canonical(r):
    # kafkajs keeps headers in an object: equal names are gathered, so their order among others is not looked at.
    return json.dumps([r["key"], r["value"], sorted(r["headers"], key=lambda h: (h[0], h[1] or ""))])


def reading(reader, topic, codec, want):
    got = run(reader, "consume", topic, codec, len(want))
    for i, (w, g) in enumerate(zip(want, got)):
        if canonical(w) != canonical(g):
            raise RuntimeError(f"record {i}: got {canonical(g)[:300]}, want {canonical(w)[:300]}")
    if len(got) != len(want):
        raise RuntimeError(f"{len(got)} records, want {len(want)}")


checks = []
with concurrent.futures.ThreadPoolExecutor(2) as pool:
    for writer, (_, codecs, lacking) in CLIENTS.items():
        for codec in codecs:
            topic, want = f"{prefix}{writer}-{codec}", records(lacking)
            written = check(f"{writer} writes {codec}", lambda: run(writer, "produce", topic, codec, len(want), json.dumps(want)))
            checks.append(written)
            if written:
                for reader, can in READS.items():
                    if can is None or codec in can:
                        checks.append(pool.submit(check, f"{reader} reads {topic}", lambda r=reader, t=topic, c=codec, w=want: reading(r, t, c, w)))
    results = [c if isinstance(c, bool) else c.result() for c in checks]
print(f"clients: {results.count(True)} passed, {results.count(False)} failed")
sys.exit(0 if all(results) else 1)
