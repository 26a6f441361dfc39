"""A driver that is started again though its job has ended: it runs nothing, and says how the job ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from millstream.base.crash_points import DRIVER_POINTS
from millstream.runtime.recovery.results import read_results

PROGRAM = """
import os, pathlib, signal, sys, time
from millstream.common import Configuration, Encoder, Types, WatermarkStrategy
from millstream.common.accumulators import IntCounter
from millstream.base.crash_points import set_crash_hook
from millstream.datastream import MapFunction, StreamExecutionEnvironment
from millstream.datastream.connectors.file_system import FileSink
from millstream.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy

directory, mode, *rest = sys.argv[1:]
RECORDS = 300

class Kill:
    def reach(self, name, detail):
        if name == rest[0]:
            os.kill(os.getpid(), signal.SIGKILL)
    def around(self, name, detail, action):
        return action()

class Work(MapFunction):
    def open(self, context):
        self.seen = IntCounter()
        context.add_accumulator("seen", self.seen)
    def map(self, value):
        self.seen.add(1)
        if mode == "fails" and value == 200:
            raise ValueError("this one I do not like")
        if mode == "stuck" and value == 100 and not os.path.exists(directory + "/died"):
            pathlib.Path(directory, "died").touch()
            while True:
                try:
                    time.sleep(1)
                except BaseException:
                    pass
        if mode == "dies" and value == 1250 and not os.path.exists(directory + "/died"):
            pathlib.Path(directory, "died").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return str(value)

def run(begin, sink_name, count=RECORDS, per_second=3000):
    source = DataGeneratorSource(
        lambda index: begin + index, count, RateLimiterStrategy.per_second(per_second), Types.LONG())
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    sink = FileSink.for_row_format(f"{directory}/{sink_name}", Encoder.simple_string_encoder()).build()
    stream.map(Work(), Types.STRING()).sink_to(sink)
    return env.execute("working")

env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict({
    "high-availability.storageDir": directory + "/ha",
    "execution.checkpointing.interval": "20 ms",
    "restart-strategy.type": "none"}))
env.set_parallelism(1)
if mode == "killed":
    set_crash_hook(Kill())
if mode == "endless":
    run(0, "out", count=10_000_000)
if mode in ("steady", "stuck"):
    # Long enough to be ended in the middle, on a machine where a checkpoint takes a second too.
    is_again = os.path.exists(directory + "/again")
    run(0, "out", per_second=3000 if is_again else {"steady": 15, "stuck": 200}[mode])
    sys.exit()
result = run(0, "out")
print("first", result.get_job_id(), result.get_accumulator_result("seen"))
if mode == "dies":
    result = run(1000, "more")
    print("second", result.get_job_id(), result.get_accumulator_result("seen"))
