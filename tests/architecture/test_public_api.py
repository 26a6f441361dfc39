from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import millstream

MODULES = sorted(
    info.name
    for info in pkgutil.walk_packages(millstream.__path__, "millstream.")
    if not any(part.startswith("_") for part in info.name.split("."))
)


@pytest.mark.parametrize("module", ["millstream", "millstream.datastream", "millstream.runtime.job.launcher"])
def test_import_loads_neither_pyspark_nor_pyarrow(module):
    code = f"import sys, {module}; print([n for n in ('pyspark', 'py4j', 'pyarrow') if n in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert out.stdout.strip() == "[]", out.stderr


ROWS_ONLY = """
import sys
from millstream.common import Configuration, WatermarkStrategy
from millstream.datastream import StreamExecutionEnvironment
configuration = Configuration().set_string("execution.target", "local")
env = StreamExecutionEnvironment.get_execution_environment(configuration)
env.set_parallelism(2)
strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("n")
stream = env.from_collection([{"n": 1}, {"n": 2}]).assign_timestamps_and_watermarks(strategy).rebalance()
with stream.key_by(lambda each: each["n"]).reduce(lambda a, b: a).execute_and_collect() as results:
    assert len(list(results)) == 2
print([name for name in ("pyarrow", "numpy", "pandas") if name in sys.modules])
"""


def test_a_job_without_columns_loads_nothing_that_has_columns():
    out = subprocess.run([sys.executable, "-c", ROWS_ONLY], capture_output=True, text=True)
    assert out.stdout.strip() == "[]", out.stderr


def test_modules_were_found():
    assert "millstream.datastream.data_stream" in MODULES


@pytest.mark.parametrize("name", MODULES)
def test_every_name_that_a_module_exports_exists_once(name):
    module = importlib.import_module(name)
    exported = getattr(module, "__all__", [])
    assert [each for each in exported if not hasattr(module, each)] == []
    assert len(set(exported)) == len(exported)


def test_what_tests_of_programs_may_use_is_documented():
    page = (Path(__file__).parents[2] / "docs" / "testing.md").read_text()
    exported = importlib.import_module("millstream.testing").__all__
    assert [name for name in exported if name not in page] == []
