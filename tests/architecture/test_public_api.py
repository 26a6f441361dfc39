from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys

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


def test_modules_were_found():
    assert "millstream.datastream.data_stream" in MODULES


@pytest.mark.parametrize("name", MODULES)
def test_every_name_that_a_module_exports_exists_once(name):
    module = importlib.import_module(name)
    exported = getattr(module, "__all__", [])
    assert [each for each in exported if not hasattr(module, each)] == []
    assert len(set(exported)) == len(exported)
