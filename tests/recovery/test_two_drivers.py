"""Two drivers of one job, in processes of their own: one is paused, or both begin at once. One goes on, the other ends.

Nothing is lost or doubled by them, and the one that ends says why with its last words and its exit code.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

PROGRAM = """
import os, signal, sys, time
from millstream.common import Configuration, Encoder, Types, WatermarkStrategy
from millstream.base.crash_points import set_crash_hook
from millstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from millstream.datastream.connectors.file_system import FileSink, RollingPolicy
from millstream.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from millstream.datastream.state import ValueStateDescriptor

directory, records, per_second, interval, stop_at, times = sys.argv[1:]

class Stop:
    left = int(times)
    def reach(self, name, detail):
        if name == stop_at:
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGSTOP)
    def around(self, name, detail, action):
        return action()

class Count(KeyedProcessFunction):
    def open(self, context):
        self.count = context.get_state(ValueStateDescriptor("count", Types.LONG()))
    def process_element(self, value, context):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield f"{value % 7}:{count}"

if stop_at != "never":
    set_crash_hook(Stop())
options = {"high-availability.storageDir": directory + "/ha"}
if interval != "none":
    options["execution.checkpointing.interval"] = interval
env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
rate = RateLimiterStrategy.per_second(float(per_second))
source = DataGeneratorSource(lambda index: index, int(records), rate, Types.LONG())
stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").key_by(lambda value: value % 7)
sink = FileSink.for_row_format(directory + "/out", Encoder.simple_string_encoder())
sink = sink.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build()
stream.process(Count(), Types.STRING()).sink_to(sink)
gate = directory + "/gate"
if os.path.isdir(gate):  # drivers that are to begin at once wait for each other
    open(gate + "/" + str(os.getpid()), "w").close()
    while not os.path.exists(directory + "/go"):
        time.sleep(0.001)
