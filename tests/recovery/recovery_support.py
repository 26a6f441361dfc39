"""Runs programs that fail where they are told to, on the local executor and a clock that moves by itself."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any
from unittest import mock

from millstream.base.clock import ManualClock
from millstream.cli.script import launching_with
from millstream.config.configuration import Configuration
from millstream.datastream import DataStream, MapFunction, StreamExecutionEnvironment
from millstream.graph.launcher import JobLauncher, JobSubmission, RunningJob
from millstream.runtime.job.launcher import DefaultLauncher

Build = Callable[[StreamExecutionEnvironment], DataStream]


class Crash(Exception):
    """What a fault raises."""


class Faults:
    """Counts what passes all taps, over all attempts of a job, and raises at chosen counts, once each."""

    def __init__(self) -> None:
        self.arm()

    def arm(self, *gaps: int) -> None:
        """Forget what was; raise when `gaps[0]` records passed, again `gaps[1]` later, and so on."""
        self.gaps = list(gaps)
        self.at: tuple[int, Callable[[], Any]] | None = None
        self.seen = self.since = self.raised = 0

    def tick(self) -> None:
        self.seen += 1
        self.since += 1
        if self.at is not None and self.seen >= self.at[0]:
            (_, action), self.at = self.at, None
            action()
        if self.gaps and self.since >= self.gaps[0]:
            self.gaps.pop(0)
            self.since = 0
            self.raised += 1
            raise Crash(f"after {self.seen} records")


FAULTS = Faults()
"""Shared by the functions of all attempts: they run in this process."""


class Tap(MapFunction):
    """Hands records on; fails when it is their turn."""

    def map(self, value):
        FAULTS.tick()
        return value


class TickingClock(ManualClock):
    """Moves a millisecond whenever it is asked for the time of day, and by every wait."""

    def __init__(self) -> None:
        super().__init__(1_000)

    def now_ms(self) -> int:
        self.advance(1)
        return super().now_ms()

    def wait(self, seconds: float, wake: threading.Event | None = None) -> bool:
        return super().wait(max(seconds, 0.001), wake)


class Launcher(JobLauncher):
    """The runtime on a ticking clock; remembers the jobs."""

    def __init__(self) -> None:
        self.jobs: list[RunningJob] = []
        self.launched = threading.Event()
        self._launcher = DefaultLauncher(TickingClock())

    def launch(self, submission: JobSubmission) -> RunningJob:
        job = self._launcher.launch(submission)
        self.jobs.append(job)
        self.launched.set()
        return job


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
    with running() as launcher:

        def ask() -> None:
            assert launcher.launched.wait(10)
            futures.append(launcher.jobs[0].savepoint(str(directory), stop=stop, drain=drain))

        FAULTS.at = (at, ask)
        with build(environment).execute_and_collect() as results:
            found = multiset(results)
    return found, futures[0].result(10)


def resume(path: str, build: Build, **options: Any) -> Counter:
    """Run a program from a savepoint or checkpoint; return its results."""
    return run(build, execution_state__recovery_path=path, **options)


@contextmanager
def running() -> Iterator[Launcher]:
    """Have jobs run on a clock of their own; nothing is synced to disk, as no power fails in a test."""
    launcher = Launcher()
    with launching_with(launcher), mock.patch.object(os, "fsync", lambda descriptor: None):
        yield launcher


def multiset(results: Iterable[Any]) -> Counter:
    """Return results of any order as a multiset; lists in them become tuples."""
    return Counter(map(_hashable, results))


def difference(found: Counter, wanted: Counter) -> dict[str, dict]:
    """Return how two multisets differ; for messages of tests."""
    return {"too much": dict(found - wanted), "missing": dict(wanted - found)}


SAME: dict[str, dict] = {"too much": {}, "missing": {}}


def _hashable(value: Any) -> Any:
    return tuple(map(_hashable, value)) if isinstance(value, (list, tuple)) else value
