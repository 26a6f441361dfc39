"""Does a dispatcher hold many jobs for a long time in flat memory? Its process, its children and the machine's.

Starts a cluster in a directory of its own, submits jobs that go on, and looks at memory every few seconds while a
client asks the REST API as a dashboard does. Prints a line each minute, and at the end one JSON document::

    {"jobs", "minutes", "dispatcher_mib": {"begin", "end", "most", "per_hour"}, "jobs_mib": {…},
     "restarts", "checkpoints", "flat"}

Memory is flat if the line through the second half rises by less than 5 MiB an hour for the dispatcher, or by less than
2 % of what it has: what is kept is bounded, but fills first.

`python benchmarks/cluster_soak.py [--jobs 20] [--minutes 30] [--target local]`; `--target 'local[2]'` has all jobs in
one Spark session.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import httpx
import psutil

from millstream.base.errors import JobExecutionError
from millstream.cluster.applications import Program
from millstream.cluster.door import RemoteCluster
from millstream.cluster.starting import start_cluster
from millstream.runtime.control.channel import find_jobs
from millstream.runtime.control.views import CheckpointsView, JobView

JOB = """
import sys
from millstream.common import Types, WatermarkStrategy
from millstream.datastream import StreamExecutionEnvironment
from millstream.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from millstream.datastream.functions import SinkFunction

class Nothing(SinkFunction):
    def invoke(self, value):
        pass

env = StreamExecutionEnvironment.get_execution_environment()
source = DataGeneratorSource(lambda n: n, 10**12, RateLimiterStrategy.per_second(200), Types.LONG())
stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
stream.key_by(lambda n: n % 101).reduce(lambda a, b: a + b).uid("sums").add_sink(Nothing())
env.execute(sys.argv[1])
"""
LOOK_S = 5.0
START_S = 300.0
FLAT_MIB_PER_HOUR = 5.0
FLAT_SHARE = 0.02


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--target", default="local")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="soak-", dir="/tmp") as directory:
        os.environ["TMPDIR"] = tempfile.tempdir = directory
        program = Path(directory, "job.py")
        program.write_text(JOB)
        options = {
            "execution.target": given.target,
            "spark.scheduler.mode": "FAIR",
            "rest.bind-port": "0",
            "execution.checkpointing.interval": "5 s",
        }
        cluster = start_cluster(str(Path(directory, "cluster")), options)
        try:
            for number in range(given.jobs):
                cluster.submit(Program(str(program), (f"job {number}",), working_directory=directory))
            print(json.dumps(watch(cluster, given.jobs, given.minutes), indent=1))
        finally:
            end(cluster)


def watch(cluster: RemoteCluster, jobs: int, minutes: float) -> dict[str, object]:
    address = str(cluster.facts["rest"])
    deadline = time.monotonic() + START_S
    while running(address) < jobs:
        if time.monotonic() > deadline:
            raise SystemExit(f"{running(address)} of {jobs} jobs run after {START_S:.0f} s")
        time.sleep(1)
    dispatcher = psutil.Process(cluster.pid)
    began = told = time.monotonic()
    samples: list[tuple[float, float, float]] = []
    while (now := time.monotonic()) - began < minutes * 60:
        ask_as_a_dashboard(address)
        own, theirs = rss_mib(dispatcher), sum(map(rss_mib, dispatcher.children(recursive=True)))
        samples.append(((now - began) / 3600, own, theirs))
        if now - told >= 60:
            told = now
            print(
                f"{(now - began) / 60:.0f} min: dispatcher {own:.1f} MiB, {running(address)} jobs {theirs:.1f} MiB",
                flush=True,
            )
        time.sleep(LOOK_S)
    seen = [each.view(JobView) for each in find_jobs()]
    figures = {name: describe(samples, column) for name, column in (("dispatcher_mib", 1), ("jobs_mib", 2))}
    own = figures["dispatcher_mib"]
    return {
        "jobs": running(address),
        "minutes": minutes,
        **figures,
        "restarts": sum(each.restarts for each in seen),
        "checkpoints": sum(each.view(CheckpointsView).counts.completed for each in find_jobs()),
        "flat": own["per_hour"] < max(FLAT_MIB_PER_HOUR, own["end"] * FLAT_SHARE),
    }


def describe(samples: Sequence[tuple[float, ...]], column: int) -> dict[str, float]:
    """Return the first and last figure, the greatest, and by how much the second half rises in an hour."""
    values = [each[column] for each in samples]
    half = samples[len(samples) // 2 :]
    slope = statistics.linear_regression([each[0] for each in half], [each[column] for each in half]).slope
    return {
        "begin": round(values[0], 1),
        "end": round(values[-1], 1),
        "most": round(max(values), 1),
        "per_hour": round(slope, 2),
    }


def rss_mib(process: psutil.Process) -> float:
    try:
        return float(process.memory_info().rss) / 2**20
    except psutil.NoSuchProcess:
        return 0.0


def running(address: str) -> int:
    return int(httpx.get(f"{address}/overview", timeout=30).json()["jobs-running"])


def ask_as_a_dashboard(address: str) -> None:
    with httpx.Client(base_url=address, timeout=30) as client:
        for job in client.get("/jobs/overview").json()["jobs"]:
            for path in ("", "/checkpoints", "/exceptions", "/metrics"):
                client.get(f"/jobs/{job['jid']}{path}")


def end(cluster: RemoteCluster) -> None:
    """Cancel the applications, and stop the cluster when they have ended."""
    for each in cluster.applications():
        cluster.cancel(each.application_id)
    deadline = time.monotonic() + START_S
    while not all(each.has_ended for each in cluster.applications()) and time.monotonic() < deadline:
        time.sleep(0.5)
    try:
        cluster.stop()
    except JobExecutionError as error:
        print(f"the cluster did not stop: {error}")
    while psutil.pid_exists(cluster.pid) and time.monotonic() < deadline:
        time.sleep(0.1)


if __name__ == "__main__":
    main()
