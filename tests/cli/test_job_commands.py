"""Jobs are seen and steered from another terminal: here by the commands, against a job of this very process."""

from __future__ import annotations

import json
import os
import re
import tempfile
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from millstream.base.errors import JobExecutionError
from millstream.cli.main import main
from millstream.common import Types, WatermarkStrategy
from millstream.common.job_status import JobStatus
from millstream.config.configuration import Configuration
from millstream.datastream import StreamExecutionEnvironment
from millstream.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from millstream.datastream.functions import MapFunction, SinkFunction
from millstream.runtime.checkpoint.restore import find_saved
from millstream.runtime.control.channel import find_jobs
from millstream.runtime.control.commands import Cancel
from millstream.runtime.control.status_files import status_directory
from millstream.runtime.control.views import JobView


class Nothing(SinkFunction):
    def invoke(self, value):
        pass


@pytest.fixture(autouse=True)
def own_directory(monkeypatch, tmp_path):
    """A short one, as the path of a Unix socket is; `tmp_path` is made before it would lie in there."""
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        monkeypatch.setattr("tempfile.tempdir", directory)
        monkeypatch.setenv("COLUMNS", "200")
        yield


@pytest.fixture
def start(own_directory):
    clients = []

    def start_job(name, **options):
        configuration = Configuration.from_dict({"execution.target": "local", **options})
        env = StreamExecutionEnvironment.get_execution_environment(configuration)
        source = DataGeneratorSource(
            lambda index: index, 10**9, RateLimiterStrategy.per_second(100), Types.LONG()
        )
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
        stream.map(lambda number: number).add_sink(Nothing())
        clients.append(env.execute_async(name))
        return clients[-1]

    yield start_job
    for client in clients:
        if not client.get_job_status().result().is_terminal_state():
            client.cancel().result()


def invoke(*arguments):
    return CliRunner().invoke(main, arguments)


def test_running_jobs_are_listed_with_what_becomes_of_them(start):
    client = start("counting")
    (listed,) = json.loads(invoke("list", "--json").stdout)
    assert listed["job_id"] == str(client.get_job_id())
    assert (listed["name"], listed["restarts"], listed["pid"]) == ("counting", 0, os.getpid())
    assert listed["status"] in ("CREATED", "RUNNING")
    assert "counting" in invoke("list").stdout


class FailsTwice(MapFunction):
    """The first two attempts fail at their first record."""

    def open(self, runtime_context):
        self.attempt = runtime_context.get_attempt_number()

    def map(self, value):
        if self.attempt < 2:
            raise ValueError(f"attempt {self.attempt} is not good enough")
        return value


def test_jobs_that_fail_are_listed_with_attempts_times_and_causes(own_directory):
    options = {
        "execution.target": "local",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": 5,
        "restart-strategy.fixed-delay.delay": "1 ms",
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    source = DataGeneratorSource(
        lambda index: index, 10**9, RateLimiterStrategy.per_second(100), Types.LONG()
    )
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    stream.map(FailsTwice()).name("choosy").add_sink(Nothing())
    client = env.execute_async("failing")
    try:
        deadline = time.monotonic() + 20
        while json.loads(invoke("list", "--json").stdout)[0]["restarts"] < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        _, *failures = invoke("list").stdout.splitlines()
        (document,) = json.loads(invoke("list", "--json").stdout)
    finally:
        client.cancel().result()
    for attempt, line in enumerate(failures):
        assert re.fullmatch(
            rf"    attempt {attempt} failed \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d UTC, started again after 1 ms: "
            rf'ValueError: attempt {attempt} is not good enough in operator "choosy", subtask 0',
            line,
        )
    assert (len(failures), document["failure_count"]) == (2, 2)
    assert "in map" in document["failures"][1]["stacktrace"]


def test_savepoint_is_triggered_and_the_job_goes_on(start, tmp_path):
    client = start("counting")
    result = invoke("savepoint", "trigger", "counting", str(tmp_path))
    assert result.exit_code == 0, result.output
    path = result.stdout.strip()
    assert Path(path).parent == tmp_path
    assert find_saved(path).manifest.is_savepoint
    assert client.get_job_status().result() is JobStatus.RUNNING
    shown = invoke("savepoint", "show", path).stdout
    assert 'uid "numbers"' in shown
    assert "all intact" in shown


@pytest.mark.parametrize("drain", [(), ("--drain",)])
def test_job_is_stopped_behind_a_savepoint(start, tmp_path, drain):
    client = start("counting")
    result = invoke("stop", "-p", str(tmp_path), *drain, str(client.get_job_id())[:8])
    assert result.exit_code == 0, result.output
    assert find_saved(result.stdout.strip()).manifest.job_name == "counting"
    client.get_job_execution_result().result()
    assert client.get_job_status().result() is JobStatus.FINISHED
    assert invoke("list").stdout == "no job runs on this machine for this user\n"


def test_job_is_cancelled(start):
    client = start("counting")
    result = invoke("cancel")
    assert result.exit_code == 0, result.output
    assert "has ended: CANCELED" in result.stdout
    assert client.get_job_status().result() is JobStatus.CANCELED
    with pytest.raises(JobExecutionError, match="cancelled"):
        client.get_job_execution_result().result()


def test_nothing_is_left_of_a_job_that_has_ended(start):
    start("counting").cancel().result()
    assert list(status_directory().iterdir()) == []


def test_several_jobs_have_to_be_told_apart(start):
    start("one")
    start("two")
    result = invoke("cancel")
    assert result.exit_code == 2
    assert all(said in result.stderr for said in ("2 jobs run: say which one", "one", "two"))
    assert invoke("cancel", "two").exit_code == 0
    assert [job.name for job in find_jobs()] == ["one"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("cancel",), "no job runs"),
        (("stop",), "no job runs"),
        (("savepoint", "trigger"), "no job runs"),
        (("savepoint", "show", "/nowhere"), "there is no checkpoint or savepoint"),
        (("savepoint", "dispose", "--yes", "/nowhere"), "there is no checkpoint or savepoint"),
    ],
)
def test_what_is_not_there_is_said_in_a_line_or_two(arguments, said):
    result = invoke(*arguments)
    assert result.exit_code == 1
    assert said in result.stderr
    assert "Traceback" not in result.output


