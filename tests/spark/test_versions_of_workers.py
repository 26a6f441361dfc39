"""Spark's workers that have another millstream than the program: told before a record is read."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import millstream
from millstream.version import __version__

pytestmark = [pytest.mark.spark, pytest.mark.long]

PROGRAM = """
import sys
from millstream.common import Types, WatermarkStrategy
from millstream.datastream import StreamExecutionEnvironment
from millstream.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy

def touch(index):
    open(sys.argv[1], "a").write("read")
    return index

env = StreamExecutionEnvironment.get_execution_environment()
source = DataGeneratorSource(touch, 10, RateLimiterStrategy.per_second(1_000), Types.LONG())
env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").print()
env.execute("versions")
"""


def test_a_job_does_not_begin_where_workers_have_another_version(tmp_path):
    shutil.copytree(Path(millstream.__file__).parent, tmp_path / "lib" / "millstream")
    (tmp_path / "lib" / "millstream" / "version.py").write_text('__version__ = "0.0.1"\n')
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path / "lib"}:$PYTHONPATH exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    program = tmp_path / "job.py"
    program.write_text(PROGRAM)
    touched = tmp_path / "touched"
    command = [sys.executable, "-m", "millstream.cli", "run", "--target", "local[2]"]
    command += [
        f"-Dspark.pyspark.python={python}",
        "-Drestart-strategy.type=fixed-delay",
        str(program),
        str(touched),
    ]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=240, env=dict(os.environ))
    assert ended.returncode == 1
    assert (
        f"the program runs with millstream {__version__}, its functions would run with 0.0.1" in ended.stderr
    )
    assert "pip install millstream==" in ended.stderr
    assert not touched.exists()
