"""Runs whole programs in a test: on the local executor or a local Spark, with failures and a clock of the test's.

Nothing is left behind it: jobs that run are cancelled, checkpoints are removed. The Spark session is the process's own
and stays for the next cluster, as it does between two jobs.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from types import ModuleType
from typing import Any, Self

import cloudpickle

from millstream.base.clock import Clock, SystemClock
from millstream.base.crash_points import set_crash_hook
from millstream.base.errors import ConfigurationError, JobExecutionError, NotSupportedError
from millstream.config import options_checkpointing as keys
from millstream.config.configuration import Configuration
from millstream.config.targets import check_target
from millstream.datastream.stream_execution_environment import StreamExecutionEnvironment
from millstream.datastream.streams.data_stream import DataStream
from millstream.graph.launcher import JobLauncher, JobSubmission, RunningJob, set_launcher_override
from millstream.runtime.control.console import JobOutput
from millstream.runtime.job.launcher import DefaultLauncher
from millstream.testing.clock import TickingClock
from millstream.testing.failures import FailurePlan, FailurePoint, Tap, set_failure_plan
from millstream.verify.run import scratch_base

__all__ = ["MiniCluster"]

_ENDED = frozenset({"FINISHED", "FAILED", "CANCELED", "SUSPENDED"})
_CANCEL_S = 60.0
_SUBMIT_S = 10.0
_START_MS = 1_000


class MiniCluster:
    """Runs the jobs of this process while it is entered (`with MiniCluster() as cluster:`).

    Args:
        executor: `"local"`, in this process without a JVM, or a Spark master on this machine, such as `"local[2]"`.
        parallelism: Default parallelism of its environments.
        options: Options of its environments by key. Checkpoints are made every millisecond, so with nearly each epoch,
            unless they say otherwise.
        virtual_time: Whether jobs run on a `TickingClock`: timers, intervals and delays take no time, and each run the
            same. Local executor only: a cluster's other processes have clocks of their own.
        by_value: Modules whose functions and classes Spark's processes cannot import, such as the test's own.

    Attributes:
        clock: The clock of its jobs.
        jobs: Those that were submitted.
        printed: Lines that jobs printed (`DataStream.print`).

    Raises:
        NotSupportedError: If virtual time was asked for on Spark.

    Example:
        >>> from millstream.testing import MiniCluster
        >>> with MiniCluster(parallelism=2) as cluster:
        ...     numbers = cluster.environment().from_collection([1, 2, 3])
        ...     sorted(cluster.collect(numbers.map(lambda number: number * number)))
        [1, 4, 9]
    """

    def __init__(
        self,
        executor: str = "local",
        *,
        parallelism: int = 1,
        options: Mapping[str, Any] | None = None,
        virtual_time: bool = False,
        by_value: Sequence[ModuleType] = (),
    ) -> None:
        check_target(executor)
        if virtual_time and executor != "local":
            raise NotSupportedError(
                f'virtual time was asked for with executor "{executor}"',
                hint='Use MiniCluster(executor="local", virtual_time=True).',
            )
        self.clock: Clock = TickingClock(_START_MS) if virtual_time else SystemClock()
        self.jobs: list[RunningJob] = []
        self.printed: list[str] = []
        self._executor = executor
        self._parallelism = parallelism
        self._options = dict(options or {})
        self._by_value = by_value
        self._plan = FailurePlan()
        self._submitted = threading.Event()
        self._directory: str | None = None
        self._leaving = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as entering:
            self._directory = tempfile.mkdtemp(prefix="millstream-mini-", dir=scratch_base())
            entering.callback(shutil.rmtree, self._directory, ignore_errors=True)
            entering.callback(set_failure_plan, set_failure_plan(self._plan))
            entering.enter_context(_travelling_by_value(self._by_value))
            self._plan.outer = set_crash_hook(self._plan)
            entering.callback(set_crash_hook, self._plan.outer)
            entering.callback(set_launcher_override, set_launcher_override(_Launcher(self)))
            entering.callback(self._end_jobs)
            self._leaving = entering.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        self._leaving.close()
        self._directory = None

    @property
    def directory(self) -> str:
        """A directory of the cluster's own, for whatever a test wants to be gone afterwards; checkpoints are in it.

        Raises:
            ConfigurationError: If the cluster does not run.
        """
        if self._directory is None:
            raise ConfigurationError(
                "a MiniCluster was used that does not run", hint="with MiniCluster() as cluster:"
            )
        return self._directory

    def environment(
        self, parallelism: int | None = None, options: Mapping[str, Any] | None = None
    ) -> StreamExecutionEnvironment:
        """Make an environment whose jobs run here.

        Args:
            parallelism: Of its operators by default; None for the cluster's.
            options: Further options by key.
        """
        settings = {
            "execution.target": self._executor,
            "execution.checkpointing.interval": "1 ms",
            "execution.checkpointing.dir": f"{self.directory}/checkpoints",
            **self._options,
            **(options or {}),
        }
        given = {key: value for key, value in settings.items() if value is not None}
        environment = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(given))
        return environment.set_parallelism(parallelism or self._parallelism)

    def collect(self, stream: DataStream[Any]) -> list[Any]:
        """Run the program that a stream is of, and return the stream's records.

        Raises:
            JobExecutionError: If the job fails for good.
        """
        with stream.execute_and_collect() as records:
            return list(records)

    def job(self) -> RunningJob:
        """Return the job that was submitted last; its own functions may ask, too.

        Raises:
            TimeoutError: If none was.
        """
        if not self._submitted.wait(_SUBMIT_S):
            raise TimeoutError("no job was submitted to the MiniCluster")
        return self.jobs[-1]

    # Failures

    def fail_at(self, point: FailurePoint, occurrence: int = 1) -> None:
        """Have the job fail where its driver reaches a point; each failure comes once.

        A job without a restart strategy of its own is restarted as often as failures are planned.

        Args:
            point: The point.
            occurrence: Which time from now on, from 1, over all attempts.
        """
        self._plan.add_point(point, occurrence)

    def fail_after(self, *records: int) -> None:
        """Have functions fail behind so many records at the `tap`s, then behind so many more, and so on.

        Forgets what was planned for records before.
        """
        self._plan.set_gaps(list(records))

    def do_after(self, records: int, action: Callable[[], object]) -> None:
        """Have something done when so many more records have passed the `tap`s, on the job's thread.

        The job must not be waited for in it: ask, as by `cluster.job().savepoint(...)`, and wait elsewhere.
        """
        self._plan.add_action(records, action)

    def tap(self) -> Tap:
        """Return a map function that hands records on, and counts them for `fail_after` and `do_after`.

        Raises:
            NotSupportedError: If functions do not run in this process.
        """
        if self._executor != "local":
            raise NotSupportedError(
                f'records are counted in this process, and functions run elsewhere with "{self._executor}"',
                hint="Use fail_at(...), or the local executor.",
            )
        return Tap()

    @property
    def failures(self) -> list[str]:
        """What has failed because it was planned, in order."""
        return list(self._plan.failed)

    @property
    def records_tapped(self) -> int:
        """Records that passed the `tap`s, over all attempts."""
        return self._plan.records

    def _launch(self, launcher: JobLauncher, submission: JobSubmission) -> RunningJob:
        configuration = submission.configuration
        if self._plan.pending and not configuration.contains_key(keys.RESTART_STRATEGY.key):
            configuration.set(keys.RESTART_STRATEGY, "fixed-delay")
            configuration.set(keys.RESTART_FIXED_DELAY_ATTEMPTS, self._plan.pending)
            configuration.set(keys.RESTART_DELAY, 1)
        self._submitted.clear()
        job = launcher.launch(submission)
        self.jobs.append(job)
        self._submitted.set()
        return job

    def _end_jobs(self) -> None:
        """Cancel what runs, and wait for it.

        Raises:
            TimeoutError: If a job does not end.
        """
        running = [job for job in self.jobs if job.status() not in _ENDED]
        for job in running:
            job.cancel()
        for job in running:
            with suppress(JobExecutionError):
                job.wait(_CANCEL_S)


class _Launcher(JobLauncher):
    """The runtime, for the jobs of a cluster."""

    def __init__(self, cluster: MiniCluster) -> None:
        self._cluster = cluster
        self._launcher = DefaultLauncher(
            cluster.clock, build_output=lambda collectors: _Output(collectors, cluster.printed)
        )

    def launch(self, submission: JobSubmission) -> RunningJob:
        """Start a job."""
        return self._cluster._launch(self._launcher, submission)


class _Output(JobOutput):
    """Keeps what a job prints."""

    def __init__(self, collectors: Mapping[int, str], printed: list[str]) -> None:
        super().__init__(collectors)
        self._printed = printed

    def lines(self, lines: Sequence[str], *, stderr: bool) -> None:
        """Keep lines."""
        self._printed += lines


@contextmanager
def _travelling_by_value(modules: Sequence[ModuleType]) -> Iterator[None]:
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)
