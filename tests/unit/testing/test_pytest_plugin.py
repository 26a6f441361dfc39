"""The plugin gives its fixtures, and costs pytest's start nothing."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points

from millstream.base.clock import SystemClock
from millstream.testing import TickingClock


def test_a_fixture_runs_programs(mini_cluster):
    assert isinstance(mini_cluster.clock, SystemClock)
    numbers = mini_cluster.environment().from_collection([1, 2, 3])
    assert mini_cluster.collect(numbers.map(lambda number: -number)) == [-1, -2, -3]


def test_another_one_has_virtual_time(virtual_cluster):
    assert isinstance(virtual_cluster.clock, TickingClock)
    assert virtual_cluster.collect(virtual_cluster.environment().from_collection([1])) == [1]


def test_pytest_loads_nothing_of_the_engine_before_a_fixture_is_asked_for():
    code = (
        "import sys, pytest; before = set(sys.modules); import millstream.pytest_plugin; "
        "print(sorted(name for name in set(sys.modules) - before if name.startswith('millstream')))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert out.stdout.strip() == "['millstream', 'millstream.pytest_plugin', 'millstream.version']", (
        out.stderr
    )


def test_the_name_of_the_entry_point_is_that_of_the_module():
    """So that pytest does not load it twice where it is named with -p as well."""
    for entry in entry_points(group="pytest11"):
        if entry.value == "millstream.pytest_plugin":
            assert entry.name == entry.value
