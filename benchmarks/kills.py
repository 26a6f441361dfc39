"""Kill random processes of a job again and again: nothing may be lost, nothing doubled.

    python benchmarks/kills.py [--kills 100] [--pauses 0] [--seed 1] [--records 400000] [--patience 120]

A standalone Spark cluster of two workers runs on this machine. On it a job counts numbered records for each key,
with checkpoints every 500 ms, into a FileSink. All the while this program sends SIGKILL to random processes of it:
slots, Spark's Python workers and daemons, executors, workers of the cluster, the driver (which is started again
with `--recover`), two at once, and again while the job recovers.

With `--pauses` it also sends SIGSTOP to the driver, half the time to its JVM as well, starts another one with
`--recover`, and sends SIGCONT to the first: as the other one starts, when it publishes, or some seconds later. The
first has to end with an exit code that is not 0, and to say that it is superseded.

At the end every count of every key must be in the sink's files exactly once. Exit code 1 otherwise.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from killing import OPTIONS, Cluster, Killed, machine, parent, run_kills, wait_for_output

KEYS = 50
PER_SECOND = 2_000

PROGRAM = """
import sys
from millstream.common import Encoder, Types, WatermarkStrategy
from millstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from millstream.datastream.connectors.file_system import FileSink, RollingPolicy
from millstream.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from millstream.datastream.state import ValueStateDescriptor

directory, records, per_second, keys = sys.argv[1], *map(int, sys.argv[2:])

class Count(KeyedProcessFunction):
    def open(self, context):
        self.count = context.get_state(ValueStateDescriptor("count", Types.LONG()))
    def process_element(self, value, context):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield f"{context.get_current_key()}:{count}"

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
source = DataGeneratorSource(
    lambda index: index, records, RateLimiterStrategy.per_second(per_second), Types.LONG())
stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
counted = stream.key_by(lambda value: value % keys).process(Count(), Types.STRING()).uid("count")
# Every checkpoint publishes: by default a file is visible after a minute, unless the job restarts.
files = FileSink.for_row_format(directory + "/out", Encoder.simple_string_encoder())
counted.sink_to(files.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build()).uid("files")
env.execute("counting")
"""

WEIGHTS = {"slot": 40, "Python worker": 20, "executor": 20, "cluster worker": 5, "driver": 15}


@dataclass
class Paused:
    """A driver that stands still."""

    process: subprocess.Popen[bytes]
    log: Path
    pids: list[int]

    def end(self, patience_s: float) -> float:
        """Let it go on; return after how many seconds it ended, and said that it is superseded."""
        began = time.time()
        for pid in self.pids:
            os.kill(pid, signal.SIGCONT)
        code = self.process.wait(patience_s)
        if code <= 0 or "[DRIVER_SUPERSEDED]" not in self.log.read_text():
            raise SystemExit(
                f"a superseded driver ended with exit code {code}:\n{self.log.read_text()[-10_000:]}"
            )
        return time.time() - began


def visible_lines(directory: Path) -> Counter[str]:
    files = [path for path in directory.rglob("*") if path.is_file() and not path.name.startswith((".", "_"))]
    return Counter(line for path in files for line in path.read_text(encoding="utf-8").splitlines())


def newest_output(directory: Path) -> float:
    # Files only: what is staged in a directory changes its time as well.
    files = [path for path in directory.rglob("*") if path.is_file() and not path.name.startswith((".", "_"))]
    times = [path.stat().st_mtime for path in files]
    return max(times, default=0.0)


class Files:
    """What the job publishes: files, of which the newest counts."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._seen = 0.0
        self._count = 0

    def follow(self, seconds: float) -> int:
        time.sleep(seconds)
        newest = newest_output(self._cluster.directory / "out")
        if newest > self._seen:
            self._seen, self._count = newest, self._count + 1
        return self._count

    def has_caught_up(self) -> bool:
        return self.has_ended()

    def has_ended(self) -> bool:
        return self._cluster.processes["driver"].poll() == 0


