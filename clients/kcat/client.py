"""kcat: client.py produce|consume BOOTSTRAP TOPIC CODEC COUNT. Keys, values and headers here are text."""
import base64, json, os, subprocess, sys, tempfile

verb, bootstrap, topic, codec, count = sys.argv[1:6]
base = ["kcat", "-b", bootstrap, "-t", topic, "-p", "0", "-q"]


def text(s):
    return None if s is None else base64.b64encode(s.encode()).decode()


if verb == "produce":
    for r in json.load(sys.stdin):  # one call a record: headers hold for a whole call
        args = base + ["-P", "-z", codec]
        if r["key"] is not None and r["value"] is not None:
            args += ["-k", base64.b64decode(r["key"]).decode()]
        for name, value in r["headers"]:
            args += ["-H", name + "=" + base64.b64decode(value).decode()]
        with tempfile.NamedTemporaryFile() as f:
            if r["value"] is None:
                # Only a line can be a tombstone, not a file: KEY 0x01 nothing 0x02.
                args += ["-Z", "-K", "\x01", "-D", "\x02"]
                subprocess.run(args, input=base64.b64decode(r["key"]) + b"\x01\x02", check=True, timeout=60)
            else:
                f.write(base64.b64decode(r["value"]))
                f.flush()
                subprocess.run(args + [f.name], check=True, timeout=60)
else:
    out = subprocess.run(base + ["-C", "-o", "beginning", "-c", count, "-J", "-X", "check.crcs=true"], check=True, timeout=60, capture_output=True).stdout
    for line in out.decode().splitlines():
        m = json.loads(line)
        h = m.get("headers") or []
        print(json.dumps({"key": text(m["key"]), "value": text(m["payload"]), "headers": [[n, text(v)] for n, v in zip(h[::2], h[1::2])]}))
