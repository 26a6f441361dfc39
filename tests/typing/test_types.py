"""What type checkers see of streams, and that programs with types in brackets run."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import cloudpickle
import pytest

import millstream
from millstream.common import Configuration
from millstream.datastream import DataStream, KeyedStream, MapFunction, StreamExecutionEnvironment

PROGRAM = Path(__file__).with_name("typed_program.py")


def expected():
    """What comments of the program say: by line, the type, or the code of the error."""
    told = {}
    for number, line in enumerate(PROGRAM.read_text().splitlines(), 1):
        found = re.search(r"# (is|error): (.*)$", line)
        if found:
            told[number] = found.groups()
    return told


@pytest.mark.slow
def test_mypy_sees_the_types_that_the_program_tells(tmp_path):
    package = Path(millstream.__file__).parent
    assert (package / "py.typed").exists()
    environment = {**os.environ, "MYPYPATH": str(package.parent)}
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file",
        os.devnull,
        "--cache-dir",
        str(tmp_path),
    ]
    # What the package itself imports without types is looked at in the project's own run.
    command += ["--follow-imports", "silent", "--ignore-missing-imports", str(PROGRAM)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=280)
    seen = {}
    for line in done.stdout.splitlines():
        revealed = re.match(r'.*typed_program.py:(\d+): note: Revealed type is "(.*)"$', line)
        if revealed:
            seen[int(revealed[1])] = ("is", re.sub(r"\b(?:[a-z_]+\.)+(?=\w)", "", revealed[2]))
        failed = re.match(r".*typed_program.py:(\d+): error: .*\[([\w-]+)\]$", line)
        if failed:
            seen[int(failed[1])] = ("error", failed[2])
    assert seen == expected(), done.stdout + done.stderr


class Twice(MapFunction[int, int]):
    def map(self, value: int) -> int:
        return 2 * value


def test_brackets_change_nothing_when_the_program_runs():
    env = StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_dict({"execution.target": "local"})
    )
    stream: DataStream[int] = env.from_collection([1, 2])
    assert isinstance(stream, DataStream)
    assert isinstance(stream.key_by(lambda number: number), KeyedStream)
    assert DataStream[int].__origin__ is DataStream
    assert isinstance(pickle.loads(pickle.dumps(Twice())), Twice)
    local: type = type("Own", (Twice,), {})
    assert cloudpickle.loads(cloudpickle.dumps(local()))
    assert stream.map(Twice()).execute_and_collect(limit=5) == [2, 4]