def pause_driver(cluster: Cluster, *, jvm_too: bool) -> Paused:
    """Stop the driver, and start another one."""
    process, log = cluster.processes.pop("driver"), cluster.driver_log()
    pids = [process.pid]
    if jvm_too:
        pids += [
            pid for pid in cluster.find("org.apache.spark.deploy.SparkSubmit") if parent(pid) == process.pid
        ]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    cluster.processes[f"paused {cluster.drivers}"] = process
    cluster.start_driver()
    return Paused(process, log, pids)


def run_pauses(
    cluster: Cluster, output: Files, rng: random.Random, pauses: int, patience_s: float, ended: list[float]
) -> list[float]:
    """Pause the driver again and again; return after how long there was new output, and in `ended` the old ones."""
    taken_over: list[float] = []
    while len(taken_over) < pauses and cluster.processes["driver"].poll() != 0:
        time.sleep(rng.uniform(0.2, 2.5))
        paused = pause_driver(cluster, jvm_too=rng.random() < 0.5)
        struck = time.time()
        at_once, later_s = rng.random() < 0.3, rng.choice((0.0, rng.uniform(0.5, 5.0)))
        if at_once:
            time.sleep(rng.uniform(0, 6))
            ended.append(paused.end(patience_s))
        # Until now the first may have published, before the other one took over.
        if wait_for_output(cluster, output, patience_s) is None:
            raise SystemExit(f"no output within {patience_s:g} s:\n{cluster.log_tail()}")
        took = time.time() - struck
        taken_over.append(took)
        if not at_once:
            time.sleep(later_s)
            ended.append(paused.end(patience_s))
        print(
            f"{len(taken_over):4d} pauses: new output after {took:.1f} s, ended after {ended[-1]:.1f} s",
            flush=True,
        )
    return taken_over


def main() -> int:
    parser = argparse.ArgumentParser(description="kill random processes of a job again and again")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--records", type=int, default=400_000)
    parser.add_argument(
        "--patience", type=float, default=120, help="seconds without output that are a failure"
    )
    parser.add_argument("--pauses", type=int, default=0, help="how often the driver is paused")
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory(prefix="millstream-kills-", ignore_cleanup_errors=True) as scratch:
        # A driver that is paused keeps its cores.
        cores = 2 if arguments.pauses else 1
        options = {**OPTIONS, "high-availability.storageDir": f"{scratch}/ha"}
        program = (scratch, *map(str, (arguments.records, PER_SECOND, KEYS)))
        cluster = Cluster(Path(scratch), PROGRAM, program, options, cores)
        output, killed = Files(cluster), Killed(arguments.kills)
        try:
            cluster.start()
            cluster.start_driver()
            if wait_for_output(cluster, output, arguments.patience) is None:
                print(cluster.driver_log().read_text(), file=sys.stderr)
                return 1
            ended: list[float] = []
            taken_over = run_pauses(cluster, output, rng, arguments.pauses, arguments.patience, ended)
            run_kills(cluster, output, rng, killed, weights=WEIGHTS, patience_s=arguments.patience)
            while not output.has_ended():
                cluster.revive()
                time.sleep(0.2)
        finally:
            cluster.stop()
        seen = visible_lines(Path(scratch) / "out")
    expected = {
        f"{key}:{count}"
        for key in range(KEYS)
        for count in range(1, len(range(key, arguments.records, KEYS)) + 1)
    }
    lost = len(expected - seen.keys())
    doubled = sum(count - 1 for count in seen.values())
    strange = len(seen.keys() - expected)
    print(f"\n{machine()}, seed {arguments.seed}, {arguments.records:,} records\n\n{killed.table()}")
    if taken_over:
        print(
            f"| driver, paused | {len(taken_over)} | {statistics.median(taken_over):.1f} s | {max(taken_over):.1f} s |"
            f"\n\nThe driver that was paused ended, superseded, {statistics.median(ended):.1f} s after it went on "
            f"(median; the worst: {max(ended):.1f} s)."
        )
    happened = f"{killed.count} kills, {len(taken_over)} pauses"
    print(f"\n{happened}: {lost} lost, {doubled} doubled, {strange} that should not be there")
    return 1 if lost or doubled or strange else 0


if __name__ == "__main__":
    sys.exit(main())
