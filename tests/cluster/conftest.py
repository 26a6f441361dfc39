"""A cluster for a test; makes `clusters` importable: with `--import-mode=importlib` tests have no path of their own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from clusters import Cluster


@pytest.fixture
def cluster(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A cluster that runs; `indirect` says its target, else programs run in their own processes without Spark."""
    work = tmp_path / "work"
    work.mkdir()
    made = Cluster(tmp_path / "cluster", work, getattr(request, "param", "local"))
    made.start()
    try:
        yield made
    finally:
        made.end()