def test_savepoint_without_any_directory_is_refused_by_the_job(start):
    start("counting")
    result = invoke("savepoint", "trigger")
    assert result.exit_code == 1
    assert "a savepoint was asked for without a directory" in result.stderr


def test_savepoint_is_disposed_of_when_that_is_confirmed(start, tmp_path):
    start("counting")
    path = invoke("savepoint", "trigger", "counting", str(tmp_path)).stdout.strip()
    refused = CliRunner().invoke(main, ["savepoint", "dispose", path], input="n\n")
    assert refused.exit_code == 1
    assert Path(path).exists()
    assert invoke("savepoint", "dispose", "--yes", path).exit_code == 0
    assert not Path(path).exists()


def test_checkpoint_of_a_running_job_is_not_disposed_of(start, tmp_path):
    client = start(
        "counting", **{"execution.checkpointing.interval": 1, "execution.checkpointing.dir": str(tmp_path)}
    )
    invoke(
        "savepoint", "trigger", "counting", str(tmp_path / "savepoints")
    )  # so there is a checkpoint before it
    result = invoke("savepoint", "dispose", "--yes", str(tmp_path / str(client.get_job_id())))
    assert result.exit_code == 1
    assert "belongs to job" in result.stderr


def test_who_does_not_know_the_secret_is_turned_away(start):
    from dataclasses import replace
    from multiprocessing import AuthenticationError

    start("counting")
    (job,) = find_jobs()
    with pytest.raises((JobExecutionError, AuthenticationError)):
        replace(job, announced=replace(job.announced, secret=b"another")).perform(Cancel()).result()
    assert job.view(JobView).status == "RUNNING"


def test_files_are_for_this_user_only(start):
    start("counting")
    assert {path.stat().st_mode & 0o077 for path in status_directory().glob("*.control")} == {0}
    assert status_directory().stat().st_mode & 0o077 == 0


def test_files_of_a_process_that_is_gone_are_removed(start):
    start("counting")
    (path,) = status_directory().glob("*.control")
    document = json.loads(path.read_text())
    other = path.with_name("gone.control")
    other.write_text(json.dumps({**document, "job_id": "gone", "process_start": "0"}))
    assert [job.name for job in find_jobs()] == ["counting"]
    assert not other.exists()


def test_options_of_run_reach_the_program(tmp_path, monkeypatch):
    monkeypatch.delenv("MILLSTREAM_CONFIG", raising=False)
    program = tmp_path / "job.py"
    program.write_text("import os, sys; print(os.environ['MILLSTREAM_CONFIG'])\nsys.exit(0)\n")
    monkeypatch.setenv("MILLSTREAM_CONFIG", "")
    result = invoke(
        "run", "-s", "/saved", "--allow-non-restored-state", "--claim-mode", "claim", str(program)
    )
    assert json.loads(result.stdout) == {
        "execution.state-recovery.path": "/saved",
        "execution.state-recovery.ignore-unclaimed-state": "true",
        "execution.state-recovery.claim-mode": "CLAIM",
    }
