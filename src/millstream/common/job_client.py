"""What a program holds of a job it submitted (PyFlink's `pyflink.common.job_client`)."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol

from millstream.base.signals import result_of
from millstream.common.completable_future import CompletableFuture
from millstream.common.job_execution_result import JobExecutionResult
from millstream.common.job_failure import JobFailureInfo
from millstream.common.job_id import JobID
from millstream.common.job_status import JobStatus

__all__ = ["JobClient"]


class _Job(Protocol):
    """What is needed of a running job; `graph.launcher.RunningJob` has it."""

    job_id: str

    def status(self) -> str: ...

    def cancel(self) -> None: ...

    def accumulators(self) -> dict[str, Any]: ...

    def failures(self) -> list[JobFailureInfo]: ...

    def savepoint(
        self, directory: str | None = None, *, stop: bool = False, drain: bool = False
    ) -> Future[str]: ...

    def query_state(self, uid: str, state: str, key: Any, namespace: Any = None) -> Future[bytes]: ...


class JobClient:
    """A job that was submitted.

    Args:
        job: The running job.
        wait: Waits for its end and returns how it ended.

    Example:
        >>> from millstream.testing import MiniCluster
        >>> with MiniCluster() as cluster:
        ...     env = cluster.environment()
        ...     sink = env.from_collection(["tea"]).print()
        ...     client = env.execute_async("shop")
        ...     result = client.get_job_execution_result().result()
        ...     client.get_job_status().result()
        <JobStatus.FINISHED: 6>
    """

    def __init__(self, job: _Job, wait: Callable[[], JobExecutionResult]) -> None:
        self._job = job
        self._wait = wait

    def __repr__(self) -> str:
        return f"JobClient(job {self._job.job_id}, {self._job.status()})"

    def get_job_id(self) -> JobID:
        """Return the job's id."""
        return JobID(self._job.job_id)

    def get_job_status(self) -> CompletableFuture[JobStatus]:
        """Return what becomes of the job now."""
        return CompletableFuture.completed(self._status())

    def cancel(self) -> CompletableFuture[None]:
        """Ask the job to stop at once; the future's result comes when it has ended."""
        self._job.cancel()
        return CompletableFuture(self._wait_for_end, self._has_ended)

    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> CompletableFuture[str]:
        """Take a savepoint and end the job behind it.

        Args:
            advance_to_end_of_event_time: Bring the job to its end before: windows and timers fire.
            savepoint_directory: Where to; None for the configured directory.

        Returns:
            The savepoint's path.
        """
        future = self._job.savepoint(savepoint_directory, stop=True, drain=advance_to_end_of_event_time)
        return CompletableFuture(lambda: result_of(future), future.done)

    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        """Take a savepoint; the job goes on.

        Args:
            savepoint_directory: Where to; None for the configured directory.

        Returns:
            The savepoint's path.
        """
        future = self._job.savepoint(savepoint_directory)
        return CompletableFuture(lambda: result_of(future), future.done)

    def query_state(
        self, uid: str, state_name: str, key: Any, namespace: Any = None
    ) -> CompletableFuture[Any]:
        """Ask for what a key has in a keyed state, as of the last epoch that has ended; the job goes on.

        PyFlink has no such method; Flink's queryable state is the like.

        Args:
            uid: The operator's uid, or its id; its name if it has neither.
            state_name: The state's name.
            key: The key, as the job's key selector gives it.
            namespace: The window or the like; None for the key as a whole.

        Returns:
            A copy of the value: a list of list state, a dict of map state, the accumulator of aggregating state;
            None if the key has nothing. Its `result()` raises StateAccessError if there is no such operator or
            state, and JobExecutionError if the job ends before.
        """
        future = self._job.query_state(uid, state_name, key, namespace)
        return CompletableFuture(lambda: pickle.loads(result_of(future)), future.done)

    def get_accumulators(self) -> CompletableFuture[dict[str, Any]]:
        """Return the accumulators' merged results by name, as of the job's last epoch."""
        return CompletableFuture.completed(self._job.accumulators())

    def get_failures(self) -> CompletableFuture[list[JobFailureInfo]]:
        """Return why attempts of the job failed, the oldest first; the last `web.exception-history-size` of them.

        PyFlink has no such method; Flink's REST interface shows them as the job's exception history.
        """
        return CompletableFuture.completed(self._job.failures())

    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        """Return how the job ends; `result()` waits for it and raises what made it fail."""
        return CompletableFuture(self._wait, self._has_ended)

    def _status(self) -> JobStatus:
        return JobStatus[self._job.status()]

    def _has_ended(self) -> bool:
        return self._status().is_terminal_state()

    def _wait_for_end(self) -> None:
        try:
            self._wait()
        except Exception:
            if self._status() is not JobStatus.CANCELED:
                raise
