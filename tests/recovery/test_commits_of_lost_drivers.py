"""A driver is lost while its sink commits and epochs go on: whoever takes over publishes all, once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

PROGRAM = """
import glob, os, sys, time
from pathlib import Path
from millstream.common import Configuration, Types, WatermarkStrategy
from millstream.datastream import StreamExecutionEnvironment
from millstream.datastream.connectors.base import TwoPhaseCommitSink
from millstream.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy

directory, records, per_second = sys.argv[1:]

class Hidden(TwoPhaseCommitSink):
    # Stages lines in hidden files; its commits wait until the test lets them go on.
    def open(self, context):
        self.context = context
    def begin_transaction(self):
        return f"{directory}/out/.{self.context.new_name()}"
    def staged_transactions(self):
        return glob.glob(f"{directory}/out/.*")
    def invoke(self, transaction, value, context):
        with open(transaction, "a") as file:
            print(value, file=file)
    def pre_commit(self, transaction):
        return transaction if os.path.exists(transaction) else None
    def commit(self, committable):
        Path(directory, f"committing-{os.getpid()}").touch()
        while not os.path.exists(f"{directory}/go"):
            time.sleep(0.002)
        if os.path.exists(committable):
            os.rename(committable, committable.replace("/.", "/"))
    def abort(self, committable):
        Path(committable).unlink(missing_ok=True)

def note(value):
    Path(directory, f"seen-{os.getpid()}").write_text(f"{value}.")
    return value

options = {"high-availability.storageDir": directory + "/ha", "execution.checkpointing.interval": "40 ms"}
env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
rate = RateLimiterStrategy.per_second(float(per_second))
source = DataGeneratorSource(lambda index: index, int(records), rate, Types.LONG())
numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
numbers.map(note, Types.LONG()).sink_to(Hidden()).uid("sink")
env.execute("lost")
"""
RECORDS = 1_000


class Driver:
    def __init__(self, directory: Path, *, recover: bool, per_second: int) -> None:
        self.directory = directory
        program = directory / "program.py"
        program.write_text(PROGRAM)
        command = [sys.executable, "-m", "millstream.cli.main", "run", "--target", "local"]
        command += [
            *(["--recover"] if recover else []),
            str(program),
            str(directory),
            str(RECORDS),
            str(per_second),
        ]
        self.log = directory / f"log-{recover}"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def is_committing(self) -> bool:
        return (self.directory / f"committing-{self.process.pid}").exists()

    def seen(self) -> int:
        note = self.directory / f"seen-{self.process.pid}"
        text = note.read_text() if note.exists() else ""
        return int(text[:-1]) if text.endswith(".") else -1

    def said(self) -> str:
        return self.log.read_text()


@pytest.fixture
def start(tmp_path):
    """Starts drivers, and ends those that are left."""
    (tmp_path / "out").mkdir()
    drivers = []

    def begin(**how):
        drivers.append(Driver(tmp_path, **how))
        return drivers[-1]

    yield begin
    for driver in drivers:
        driver.process.kill()
        driver.process.wait()


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.005)


def published(directory: Path) -> list[int]:
    paths = [path for path in (directory / "out").iterdir() if not path.name.startswith(".")]
    return sorted(int(line) for path in paths for line in path.read_text().split())


@pytest.mark.parametrize("lost", [pytest.param("killed", marks=pytest.mark.long), "paused"])
def test_what_a_lost_driver_was_committing_is_there_once_and_so_is_what_came_behind_it(tmp_path, start, lost):
    first = start(recover=False, per_second=200)
    until(first.is_committing)
    before = first.seen()
    until(lambda: first.seen() > before + 40)  # far more than an epoch holds
    assert published(tmp_path) == []
    os.kill(first.process.pid, signal.SIGKILL if lost == "killed" else signal.SIGSTOP)
    (tmp_path / "go").touch()
    second = start(recover=True, per_second=100_000)
    assert second.process.wait(timeout=60) == 0, second.said()
    assert published(tmp_path) == list(range(RECORDS))
    if lost == "paused":
        os.kill(first.process.pid, signal.SIGCONT)
        assert first.process.wait(timeout=60) == 1, first.said()
        assert "[DRIVER_SUPERSEDED]" in first.said()
        assert published(tmp_path) == list(range(RECORDS))
    assert [path.name for path in (tmp_path / "out").glob(".*")] == []