env.execute("counting")
"""
RECORDS = 600
ONCE = Counter(f"{key}:{count}" for key in range(7) for count in range(1, len(range(key, RECORDS, 7)) + 1))


class Driver:
    """A driver; what it says on standard error goes to a file."""

    def __init__(
        self,
        tmp_path: Path,
        *,
        recover: bool = True,
        stop_at: str = "never",
        times: int = 1,
        per_second: int = 600,
        interval: str = "40 ms",
    ) -> None:
        program = tmp_path / "program.py"
        if not program.exists():
            program.write_text(PROGRAM)
        self.log = tmp_path / f"driver-{len(list(tmp_path.glob('driver-*')))}"
        arguments = [tmp_path, RECORDS, per_second, interval, stop_at, times]
        options = ["--recover"] if recover else []
        command = [sys.executable, "-m", "millstream.cli.main", "run", "--target", "local", *options, program]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen([*map(str, [*command, *arguments])], stdout=log, stderr=log)

    def wait(self) -> int:
        return self.process.wait(timeout=60)

    def wait_until_it_stopped(self) -> None:
        until(lambda: "State:\tT" in Path(f"/proc/{self.process.pid}/status").read_text())

    def go_on(self) -> None:
        os.kill(self.process.pid, signal.SIGCONT)

    def said(self) -> str:
        return self.log.read_text()

    def is_told_of(self, other: Driver) -> None:
        assert self.wait() == 1, self.said()
        assert '[DRIVER_SUPERSEDED] this driver of job "counting" is superseded' in self.said()
        assert f"taken over by process {other.process.pid} on {os.uname().nodename}, at 20" in self.said()
        assert "nothing more published or removed" in self.said(), "it is in the log as well"


@pytest.fixture
def start(tmp_path):
    """Starts drivers, and ends those that are left."""
    drivers = []

    def begin(**how):
        drivers.append(Driver(tmp_path, **how))
        return drivers[-1]

    yield begin
    for driver in drivers:
        driver.process.kill()
        driver.process.wait()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.01)


def lines(tmp_path: Path) -> Counter[str]:
    files = [
        path
        for path in (tmp_path / "out").rglob("*")
        if path.is_file() and not path.name.startswith((".", "_"))
    ]
    return Counter(line for path in files for line in path.read_text().splitlines())


def files_left(tmp_path: Path) -> list[str]:
    """Return what is staged in the sink, and where jobs had come to."""
    hidden = [path.name for path in (tmp_path / "out").rglob(".*") if path.is_file()]
    return hidden + [path.name for path in (tmp_path / "ha").glob("*/chk-*")]


PLACES = {
    "as it reads": ("plan", 12),
    "before a manifest": ("manifest.write", 4),
    "behind a manifest": ("manifest.published", 4),
    "before a commit": ("seal", 4),
    "in the middle of a commit": ("sink.publish", 4),
    "as it removes old checkpoints": ("tidy", 4),
}
ALSO = {"behind a manifest", "before a commit", "as it removes old checkpoints"}


@pytest.mark.parametrize(
    "place",
    [pytest.param(place, marks=pytest.mark.long if place in ALSO else ()) for place in PLACES],
)
def test_a_driver_that_was_paused_publishes_nothing_when_it_wakes_behind_the_end(tmp_path, start, place):
    stop_at, times = PLACES[place]
    paused = start(stop_at=stop_at, times=times)
    paused.wait_until_it_stopped()
    other = start(per_second=100_000)
    assert other.wait() == 0, other.said()
    assert lines(tmp_path) == ONCE
    paused.go_on()
    # The other one has ended; the job is still its.
    paused.is_told_of(other)
    assert lines(tmp_path) == ONCE
    assert files_left(tmp_path) == []


def test_a_driver_that_wakes_while_another_one_goes_on_ends(tmp_path, start):
    paused = start(stop_at="sink.publish", times=3)
    paused.wait_until_it_stopped()
    before = lines(tmp_path)
    other = start(per_second=400)
    until(lambda: lines(tmp_path) != before)
    paused.go_on()
    paused.is_told_of(other)
    assert other.process.poll() is None, "it was to be there longer"
    assert other.wait() == 0, other.said()
    assert lines(tmp_path) == ONCE
    assert files_left(tmp_path) == []


def test_of_two_drivers_that_recover_the_same_job_at_once_one_goes_on(tmp_path, start):
    lost = start(stop_at="commit.done", times=3)
    lost.wait_until_it_stopped()
    lost.process.kill()
    lost.wait()
    gate = tmp_path / "gate"
    gate.mkdir()
    both = [start(per_second=1000), start(per_second=1000)]
    until(lambda: len(list(gate.iterdir())) == 2)
    (tmp_path / "go").touch()
    codes = sorted(driver.wait() for driver in both)
    assert codes == [0, 1], [driver.said() for driver in both]
    loser, winner = sorted(both, key=lambda driver: driver.wait(), reverse=True)
    assert f"taken over by process {winner.process.pid} on" in loser.said()
    assert lines(tmp_path) == ONCE
    assert files_left(tmp_path) == []


def test_who_begins_a_job_of_the_same_name_anew_supersedes_the_one_that_runs(tmp_path, start):
    first = start(recover=False, per_second=100)
    until(lambda: len(lines(tmp_path)) > 20)
    second = start(recover=False, per_second=100_000)
    first.is_told_of(second)
    assert second.wait() == 0, second.said()
    published = lines(tmp_path) - ONCE
    assert 0 < published.total() < RECORDS, "what the first one had published, and nothing behind it"
    assert set(published.values()) == {1}
    # And a third one hears of the end.
    third = start()
    assert third.wait() == 0, third.said()
    assert "is not run again" in third.said()


def test_without_checkpoints_a_paused_driver_publishes_nothing_either(tmp_path, start):
    paused = start(stop_at="plan", times=12, interval="none")
    paused.wait_until_it_stopped()
    other = start(per_second=100_000, interval="none")
    assert other.wait() == 0, other.said()
    paused.go_on()
    paused.is_told_of(other)
    assert lines(tmp_path) == ONCE
