"""The examples of PyFlink's wheel; with `--import-mode=importlib` tests have no directory on the path."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from flink_wheel import VERSION, unpack

collect_ignore = ["flink_wheel.py"]


@pytest.fixture(scope="session")
def examples(request, tmp_path_factory):
    cache = request.config.cache.mkdir(f"apache-flink-{VERSION}")
    return unpack(cache, tmp_path_factory.mktemp("apache-flink"))


@pytest.fixture(scope="session")
def table_examples(request, tmp_path_factory):
    cache = request.config.cache.mkdir(f"apache-flink-{VERSION}")
    return unpack(cache, tmp_path_factory.mktemp("apache-flink-table"), "table")