"""


def command(tmp_path, mode, *rest, recover=False, **options):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    given = [f"-D{key}={value}" for key, value in options.items()]
    flags = ["--recover"] if recover else []
    head = [sys.executable, "-m", "millstream.cli.main", "run", "--target", "local", *flags, *given]
    return [*head, str(program), str(tmp_path), mode, *rest]


def start(tmp_path, mode, *rest, **options):
    return subprocess.run(
        command(tmp_path, mode, *rest, **options), capture_output=True, text=True, timeout=120, check=False
    )


def lines(directory: Path) -> Counter[str]:
    files = [path for path in directory.rglob("*") if path.is_file() and not path.name.startswith((".", "_"))]
    return Counter(line for path in files for line in path.read_text().splitlines())


ONCE = Counter(str(number) for number in range(300))
TWICE = ONCE + ONCE


def left(tmp_path):
    """What is there beside results, and the file that tells whose the job was."""
    files = [path for path in (tmp_path / "ha").rglob("*") if path.is_file() and path.suffix != ".result"]
    owners = [path for path in files if path.parent.suffix == ".owners"]
    assert len(owners) == 1, owners
    return [path for path in files if path not in owners]


def test_a_job_that_has_finished_is_not_run_again_but_if_asked_for(tmp_path):
    first = start(tmp_path, "works")
    assert first.returncode == 0, first.stderr
    (ended,) = read_results(str(tmp_path / "ha"))
    assert (ended.name, ended.status, ended.clean) == ("working", "FINISHED", True)
    assert left(tmp_path) == []
    again = start(tmp_path, "works", recover=True)
    assert again.returncode == 0, again.stderr
    assert 'job "working" finished at 20' in again.stderr
    assert "is not run again" in again.stderr
    assert again.stdout == first.stdout == f"first {ended.job_id} 300\n"
    assert lines(tmp_path / "out") == ONCE
    anew = start(tmp_path, "works")
    assert anew.returncode == 0
    assert lines(tmp_path / "out") == TWICE
    (since,) = read_results(str(tmp_path / "ha"))
    assert since.job_id != ended.job_id
    # Without the entry nobody knows.
    (entry,) = (tmp_path / "ha" / "job-result-store").iterdir()
    entry.unlink()
    assert start(tmp_path, "works", recover=True).returncode == 0
    assert lines(tmp_path / "out") == TWICE + ONCE


def test_flinks_way_is_to_forget_the_result_when_all_is_cleaned_up(tmp_path):
    options = {
        "job-result-store.delete-on-commit": "true",
        "job-result-store.storage-path": str(tmp_path / "results"),
    }
    assert start(tmp_path, "works", **options).returncode == 0
    assert list((tmp_path / "results").iterdir()) == []
    assert start(tmp_path, "killed", "result.commit", **options).returncode == -signal.SIGKILL
    assert [each.clean for each in read_results(str(tmp_path / "results"))] == [False]
    assert start(tmp_path, "works", recover=True, **options).returncode == 0
    assert list((tmp_path / "results").iterdir()) == []
    assert lines(tmp_path / "out") == TWICE


@pytest.mark.parametrize("point", [point for point in DRIVER_POINTS if point.startswith("result.")])
def test_a_driver_killed_at_the_end_of_its_job_leaves_nothing_undone_and_repeats_nothing(tmp_path, point):
    killed = start(tmp_path, "killed", point)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    again = start(tmp_path, "works", recover=True)
    assert again.returncode == 0, again.stderr
    assert again.stdout.endswith(" 300\n") or point == "result.write"  # the last attempt has seen less
    assert lines(tmp_path / "out") == ONCE
    (ended,) = read_results(str(tmp_path / "ha"))
    assert (ended.status, ended.clean) == ("FINISHED", True)
    assert left(tmp_path) == []


def test_a_job_that_has_failed_is_told_as_failed_with_its_cause(tmp_path):
    first = start(tmp_path, "fails")
    assert first.returncode == 1
    again = start(tmp_path, "works", recover=True)
    assert again.returncode == 1
    assert 'job "working" failed at 20' in again.stderr
    assert "ValueError: this one I do not like" in again.stderr
    (ended,) = read_results(str(tmp_path / "ha"))
    (failure,) = ended.failures
    assert (ended.status, failure.attempt, failure.exception_name) == ("FAILED", 0, "UserFunctionError")
    assert "in map" in failure.stacktrace
    assert failure.restart_delay_ms is None


def test_a_job_that_was_cancelled_is_not_started_again_and_again(tmp_path):
    running = subprocess.Popen(command(tmp_path, "endless"), stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("ha/*.recovery")) and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(running.pid, signal.SIGINT)
    assert running.wait(timeout=60) == 130
    (ended,) = read_results(str(tmp_path / "ha"))
    assert (ended.status, ended.clean) == ("CANCELED", True)
    again = start(tmp_path, "works", recover=True)
    assert again.returncode == 0
    assert 'job "working" was cancelled at 20' in again.stderr
    assert again.stdout == ""
    shown = subprocess.run(
        [sys.executable, "-m", "millstream.cli.main", "list", "--ended", str(tmp_path / "ha")],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
    assert shown.startswith(f"{ended.job_id}  CANCELED    working  (ended 20")


@pytest.mark.parametrize("runner", ["run", "python"])
@pytest.mark.parametrize("mode", ["steady", "stuck"])
def test_a_job_whose_driver_is_terminated_is_left_to_the_next(tmp_path, mode, runner):
    """As in Flink: a pod that is evicted gets SIGTERM, and its job is not cancelled by that."""
    head = command(tmp_path, mode) if runner == "run" else [sys.executable, *_program(tmp_path), mode]
    environment = {**os.environ, "MILLSTREAM_CONFIG": json.dumps({"execution.target": "local"})}
    running = subprocess.Popen(head, stderr=subprocess.PIPE, text=True, env=environment)
    awaited = tmp_path / "died" if mode == "stuck" else tmp_path / "ha"
    deadline = time.monotonic() + 60
    while not (awaited.exists() and list(tmp_path.glob("ha/*.recovery"))) and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(running.pid, signal.SIGTERM)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 143
    assert 'job "working" was suspended, and can be recovered: --recover' in said
    assert "cancelled" not in said
    assert read_results(str(tmp_path / "ha")) == []
    # Two, if it ended between writing one and removing the one before.
    assert list(tmp_path.glob("ha/*.recovery"))
    (tmp_path / "again").touch()
    again = start(tmp_path, mode, recover=True)
    assert again.returncode == 0, again.stderr
    assert lines(tmp_path / "out") == ONCE
    assert [each.status for each in read_results(str(tmp_path / "ha"))] == ["FINISHED"]
    assert left(tmp_path) == []


def _program(tmp_path):
    *_, program, directory, _ = command(tmp_path, "")
    return program, directory


def test_each_job_of_a_program_has_its_own_result(tmp_path):
    """Both jobs have one name; the driver is killed while the second runs."""
    killed = start(tmp_path, "dies")
    assert killed.returncode == -signal.SIGKILL
    assert [each.status for each in read_results(str(tmp_path / "ha"))] == ["FINISHED"]
    again = start(tmp_path, "dies", recover=True)
    assert again.returncode == 0, again.stderr
    assert again.stderr.count("is not run again") == 1
    assert killed.stdout in ("", again.stdout.splitlines(keepends=True)[0])
    assert lines(tmp_path / "out") == ONCE
    assert lines(tmp_path / "more") == Counter(str(1000 + number) for number in range(300))
    third = start(tmp_path, "dies", recover=True)
    assert third.returncode == 0
    assert third.stderr.count("is not run again") == 2
    assert third.stdout.splitlines()[0] == again.stdout.splitlines()[0]
    shown = json.loads(
        subprocess.run(
            [sys.executable, "-m", "millstream.cli.main", "list", "--json", "--ended", str(tmp_path / "ha")],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
    )
    assert [(each["name"], each["status"]) for each in shown] == [("working", "FINISHED")] * 2
