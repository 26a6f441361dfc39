"""How another process of this user sees and steers a running job: a socket that the job announces (`announced.py`).

::

    ask ── {"view": "job"} or {"command": "savepoint", … } ──► job
        ◄─ {"ok": …} or {"error": "...", "code": …, "detail": …, "hint": …} ──

Messages are made and read by `codec.py`. A job is known from its start on; at its end it answers whoever still waits.
Each driver has a socket of its own: one that goes on with a job may begin before the one before it has ended.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from millstream.base.errors import JobExecutionError, JobRequestError
from millstream.runtime.control.announced import Announced, AnnouncedSocket, find_announced
from millstream.runtime.control.codec import VIEWS, decode, read_command, view_name, write_command
from millstream.runtime.control.commands import Command
from millstream.runtime.control.conversations import Conversations
from millstream.runtime.control.gateway import JobGateway

__all__ = ["ControlChannel", "RemoteJob", "find_jobs"]

V = TypeVar("V")

_LOG = logging.getLogger("millstream")
_DIRECTORY = "jobs"
_LOOK_S = 0.2


class ControlChannel:
    """The job's end; `start` and `close` are called once, on any thread.

    Args:
        job: What is shown and steered; asked on the channel's threads.

    A channel that cannot be opened is no reason to fail: it is logged, and the job cannot be steered from outside.
    """

    def __init__(self, job: JobGateway) -> None:
        self._job = job
        self._ended = threading.Event()
        self._socket = AnnouncedSocket(
            _DIRECTORY, job.job_id, {"name": job.name, "started_ms": job.started_ms}, self._answer
        )

    def start(self) -> None:
        """Listen, and let other processes of this user know."""
        try:
            self._socket.start()
        except OSError as error:
            _LOG.warning("job cannot be steered from another process: %s", error)

    def close(self) -> None:
        """Answer whoever waits, then listen no more; the job has ended."""
        self._socket.withdraw()
        self._ended.set()
        self._socket.close()

    def _answer(self, request: dict[str, Any]) -> Any:
        if "view" in request:
            kind = VIEWS.get(request["view"])
            if kind is None:
                raise JobRequestError(
                    f'a job was asked for the view "{request["view"]}", which it does not know'
                )
            return self._job.view(kind)
        command = read_command(request)
        outcome = self._result(self._job.perform(command))
        if command.ends_job:
            self._ended.wait()
        return outcome

    def _result(self, future: Future[Any]) -> Any:
        while True:
            ended = self._ended.is_set()
            try:
                return future.result(_LOOK_S)
            except NotYet:
                if ended:
                    raise JobExecutionError("the job ended before it had done what was asked") from None


@dataclass(frozen=True)
class RemoteJob(JobGateway):
    """Another process' job.

    Attributes:
        announced: Its socket.
        conversations: Keep what it is asked for views over; None connects anew for each.
    """

    announced: Announced
    conversations: Conversations | None = field(default=None, compare=False)
    answers_here = False

    @property
    def job_id(self) -> str:  # type: ignore[override]
        """Of the job."""
        return self.announced.name

    @property
    def name(self) -> str:  # type: ignore[override]
        """Of the job."""
        return str(self.announced.facts["name"])

    @property
    def started_ms(self) -> int:  # type: ignore[override]
        """When it was submitted, epoch milliseconds."""
        return int(self.announced.facts["started_ms"])

    @property
    def pid(self) -> int:
        """The process that drives it."""
        return self.announced.pid

    def view(self, kind: type[V]) -> V:
        """Return a view of the job as it is now.

        Raises:
            JobRequestError: If there is no such view, or the job has gone.
        """
        ask = self.announced.ask
        if self.conversations is not None:
            ask = partial(self.conversations.ask, self.announced)
        return self._ask(ask, {"view": view_name(kind)}, kind)

    def perform(self, command: Command) -> Future[Any]:
        """Have the job do something; returns at once."""
        future: Future[Any] = Future()
        request = write_command(command)
        outcome = type(command).outcome

        def ask() -> None:
            try:
                future.set_result(self._ask(self.announced.ask, request, outcome))
            except Exception as error:  # noqa: BLE001 - whoever waits gets it
                future.set_exception(error)

        threading.Thread(target=ask, name=f"ask-{self.job_id[:8]}", daemon=True).start()
        return future

    def _ask(self, ask: Callable[[dict[str, Any]], bytes], request: dict[str, Any], kind: type[V]) -> V:
        try:
            answer = ask(request)
        except (OSError, EOFError) as error:
            raise JobRequestError(
                f'job {self.job_id} "{self.name}" does not answer: {type(error).__name__}: {error}',
                hint="It may have ended meanwhile: `millstream list` shows the jobs that run.",
            ) from error
        return decode(answer, kind)


def find_jobs(conversations: Conversations | None = None) -> list[RemoteJob]:
    """Return the jobs of this user that run on this machine, by start; of several drivers of one job the last.

    Args:
        conversations: Of who asks all the time; those with jobs that are not found any more are ended.

    Raises:
        NotPrivateError: If the directory belongs to somebody else.
    """
    found = [RemoteJob(each, conversations) for each in find_announced(_DIRECTORY)]
    if conversations is not None:
        conversations.retain({each.announced.address for each in found})
    found.sort(key=lambda job: (job.started_ms, job.job_id))
    return list({job.job_id: job for job in found}.values())
