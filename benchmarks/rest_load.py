"""Do a thousand REST requests a second slow a running job? The job's own throughput, with and without them.

One job runs as fast as it can in a process of its own; `millstream dashboard` serves in another; clients ask from
here. Phases without and with requests alternate, so that both see the same machine::

    job      ────────────────────────────────────────────────────────────►
    requests ........ ████████ ........ ████████ ........       quiet, asked, quiet, asked, quiet

Each asked phase is compared with the quiet ones before and behind it. What asks is part of the measuring and not of
the product: one thread that waits for many sockets, with requests made before; its share of the processor is printed,
as is that of the job and of the server. Requests are those of the dashboard's pages and of what watches jobs by Flink's
API; every answer must be 200 and JSON of the length that it says. Prints one JSON document::

    {"requests_per_second", "seconds", "failed", "p50_ms", "p99_ms",
     "quiet", "asked",      records a second of each phase
     "slowdown",            of each asked phase: 1 - asked / quiet
     "mean_slowdown",       of all of them, and its standard error: a machine that is shared differs from phase to
                            phase by more than the requests cost
     "own_slowdown",        the same by records for each second of processor time of the job: what the job itself has
                            to do for the answers, whoever else takes the processors
     "cores": {"quiet": {"job", "server"}, "asked": {"job", "server", "client"}}}

`python benchmarks/rest_load.py [--seconds 60] [--per-second 1000] [--rounds 1] [--embedded]`; `--embedded` has the
job's own process serve.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import select
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psutil

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
LONGEST_WAIT_S = 10.0


@dataclass
class Phase:
    """What was seen in a phase.

    Attributes:
        throughput: Records a second, by the job's clock.
        cores: Processor seconds a second by process.
        times: How long after it was due each request was answered, seconds.
        failed: Answers that are not 200, or not whole.
    """

    throughput: float
    cores: dict[str, float]
    times: list[float] = field(default_factory=list)
    failed: int = 0

    @property
    def own(self) -> float:
        """Records for each second of processor time of the job."""
        return self.throughput / self.cores["job"]


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
            watched = dict(
                zip(("job", "server"), (psutil.Process(each.pid) for each in processes), strict=False)
            )
            time.sleep(WARM_UP_S)
            print(json.dumps(measure(job, address, watched, given), indent=1))
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
    for connection in psutil.Process(job.pid).net_connections("tcp"):
        if connection.status == psutil.CONN_LISTEN:
            address = f"http://127.0.0.1:{connection.laddr.port}"
            try:
                if httpx.get(f"{address}/millstream/health").status_code == 200:
                    return address
            except httpx.HTTPError:
                continue
    raise SystemExit("the job's process serves nothing")


def measure(
    job: RemoteJob, address: str, watched: dict[str, psutil.Process], given: argparse.Namespace
) -> dict[str, object]:
    paths = paths_of(job)
    with httpx.Client(base_url=address) as client:
        for path in paths:
            client.get(path).raise_for_status().json()
    quiet, asked = [watch(job, watched, given, [])], []
    for _ in range(given.rounds):
        asked.append(watch(job, watched, given, prepare(address, paths)))
        quiet.append(watch(job, watched, given, []))
    beside = [quiet[index : index + 2] for index in range(given.rounds)]
    times = sorted(each for phase in asked for each in phase.times)
    slowdowns = [
        1 - each.throughput / statistics.mean(other.throughput for other in around)
        for each, around in zip(asked, beside, strict=True)
    ]
    return {
        "requests_per_second": round(len(times) / given.seconds / given.rounds, 1),
        "seconds": given.seconds,
        "failed": sum(phase.failed for phase in asked),
        "p50_ms": round(times[len(times) // 2] * 1000, 2),
        "p99_ms": round(times[int(len(times) * 0.99)] * 1000, 2),
        "quiet": [round(each.throughput) for each in quiet],
        "asked": [round(each.throughput) for each in asked],
        "slowdown": [round(each, 4) for each in slowdowns],
        "mean_slowdown": [round(statistics.mean(slowdowns), 4), round(standard_error(slowdowns), 4)],
        "own_slowdown": [
            round(1 - each.own / statistics.mean(other.own for other in around), 4)
            for each, around in zip(asked, beside, strict=True)
        ],
        "cores": {"quiet": mean_cores(quiet), "asked": mean_cores(asked)},
    }


def standard_error(values: Sequence[float]) -> float:
    return statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else float("nan")


def mean_cores(phases: Sequence[Phase]) -> dict[str, float]:
    return {name: round(statistics.mean(each.cores[name] for each in phases), 3) for name in phases[0].cores}


def watch(
    job: RemoteJob, watched: dict[str, psutil.Process], given: argparse.Namespace, requests: Sequence[Request]
) -> Phase:
    """Ask, or wait, for the time of a phase; return what the job has done meanwhile, and who took the processors."""
    first, before, own = job.view(JobView), spent(watched), time.process_time()
    began = time.perf_counter()
    client = Client(requests, given.per_second) if requests else None
    if client is None:
        time.sleep(given.seconds)
    else:
        client.run(given.seconds)
    last, behind, took = job.view(JobView), spent(watched), time.perf_counter() - began
    cores = {name: (behind[name] - before[name]) / took for name in watched}
    if client is not None:
        cores["client"] = (time.process_time() - own) / took
    throughput = (last.records_read - first.records_read) * 1000 / (last.seen_ms - first.seen_ms)
    print(f"{'asked' if client else 'quiet'}: {throughput:,.0f} records/s, {cores}", file=sys.stderr)
    return Phase(throughput, cores, client.times if client else [], client.failed if client else 0)


def spent(watched: dict[str, psutil.Process]) -> dict[str, float]:
    found = {}
    for name, process in watched.items():
        times = process.cpu_times()
        found[name] = times.user + times.system
    return found


def paths_of(job: RemoteJob) -> list[str]:
    """Return what the dashboard's pages ask for every two seconds, and what watches jobs by Flink's API."""
    seen = job.view(JobView)
    vertex = seen.vertices[0].vertex_id
    at = f"/jobs/{seen.job_id}"
    return [
        "/overview",
        "/jobs/overview",
        at,
        f"{at}/checkpoints",
        f"{at}/exceptions?maxExceptions=20",
        f"{at}/metrics?get=uptime,numRestarts,lastCheckpointDuration",
        f"{at}/vertices/{vertex}",
        f"{at}/vertices/{vertex}/backpressure",
        f"{at}/vertices/{vertex}/watermarks",
        f"{at}/vertices/{vertex}/subtasks/metrics?get=numRecordsOut",
        f"/millstream{at}/epochs",
        f"/millstream{at}/watermarks",
    ]


@dataclass(frozen=True)
class Request:
    """A request that is sent over and over.

    Attributes:
        address: Host and port.
        content: Its bytes.
    """

    address: tuple[str, int]
    content: bytes


def prepare(address: str, paths: Sequence[str]) -> list[Request]:
    host = urlsplit(address)
    assert host.hostname is not None and host.port is not None
    head = f"Host: {host.netloc}\r\nUser-Agent: rest_load\r\nAccept: application/json\r\n\r\n"
    return [Request((host.hostname, host.port), f"GET {path} HTTP/1.1\r\n{head}".encode()) for path in paths]


class Client:
    """Sends requests at a steady rate over connections that stay open, one at a time on each; one thread.

    Args:
        requests: Sent in turns.
        per_second: How many of them.
    """

    def __init__(self, requests: Sequence[Request], per_second: int) -> None:
        self._requests = requests
        self._per_second = per_second
        # Each gets its turn: one that is idle for long would be closed by the server.
        self._free: deque[socket.socket] = deque()
        self._waiting: dict[int, tuple[socket.socket, float, bytearray]] = {}
        self._epoll = select.epoll()
        self.times: list[float] = []
        self.failed = 0

    def run(self, seconds: float) -> None:
        """Ask for so long, then wait for the last answers."""
        self._connect()
        began = time.perf_counter()
        total = int(self._per_second * seconds)
        sent = 0
        while sent < total or self._waiting:
            now = time.perf_counter() - began
            while sent < total and self._free and sent / self._per_second <= now < seconds:
                self._send(self._requests[sent % len(self._requests)], began + sent / self._per_second)
                sent += 1
            if now >= seconds:  # what the server has not kept up with is not asked for any more
                total = sent
            if now > seconds + LONGEST_WAIT_S:
                self.failed += len(self._waiting)
                break
            next_s = sent / self._per_second - now if sent < total and self._free else 0.1
            for number, _ in self._epoll.poll(max(next_s, 0)):
                self._receive(number)
        for stream in [*self._free, *(each[0] for each in self._waiting.values())]:
            stream.close()
        self._epoll.close()

    def _connect(self) -> None:
        for _ in range(CONNECTIONS):
            stream = socket.create_connection(self._requests[0].address)
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._epoll.register(stream, select.EPOLLIN)
            self._free.append(stream)

    def _send(self, request: Request, due: float) -> None:
        stream = self._free.popleft()
        stream.sendall(request.content)
        self._waiting[stream.fileno()] = (stream, due, bytearray())

    def _receive(self, number: int) -> None:
        stream, due, received = self._waiting[number]
        part = stream.recv(1 << 18)
        assert part, f"the server has closed a connection behind {bytes(received[:200])!r}"
        received += part
        head, separator, body = received.partition(b"\r\n\r\n")
        if not separator:
            return
        length = int(LENGTH.search(head)[1])  # type: ignore[index]
        if len(body) < length:
            return
        is_right = head.startswith(b"HTTP/1.1 200 ") and len(body) == length and body[:1] in b"{["
        self.failed += not is_right
        self.times.append(time.perf_counter() - due)
        del self._waiting[number]
        self._free.append(stream)


LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


if __name__ == "__main__":
    main()
