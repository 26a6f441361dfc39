"""Where the API and the runtime meet: the API submits a list of transformations, the runtime runs them.

The runtime is found by entry point (group `millstream.launchers`), so the API never imports it.
"""

from __future__ import annotations

import concurrent.futures.thread  # noqa: F401 - later, a thread that outlives the main one could not import it
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from millstream.base.errors import JobDefinitionError, NotSupportedError
from millstream.common.job_failure import JobFailureInfo
from millstream.config.configuration import Configuration
from millstream.graph.transformation import Transformation

__all__ = [
    "EpochProgress",
    "JobLauncher",
    "JobResult",
    "JobSubmission",
    "RunningJob",
    "current_progress_listener",
    "find_launcher",
    "set_launcher_override",
    "set_progress_listener",
    "spark_session",
]


@dataclass(frozen=True, slots=True)
class EpochProgress:
    """How far a job is, told after each epoch.

    Attributes:
        epoch: Number of the epoch, from 1.
        records_in: Records that sources read so far.
        event_time_ms: Largest timestamp that a record was given; None before the first.
        watermark_ms: Lowest watermark of the subtasks that have one; None before the first.
        elapsed_s: Seconds since the job's first epoch began.
        epoch_s: Seconds that this epoch took.
        counters: Counts over the whole job, by operator name and counter name.
    """

    epoch: int
    records_in: int
    event_time_ms: int | None
    watermark_ms: int | None
    elapsed_s: float
    epoch_s: float
    counters: dict[tuple[str, str], int] = field(default_factory=dict)


ProgressListener = Callable[[EpochProgress], None]

_progress_listener: ProgressListener | None = None


def set_progress_listener(listener: ProgressListener | None) -> None:
    """Have jobs that this process submits from now on tell `listener` of each epoch; None for nobody.

    For entry points (the command line), which do not make the submission themselves. The listener is called
    on the thread that drives the job and must return soon.
    """
    global _progress_listener
    _progress_listener = listener


def current_progress_listener() -> ProgressListener | None:
    """Return what `set_progress_listener` was given last; the default of `JobSubmission.on_progress`."""
    return _progress_listener


@dataclass(frozen=True, slots=True)
class JobSubmission:
    """A job to be run.

    Attributes:
        name: Shown to users.
        transformations: All that the program built since the last job, in order of creation.
        configuration: All options.
        on_progress: Called after each epoch on the thread that drives the job; by default the process's
            progress listener.
        named: Whether the user gave it the name: one that is there by default tells no job from others.
    """

    name: str
    transformations: Sequence[Transformation]
    configuration: Configuration
    on_progress: ProgressListener | None = field(default_factory=current_progress_listener)
    named: bool = True


@dataclass(frozen=True, slots=True)
class JobResult:
    """How a job ended well.

    Attributes:
        job_id: 32 hexadecimal digits.
        runtime_ms: From first to last epoch.
        progress: The last report; None if there was no epoch.
        accumulators: Merged results by name.
    """

    job_id: str
    runtime_ms: int
    progress: EpochProgress | None
    accumulators: Mapping[str, Any] = field(default_factory=dict)


