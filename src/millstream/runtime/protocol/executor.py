"""What the job master asks of an executor: deploy an attempt, run an epoch, end the attempt.

Executors are found by entry point (`millstream.executors`), so that a job loads only what it runs on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from millstream.base.errors import JobDefinitionError, NotSupportedError
from millstream.config.configuration import Configuration
from millstream.runtime.protocol.deployment import Deployment
from millstream.runtime.protocol.questions import AnyQuestion
from millstream.runtime.protocol.report import EpochHeader, LogLine, SlotReport

__all__ = ["BuildExecutor", "Executor", "OnLogs", "SlotPlace", "find_executor"]


@dataclass(frozen=True, slots=True)
class SlotPlace:
    """Where a slot lives.

    Attributes:
        slot: Its index.
        host: Name or address of the host.
        pid: Its process, by the number that it has there.
        executor: Spark's id of the executor beside it; None where there is none, and in local mode.
    """

    slot: int
    host: str
    pid: int
    executor: str | None = None


class Executor(ABC):
    """Runs the slots of one attempt; the job master's thread calls it."""

    _is_cancelled: Callable[[], bool] = staticmethod(lambda: False)

    def watch_cancel(self, is_cancelled: Callable[[], bool]) -> None:
        """Be told how to see that the job is being cancelled; called before `deploy`.

        A function may never return, so `run_epoch` must not wait for it then.
        """
        self._is_cancelled = is_cancelled

    @abstractmethod
    def deploy(self, deployment: Deployment) -> None:
        """Start the slots, build and open the operators.

        Raises:
            NotSerializableError: If the job cannot be pickled.
            MillstreamError: What a user's `open` raised.
            SlotLostError: If a slot does not start.
        """

    def places(self) -> Sequence[SlotPlace]:
        """Return where each slot lives, by slot; empty before `deploy`, or where that is not known."""
        return ()

    @abstractmethod
    def run_epoch(self, headers: Mapping[int, EpochHeader]) -> Sequence[SlotReport]:
        """Run one epoch on all slots.

        Args:
            headers: By slot; equal but for the sources' work.

        Raises:
            MillstreamError: What a subtask raised.
            SlotLostError: If a slot is gone or does not answer.
        """

    @abstractmethod
    def finish(self, completed_checkpoint: int | None = None) -> None:
        """End the attempt well: close the operators, end the slots.

        Args:
            completed_checkpoint: A checkpoint, or the savepoint that the job ends behind, to tell functions of before.

        Raises:
            MillstreamError: What a user's `close` raised.
        """

    @abstractmethod
    def abort(self) -> None:
        """End a failed attempt: remove what was staged, close what can be closed, end the slots."""

    def abandon(self) -> bool:
        """End an attempt whose epoch does not end, as the process ends; from another thread than the job master's.

        Returns:
            Whether the attempt has been aborted: else the job master's thread will do that now, or ends with the
            process.
        """
        return False

    @abstractmethod
    def keep_alive(self) -> None:
        """Renew the slots' lease; called at least every third of it while no epoch runs."""

    def as_job(self, call: Callable[[], None]) -> Callable[[], None]:
        """Return a call that another thread may make in the job master's place.

        What it has the executor's system run, a job of Spark's, counts as the attempt's.
        """
        return call

    def cancel_jobs(self) -> None:
        """End what the executor's system runs for the attempt; it may be called again, also behind `abort`."""

    def query(self, slot: int, question: AnyQuestion) -> bytes:
        """Return what a key has in a state of a slot, pickled; called between two epochs.

        Raises:
            StateAccessError: If there is no such state.
            SlotLostError: If the slot is gone or does not answer.
            NotSupportedError: If the executor has no way to ask.
        """
        raise NotSupportedError(f"state cannot be queried with a {type(self).__name__}")

    @abstractmethod
    def release(self) -> None:
        """Give back what the executor itself holds (a Spark session it made); called once, last."""

    def session(self) -> Any:
        """Return the session of the system that the executor runs on; it need not be deployed.

        Raises:
            NotSupportedError: If it runs on none.
            ConfigurationError: If there is none, and the options do not say how to make one.
        """
        raise NotSupportedError("this executor has no session")


OnLogs = Callable[[Sequence[LogLine]], None]
"""Takes what user code printed and logged outside of epochs."""

BuildExecutor = Callable[[Configuration, OnLogs], Executor]
"""Makes the executor of an attempt."""


@cache
def find_executor(name: str) -> BuildExecutor:
    """Return what makes executors of a kind, "local" or "spark".

    Raises:
        JobDefinitionError: If millstream is not installed as a package.
    """
    for entry in entry_points(group="millstream.executors", name=name):
        build: BuildExecutor = entry.load()
        return build
    raise JobDefinitionError(
        f'no executor "{name}" was found', hint="Install millstream as a package: pip install millstream."
    )
