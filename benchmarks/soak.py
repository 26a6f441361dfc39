"""Run thousands of epochs and show that nothing grows: memory, threads, open files, disk.

    python benchmarks/soak.py [--epochs 2000] [--target local[2]]

One process runs the job (an unbounded, rate-limited source, a keyed process function, event-time windows and
a file sink, whose state has a constant size); this one looks at it from outside. All processes of the job,
slots in sessions of their own included, are found by an environment variable that they inherit.

Samples are taken once a second from the first record on. The job ends itself after `--epochs`; rows are
then labelled with the epoch that an even pace gives, one every 100 epochs. For each level the median of the
last quarter must not exceed that of the second quarter by more than the margin: exit code 1 otherwise, or
if the job fails or leaves a process behind.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parent.parent
MARKER = "MILLSTREAM_SOAK_ID"
KEYS = 1_000
RECORDS_PER_SECOND = 2_000
SAMPLE_EVERY_S = 1.0
EPOCHS_PER_ROW = 100
MIN_SAMPLES = 12
MB = 1_000_000

# What the job needs of millstream beyond PyFlink's API.
JOB_OPTIONS = {
    "millstream.execution.max-epochs": "{epochs}",
    "execution.target": "{target}",
    "execution.checkpointing.interval": "5 s",
}


@dataclass(frozen=True)
class Level:
    """One thing that must not grow, and by how much it may differ between the quarters."""

    title: str
    relative_margin: float
    absolute_margin: float
    unit: float = 1

    def limit(self, second_quarter: float) -> float:
        return second_quarter * (1 + self.relative_margin) + self.absolute_margin


LEVELS = {
    "driver_rss": Level("driver MB", 0.05, 10 * MB, MB),
    "jvm_rss": Level("JVM MB", 0.10, 64 * MB, MB),  # the heap grows in steps before a full collection
    "slot_rss": Level("slots MB", 0.05, 10 * MB, MB),
    "worker_rss": Level("Spark's workers MB", 0.10, 20 * MB, MB),
    "processes": Level("processes", 0, 1),
    "threads": Level("threads", 0.3, 8),  # the JVM's pools breathe: 380 to 540 within one run
    "open_files": Level("open files", 0.05, 16),
    "spark_bytes": Level("Spark's disk MB", 0.10, 5 * MB, MB),
    "temporary_bytes": Level("other disk MB", 0.10, 5 * MB, MB),
}


# ---------------------------------------------------------------- the job


def run_job(folder: Path, epochs: int, target: str) -> None:
    """Build and run the job in this process; it ends after `epochs` epochs."""
    from millstream.common import (
        Configuration,
        Duration,
        Encoder,
        Time,
        Types,
        WatermarkStrategy,
    )
    from millstream.common.watermark_strategy import TimestampAssigner
    from millstream.datastream import AggregateFunction, KeyedProcessFunction, StreamExecutionEnvironment
    from millstream.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
    from millstream.datastream.connectors.file_system import FileSink
    from millstream.datastream.state import ValueStateDescriptor
    from millstream.datastream.window import TumblingEventTimeWindows

    first_record = str(folder / "first-record")

    class CreationTime(TimestampAssigner):
        def extract_timestamp(self, value, record_timestamp):
            return value[1]

    class CountPerKey(KeyedProcessFunction):
        def open(self, runtime_context):
            self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
            self.noted = False

        def process_element(self, value, ctx):
            if not self.noted:
                Path(first_record).touch()
                self.noted = True
            count = (self.count.value() or 0) + 1
            self.count.update(count)
            yield value[0], count

    class Largest(AggregateFunction):
        def create_accumulator(self):
            return 0, 0

        def add(self, value, accumulator):
            return value[0] % KEYS, max(value[1], accumulator[1])

        def get_result(self, accumulator):
            return f"{accumulator[0]},{accumulator[1]}"

        def merge(self, a, b):
            return a[0], max(a[1], b[1])

    configuration = Configuration()
    for key, value in JOB_OPTIONS.items():
        configuration.set_string(key, value.format(epochs=epochs, target=target))
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)

    source = DataGeneratorSource(
        lambda index: (index, int(time.time() * 1000)),
        2**63 - 1,
        rate_limiter_strategy=RateLimiterStrategy.per_second(RECORDS_PER_SECOND),
    )
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(
        Duration.of_millis(100)
    ).with_timestamp_assigner(CreationTime())
    pair_type = Types.TUPLE([Types.LONG(), Types.LONG()])
    (
        env.from_source(source, WatermarkStrategy.no_watermarks(), "ticks", type_info=pair_type)
        .assign_timestamps_and_watermarks(strategy)
        .key_by(lambda tick: tick[0] % KEYS, key_type=Types.LONG())
        .process(CountPerKey(), output_type=pair_type)
        .key_by(lambda pair: pair[0] % KEYS, key_type=Types.LONG())
        .window(TumblingEventTimeWindows.of(Time.milliseconds(1_000)))
        .aggregate(Largest(), accumulator_type=pair_type, output_type=Types.STRING())
        .sink_to(FileSink.for_row_format(str(folder / "out"), Encoder.simple_string_encoder()).build())
    )
    env.execute("soak")


# ---------------------------------------------------------------- looking at it


def processes_of(marker: str) -> list[psutil.Process]:
    """Return every process that inherited the marker, wherever in the tree it is."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARKER) == marker:
                found.append(process)
        except psutil.Error:
            continue
    return found


