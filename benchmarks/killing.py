"""What the benchmarks share that kill processes of a job: a cluster, a loop that strikes at random, a table.

A standalone Spark cluster or the local executor runs on this machine, and a driver that is started again with
`--recover`.
"""

from __future__ import annotations

import os
import platform
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pyspark.find_spark_home import _find_spark_home

from millstream.runtime.spark import java, jvm

__all__ = [
    "OPTIONS",
    "ROOT",
    "Cluster",
    "Killed",
    "Output",
    "machine",
    "parent",
    "run_kills",
    "run_to_the_end",
    "strike_process",
    "wait_for_output",
]

ROOT = Path(__file__).resolve().parent.parent
MARK = "MILLSTREAM_KILLS_ID"
OPTIONS = {
    "execution.checkpointing.interval": "500 ms",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "100000",
    "restart-strategy.fixed-delay.delay": "50 ms",
    "millstream.slot.timeout": "15 s",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.cores.max": "2",
    "spark.task.maxFailures": "100000",
    "spark.stage.maxConsecutiveAttempts": "100000",
    "spark.deploy.maxExecutorRetries": "-1",
}
# What a process of the job is called by, in its command line.
VICTIMS = {
    "slot": "millstream.runtime.slot.process",
    "Python worker": "pyspark.daemon",
    "executor": "CoarseGrainedExecutorBackend",
    "cluster worker": "org.apache.spark.deploy.worker.Worker",
    "driver": "millstream.cli.main run",
}
# JVMs live a few seconds here: to start one takes half the processor time without the second compiler.
QUICK_TO_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# A driver tells when it does what, and with SIGUSR1 what its threads are at.
TELLS_MORE = """\
import faulthandler, logging, signal
faulthandler.register(signal.SIGUSR1)
logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
logging.getLogger("millstream").setLevel(logging.INFO)
"""
TWO_AT_ONCE = 0.2
WHILE_IT_RECOVERS = 0.25
SETTLE_S = 10


@dataclass
class Cluster:
    """A standalone cluster on the loopback interface, and the job's driver; without workers the local executor.

    The program is Python, or SQL if its name ends so.
    """

    directory: Path
    program: str
    arguments: tuple[str, ...]
    options: Mapping[str, str] = field(default_factory=dict)
    cores: int = 1
    workers: int = 2
    drivers: int = 0
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    url: str = ""
    program_name: str = "program.py"

    def environment(self) -> dict[str, str]:
        python_path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
        own = {MARK: self.mark, "PYTHONPATH": python_path}
        if not self.workers:
            return {**os.environ, **own}
        runtime = java.find_java()
        scratch = self.directory / "spark"
        scratch.mkdir(exist_ok=True)
        if not hasattr(self, "_spark"):
            self._spark = jvm._jvm_environment(
                runtime, {"spark.master": "local-cluster[2,1,1024]"}, str(scratch)
            )
        return {**os.environ, **self._spark, **own, "JAVA_TOOL_OPTIONS": QUICK_TO_START}

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
        if not self.workers:
            self.url = "local"
            return
        log = self._start_jvm("master", "Master")
        deadline = time.monotonic() + 60
        while not (found := re.search(r"Starting Spark master at (spark://\S+)", log.read_text())):
            if time.monotonic() > deadline:
                raise SystemExit(f"the master did not start:\n{log.read_text()}")
            time.sleep(0.1)
        self.url = found.group(1)
        for number in range(self.workers):
            self.start_worker(number)

    def start_worker(self, number: int) -> None:
        work = str(self.directory / f"work{number}")
        self._start_jvm(
            f"worker{number}", "Worker", "--cores", str(self.cores), "--memory", f"{self.cores}g",
            "--work-dir", work, self.url,
        )  # fmt: skip

    def start_driver(self) -> None:
        program = self.directory / self.program_name
        tells_more = "" if program.suffix == ".sql" else TELLS_MORE
        program.write_text(tells_more + self.program, encoding="utf-8")
        options = {"millstream.recover": "true", **self.options}
        command = [
            sys.executable, "-m", "millstream.cli.main", "run", "--target", self.url,
            *(f"-D{key}={value}" for key, value in options.items()), str(program), *self.arguments,
        ]  # fmt: skip
        self.drivers += 1
        with self.driver_log().open("ab") as log:
            self.processes["driver"] = subprocess.Popen(
                command, env=self.environment(), stdout=log, stderr=log
            )

    def driver_log(self) -> Path:
        """Return where the newest driver tells what it does."""
        return self.directory / f"driver-{self.drivers}.log"

    def keep_logs(self, directory: Path) -> None:
        """Copy what drivers and workers told, for those who want to know where the time went."""
        directory.mkdir(parents=True, exist_ok=True)
        for log in self.directory.glob("*.log"):
            shutil.copy(log, directory)

    def log_tail(self) -> str:
        """Return the end of the driver's log, with what its threads are at now."""
        if self.processes["driver"].poll() is None and not self.program_name.endswith(".sql"):
            self.processes["driver"].send_signal(signal.SIGUSR1)
            time.sleep(1)
        return self.driver_log().read_text(errors="replace")[-20_000:]

    def revive(self) -> None:
        """Start again what nobody else does: workers of the cluster, and the driver unless it ended well.

        Raises:
            SystemExit: If the job has failed and will not be run again, whatever is started.
        """
        for number in range(self.workers):
            if self.processes[f"worker{number}"].poll() is not None:
                self.start_worker(number)
        if self.processes["driver"].poll() not in (None, 0):
            if "and is not run again" in (told := self.log_tail()):
                raise SystemExit(f"the job has failed for good:\n{told}")
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


