"""Fixtures for tests of programs, there wherever millstream is installed.

Nothing of millstream is imported before a test asks for a fixture: pytest's start is as fast as without.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from millstream.testing.cluster import MiniCluster

__all__ = ["mini_cluster", "virtual_cluster"]


@pytest.fixture
def mini_cluster() -> Iterator[MiniCluster]:
    """A `MiniCluster` on the local executor."""
    from millstream.testing.cluster import MiniCluster

    with MiniCluster() as cluster:
        yield cluster


@pytest.fixture
def virtual_cluster() -> Iterator[MiniCluster]:
    """A `MiniCluster` on the local executor, in virtual time."""
    from millstream.testing.cluster import MiniCluster

    with MiniCluster(virtual_time=True) as cluster:
        yield cluster