def kind_of(process: psutil.Process, driver_pid: int) -> str:
    """Return whose memory this is: the driver's, the JVM's, Spark's Python workers' or the slots'.

    A slot and the fork server it comes from are what is left over.
    """
    if process.pid == driver_pid:
        return "driver_rss"
    if process.name().startswith("java"):
        return "jvm_rss"
    command = " ".join(process.cmdline())
    return "worker_rss" if "pyspark.daemon" in command or "pyspark/daemon" in command else "slot_rss"


def bytes_below(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.lstat().st_size
        except OSError:
            continue
    return total


def sample(marker: str, driver_pid: int, folder: Path) -> dict[str, float]:
    """Return every level of this moment, and the time."""
    levels: dict[str, float] = dict.fromkeys(LEVELS, 0)
    levels["time"] = time.monotonic()
    for process in processes_of(marker):
        try:
            with process.oneshot():
                kind, rss = kind_of(process, driver_pid), process.memory_info().rss
                threads, files = process.num_threads(), process.num_fds()
        except psutil.Error:  # gone meanwhile
            continue
        levels[kind] += rss
        levels["threads"] += threads
        levels["open_files"] += files
        levels["processes"] += 1
    levels["spark_bytes"] = bytes_below(folder / "spark")
    levels["temporary_bytes"] = bytes_below(folder / "tmp")
    return levels


def watch(
    folder: Path, arguments: argparse.Namespace
) -> tuple[list[dict[str, float]], float, int, list[int]]:
    """Run the job; return its samples, when it ended, its exit code, and the processes it left behind."""
    marker = uuid.uuid4().hex
    for name in ("spark", "tmp"):
        (folder / name).mkdir()
    environment = dict(os.environ) | {
        MARKER: marker,
        "SPARK_LOCAL_DIRS": str(folder / "spark"),
        "TMPDIR": str(folder / "tmp"),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")])),
    }
    command = [sys.executable, __file__, "--job", str(folder), "--epochs", str(arguments.epochs)]
    with open(folder / "log", "wb") as log:
        driver = subprocess.Popen(
            [*command, "--target", arguments.target], env=environment, stdout=log, stderr=log
        )
    samples = []
    deadline = time.monotonic() + arguments.timeout
    ended = time.monotonic()
    while driver.poll() is None:
        ended = time.monotonic()
        if ended > deadline:
            for process in processes_of(marker):
                process.kill()
            print(f"the job did not end within {arguments.timeout:g} s and was killed")
        if (folder / "first-record").exists():
            samples.append(sample(marker, driver.pid, folder))
        time.sleep(SAMPLE_EVERY_S)
    time.sleep(5)  # slots end by themselves when their job has gone
    left = [process.pid for process in processes_of(marker)]
    return samples, ended, driver.returncode, left


# ---------------------------------------------------------------- judging it


def rows(samples: list[dict[str, float]], ended: float, epochs: int) -> list[tuple[int, dict[str, float]]]:
    """Return (epoch, sample) every `EPOCHS_PER_ROW` epochs, by even pace from first sample to the end."""
    started = samples[0]["time"]
    pace = epochs / (ended - started)
    found = []
    for epoch in range(EPOCHS_PER_ROW, epochs + 1, EPOCHS_PER_ROW):
        nearest = min(samples, key=lambda one: abs((one["time"] - started) * pace - epoch))
        found.append((epoch, nearest))
    return found


def table_of(labelled: list[tuple[int, dict[str, float]]]) -> str:
    head = ["epoch", *(level.title for level in LEVELS.values())]
    lines = [head, ["---:"] * len(head)]
    for epoch, levels in labelled:
        lines.append([f"{epoch:,}", *(f"{levels[key] / level.unit:,.0f}" for key, level in LEVELS.items())])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def quarter(samples: list[dict[str, float]], number: int) -> list[dict[str, float]]:
    size = len(samples) / 4
    return samples[int(size * (number - 1)) : int(size * number)]


def judge(samples: list[dict[str, float]]) -> tuple[str, bool]:
    """Return a table of the quarters, and whether any level grew beyond its margin."""
    grew = False
    lines = [["level", "second quarter", "last quarter", "limit", ""], ["---"] * 5]
    for key, level in LEVELS.items():
        second, last = (statistics.median(one[key] for one in quarter(samples, number)) for number in (2, 4))
        over = last > level.limit(second)
        grew |= over
        figures = (f"{value / level.unit:,.1f}" for value in (second, last, level.limit(second)))
        lines.append([level.title, *figures, "GREW" if over else "ok"])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines), grew


