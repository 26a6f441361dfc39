"""Signals to a driver on Spark, and drivers and slots that are killed: what they leave."""

import os
import signal
import subprocess
import sys
import time

import pytest

PROGRAM = """
import os, time
from millstream.config.configuration import Configuration
from millstream.datastream import StreamExecutionEnvironment

options = {
    "execution.target": "local[2]",
    "state.backend.type": "rocksdb",
    "execution.checkpointing.interval": "1 s",
}
environment = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))

def sleep(value):
    open(os.environ["BEGAN"], "w").close()
    time.sleep(600)

stream = environment.from_collection([1, 2]).uid("source").key_by(lambda x: x)
stream.reduce(lambda a, b: b).uid("last").map(sleep).print()
environment.execute("sleeps")
"""


def files(directory):
    return [path for path in directory.rglob("*") if not path.is_dir() and path.name != "lock"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_driver_that_is_ended_leaves_neither_slots_nor_state(tmp_path, processes, number):
    directory, began, script = tmp_path / "tmp", tmp_path / "began", tmp_path / "job.py"
    directory.mkdir()
    script.write_text(PROGRAM)
    environment = {**os.environ, "TMPDIR": str(directory), "BEGAN": str(began)}
    driver = subprocess.Popen(
        [sys.executable, str(script)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    processes.wait_until(began.exists, "a function runs", seconds=120)
    assert any("state-" in str(path) for path in files(directory))
    asked = time.monotonic()
    driver.send_signal(number)
    _, complaints = driver.communicate(timeout=60)
    took_s = time.monotonic() - asked
    processes.wait_until_no_slot()
    if number == signal.SIGTERM:
        assert driver.returncode == 143
        assert took_s < 30  # on a quiet machine two: one of them Spark's own
        assert len(complaints.strip().splitlines()) == 1, complaints
        (archived,) = files(directory)  # what is shown of jobs that have ended
        assert archived.parent.name == "archive"
    else:
        left = [
            path for path in files(directory) if path.parent.name != "jobs"
        ]  # whoever lists jobs removes these
        assert left == []


def test_what_a_killed_slot_left_is_removed_by_the_next(new_environment, tmp_path, processes):
    options = {
        "state.backend.type": "rocksdb",
        "state.backend.rocksdb.localdir": str(tmp_path),
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": 1,
        "restart-strategy.fixed-delay.delay": "1 ms",
    }
    began = tmp_path / "began"

    def die_once(value):
        if not began.exists():
            began.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return value

    environment = new_environment("local[2]", 1, options)
    environment.from_collection([1, 2]).key_by(lambda x: x).reduce(lambda a, b: b).map(die_once).print()
    environment.execute()
    processes.wait_until(lambda: files(tmp_path) == [began], "no state is left")
