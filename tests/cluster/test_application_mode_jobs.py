"""Application mode from the outside: `millstream run-application` with real jobs."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from servers.process import free_port

pytestmark = pytest.mark.slow

RECORDS = 15_000
PROGRAM = """
import sys
from millstream.common import Encoder, Types, WatermarkStrategy
from millstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from millstream.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from millstream.datastream.connectors.file_system import FileSink, RollingPolicy
from millstream.datastream.state import ValueStateDescriptor

class Count(KeyedProcessFunction):
    def open(self, context):
        self.count = context.get_state(ValueStateDescriptor("count", Types.LONG()))
    def process_element(self, value, context):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield f"{context.get_current_key()}:{count}"

output, records, rate = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
env = StreamExecutionEnvironment.get_execution_environment()
source = DataGeneratorSource(lambda index: index, records, RateLimiterStrategy.per_second(rate), Types.LONG())
stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
counted = stream.key_by(lambda value: value % 10).process(Count(), Types.STRING()).uid("count")
sink = FileSink.for_row_format(output, Encoder.simple_string_encoder())
counted.sink_to(sink.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build()).uid("files")
env.execute("counting")
"""


class Application:
    """An application of a test.

    Attributes:
        supervisor: The process that was started.
    """

    def __init__(
        self,
        directory: Path,
        target: str,
        *,
        records: int = RECORDS,
        rate: int = 1_000,
        text: str = PROGRAM,
        options=(),
    ) -> None:
        program = directory / "job.py"
        program.write_text(text)
        self.output = directory / "out"
        self._log = directory / "log"
        port = free_port()
        self.address = f"http://127.0.0.1:{port}"
        options = [
            *options,
            f"-Dhigh-availability.storageDir={directory / 'ha'}",
            "-Dexecution.checkpointing.interval=200 ms",
            f"-Drest.port={port}",
            "-Dspark.ui.enabled=false",
        ]
        command = [
            sys.executable,
            "-m",
            "millstream.cli",
            "run-application",
            "--target",
            target,
            "-p",
            "2",
            *options,
        ]
        with self._log.open("ab") as log:
            self.supervisor = subprocess.Popen(
                [*command, str(program), str(self.output), str(records), str(rate)],
                cwd=directory,
                stdout=log,
                stderr=log,
            )

    def log(self) -> str:
        return self._log.read_text()

    def driver(self) -> int:
        pid = self.supervisor.pid
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])

    def ask(self, path: str):
        try:
            with urllib.request.urlopen(f"{self.address}{path}", timeout=10) as answer:
                return json.load(answer)
        except (OSError, urllib.error.URLError):
            return None

    def wait_until(self, condition, seconds: float = 120):
        deadline = time.monotonic() + seconds
        while not (found := condition()):
            assert self.supervisor.poll() is None and time.monotonic() < deadline, self.log()
            time.sleep(0.05)
        return found

    def running_job(self):
        found = self.ask("/jobs/overview")
        running = [each for each in (found or {"jobs": []})["jobs"] if each["state"] == "RUNNING"]
        return running[0]["jid"] if running else None

    def checkpoints(self) -> int:
        job = self.running_job()
        found = job and self.ask(f"/jobs/{job}/checkpoints")
        return found["counts"]["completed"] if found else 0

    def lines(self) -> list[str]:
        return sorted(
            line
            for path in self.output.rglob("*")
            if path.is_file() and not path.name.startswith((".", "_"))
            for line in path.read_text().splitlines()
        )

    def end(self) -> int:
        return self.supervisor.wait(180)


@pytest.fixture
def start(tmp_path):
    started = []

    def begin(*arguments, **options):
        started.append(Application(tmp_path, *arguments, **options))
        return started[-1]

    yield begin
    for each in started:
        if each.supervisor.poll() is None:
            each.supervisor.terminate()
            each.end()


def expected(records: int = RECORDS) -> list[str]:
    return sorted(f"{key}:{count}" for key in range(10) for count in range(1, records // 10 + 1))


@pytest.mark.long
@pytest.mark.parametrize("target", ["local", pytest.param("local[2]", marks=pytest.mark.spark)])
def test_a_driver_that_is_killed_is_started_again_and_goes_on_exactly_once(start, target):
    application = start(target)
    application.wait_until(lambda: application.checkpoints() >= 2)
    job = application.running_job()
    os.kill(application.driver(), signal.SIGKILL)
    assert application.wait_until(application.running_job) == job
    assert application.end() == 0, application.log()
    assert application.lines() == expected()
    assert len(re.findall("the driver was ended by signal 9", application.log())) == 1


@pytest.mark.long
def test_sigterm_leaves_the_job_to_the_next_start(start):
    application = start("local")
    application.wait_until(lambda: application.checkpoints() >= 2)
    application.supervisor.terminate()
    assert application.end() == 143, application.log()
    assert "suspended" in application.log()
    assert len(application.lines()) < RECORDS
    following = start("local")
    assert following.end() == 0, following.log()
    assert following.lines() == expected()


@pytest.mark.long
def test_the_driver_ends_with_its_supervisor(start):
    application = start("local", records=10**9)
    application.wait_until(lambda: application.checkpoints() >= 1)
    driver = application.driver()
    application.supervisor.kill()
    application.supervisor.wait()
    deadline = time.monotonic() + 60
    while Path(f"/proc/{driver}").exists() and "State:\tZ" not in Path(f"/proc/{driver}/status").read_text():
        assert time.monotonic() < deadline, application.log()
        time.sleep(0.05)
    assert "suspended" in application.log()


@pytest.mark.long
def test_an_application_that_is_cancelled_ends_with_0_and_stays_so(start):
    application = start("local", records=10**9)
    job = application.wait_until(application.running_job)
    request = urllib.request.Request(f"{application.address}/jobs/{job}", method="PATCH")
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert answer.status == 202
    assert application.end() == 0, application.log()
    assert start("local", records=10**9).end() == 0


def test_an_application_whose_job_fails_ends_with_1(start):
    text = PROGRAM.replace("count = (self", "count = 1 / 0 + (self")
    application = start("local", text=text, options=["-Drestart-strategy.type=none"])
    assert application.end() == 1
    assert "ZeroDivisionError" in application.log()
    assert "started again" not in application.log()


def test_application_mode_and_clusters_exclude_one_another(tmp_path):
    program = tmp_path / "job.py"
    program.write_text("")
    command = [sys.executable, "-m", "millstream.cli", "run", "--application", "--detached", str(program)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2
    assert "--application runs a program outside of clusters" in ended.stderr
