"""Do a thousand REST requests a second slow a running job? The job's own throughput, with and without them.

One job runs as fast as it can in a process of its own; `millstream dashboard` serves in another; clients ask from
here. Phases without and with requests alternate, so that both see the same machine::

    job      ────────────────────────────────────────────────────────────►
    requests ........ ████████ ........ ████████ ........       quiet, asked, quiet, asked, quiet

Each asked phase is compared with the quiet ones before and behind it. Prints one JSON document::

    {"requests_per_second", "seconds", "failed", "p50_ms", "p99_ms", "quiet", "asked", "slowdown"}

`python benchmarks/rest_load.py [--seconds 60] [--per-second 1000] [--rounds 1] [--embedded]`; `--embedded` has the
job's own process serve.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from millstream.runtime.control.channel import RemoteJob, find_jobs
from millstream.runtime.control.views import JobView

JOB = """
import sys
from millstream.common import Configuration, Types, WatermarkStrategy
from millstream.datastream import StreamExecutionEnvironment
from millstream.datastream.connectors.number_seq import NumberSequenceSource
from millstream.datastream.functions import SinkFunction

class Nothing(SinkFunction):
    def invoke(self, value):
        pass

options = dict(each.split("=", 1) for each in sys.argv[1:])
env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict({
    "execution.target": "local", "execution.checkpointing.interval": "1 s", **options}))
numbers = env.from_source(NumberSequenceSource(0, 10**12), WatermarkStrategy.no_watermarks(), "numbers")
numbers.map(lambda n: n + 1, Types.LONG()).key_by(lambda n: n % 97).map(lambda n: n).add_sink(Nothing())
env.execute("rest load")
"""
WARM_UP_S = 5.0
CONNECTIONS = 32


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="how long each phase lasts")
    parser.add_argument("--per-second", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=1, help="how many phases with requests")
    parser.add_argument("--embedded", action="store_true", help="the job's own process serves")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rest-load-", dir="/tmp") as directory:
        os.environ["TMPDIR"] = tempfile.tempdir = directory  # a user's directory of its own: one job is found
        program = Path(directory, "job.py")
        program.write_text(JOB)
        served = ["rest.bind-port=0"] if given.embedded else []
        processes = [subprocess.Popen([sys.executable, str(program), *served], stdout=subprocess.DEVNULL)]
        try:
            job = wait_for_job(processes[0])
            if given.embedded:
                address = address_of(job)
            else:
                command = [sys.executable, "-m", "millstream.cli", "dashboard", "--port", "0"]
                processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
                address = processes[1].stdout.readline().split()[-1]  # type: ignore[union-attr]
            time.sleep(WARM_UP_S)
            print(json.dumps(asyncio.run(measure(job, address, given)), indent=1))
        finally:
            for process in reversed(processes):
                process.terminate()
                process.wait(60)


def wait_for_job(process: subprocess.Popen[bytes]) -> RemoteJob:
    while process.poll() is None:
        found = find_jobs()
        if found and found[0].view(JobView).epoch > 1:
            return found[0]
        time.sleep(0.1)
    raise SystemExit(f"the job ended with {process.returncode}")


def address_of(job: RemoteJob) -> str:
    """Return where the job's process listens: the only TCP socket on which it does, and answers as we do."""
    import psutil

    for connection in psutil.Process(job.pid).net_connections("tcp"):
        if connection.status == psutil.CONN_LISTEN:
            address = f"http://127.0.0.1:{connection.laddr.port}"
            try:
                if httpx.get(f"{address}/millstream/health").status_code == 200:
                    return address
            except httpx.HTTPError:
                continue
    raise SystemExit("the job's process serves nothing")


async def measure(job: RemoteJob, address: str, given: argparse.Namespace) -> dict[str, object]:
    quiet, asked, slowdowns, times, failed = [], [], [], [], 0
    quiet.append(await throughput(job, given.seconds))
    for _ in range(given.rounds):
        load = asyncio.create_task(ask(job, address, given.per_second, given.seconds))
        asked.append(await throughput(job, given.seconds))
        taken, errors = await load
        times += taken
        failed += errors
        quiet.append(await throughput(job, given.seconds))
        slowdowns.append(1 - asked[-1] / statistics.mean(quiet[-2:]))
    times.sort()
    return {
        "requests_per_second": round(len(times) / given.seconds / given.rounds, 1),
        "seconds": given.seconds,
        "failed": failed,
        "p50_ms": round(times[len(times) // 2] * 1000, 2),
        "p99_ms": round(times[int(len(times) * 0.99)] * 1000, 2),
        "quiet": [round(each) for each in quiet],
        "asked": [round(each) for each in asked],
        "slowdown": [round(each, 4) for each in slowdowns],
    }


async def throughput(job: RemoteJob, seconds: float) -> float:
    """Return how many records the job reads in a second, by its own clock."""
    first = await asyncio.to_thread(job.view, JobView)
    await asyncio.sleep(seconds)
    last = await asyncio.to_thread(job.view, JobView)
    return (last.records_read - first.records_read) * 1000 / (last.seen_ms - first.seen_ms)


async def ask(job: RemoteJob, address: str, per_second: int, seconds: float) -> tuple[list[float], int]:
    """Send requests at a steady rate over a few connections; return how long after it was due each was answered."""
    seen = await asyncio.to_thread(job.view, JobView)
    vertex = seen.vertices[0].vertex_id
    at = f"/jobs/{seen.job_id}"
    paths = [
        "/overview",
        "/jobs/overview",
        at,
        f"{at}/checkpoints",
        f"{at}/exceptions",
        f"{at}/metrics?get=uptime",
    ]
    paths += [f"{at}/vertices/{vertex}", f"{at}/vertices/{vertex}/backpressure"]
    host = urlsplit(address)
    requests = [f"GET {path} HTTP/1.1\r\nHost: {host.netloc}\r\n\r\n".encode() for path in paths]
    began = time.perf_counter()

    async def one_connection(first: int) -> tuple[list[float], int]:
        times, failed = [], 0
        reader, writer = await asyncio.open_connection(host.hostname, host.port)
        for number in range(first, int(per_second * seconds), CONNECTIONS):
            due = began + number / per_second
            if due + 1 < time.perf_counter() and time.perf_counter() - began > seconds:
                break  # the server does not keep up
            await asyncio.sleep(max(due - time.perf_counter(), 0))
            writer.write(requests[number % len(requests)])
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
            assert length is not None, head
            await reader.readexactly(int(length[1]))
            failed += not head.startswith(b"HTTP/1.1 200")
            times.append(time.perf_counter() - due)
        writer.close()
        return times, failed

    found = await asyncio.gather(*map(one_connection, range(CONNECTIONS)))
    return [each for times, _ in found for each in times], sum(failed for _, failed in found)


if __name__ == "__main__":
    main()
