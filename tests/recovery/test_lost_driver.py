"""A driver that is killed: the next one goes on from its last checkpoint, and nothing is lost or doubled."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from millstream.base.errors import ConfigurationError
from millstream.config.configuration import Configuration
from millstream.datastream import StreamExecutionEnvironment

PROGRAM = """
import sys
from millstream.common import Configuration, Encoder, Types, WatermarkStrategy
from millstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from millstream.datastream.connectors.file_system import FileSink
from millstream.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from millstream.datastream.state import ValueStateDescriptor

RECORDS, PER_SECOND = 3000, 1500

class Count(KeyedProcessFunction):
    def open(self, context):
        self.count = context.get_state(ValueStateDescriptor("count", Types.LONG()))
    def process_element(self, value, context):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield f"{value % 7}:{count}"

directory = sys.argv[1]
env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict({
    "high-availability.storageDir": directory + "/ha",
    "execution.checkpointing.interval": "20 ms"}))
source = DataGeneratorSource(lambda index: index, RECORDS, RateLimiterStrategy.per_second(PER_SECOND), Types.LONG())
stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").key_by(lambda value: value % 7)
sink = FileSink.for_row_format(directory + "/out", Encoder.simple_string_encoder()).build()
stream.process(Count(), Types.STRING()).sink_to(sink)
env.execute("counting")
"""


def start(tmp_path: Path, *, recover: bool) -> subprocess.Popen[bytes]:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    options = ["--recover"] if recover else []
    command = [sys.executable, "-m", "millstream.cli.main", "run", "--target", "local", *options]
    return subprocess.Popen([*command, str(program), str(tmp_path)])


def pointers(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "ha").glob("counting-*.recovery"))


def lines(directory: Path) -> Counter[str]:
    files = [path for path in directory.rglob("*") if path.is_file() and not path.name.startswith((".", "_"))]
    return Counter(line for path in files for line in path.read_text().splitlines())


def test_drivers_that_are_killed_again_and_again_lose_and_double_nothing(tmp_path):
    rng = random.Random(7)
    running = start(tmp_path, recover=False)
    for _ in range(4):
        deadline = time.monotonic() + 60
        while not pointers(tmp_path) and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(rng.uniform(0.3, 0.6))
        os.kill(running.pid, signal.SIGKILL)
        running.wait()
        assert pointers(tmp_path), (
            "killed before its first checkpoint, or at its end: the test kills too late"
        )
        running = start(tmp_path, recover=True)
    assert running.wait(timeout=60) == 0
    assert lines(tmp_path / "out") == Counter(
        f"{key}:{count}" for key in range(7) for count in range(1, len(range(key, 3000, 7)) + 1)
    )
    assert not pointers(tmp_path)


def test_a_job_that_cannot_know_what_was_lost_says_so():
    options = {"execution.target": "local", "millstream.recover": True}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    env.from_collection([1]).print()
    with pytest.raises(ConfigurationError, match=r"Set high-availability\.storageDir"):
        env.execute()