def report(samples: list[dict[str, float]], ended: float, code: int, left: list[int], epochs: int) -> bool:
    """Print everything; return whether all is well."""
    failures: list[Any] = []
    if code:
        failures.append(f"the job ended with {code}")
    if left:
        failures.append(f"processes left behind: {left}")
    if len(samples) < MIN_SAMPLES:
        failures.append(f"only {len(samples)} samples: too short a run to judge")
    else:
        print(table_of(rows(samples, ended, epochs)))
        seconds = ended - samples[0]["time"]
        print(f"\n{epochs:,} epochs in {seconds:.0f} s, {seconds / epochs * 1000:.0f} ms each\n")
        verdict, grew = judge(samples)
        print(verdict)
        if grew:
            failures.append("a level grew")
    for failure in failures:
        print(f"FAILED: {failure}")
    return not failures


def main() -> int:
    parser = argparse.ArgumentParser(description="run many epochs and show that nothing grows")
    parser.add_argument("--epochs", type=int, default=2_000)
    parser.add_argument("--target", default="local[2]")
    parser.add_argument("--timeout", type=float, default=3_600, help="seconds")
    parser.add_argument("--job", type=Path, help=argparse.SUPPRESS)  # the process that runs the job
    arguments = parser.parse_args()
    if arguments.job:
        run_job(arguments.job, arguments.epochs, arguments.target)
        return 0

    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        folder = Path(name)
        samples, ended, code, left = watch(folder, arguments)
        well = report(samples, ended, code, left, arguments.epochs)
        if code:
            print((folder / "log").read_text(encoding="utf-8", errors="replace")[-4_000:])
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
