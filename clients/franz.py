"""franz-go's own tests of its client, as its module has them, against a node of Quire.

KGO_TEST_RECORDS bounds how much its pipelines of groups and transactions carry. A test that fails is run once more by itself: its own
deadlines are short for a machine under load, and what fails twice is a fault.
"""
import json, os, re, subprocess

import node
from node import Failed

# The tests that talk to a node; the module's others need none, or share groups.
TESTS = """GroupETL TxnEtl GroupSimple Ping Issue1034 SCRAMAuth SCRAMAuthBadCredentials ConsumeTopicRetrieval ConsumeTopicRetrieval_Many ConsumeRegex
848RegexBrokerResolves Issue325 Issue337 Issue434 Issue523 Issue648 Issue810 Issue865 AddRemovePartitions DirectPartitionPurge PauseIssue489
PauseIssueOct2023 IssueFetchLargerThanBrokerMaxReadBytes Pooling HookPollStart PollWaitStateNoUnderflow LookbackMilli ConsumeMaxDecompressBatchBytes
Client_Produce Issue769 Issue831 Client_ProduceLargeMessages""".split()
MODULE = "github.com/twmb/franz-go/pkg/kgo"
RECORDS = os.environ.get("KGO_TEST_RECORDS", "20000")


def part(checks, work):
    sasl = f"127.0.0.1:{node.free_port()}"
    n = node.Node(work, sasl_enabled_mechanisms="SCRAM-SHA-256")
    with open(n.properties) as f:
        text = f.read()
    text = re.sub("(?m)^((?:advertised.)?listeners=.*)$", rf"\1,SASL_PLAINTEXT://{sasl}", text)
    text = re.sub("(?m)^(listener.security.protocol.map=.*)$", r"\1,SASL_PLAINTEXT:SASL_PLAINTEXT", text)
    with open(n.properties, "w") as f:
        f.write(text)
    n.start()
    added = subprocess.run(node.java("kafka.admin.ConfigCommand", "--bootstrap-server", n.bootstrap, "--alter", "--entity-type", "users",
                                     "--entity-name", "franz", "--add-config", "SCRAM-SHA-256=[password=secret]"), capture_output=True, text=True, timeout=node.PATIENCE)
    if added.returncode:
        raise Failed("no user: " + added.stdout + added.stderr)
    env = {**os.environ, "KGO_SEEDS": n.bootstrap, "KGO_TEST_RF": "1", "KGO_TEST_RECORDS": RECORDS, "KGO_LOG_LEVEL": "none",
           "KGO_TEST_SCRAM_SEEDS": sasl, "KGO_TEST_SCRAM": "franz:secret"}

    def run(tests):
        """What became of each test and subtest, and what they printed."""
        pattern = "^(" + "|".join("Test" + t for t in tests) + ")$"
        out = subprocess.run(["go", "test", "-json", "-count=1", "-timeout=9m", "-run", pattern, MODULE], cwd=node.here, env=env, capture_output=True, text=True, timeout=600)
        ends, said = {}, {}
        for line in out.stdout.splitlines():
            if line.startswith("{"):
                e = json.loads(line)
                test = e.get("Test", "")
                if e["Action"] in ("pass", "fail", "skip"):
                    ends[test] = e["Action"]
                elif e["Action"] == "output":
                    said.setdefault(test, []).append(e["Output"])
        if not ends:
            raise Failed(f"no test ran: {out.stdout[-1000:]}{out.stderr[-1000:]}")
        return ends, said

    ends, said = run(TESTS)
    again = [t for t in TESTS if ends.get("Test" + t) != "pass"]
    if again:
        for t in again:
            print(f"     | Test{t}: {ends.get('Test' + t)}; once more: " + "".join(said.get("Test" + t, []))[-500:].replace("\n", "\n     | "), flush=True)
        more, said = run(again)
        ends = {name: end for name, end in ends.items() if name.split("/")[0].removeprefix("Test") not in again} | more
    for name in sorted(ends):
        with checks.check("franz-go's " + name) if name and ends[name] != "skip" else node.nothing():
            if ends[name] == "fail":
                raise Failed("".join(said.get(name, ["it failed"]))[-2000:])
    with checks.check("franz-go's tests all ran"):
        missing = [t for t in TESTS if ends.get("Test" + t) not in ("pass", "fail")]
        if missing:
            raise Failed(f"not run: {missing}")
    with checks.check("the node stops after franz-go's tests"):
        n.stop()


node.main(part)
