"""The gateway to a job that this process drives."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, TypeVar

from millstream.base.errors import ConfigurationError, JobExecutionError, JobRequestError, MillstreamError
from millstream.config import options
from millstream.runtime.control.commands import (
    Cancel,
    Command,
    ListKeys,
    ListStates,
    QueryState,
    Rescale,
    Rescaled,
    Stop,
    TriggerCheckpoint,
    TriggerSavepoint,
)
from millstream.runtime.control.gateway import JobGateway
from millstream.runtime.control.job_history import ENDS
from millstream.runtime.control.queryable import StateListing, StateQuery, answer_of, fail_queries, query_of
from millstream.runtime.control.views import JobView
from millstream.runtime.job.observer import JobObserver
from millstream.runtime.job.steering import CheckpointRequest, JobControl, RescaleRequest, SavepointRequest

__all__ = ["LiveJob"]

V = TypeVar("V")


class LiveJob(JobGateway):
    """Leaves commands where the job master finds them, and shows what the observer has seen; any thread may ask.

    Args:
        observer: Of the job.
        control: Of the job.
        started_ms: When it was submitted, epoch milliseconds.
        makes_checkpoints: Whether the job makes checkpoints by itself.
        plan_rescaling: Makes the plan for another parallelism, or raises why there is none.
    """

    def __init__(
        self,
        observer: JobObserver,
        control: JobControl,
        *,
        started_ms: int,
        makes_checkpoints: bool,
        plan_rescaling: Callable[[Rescale], RescaleRequest],
    ) -> None:
        self.job_id = observer.job_id
        self.name = observer.name
        self.started_ms = started_ms
        self._observer = observer
        self._control = control
        self._makes_checkpoints = makes_checkpoints
        self._plan_rescaling = plan_rescaling
        self._rescaling = threading.Lock()
        self._end: Future[str] = Future()
        self._commands: dict[type[Command], Callable[[Any], Future[Any]]] = {
            Cancel: self._cancel,
            Stop: lambda command: self.savepoint(command.directory, stop=True, drain=command.drain),
            TriggerSavepoint: lambda command: self.savepoint(command.directory),
            TriggerCheckpoint: lambda command: self.checkpoint(),
            QueryState: self._query,
            ListStates: lambda command: self._list(StateListing(command)),
            ListKeys: lambda command: self._list(StateListing(command)),
            Rescale: self._rescale,
        }

    @property
    def status(self) -> str:
        """The Flink job status."""
        status = self._observer.status
        is_cancelled = self._control.cancel.is_set() and not self._control.suspended
        return "CANCELLING" if is_cancelled and status not in ENDS else status

    def view(self, kind: type[V]) -> V:
        """Return a view of the job as it is now."""
        view = self._observer.view(kind)
        return replace(view, status=self.status) if isinstance(view, JobView) else view

    def perform(self, command: Command) -> Future[Any]:
        """Have the job do something; returns at once."""
        return self._commands[type(command)](command)

    def cancel(self) -> None:
        """Ask the job to stop at once."""
        self._control.cancel.set()
        self._control.wake.set()

    def savepoint(
        self, directory: str | None = None, *, stop: bool = False, drain: bool = False
    ) -> Future[str]:
        """Ask for a savepoint."""
        request = SavepointRequest(directory, stop=stop, drain=drain)
        return self._ask(request, self._control.savepoints, "a savepoint")

    def checkpoint(self) -> Future[str]:
        """Ask for a checkpoint."""
        request = CheckpointRequest()
        if not self._makes_checkpoints:
            request.done.set_exception(
                ConfigurationError(
                    "a checkpoint was asked for, and the job makes none",
                    hint=f"Set {options.CHECKPOINT_INTERVAL.key}, or ask for a savepoint.",
                )
            )
            return request.done
        return self._ask(request, self._control.checkpoints, "a checkpoint")

    def _ask(self, request: Any, queue: Any, what: str) -> Future[str]:
        done: Future[str] = request.done
        if self.status in ENDS:
            done.set_exception(
                JobExecutionError(f"{what} was asked for, but the job has ended: {self.status}")
            )
            return done
        queue.append(request)
        self._control.wake.set()
        if self.status in ENDS:
            self._control.fail_savepoints()
        return done

    def _rescale(self, command: Rescale) -> Future[Rescaled]:
        answer: Future[Rescaled] = Future()
        try:
            request = self._begin_rescaling(command)
        except MillstreamError as error:
            answer.set_exception(error)
            return answer
        if command.waits:
            return request.done
        answer.set_result(request.outcome)
        return answer

    def _begin_rescaling(self, command: Rescale) -> RescaleRequest:
        control = self._control
        with self._rescaling:
            if self.status in ENDS:
                raise JobRequestError(
                    f"the job cannot be rescaled: it has ended: {self.status}", reason="JOB_ENDED"
                )
            if not self._makes_checkpoints:
                raise JobRequestError(
                    "the job cannot be rescaled: it makes no checkpoints, and would begin anew",
                    hint=f"Set {options.CHECKPOINT_INTERVAL.key}; jobs in batch mode cannot be rescaled.",
                )
            request = self._plan_rescaling(command)
            if control.rescaling is not None:
                raise JobRequestError(
                    "the job is being rescaled already", hint="Ask again when that is done."
                )
            if request.is_nothing:
                request.done.set_result(request.outcome)
                return request
            control.rescaling = request
        self.checkpoint()
        if self.status in ENDS and not request.done.done():
            request.done.set_exception(
                JobExecutionError(f"the job ended before it was rescaled: {self.status}")
            )
        return request

    def query_state(self, query: StateQuery) -> Future[bytes]:
        """Ask for what a key has in a keyed state; the answer is pickled."""
        return self._list(query)

    def _list(self, query: StateQuery | StateListing) -> Future[Any]:
        self._control.queries.append(query)
        self._control.wake.set()
        if self.status in ENDS:
            fail_queries(self._control.queries, f"the job has ended: {self.status}")
        return query.done

    def close(self, failure: BaseException | None) -> None:
        """Answer everybody who still waits: the job has ended; called once."""
        self._control.fail_all(self.status, failure)
        self._end.set_result(self.status)

    def _cancel(self, command: Cancel) -> Future[str]:
        if self.status in ENDS:
            refused: Future[str] = Future()
            refused.set_exception(JobRequestError(f"the job has ended: {self.status}", reason="JOB_ENDED"))
            return refused
        self.cancel()
        return self._end

    def _query(self, command: QueryState) -> Future[Any]:
        answer: Future[Any] = Future()

        def settle(asked: Future[bytes]) -> None:
            try:
                answer.set_result(answer_of(asked.result()))
            except Exception as error:  # noqa: BLE001 - a value may refuse to be unpickled or printed
                answer.set_exception(error)

        self.query_state(query_of(command)).add_done_callback(settle)
        return answer
