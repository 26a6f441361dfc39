"""Runs programs that fail where they are told to, in a `MiniCluster` with virtual time."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any
from unittest import mock

from millstream.config.configuration import Configuration
from millstream.datastream import DataStream, StreamExecutionEnvironment
from millstream.testing import MiniCluster
from millstream.testing.failures import Tap

__all__ = [
    "FAULTS",
    "SAME",
    "Tap",
    "difference",
    "multiset",
    "new_environment",
    "resume",
    "run",
    "run_to_savepoint",
]

Build = Callable[[StreamExecutionEnvironment], DataStream]


class Faults:
    """What goes wrong in the next cluster, and what went wrong in the last one."""

    def __init__(self) -> None:
        self.gaps: tuple[int, ...] = ()
        self.cluster: MiniCluster | None = None

    def arm(self, *gaps: int) -> None:
        """Fail when `gaps[0]` records have passed all taps, again `gaps[1]` later, and so on."""
        self.gaps = gaps

    @property
    def seen(self) -> int:
        """Records that passed all taps."""
        return 0 if self.cluster is None else self.cluster.records_tapped

    @property
    def raised(self) -> int:
        """How many failures came."""
        return 0 if self.cluster is None else len(self.cluster.failures)


FAULTS = Faults()


def new_environment(parallelism: int = 1, epoch: int = 7, **options: Any) -> StreamExecutionEnvironment:
    """Make an environment of the local executor; options by key, `_` for `.` and `__` for `-`."""
    keys = {key.replace("__", "-").replace("_", "."): value for key, value in options.items()}
    configuration = Configuration.from_dict(
        {
            "execution.target": "local",
            "millstream.epoch.fixed-records": epoch,
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": 1000,
            "restart-strategy.fixed-delay.delay": "0 ms",
            **keys,
        }
    )
    return StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(parallelism)


def run(
    build: Build,
    *,
    parallelism: int = 1,
    epoch: int = 7,
    interval: int | None = None,
    gaps: Sequence[int] = (),
    **options: Any,
) -> Counter:
    """Run a program; return its results as a multiset.

    Args:
        build: The program.
        parallelism: Default parallelism.
        epoch: Records of a source subtask in an epoch.
        interval: Milliseconds of the ticking clock between two checkpoints; about two pass in an epoch.
        gaps: Where it fails, see `Faults.arm`.
        options: Further options.
    """
    if interval is not None:
        options["execution_checkpointing_interval"] = interval
    environment = new_environment(parallelism, epoch, **options)
    FAULTS.arm(*gaps)
    with running(), build(environment).execute_and_collect() as results:
        return multiset(results)


def run_to_savepoint(
    build: Build,
    directory: Any,
    *,
    at: int,
    stop: bool = True,
    drain: bool = False,
    parallelism: int = 1,
    epoch: int = 3,
    **options: Any,
) -> tuple[Counter, str]:
    """Run a program and make a savepoint with the epoch behind the one in which `at` records have passed.

    Returns:
        The results, and the savepoint's path.
    """
    environment = new_environment(parallelism, epoch, **options)
    FAULTS.arm()
    futures: list[Future[str]] = []
    with running() as cluster:

        def ask() -> None:
            futures.append(cluster.job().savepoint(str(directory), stop=stop, drain=drain))

        cluster.do_after(at, ask)
        with build(environment).execute_and_collect() as results:
            found = multiset(results)
    return found, futures[0].result(10)


def resume(path: str, build: Build, **options: Any) -> Counter:
    """Run a program from a savepoint or checkpoint; return its results."""
    return run(build, execution_state__recovery_path=path, **options)


@contextmanager
def running() -> Iterator[MiniCluster]:
    """Have jobs run in a cluster with a clock of its own; nothing is synced to disk, as no power fails in a test."""
    with mock.patch.object(os, "fsync", lambda descriptor: None), MiniCluster(virtual_time=True) as cluster:
        cluster.fail_after(*FAULTS.gaps)
        FAULTS.gaps = ()
        FAULTS.cluster = cluster
        yield cluster


def multiset(results: Iterable[Any]) -> Counter:
    """Return results of any order as a multiset; lists in them become tuples."""
    return Counter(map(_hashable, results))


def difference(found: Counter, wanted: Counter) -> dict[str, dict]:
    """Return how two multisets differ; for messages of tests."""
    return {"too much": dict(found - wanted), "missing": dict(wanted - found)}


SAME: dict[str, dict] = {"too much": {}, "missing": {}}


def _hashable(value: Any) -> Any:
    return tuple(map(_hashable, value)) if isinstance(value, (list, tuple)) else value
