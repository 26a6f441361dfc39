"""Epochs are bounded in time and bytes: slow functions, huge records, functions that make much of little.

    python benchmarks/bounded_epochs.py                         # all cases, on local[2]
    python benchmarks/bounded_epochs.py --only slow,huge
    python benchmarks/bounded_epochs.py --baseline ../other/src # fast jobs against another checkout, interleaved

Slow: a function sleeps 100 ms for each of a million records, in the source's chain or behind a key_by, with a
checkpoint every 2 s; after 20 s the job is stopped with a savepoint. Huge: 2,000 records of 1 MB each go through a
key_by. Many: a flat map makes 10,000,000 records of one, and they go through an exchange. Endless: a flat map that
never ends. Fast: a chain and a keyed count of a few million integers, as ratio to the baseline.

Memory is the largest resident set of any one process: driver, its JVM, Python workers, slots.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path

import psutil

RESULTS = Path(__file__).parent / "results" / "bounded_epochs.md"
MARK = "MILLSTREAM_BENCHMARK"
SLOW_RECORDS, SLOW_S, RUN_S = 1_000_000, 0.1, 20.0
FAST_RECORDS, FAST_RUNS = 3_000_000, 5


def new_environment(target: str, **options):
    from millstream.common import Configuration
    from millstream.datastream import StreamExecutionEnvironment

    settings = {"execution.target": target, "spark.driver.memory": "1g"}
    settings |= {key.replace("_", "."): value for key, value in options.items()}
    return StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_dict(settings)
    ).set_parallelism(2)


def numbers(env, count):
    from millstream.common import WatermarkStrategy
    from millstream.datastream.connectors.number_seq import NumberSequenceSource

    return env.from_source(NumberSequenceSource(1, count), WatermarkStrategy.no_watermarks(), "numbers")


def slow(target: str, where: str) -> dict:
    """Run a slow job for a while, then stop it with a savepoint."""
    with tempfile.TemporaryDirectory() as directory:
        env = new_environment(
            target,
            execution_checkpointing_interval="2 s",
            execution_checkpointing_dir=f"file://{directory}/checkpoints",
        )
        stream = numbers(env, SLOW_RECORDS)
        if where == "keyed":
            stream = stream.key_by(lambda value: value % 1_000)

        def sleep(value):
            time.sleep(SLOW_S)
            return value, time.time()

        sink = Path(directory, "seen")
        sink.touch()

        def note(record):
            with open(sink, "a") as file:
                file.write(f"{record[1]} {time.time()}\n")
            return record

        # The results cross an exchange: what is seen has left the slow operator's slot and epoch.
        stream.map(sleep).rebalance().map(note).map(lambda record: record[0]).print()
        job = env.execute_async("slow")
        deadline = time.time() + 180
        while not sink.read_text() and time.time() < deadline:
            time.sleep(0.02)
        time.sleep(RUN_S)
        began = time.time()
        job.stop_with_savepoint(False, f"{directory}/savepoints").result()
        stopped = time.time() - began
        rows = [tuple(map(float, line.split())) for line in sink.read_text().splitlines()]
        delays = [seen - made for made, seen in rows]
        completed = [int(path.name[4:]) for path in Path(directory, "checkpoints").glob("*/chk-*")]
        return {
            "records": len(rows),
            "delay_median_s": statistics.median(delays),
            "delay_worst_s": max(delays),
            "checkpoints": max(completed, default=0),
            "stop_s": stopped,
        }


def huge(target: str) -> dict:
    """Send 2,000 records of 1 MB each through a key_by."""
    env = new_environment(target)
    stream = (
        numbers(env, 2_000).map(lambda number: (number, "x" * 1_000_000)).key_by(lambda record: record[0])
    )
    began = time.time()
    count = sum(1 for _ in stream.map(lambda record: len(record[1])).execute_and_collect())
    assert count == 2_000
    return {"records": count, "seconds": time.time() - began}


def many(target: str) -> dict:
    """Make 10,000,000 records of one, and count them behind an exchange."""
    env = new_environment(target)
    began = time.time()
    stream = numbers(env, 1).flat_map(lambda number: range(10_000_000)).key_by(lambda value: value % 2)
    counts = stream.map(lambda value: (value % 2, 1)).key_by(lambda pair: pair[0])
    counts = counts.reduce(lambda one, other: (one[0], one[1] + other[1])).filter(
        lambda pair: pair[1] == 5_000_000
    )
    found = sorted(counts.execute_and_collect())
    assert found == [(0, 5_000_000), (1, 5_000_000)], found
    return {"records": 10_000_000, "seconds": time.time() - began}


def endless(target: str) -> dict:
    """Take results of a generator that never ends."""
    env = new_environment(target)

    def count(first):
        number = first
        while True:
            number += 1
            yield number

    began = time.time()
    stream = numbers(env, 1).flat_map(count).rebalance().filter(lambda number: number % 100_000 == 0)
    results = stream.execute_and_collect()
    taken = [next(results) for _ in range(10)]
    seconds = time.time() - began
    results.close()
    return {"records": max(taken), "seconds": seconds}


def fast(target: str, which: str) -> dict:
    """Run a fast job; its time is that of the job alone."""
    env = new_environment(target)
    stream = numbers(env, FAST_RECORDS)
    if which == "keyed":
        keyed = stream.map(lambda n: (n % 1_000, 1)).key_by(lambda pair: pair[0])
        stream = keyed.reduce(lambda one, other: (one[0], one[1] + other[1]))
        stream = stream.filter(lambda pair: pair[1] % 1_000 == 0)
    else:
        stream = stream.map(lambda n: n + 1).map(lambda n: n * 2).filter(lambda n: n % 1_000_000 == 0)
    stream.print()
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        result = env.execute("fast")
    return {"records": FAST_RECORDS, "seconds": result.get_net_runtime() / 1000}


CASES = {"slow": slow, "huge": huge, "many": many, "endless": endless, "fast": fast}


class Memory:
    """Watches the largest resident set of the processes that inherited a mark."""

    def __init__(self, mark: str) -> None:
        self.mark, self.peak = mark, {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def _watch(self) -> None:
        known: dict[int, str | None] = {}
        while not self._ended.wait(0.1):
            for process in psutil.process_iter():
                try:
                    if process.pid not in known:
                        marked = process.environ().get(MARK) == self.mark
                        known[process.pid] = self._kind(process) if marked else None
                    kind = known[process.pid]
                    if kind is not None:
                        resident = process.memory_info().rss >> 20
                        self.peak[kind] = max(self.peak.get(kind, 0), resident)
                except psutil.Error:
                    continue

    @staticmethod
    def _kind(process: psutil.Process) -> str:
        command = " ".join(process.cmdline())
        if "slot.process" in command:
            return "slot"
        return "JVM" if "java" in command.split(" ")[0] else "Python"

    def end(self) -> dict:
        self._ended.set()
        self._thread.join()
        return self.peak


def run(case: str, *arguments: str, source: str | None = None) -> dict:
    """Run a case in a process of its own; return its figures and the memory."""
    mark = uuid.uuid4().hex
    environment = {**os.environ, MARK: mark}
    if source is not None:
        environment["PYTHONPATH"] = source
    memory = Memory(mark)
    try:
        done = subprocess.run(
            [sys.executable, __file__, "--case", case, *arguments],
            env=environment,
            capture_output=True,
            text=True,
            timeout=600,
        )
    finally:
        peak = memory.end()
    lines = [line for line in done.stdout.splitlines() if line.startswith("FIGURES ")]
    if not lines:
        return {"error": (done.stderr.strip().splitlines() or ["nothing said"])[-1], "memory": peak}
    return {**json.loads(lines[-1][8:]), "memory": peak}


def row(*cells) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def text_of(memory: dict) -> str:
    return ", ".join(f"{kind} {memory[kind]} MB" for kind in sorted(memory))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="slow,huge,many,endless,fast")
    parser.add_argument("--target", default="local[2]")
    parser.add_argument("--baseline", help="the src directory of another checkout")
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name}")
    parser.add_argument("--case", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        name, *arguments = options.case
        print("FIGURES " + json.dumps(CASES[name](*arguments)), flush=True)
        return
    wanted, target = options.only.split(","), options.target
    lines = ["# Bounded epochs", "", f"`benchmarks/bounded_epochs.py`, {target}, {os.cpu_count()} cores.", ""]
    if "slow" in wanted:
        lines += [
            row(
                "a function that sleeps 100 ms",
                "results",
                "delay, median",
                "worst",
                "checkpoints in 20 s",
                "stop",
            ),
            row(*["---"] * 6),
        ]
        for where in ("chained to the source", "keyed"):
            found = run("slow", target, where)
            print(found, file=sys.stderr)
            lines.append(
                row(
                    where,
                    found.get("error") or found["records"],
                    *(f"{found[key]:.2f} s" for key in ("delay_median_s", "delay_worst_s")),
                    found["checkpoints"],
                    f"{found['stop_s']:.2f} s",
                )
                if "error" not in found
                else row(where, found["error"], "", "", "", "")
            )
        lines.append("")
    shown = {
        "huge": "2,000 records of 1 MB",
        "many": "one record to 10,000,000",
        "endless": "an endless generator",
    }
    chosen = [case for case in shown if case in wanted]
    if chosen:
        lines += [
            row("job", "records", "time, with Spark's start", "largest process of each kind"),
            row(*["---"] * 4),
        ]
        for case in chosen:
            found = run(case, target)
            print(found, file=sys.stderr)
            time_text = found.get("error") or f"{found['seconds']:.1f} s"
            lines.append(
                row(shown[case], f"{found.get('records', 0):,}", time_text, text_of(found["memory"]))
            )
        lines.append("")
    if "fast" in wanted and options.baseline:
        lines += [row("fast job", "before", "now", "ratio, median"), row(*["---"] * 4)]
        for which in ("chain", "keyed"):
            pairs = []
            for _ in range(FAST_RUNS):
                before = run("fast", target, which, source=options.baseline)["seconds"]
                pairs.append((before, run("fast", target, which)["seconds"]))
            rates = [
                statistics.median(FAST_RECORDS / each[place] / 1000 for each in pairs) for place in (0, 1)
            ]
            ratio = statistics.median(before / now for before, now in pairs)
            print(which, pairs, file=sys.stderr)
            lines.append(row(which, f"{rates[0]:,.0f} k/s", f"{rates[1]:,.0f} k/s", f"{ratio:.2f}"))
    print("\n".join(lines))
    if options.write:
        RESULTS.write_text("\n".join(lines).rstrip() + "\n")


if __name__ == "__main__":
    main()
