"""Kafka to Kafka beside PyFlink with its Kafka jar: JSON decoded, a count for each key, exactly once.

    python benchmarks/kafka_pyflink.py [--rounds 3] [--records 50000] [--times 25] [--pyflink-env DIR] [--write]

A Kafka broker runs on this machine. Both systems run the same lines (`programs/kafka_json.py`) at parallelism 2, with a
checkpoint every second, in turns, each in a process of its own: a short topic, which warms up and pays for the start,
the same once more, then a long one. What the long one takes more than the second is what its further records take, by
the clock and in processor time of all processes of the system, the broker apart. millstream's long topic has `--times`
as many records, for it is through with PyFlink's too soon to be timed. After each job a reader of committed messages
has to see each count of each key once.

Exit code 1: a result is wrong, or millstream is less than 5 times as fast.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "kafka_pyflink.md"
JAR = "org.apache.flink:flink-sql-connector-kafka:5.0.0-2.2"
PARTITIONS = 2
SHORT = 20_000
FLOOR, AIM = 5.0, 15.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--records", type=int, default=50_000, help="further records of PyFlink's long topic")
    parser.add_argument("--times", type=int, default=25, help="how many times as many millstream gets")
    parser.add_argument("--pyflink-env", type=Path, help="an environment with PyFlink 2.3")
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS}")
    parser.add_argument("--worker", choices=("pyflink", "millstream"), help=argparse.SUPPRESS)
    parser.add_argument("--settings", type=json.loads, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work(arguments.worker, **arguments.settings)
        return 0
    return measure_all(arguments)


# ---------------------------------------------------------------- in the process that is measured


def work(system: str, servers: str, topics: list[list[str]], jars: list[str]) -> None:
    """Run the program once for each pair of topics; tell when each began and ended."""
    from programs.api import Api
    from programs.kafka_json import copy

    api = Api.load(system)
    for source, sink in topics:
        env = api.environment({"execution.checkpointing.interval": "1 s"})
        if jars:
            env.add_jars(*jars)
        copy(api, env, servers, source, sink)
        began = time.monotonic()
        env.execute(f"{source} to {sink}")
        print(json.dumps([began, time.monotonic()]), flush=True)


# ---------------------------------------------------------------- in the one that measures


def measure_all(arguments: argparse.Namespace) -> int:
    import compare
    from programs.kafka_json import KEYS, record

    sys.path.append(str(HERE.parent / "tests"))
    from servers.kafka import KafkaServer
    from servers.maven import jars

    python = {"pyflink": compare.prepare_pyflink(arguments.pyflink_env), "millstream": Path(sys.executable)}
    environments = compare.child_environments(python["pyflink"])
    found = [str(path) for path in Path(jars((JAR,), alone=True).removesuffix("/*")).glob("*.jar")]
    sizes = {
        "pyflink": (SHORT, SHORT, SHORT + arguments.records),
        "millstream": (SHORT, SHORT, SHORT + arguments.records * arguments.times),
    }
    measured: dict[str, list[tuple[float, float]]] = {system: [] for system in sizes}
    wrong = 0
    with tempfile.TemporaryDirectory(
        prefix="millstream-kafka-pyflink-", ignore_cleanup_errors=True
    ) as scratch:
        broker = KafkaServer(Path(scratch))
        broker.start()
        try:
            broker.warm_up()
            for size in {size for pair in sizes.values() for size in pair}:
                topic = broker.create_topic(f"records-{size}", PARTITIONS)
                for partition in range(PARTITIONS):
                    broker.produce(topic, [record(n) for n in range(partition, size, 2)], partition=partition)
            for number in range(arguments.rounds):
                for system in ("pyflink", "millstream")[:: (-1) ** number]:
                    sinks = [
                        broker.create_topic(f"counts-{system}-{number}-{place}", PARTITIONS)
                        for place in range(len(sizes[system]))
                    ]
                    sources = [f"records-{size}" for size in sizes[system]]
                    settings = {
                        "servers": broker.bootstrap,
                        "topics": list(zip(sources, sinks, strict=True)),
                        "jars": [f"file://{path}" for path in found] if system == "pyflink" else [],
                    }
                    measured[system].append(
                        run(python[system], system, environments[system], settings, sizes[system])
                    )
                    for topic, size in zip(sinks, sizes[system], strict=True):
                        wrong += differences(
                            (message.value() for message in broker.messages(topic)), size, KEYS
                        )
                        broker.delete_topic(topic)
                    print(f"{system}: {describe(measured[system][-1])}; {wrong} wrong results", flush=True)
        finally:
            broker.stop()
    page, ratio = report(measured, sizes, wrong)
    print(page)
    if arguments.write:
        RESULTS.write_text(page, encoding="utf-8")
    return 1 if wrong or ratio < FLOOR else 0


def run(
    python: Path, system: str, environment: dict[str, str], settings: dict[str, Any], sizes: tuple[int, ...]
) -> tuple[float, float]:
    """Return seconds and processor seconds of a million of the further records."""
    from marked import MARK, mark_of_run
    from processors import Processors

    mark = mark_of_run()
    command = [str(python), __file__, "--worker", system, "--settings", json.dumps(settings)]
    with Processors(mark[MARK]) as processors:
        done = subprocess.run(command, env={**environment, **mark}, capture_output=True, text=True)
    spans = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    if done.returncode or len(spans) != len(sizes):
        raise SystemExit(
            f"{system} ended with {done.returncode}:\n{done.stdout[-3000:]}{done.stderr[-6000:]}"
        )
    _, short, long = ((end - begin, processors.between(begin, end)) for begin, end in spans)
    if long <= short or long[1] <= short[1]:
        raise SystemExit(
            f"{system}: the longer topic did not take longer, so there is no rate: give it more records"
        )
    millions = (sizes[-1] - sizes[0]) / 1e6
    return (long[0] - short[0]) / millions, (long[1] - short[1]) / millions


def differences(values: Iterable[bytes], size: int, keys: int) -> int:
    """Return how many results are wrong, lost or doubled."""
    wanted = {f"shop {key}:{count}".encode() for key in range(keys) for count in range(1, size // keys + 1)}
    wrong = 0
    for value in values:
        if value in wanted:
            wanted.remove(value)
        else:
            wrong += 1
    return wrong + len(wanted)


def describe(figures: tuple[float, float]) -> str:
    seconds, processor = figures
    return f"{1e6 / seconds:,.0f} records/s, {processor:.2f} us of a processor for each"


def report(
    measured: dict[str, list[tuple[float, float]]], sizes: dict[str, tuple[int, ...]], wrong: int
) -> tuple[str, float]:
    lines = [
        "# Kafka to Kafka beside PyFlink",
        "",
        f"`benchmarks/kafka_pyflink.py`, PyFlink 2.3.0 with `{JAR}`,",
        f"medians of {len(measured['pyflink'])} rounds in turns, x86_64, 2 cores.",
        "",
        "| | further records | records a second | processor time a record |",
        "|---|---:|---:|---:|",
    ]
    names = {"pyflink": "PyFlink", "millstream": "millstream"}
    for system, figures in measured.items():
        seconds, processor = (median(column) for column in zip(*figures, strict=True))
        further = sizes[system][-1] - sizes[system][0]
        lines.append(f"| {names[system]} | {further:,} | {1e6 / seconds:,.0f} | {processor:.2f} us |")
    pairs = list(zip(measured["pyflink"], measured["millstream"], strict=True))
    by_clock, by_processor = (median(theirs[i] / ours[i] for theirs, ours in pairs) for i in (0, 1))
    verdict = "met" if by_clock >= FLOOR else "missed"
    lines += [
        "",
        f"millstream is {by_clock:.1f} x as fast by the clock (floor {FLOOR:g} x: {verdict}; aim {AIM:g} x), "
        f"{by_processor:.1f} x by processor time.",
        f"{wrong} results were wrong, lost or doubled.",
    ]
    return "\n".join(lines) + "\n", by_clock


if __name__ == "__main__":
    sys.exit(main())