class Output(Protocol):
    """What a job publishes, as readers see it."""

    def follow(self, seconds: float) -> int:
        """Look on for some time; return how much was published since the beginning."""

    def has_caught_up(self) -> bool:
        """Return whether nothing more will come until the next kill."""

    def has_ended(self) -> bool:
        """Return whether nothing more will come."""


@dataclass
class Killed:
    """What was killed, and after how many seconds there was output again.

    Attributes:
        wanted: How many kills there are to be.
        times: How often each victim was killed.
        recovered: After how many seconds there was output again, if it was killed alone.
        shares: How many shares of the input may be there: one more when there is output again, so that input comes
            when the next victim is killed, and while the job recovers.
    """

    wanted: int
    times: Counter[str] = field(default_factory=Counter)
    recovered: dict[str, list[float]] = field(default_factory=dict)
    shares: int = 1

    @property
    def count(self) -> int:
        return sum(self.times.values())

    def share_of(self, whole: int) -> int:
        """Return how much of an input may be there, so that there is input until the last kill."""
        return whole * min(self.shares, self.wanted + 1) // (self.wanted + 1)

    def release_share(self) -> None:
        """Let more input come: there is output again."""
        self.shares = self.count + 1

    def table(self) -> str:
        lines = ["| killed | times | new output after: median | worst |", "| --- | ---: | ---: | ---: |"]
        for victim, times in sorted(self.times.items()):
            took = self.recovered.get(victim, [])
            figures = f"{statistics.median(took):.1f} s | {max(took):.1f} s" if took else "- | -"
            lines.append(f"| {victim} | {times} | {figures} |")
        return "\n".join(lines)


def machine() -> str:
    return f"{platform.machine()}, {os.cpu_count()} cores"


def wait_for_output(cluster: Cluster, output: Output, limit_s: float) -> float | None:
    """Return after how many seconds something new was published; None if not within the limit."""
    before, began = output.follow(0), time.monotonic()
    while (took := time.monotonic() - began) < limit_s:
        cluster.revive()
        if output.follow(0.05) > before or output.has_caught_up():
            return took
    return None


def strike_process(cluster: Cluster, victim: str, rng: random.Random) -> bool:
    """Kill a process of the job; return whether there was one."""
    pids = cluster.find(VICTIMS[victim])
    return bool(pids) and kill(rng.choice(pids))


def run_kills(
    cluster: Cluster,
    output: Output,
    rng: random.Random,
    killed: Killed,
    *,
    weights: Mapping[str, int],
    strike: Callable[[Cluster, str, random.Random], bool] = strike_process,
    patience_s: float,
) -> None:
    """Kill one process after another, now and then two at once, or again while the job recovers.

    Args:
        cluster: The job.
        output: What it publishes. Each time something new has to come, before the next kill.
        rng: Chance.
        killed: Notes what was killed. There are fewer kills than wanted if the job ends.
        weights: How likely each victim is.
        strike: Kills a victim, and tells whether there was one.
        patience_s: How long nothing new may come.
    """
    began = time.monotonic()
    while killed.count < killed.wanted and not output.has_ended():
        output.follow(rng.uniform(0.2, 2.5))
        victims = [rng.choices(list(weights), list(weights.values()))[0]]
        if rng.random() < TWO_AT_ONCE:
            victims.append(rng.choice(list(weights)))
        hit = [victim for victim in victims if strike(cluster, victim, rng)]
        struck = time.monotonic()
        killed.times.update(hit)
        if not hit or rng.random() < WHILE_IT_RECOVERS:
            cluster.revive()
            continue
        before = output.follow(0.2)  # what was published before
        if wait_for_output(cluster, output, patience_s) is None:
            raise SystemExit(
                f"nothing came within {patience_s:g} s after {hit} was killed:\n{cluster.log_tail()}"
            )
        took = time.monotonic() - struck
        killed.release_share()
        if len(hit) == 1 and output.follow(0) > before:
            killed.recovered.setdefault(hit[0], []).append(took)
        print(
            f"{struck - began:6.0f} s {killed.count:4d} kills, last {' and '.join(hit)}: "
            f"new output after {took:.1f} s, load {os.getloadavg()[0]:.0f}",
            flush=True,
        )
    killed.release_share()


def run_to_the_end(cluster: Cluster, output: Output, patience_s: float) -> None:
    """Let the job go on until all is published, or nothing comes for so long; then look for what should not come."""
    while not output.has_ended():
        if wait_for_output(cluster, output, patience_s) is None:
            print(f"the job stands still:\n{cluster.log_tail()}", file=sys.stderr)
            break
    settled = time.monotonic() + SETTLE_S
    while time.monotonic() < settled:
        output.follow(0.5)
