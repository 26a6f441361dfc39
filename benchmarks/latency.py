"""How long a record takes from the moment it is due to the moment a sink has it, at a steady rate.

    python benchmarks/latency.py [--rate 1000] [--seconds 30] [--warm 15] [-p 2] [--rounds 3] [--write] [--json FILE]

The job is a source with a rate, key_by, a process function that counts in keyed state, and a sink: two levels and an
exchange. Record n is due n / rate seconds behind the first plan, whatever the job does, so a job that is held up makes
all records late that are due meanwhile. Keys are 1,000. The first seconds warm up and do not count.

Cases: the local executor, and Spark (`local[2]`) with a carrier that stays and with a task for each epoch
(`millstream.epoch.carrier-hold` of 0), in turns. Processor time is that of all processes, as a part of one core.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import figures
from marked import mark_of_run, processor_seconds

RESULTS = Path(__file__).parent / "results" / "latency.md"
CASES = {
    "local": {"execution.target": "local"},
    "local[2]": {"execution.target": "local[2]"},
    "local[2], a task for each epoch": {
        "execution.target": "local[2]",
        "millstream.epoch.carrier-hold": "0 ms",
    },
}
WANTED_MS = {"local[2]": {"median, ms": 20.0, "99 %, ms": 60.0}}
ROWS = ("median, ms", "99 %, ms", "longest, ms", "epochs a second", "processor, % of a core")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rate", type=int, default=1_000, help="records a second")
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--warm", type=int, default=15)
    parser.add_argument("-p", "--parallelism", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=CASES, action="append", help="a case; all by default")
    parser.add_argument("--write", action="store_true", help=f"write the table to {RESULTS}")
    figures.add_option(parser)
    parser.add_argument("--worker", choices=CASES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        print(json.dumps(_work(arguments)))
        return
    page = _measure(arguments)
    print(page)
    if arguments.write:
        RESULTS.write_text(page)


def _measure(arguments: argparse.Namespace) -> str:
    seen: dict[str, list[dict[str, float]]] = {name: [] for name in arguments.only or CASES}
    for _ in range(arguments.rounds):
        for name in seen:
            seen[name].append(_run(name))
            print(f"{name}: {seen[name][-1]}", file=sys.stderr)
    figures.write(
        arguments.json, [_figure(name, row, seen[name], arguments.rate) for name in seen for row in ROWS[:2]]
    )
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    lines = [
        "# Latency at a steady rate",
        "",
        f"`benchmarks/latency.py --rate {arguments.rate} --seconds {arguments.seconds} --warm {arguments.warm} "
        f"-p {arguments.parallelism}`: from when a record is due to the sink, behind key_by and a process function; "
        f"medians of {arguments.rounds} rounds in turns, least in brackets; {os.cpu_count()} cores, load "
        f"{load}.",
        "",
        "| | " + " | ".join(seen) + " |",
        "|---|" + "---|" * len(seen),
    ]
    for row in ROWS:
        cells = [
            f"{median(each[row] for each in every):.1f} ({min(each[row] for each in every):.1f})"
            for every in seen.values()
        ]
        lines.append(f"| {row} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])


def _run(case: str) -> dict[str, float]:
    """Run a case in a process of its own."""
    command = [sys.executable, __file__, *sys.argv[1:], "--worker", case]
    environment = {**os.environ, **mark_of_run()}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed\n{done.stdout}\n{done.stderr}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _figure(case: str, row: str, runs: list[dict[str, float]], rate: int) -> figures.Figure:
    title = f"latency at {rate:,} records/s, {case}: {row.removesuffix(', ms')}"
    limit = WANTED_MS.get(case, {}).get(row)
    return figures.by_itself(f"{case} {row}", title, [run[row] for run in runs], unit="ms", limit=limit)


def _work(arguments: argparse.Namespace) -> dict[str, float]:
    """Run the job in this process."""
    from millstream.common import Configuration, Types, WatermarkStrategy
    from millstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment
    from millstream.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
    from millstream.datastream.functions import SinkFunction
    from millstream.datastream.state import ValueStateDescriptor
    from millstream.graph.launcher import set_progress_listener

    rate, parallelism = arguments.rate, arguments.parallelism
    each = rate * (arguments.warm + arguments.seconds) // parallelism  # records of a subtask

    class Clocked(DataGeneratorSource):
        """Notes when the rate begins to count."""

        def build_enumerator(self, parallelism: int, restored: Any) -> Any:
            enumerator = super().build_enumerator(parallelism, restored)
            plan = enumerator.plan

            def plan_timed(request: Any) -> Any:
                starts.append(request.now_ms)
                return plan(request)

            enumerator.plan = plan_timed
            return enumerator

    class Count(KeyedProcessFunction):
        def open(self, runtime_context: Any) -> None:
            self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

        def process_element(self, value: int, context: Any) -> Any:
            self.count.update((self.count.value() or 0) + 1)
            yield value

    class Note(SinkFunction):
        def __init__(self, directory: str) -> None:
            self.directory = directory
            self.seen: list[tuple[int, float]] = []

        def invoke(self, value: int, context: Any) -> None:
            self.seen.append((value, time.time() * 1000))

        def close(self) -> None:
            Path(self.directory, uuid.uuid4().hex).write_text(json.dumps(self.seen))

    starts: list[int] = []
    processors: list[tuple[float, float]] = []
    epochs: list[float] = []

    def note_epoch(progress: Any) -> None:
        epochs.append(time.time())
        since_s = epochs[-1] - starts[0] / 1000
        # Slots that have ended tell no processor time any more: the last look is before the end.
        marks = (arguments.warm, arguments.warm + arguments.seconds - 1)
        if len(processors) < len(marks) and since_s > marks[len(processors)]:
            processors.append((epochs[-1], processor_seconds()))

    with tempfile.TemporaryDirectory() as directory:
        env = StreamExecutionEnvironment.get_execution_environment(
            Configuration.from_dict(CASES[arguments.worker])
        ).set_parallelism(parallelism)
        source = Clocked(lambda index: index, each * parallelism, RateLimiterStrategy.per_second(rate))
        numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
        numbers.key_by(lambda value: value % 1_000).process(Count(), Types.LONG()).add_sink(Note(directory))
        set_progress_listener(note_epoch)
        env.execute("latency")
        seen = [record for path in Path(directory).iterdir() for record in json.loads(path.read_text())]
    assert len(seen) == each * parallelism
    took = []
    for index, at_ms in seen:
        subtask, place = divmod(index, each)
        due_s = (place * parallelism + subtask) / rate
        if due_s >= arguments.warm:
            took.append(at_ms - starts[0] - due_s * 1000)
    (began, before), (ended, after) = processors
    return {
        "median, ms": median(took),
        "99 %, ms": quantiles(took, n=100)[98],
        "longest, ms": max(took),
        "epochs a second": sum(began <= at <= ended for at in epochs) / (ended - began),
        "processor, % of a core": (after - before) / (ended - began) * 100,
    }


if __name__ == "__main__":
    main()
