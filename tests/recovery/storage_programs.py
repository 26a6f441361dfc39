"""Programs whose checkpoints go to servers: run as processes of their own, or built in this one."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

BUILD = """
from millstream.common import Encoder, Types, WatermarkStrategy
from millstream.datastream import KeyedProcessFunction
from millstream.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from millstream.datastream.connectors.file_system import FileSink, RollingPolicy
from millstream.datastream.state import ValueStateDescriptor

class Count(KeyedProcessFunction):
    def open(self, context):
        self.count = context.get_state(ValueStateDescriptor("count", Types.LONG()))
    def process_element(self, value, context):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield f"{value % 7}:{count}"

def build(env, out, records, per_second):
    rate = RateLimiterStrategy.per_second(per_second)
    source = DataGeneratorSource(lambda index: index, records, rate, Types.LONG())
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").key_by(lambda value: value % 7)
    sink = FileSink.for_row_format(str(out), Encoder.simple_string_encoder())
    sink = sink.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build()
    stream.process(Count(), Types.STRING()).sink_to(sink)
"""
MAIN = """
import sys
from millstream.common import Configuration
from millstream.datastream import StreamExecutionEnvironment
env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict({
    "high-availability.storageDir": sys.argv[1],
    "execution.checkpointing.interval": "50 ms"}))
build(env, sys.argv[2], 3000, 1500)
env.execute("counting")
"""
NUMBERS: dict[str, Any] = {}
exec(BUILD, NUMBERS)


def start_program(
    tmp_path: Path, root: str, environment: Mapping[str, str], *options: str
) -> subprocess.Popen[bytes]:
    """Start a program that counts, with what outlives drivers at `root` and its lines in `tmp_path`/out."""
    program = tmp_path / "program.py"
    program.write_text(BUILD + MAIN)
    command = [sys.executable, "-m", "millstream.cli.main", "run", "--target", "local", *options]
    return subprocess.Popen([*command, str(program), root, str(tmp_path / "out")], env=dict(environment))


def wait_until(condition: Callable[[], object], seconds: float = 40.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "this never came about"
        time.sleep(0.02)


def lines(directory: Path) -> Counter[str]:
    files = [path for path in directory.rglob("*") if path.is_file() and not path.name.startswith((".", "_"))]
    return Counter(line for path in files for line in path.read_text().splitlines())


def counted(records: int = 3000) -> Counter[str]:
    """Return the lines that such a program is to write."""
    return Counter(
        f"{key}:{count}" for key in range(7) for count in range(1, len(range(key, records, 7)) + 1)
    )
