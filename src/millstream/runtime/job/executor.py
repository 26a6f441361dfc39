"""What the job master asks of an executor: deploy an attempt, run an epoch, end the attempt."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from millstream.runtime.task.deployment import Deployment
from millstream.runtime.task.report import EpochHeader, SlotReport

__all__ = ["Executor"]


class Executor(ABC):
    """Runs the slots of one attempt; the job master's thread calls it."""

    @abstractmethod
    def deploy(self, deployment: Deployment) -> None:
        """Start the slots, build and open the operators.

        Raises:
            NotSerializableError: If the job cannot be pickled.
            MillstreamError: What a user's `open` raised.
            SlotLostError: If a slot does not start.
        """

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
    def finish(self) -> None:
        """End the attempt well: close the operators, end the slots.

        Raises:
            MillstreamError: What a user's `close` raised.
        """

    @abstractmethod
    def abort(self) -> None:
        """End a failed attempt: remove what was staged, close what can be closed, end the slots."""

    @abstractmethod
    def keep_alive(self) -> None:
        """Renew the slots' lease; called at least every third of it while no epoch runs."""

    @abstractmethod
    def release(self) -> None:
        """Give back what the executor itself holds (a Spark session it made); called once, last."""
