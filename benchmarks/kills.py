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
import platform
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.find_spark_home import _find_spark_home

from millstream.runtime.spark import java, jvm

ROOT = Path(__file__).resolve().parent.parent
MARK = "MILLSTREAM_KILLS_ID"
KEYS = 50
PER_SECOND = 2_000

PROGRAM = """
import sys
from millstream.common import Configuration, Encoder, Types, WatermarkStrategy
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

env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict({
    "execution.checkpointing.interval": "500 ms",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": 100000,
    "restart-strategy.fixed-delay.delay": "50 ms",
    "millstream.slot.timeout": "15 s",
    "high-availability.storageDir": directory + "/ha",
    "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.cores.max": 2,
    "spark.task.maxFailures": 100000, "spark.stage.maxConsecutiveAttempts": 100000,
    "spark.deploy.maxExecutorRetries": -1}))
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

# What a process of the job is called by, in its command line.
VICTIMS = {
    "slot": "millstream.runtime.slot.process",
    "Python worker": "pyspark.daemon",
    "executor": "CoarseGrainedExecutorBackend",
    "cluster worker": "org.apache.spark.deploy.worker.Worker",
    "driver": "program.py",
}
WEIGHTS = {"slot": 40, "Python worker": 20, "executor": 20, "cluster worker": 5, "driver": 15}


@dataclass
class Cluster:
    """A standalone cluster on the loopback interface, and the job's driver."""

    directory: Path
    mark: str
    records: int
    cores: int = 1
    drivers: int = 0
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    url: str = ""

    def environment(self) -> dict[str, str]:
        runtime = java.find_java()
        scratch = self.directory / "spark"
        scratch.mkdir(exist_ok=True)
        if not hasattr(self, "_spark"):
            self._spark = jvm._jvm_environment(
                runtime, {"spark.master": "local-cluster[2,1,1024]"}, str(scratch)
            )
        python_path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
        return {**os.environ, **self._spark, MARK: self.mark, "PYTHONPATH": python_path}

    def _start_jvm(self, name: str, kind: str, *arguments: str) -> Path:
        runtime = java.find_java()
        log = self.directory / f"{name}.log"
        command = [
            runtime.path, *jvm._module_options(runtime.version), "-Xmx256m", "-Dspark.master.rest.enabled=false",
            "-Dspark.worker.timeout=20", "-cp", os.path.join(_find_spark_home(), "jars", "*"),
            f"org.apache.spark.deploy.{kind.lower()}.{kind}", "--host", "127.0.0.1", "--port", "0",
            "--webui-port", "0", *arguments,
        ]  # fmt: skip
        with log.open("ab") as stream:
            self.processes[name] = subprocess.Popen(
                command, env=self.environment(), stdout=stream, stderr=stream
            )
        return log

    def start(self) -> None:
        log = self._start_jvm("master", "Master")
        deadline = time.monotonic() + 60
        while not (found := re.search(r"Starting Spark master at (spark://\S+)", log.read_text())):
            if time.monotonic() > deadline:
                raise SystemExit(f"the master did not start:\n{log.read_text()}")
            time.sleep(0.1)
        self.url = found.group(1)
        for number in range(2):
            self.start_worker(number)

    def start_worker(self, number: int) -> None:
        work = str(self.directory / f"work{number}")
        self._start_jvm(
            f"worker{number}", "Worker", "--cores", str(self.cores), "--memory", f"{self.cores}g",
            "--work-dir", work, self.url,
        )  # fmt: skip

    def start_driver(self) -> None:
        program = self.directory / "program.py"
        program.write_text(PROGRAM, encoding="utf-8")
        command = [
            sys.executable, "-m", "millstream.cli.main", "run", "--target", self.url, "-D", "millstream.recover=true",
            str(program), str(self.directory), str(self.records), str(PER_SECOND), str(KEYS),
        ]  # fmt: skip
        self.drivers += 1
        with self.driver_log().open("ab") as log:
            self.processes["driver"] = subprocess.Popen(
                command, env=self.environment(), stdout=log, stderr=log
            )

    def driver_log(self) -> Path:
        """Return where the newest driver tells what it does."""
        return self.directory / f"driver-{self.drivers}.log"

    def pause_driver(self, *, jvm_too: bool) -> Paused:
        """Stop the driver, and start another one."""
        process, log = self.processes.pop("driver"), self.driver_log()
        pids = [process.pid]
        if jvm_too:
            pids += [
                pid for pid in self.find("org.apache.spark.deploy.SparkSubmit") if parent(pid) == process.pid
            ]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        self.processes[f"paused {self.drivers}"] = process
        self.start_driver()
        return Paused(process, log, pids)

    def revive(self) -> None:
        """Start again what nobody else does: workers of the cluster, and the driver unless it ended well."""
        for number in range(2):
            if self.processes[f"worker{number}"].poll() is not None:
                self.start_worker(number)
        if self.processes["driver"].poll() not in (None, 0):
            self.start_driver()

    def find(self, text: str) -> list[int]:
        """Return the job's processes whose command line contains `text`."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    ours = f"{MARK}={self.mark}\0".encode() in (entry / "environ").read_bytes()
                except OSError:
                    continue
                if text in command and ours:
                    found.append(int(entry.name))
        return found

    def stop(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()
        for pid in self.find(""):
            kill(pid)


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


def parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def kill(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def visible_lines(directory: Path) -> Counter[str]:
    files = [path for path in directory.rglob("*") if path.is_file() and not path.name.startswith((".", "_"))]
    return Counter(line for path in files for line in path.read_text(encoding="utf-8").splitlines())


def newest_output(directory: Path) -> float:
    # Files only: what is staged in a directory changes its time as well.
    files = [path for path in directory.rglob("*") if path.is_file() and not path.name.startswith((".", "_"))]
    times = [path.stat().st_mtime for path in files]
    return max(times, default=0.0)


def wait_for_output(cluster: Cluster, after: float, limit_s: float) -> float | None:
    """Return after how many seconds the job published something new; None if not within the limit."""
    began = time.time()
    while time.time() - began < limit_s:
        cluster.revive()
        if cluster.processes["driver"].poll() == 0 or newest_output(cluster.directory / "out") > after:
            return time.time() - began
        time.sleep(0.05)
    return None


def run_kills(
    cluster: Cluster, rng: random.Random, kills: int, patience_s: float
) -> tuple[Counter[str], dict[str, list[float]]]:
    killed: Counter[str] = Counter()
    recovered: dict[str, list[float]] = {}
    while sum(killed.values()) < kills and cluster.processes["driver"].poll() != 0:
        time.sleep(rng.uniform(0.2, 2.5))
        victims = [rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]]
        if rng.random() < 0.2:  # two at once
            victims.append(rng.choice(list(WEIGHTS)))
        hit = []
        for victim in victims:
            pids = cluster.find(VICTIMS[victim])
            if pids and kill(rng.choice(pids)):
                killed[victim] += 1
                hit.append(victim)
        if not hit:
            cluster.revive()
            continue
        struck = time.time()
        if rng.random() < 0.25:  # again, while the job recovers
            continue
        took = wait_for_output(cluster, struck, limit_s=patience_s)
        if took is None:
            raise SystemExit(
                f"no output within {patience_s:g} s after {hit} was killed:\n"
                + cluster.driver_log().read_text()[-10_000:]
            )
        if len(hit) == 1:
            recovered.setdefault(hit[0], []).append(took)
        print(
            f"{sum(killed.values()):4d} kills, last {' and '.join(hit)}: new output after {took:.1f} s",
            flush=True,
        )
    return killed, recovered


def run_pauses(
    cluster: Cluster, rng: random.Random, pauses: int, patience_s: float, ended: list[float]
) -> list[float]:
    """Pause the driver again and again; return after how long there was new output, and in `ended` the old ones."""
    taken_over: list[float] = []
    while len(taken_over) < pauses and cluster.processes["driver"].poll() != 0:
        time.sleep(rng.uniform(0.2, 2.5))
        paused = cluster.pause_driver(jvm_too=rng.random() < 0.5)
        struck = time.time()
        at_once, later_s = rng.random() < 0.3, rng.choice((0.0, rng.uniform(0.5, 5.0)))
        after = struck
        if at_once:
            time.sleep(rng.uniform(0, 6))
            ended.append(paused.end(patience_s))
            after = time.time()  # until then it may have published, before the other one took over
        if wait_for_output(cluster, after, limit_s=patience_s) is None:
            raise SystemExit(
                f"no output within {patience_s:g} s:\n{cluster.driver_log().read_text()[-10_000:]}"
            )
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
        cluster = Cluster(Path(scratch), uuid.uuid4().hex, arguments.records, cores)
        try:
            cluster.start()
            cluster.start_driver()
            if wait_for_output(cluster, 0.0, limit_s=arguments.patience) is None:
                print(cluster.driver_log().read_text(), file=sys.stderr)
                return 1
            ended: list[float] = []
            taken_over = run_pauses(cluster, rng, arguments.pauses, arguments.patience, ended)
            killed, recovered = run_kills(cluster, rng, arguments.kills, arguments.patience)
            while cluster.processes["driver"].poll() != 0:
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
    print(
        f"\n{platform.machine()}, {os.cpu_count()} cores, seed {arguments.seed}, {arguments.records:,} records\n"
    )
    print("| killed | times | new output after: median | worst |\n| --- | ---: | ---: | ---: |")
    for victim, times in sorted(killed.items()):
        took = recovered.get(victim, [])
        figures = f"{statistics.median(took):.1f} s | {max(took):.1f} s" if took else "- | -"
        print(f"| {victim} | {times} | {figures} |")
    if taken_over:
        print(
            f"| driver, paused | {len(taken_over)} | {statistics.median(taken_over):.1f} s | {max(taken_over):.1f} s |"
            f"\n\nThe driver that was paused ended, superseded, {statistics.median(ended):.1f} s after it went on "
            f"(median; the worst: {max(ended):.1f} s)."
        )
    happened = f"{sum(killed.values())} kills, {len(taken_over)} pauses"
    print(f"\n{happened}: {lost} lost, {doubled} doubled, {strange} that should not be there")
    return 1 if lost or doubled or strange else 0


if __name__ == "__main__":
    sys.exit(main())