class RunningJob(ABC):
    """A submitted job.

    Attributes:
        job_id: 32 hexadecimal digits.
        ended_before: Whether it is not run: an earlier driver had brought it to its end.
    """

    job_id: str
    ended_before: bool = False

    @abstractmethod
    def wait(self, timeout_s: float | None = None) -> JobResult:
        """Wait for the end.

        Raises:
            JobExecutionError: If the job failed or was cancelled; the cause is chained.
            TimeoutError: If it still runs after `timeout_s`.
        """

    @abstractmethod
    def cancel(self) -> None:
        """Ask the job to stop at once; output that was not committed is removed. Returns at once."""

    def suspend(self) -> None:
        """Ask the job to stop at once, as `cancel` does, and leave it to a later driver if one can go on with it."""
        self.cancel()

    def abandon(self) -> bool:
        """Clean up as the process ends and the job does not: from now on nobody waits for its functions.

        Called once, after `cancel` or `suspend`.

        Returns:
            Whether there is nothing more to wait for.
        """
        return False

    @property
    def is_suspended(self) -> bool:
        """Whether it stops, or has stopped, for a later driver to go on with it."""
        return False

    @abstractmethod
    def stop(self) -> None:
        """Ask the job to read no more, finish what it has (final watermark) and end well. Returns at once."""

    def savepoint(
        self, directory: str | None = None, *, stop: bool = False, drain: bool = False
    ) -> Future[str]:
        """Ask for a savepoint; returns at once.

        Args:
            directory: Where to; None for the configured directory.
            stop: End the job behind it.
            drain: Before that, bring it to its end: windows and timers fire. Such a job cannot go on from there.

        Returns:
            The savepoint's path, or why there is none.

        Raises:
            NotSupportedError: If the runtime has no savepoints.
        """
        raise NotSupportedError("this runtime has no savepoints")

    def query_state(self, uid: str, state: str, key: Any, namespace: Any = None) -> Future[bytes]:
        """Ask for what a key has in a keyed state, as of the last epoch that has ended; returns at once.

        Args:
            uid: The operator's uid, or its id; its name if it has neither.
            state: The state's name.
            key: The key.
            namespace: The window or the like; None for the key as a whole.

        Returns:
            The value, pickled, or why there is none.

        Raises:
            NotSupportedError: If the runtime has no queries.
        """
        raise NotSupportedError("this runtime has no queries of state")

    @abstractmethod
    def collected(self, collect_id: str) -> Iterator[Any]:
        """Iterate over what a collect sink gathers, as it comes; ends with the job, raises its error."""

    @abstractmethod
    def status(self) -> str:
        """Return a Flink job status: CREATED, RUNNING, FINISHED, FAILED, CANCELED, ..."""

    def accumulators(self) -> dict[str, Any]:
        """Return the accumulators' merged results as of the last epoch, by name; none unless overridden."""
        return {}

    def failures(self) -> list[JobFailureInfo]:
        """Return the last failures, the oldest first; none unless overridden."""
        return []


class JobLauncher(ABC):
    """Runs jobs."""

    @abstractmethod
    def launch(self, submission: JobSubmission) -> RunningJob:
        """Check the job, deploy it and start it on a thread of its own.

        Raises:
            JobDefinitionError: If it cannot run; nothing was started.
        """

    def spark_session(self, configuration: Configuration) -> Any:
        """Return the Spark session that jobs with these options run in.

        Raises:
            NotSupportedError: If the runtime has none.
            ConfigurationError: If there is none, and the options do not say how to make one.
        """
        raise NotSupportedError("this runtime has no Spark session")


_launcher_override: JobLauncher | None = None


def set_launcher_override(launcher: JobLauncher | None) -> JobLauncher | None:
    """Make `find_launcher` return `launcher` in this process; None for the installed runtime again.

    For entry points that show a job instead of running it, or that must know the jobs that run.

    Returns:
        The override that was there before.
    """
    global _launcher_override
    before, _launcher_override = _launcher_override, launcher
    return before


def find_launcher() -> JobLauncher:
    """Return the launcher set by `set_launcher_override`, else the installed runtime.

    Raises:
        JobDefinitionError: If millstream is not installed as a package.
    """
    if _launcher_override is not None:
        return _launcher_override
    return _find_installed_launcher()


def spark_session(configuration: Configuration) -> Any:
    """Return the Spark session that jobs with these options run in, whatever `find_launcher` returns.

    Raises:
        NotSupportedError: If the installed runtime has none.
        ConfigurationError: If there is none, and the options do not say how to make one.
    """
    return _find_installed_launcher().spark_session(configuration)


@cache
def _find_installed_launcher() -> JobLauncher:
    for entry in entry_points(group="millstream.launchers", name="default"):
        launcher: JobLauncher = entry.load()()
        return launcher
    raise JobDefinitionError(
        "no runtime was found", hint="Install millstream as a package: pip install millstream, or make setup."
    )
