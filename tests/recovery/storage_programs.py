"""Programs whose checkpoints go to servers: run as processes of their own, or built in this one."""

from __future__ import annotations

import contextvars
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from millstream.base.clock import SystemClock
from millstream.base.errors import CheckpointDamagedError, DriverSupersededError
from millstream.files.stores import FileStore
from millstream.runtime.checkpoint.ownership import Ownership, owned_terms

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


def check_parts(store: FileStore) -> None:
    """Check that a store gives parts of a file, and says what is wrong where there are none."""
    data = bytes(range(256)) * 40_000
    ref = store.write("shared/1", data)
    for offset, length in ((0, 10), (5_000_000, 5_000_000), (len(data) - 3, 3)):
        assert store.read_part(ref, offset, length) == data[offset : offset + length]
    for offset, length in ((len(data) - 3, 4), (len(data) + 5, 1)):
        with pytest.raises(
            CheckpointDamagedError, match=f"ends before byte {offset + length}, {len(data)} bytes"
        ):
            store.read_part(ref, offset, length)
    store.delete("shared/1")
    with pytest.raises(CheckpointDamagedError, match="shared/1.* is missing"):
        store.read_part(ref, 0, 1)


def at_once(count: int, action: Callable[[], Any]) -> list[Any]:
    """Return what an action gives on several threads, or raises there."""
    barrier, results = threading.Barrier(count), []
    context = contextvars.copy_context()

    def perform() -> None:
        barrier.wait()
        try:
            results.append(action())
        except DriverSupersededError as error:
            results.append(error)

    threads = [threading.Thread(target=context.copy().run, args=(perform,)) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(results) == count
    return results


def check_created_once(store: FileStore, *, or_by_nobody: bool = False) -> None:
    """See that of several who create a file one succeeds, and that nobody does later."""
    for name in ("1", "2", "3"):
        created = at_once(4, lambda name=name: store.create(f"claims/{name}", b"mine"))
        assert sum(created) == 1 or (or_by_nobody and sum(created) == 0), created
        if not any(created):
            assert store.names("claims") == [str(number) for number in range(1, int(name))]
            assert store.create(f"claims/{name}", b"mine")
        assert store.create(f"claims/{name}", b"another's") is False
        assert store.read_if_there(f"claims/{name}") == b"mine"
    assert store.names("claims") == ["1", "2", "3"]


def check_terms(location: str) -> None:
    """See that of several drivers that take a job over at once one goes on."""
    for _ in range(2):
        taken = at_once(4, lambda: Ownership.take(location, "job", job="job", clock=SystemClock()))
        *others, newest = sorted(
            (each for each in taken if isinstance(each, Ownership)), key=lambda each: each.term
        )
        newest.check()
        for each in others:
            with pytest.raises(DriverSupersededError):
                each.check()
        newest.forget_former()
        assert owned_terms(location, "job") == [newest.term]
