"""Server and job are killed at the same instant, again and again; both come back, the job under a new driver.

::

    numbers ──► job (driver and slots: one process) ──► copied
    server   ════════════X SIGKILL      ═══════════X           ════════
    job      ════════════X SIGKILL        ═════════X             ══════ end
                         └ both processes are stopped first, then killed: neither sees the other go
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from servers.pulsar import PulsarServer, PulsarTopic

pytestmark = pytest.mark.long

RECORDS = 3_000
EPOCH = 25

PROGRAM = """
import os, signal, sys, time
from millstream.base.crash_points import set_crash_hook
from millstream.common import Configuration, WatermarkStrategy
from millstream.common.serialization import SimpleStringSchema
from millstream.datastream import StreamExecutionEnvironment
from millstream.datastream.connectors.pulsar import DeliveryGuarantee, Patience, PulsarSink, PulsarSource, StopCursor

directory, url, admin_url, numbers, copied, place, count, server = sys.argv[1:]


class Kill:
    \"\"\"At a place that is reached so often: stop the server, kill it, and then this process.\"\"\"

    reached = 0

    def reach(self, name, detail):
        if name == place:
            self.reached += 1
            if self.reached == int(count):
                os.kill(int(server), signal.SIGSTOP)
                os.kill(int(server), signal.SIGKILL)
                os.kill(os.getpid(), signal.SIGKILL)

    def around(self, name, detail, action):
        return action()


if place != "anywhere":
    set_crash_hook(Kill())
env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict({
    "high-availability.storageDir": directory + "/ha",
    "execution.checkpointing.dir": directory + "/checkpoints",
    "execution.checkpointing.interval": "1 ms",
    "millstream.epoch.fixed-records": EPOCH}))
env.set_parallelism(2)
source = (
    PulsarSource.builder()
    .set_service_url(url)
    .set_subscription_name("copy")
    .set_topics(numbers)
    .set_deserialization_schema(SimpleStringSchema())
    .set_bounded_stop_cursor(StopCursor.latest())
    .set_config("pulsar.client.operationTimeoutMs", 2_000)
    .set_patience(Patience(total_s=240))
    .build()
)
sink = (
    PulsarSink.builder()
    .set_service_url(url)
    .set_admin_url(admin_url)
    .set_topics(copied)
    .set_serialization_schema(SimpleStringSchema())
    .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
    .set_staging_directory(directory + "/staged")
    .set_config("pulsar.client.operationTimeoutMs", 2_000)
    .set_patience(Patience(total_s=240))
    .build()
)
env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").sink_to(sink)
env.execute("copy")
""".replace("EPOCH", str(EPOCH))


class Job:
    """The program in a process of its own, which is driver and slots."""

    def __init__(self, directory: Path, numbers: PulsarTopic, copied: PulsarTopic) -> None:
        self._directory = directory
        self._program = directory / "program.py"
        self._program.write_text(PROGRAM)
        self._numbers, self._copied = numbers, copied
        self._is_new = True
        self.log = directory / "job.log"

    def start(self, place: str = "anywhere", count: int = 0) -> subprocess.Popen[bytes]:
        server: PulsarServer = self._numbers.server
        assert server._process is not None
        flags = [] if self._is_new else ["--recover"]
        self._is_new = False
        arguments = [self._directory, server.url, server.admin_url, self._numbers.name, self._copied.name]
        arguments += [place, count, server._process.pid]
        command = [sys.executable, "-m", "millstream.cli.main", "run", "--target", "local", *flags]
        with self.log.open("ab") as output:
            return subprocess.Popen(
                [*command, str(self._program), *map(str, arguments)],
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )


def wait_for(process: subprocess.Popen[bytes], timeout_s: float, job: Job) -> int:
    try:
        return process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        raise AssertionError(job.log.read_text()[-3000:]) from None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def wait_for_checkpoint(directory: Path, process: subprocess.Popen[bytes], since_s: float) -> bool:
    """Return when a checkpoint has been written since then; False if the job has ended before."""
    deadline = time.monotonic() + 120
    while process.poll() is None:
        files = [path for path in (directory / "checkpoints").rglob("*") if path.is_file()]
        with contextlib.suppress(FileNotFoundError):  # older ones go
            if any(path.stat().st_mtime > since_s for path in files):
                return True
        assert time.monotonic() < deadline, "no checkpoint"
        time.sleep(0.02)
    return False


def kill_both(server: PulsarServer, process: subprocess.Popen[bytes]) -> None:
    """Stop both first: neither does anything while the other one is killed."""
    assert server._process is not None
    server._process.send_signal(signal.SIGSTOP)
    os.killpg(process.pid, signal.SIGSTOP)
    os.killpg(process.pid, signal.SIGKILL)
    server.stop()
    process.wait()


def new_job(pulsar: PulsarServer, directory: Path) -> tuple[Job, PulsarTopic]:
    numbers, copied = pulsar.new_topic(2), pulsar.new_topic(2)
    numbers.add(range(RECORDS // 2))
    numbers.add(range(RECORDS // 2, RECORDS), partition=1, batched=True)
    return Job(directory, numbers, copied), copied


def check_copied(copied: PulsarTopic, job: Job) -> None:
    seen = Counter(map(int, copied.read()))
    wanted = Counter(range(RECORDS))
    assert not wanted - seen, f"lost: {sorted((wanted - seen).elements())[:20]}"
    assert not seen - wanted, f"doubled: {sorted((seen - wanted).elements())[:20]}"


@pytest.mark.timeout(900)
def test_nothing_is_lost_or_doubled_when_both_are_killed_again_and_again(pulsar, tmp_path):
    job, copied = new_job(pulsar, tmp_path)
    kills, began_s = 0, time.time()
    process = job.start()
    for pause_s in (0.0, 0.1, 0.3, 0.03, 0.2, 0.5):
        if not wait_for_checkpoint(tmp_path, process, began_s):
            break
        time.sleep(pause_s)
        kill_both(pulsar, process)
        kills += 1
        pulsar.start()
        began_s = time.time()
        process = job.start()
    assert wait_for(process, 300, job) == 0, job.log.read_text()[-3000:]

    assert kills >= 3
    check_copied(copied, job)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("place", "count"),
    [
        ("sink.precommitted", 7),  # staged, in no checkpoint
        ("manifest.published", 4),  # in a checkpoint, nothing published
        ("sink.publish", 6),  # some subtasks have published, some not; or published, and not noted
        ("sink.publish", 7),
        ("sink.committed", 4),  # published; the subscription has not been moved on
    ],
)
def test_nothing_is_lost_or_doubled_when_both_are_killed_at_a_place(pulsar, tmp_path, place, count):
    job, copied = new_job(pulsar, tmp_path)
    for times in range(2):
        process = job.start(place, count + times)
        assert wait_for(process, 200, job) == -signal.SIGKILL, job.log.read_text()[-3000:]
        pulsar.stop()  # its process is gone already
        pulsar.start()
    assert wait_for(job.start(), 300, job) == 0, job.log.read_text()[-3000:]

    check_copied(copied, job)
