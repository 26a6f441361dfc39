"""The jobs that a server shows: those that run, and those that have ended and are kept.

Views are snapshots. Each holds until the clock's next half second begins: however many clients ask, a job is asked
twice a second for each view at most, and what is made of several views holds as long as they do::

    time  ──┬────────────┬────────────┬──►
            │  v   v v   │    v       │         v: asked for the first time; all of them end together
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from dataclasses import dataclass, field
from typing import Any, TypeVar

from millstream.base.clock import Clock
from millstream.base.errors import JobRequestError
from millstream.rest.errors import RestError
from millstream.runtime.control.archive import JobArchive
from millstream.runtime.control.commands import Command, ListKeys, ListStates, QueryState
from millstream.runtime.control.gateway import JobGateway
from millstream.runtime.control.views import JobView

__all__ = ["JobDirectory", "StartingProgram"]

V = TypeVar("V")

log = logging.getLogger(__name__)

_TICK_S = 0.5
_SILENT_TICKS = 4
"""One that did not answer is not asked again for so long: each asking may take seconds, and a thread."""
_PATIENCE_S = 3.0
_ENDING_S = 0.5
_LOOK_S = 0.05
_MOST = 10_000
_QUESTIONS = (QueryState, ListStates, ListKeys)
"""Commands that change nothing."""


@dataclass(slots=True)
class _Entry:
    lock: threading.Lock = field(default_factory=threading.Lock)
    value: Any = None
    error: RestError | None = None
    until_tick: int = -1


def _silent(job_id: str, why: str) -> RestError:
    return RestError(503, f"job {job_id} does not answer: {why}", headers=[("retry-after", "2")])


@dataclass(frozen=True, slots=True)
class StartingProgram:
    """A program without a job: it has none yet, or none any more.

    Attributes:
        program_id: What the cluster calls it.
        name: Shown to users.
        status: SUBMITTED, RUNNING or WAITING.
        since_ms: When it came to that, epoch milliseconds.
        message: Why it waits; empty if there is nothing to say.
    """

    program_id: str
    name: str
    status: str
    since_ms: int
    message: str = ""


class JobDirectory:
    """Jobs by id, and their views; any thread may ask.

    Args:
        find_running: Finds the jobs that run.
        archive: Those that have ended; None shows none.
        clock: Time.
        find_starting: Finds the programs that have no job.
    """

    def __init__(
        self,
        find_running: Callable[[], Sequence[JobGateway]],
        archive: JobArchive | None,
        clock: Clock,
        find_starting: Callable[[], Sequence[StartingProgram]] = tuple,
    ) -> None:
        self._find_starting = find_starting
        self._find_running = find_running
        self._archive = archive
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: dict[Any, _Entry] = {}
        self._hanging: dict[str, Future[Any]] = {}
        self._commands = 0

    def version(self) -> tuple[int, int]:
        """Return what changes whenever views are made anew."""
        return self._tick(), self._commands

    def view(self, job_id: str, kind: type[V]) -> V:
        """Return a view of a job.

        Raises:
            RestError: 404 if there is no such job, 503 if it does not answer.
        """
        view: V = self._cached((job_id, kind), lambda: self._read(job_id, kind))
        return view

    def jobs(self) -> list[JobView]:
        """Return all jobs, the running ones by start, then the ended ones, the latest end first.

        A running job that does not answer is left out.
        """
        views = []
        for job in self._running():
            try:
                views.append(self.view(job.job_id, JobView))
            except RestError as error:
                log.warning("job is left out of the list: %s", error.message)
        known = {view.job_id for view in views}
        ended = (job.view(JobView) for job in self._ended())
        return [*views, *(view for view in ended if view.job_id not in known)]

    def starting(self) -> Sequence[StartingProgram]:
        """Return the programs that have no job."""
        found: Sequence[StartingProgram] = self._cached("starting", self._find_starting)
        return found

    def _unknown(self, job_id: str) -> RestError:
        message = f"there is no job {job_id}. /jobs lists the jobs that run, and the last that ended"
        names = [f'"{each.name}"' for each in self.starting()]
        if names:
            message += (
                f". Without a job yet, or any more: {', '.join(names[:5])}{' and others' * (len(names) > 5)}"
            )
        return RestError(404, message)

    def perform(self, job_id: str, command: Command) -> Future[Any]:
        """Send a command to a job.

        Raises:
            RestError: 404 if there is no such job, 409 if it has ended.
        """
        running = next((job for job in self._running() if job.job_id == job_id), None)
        if running is None:
            job = self.view(job_id, JobView)
            raise RestError(409, f'job {job_id} "{job.name}" has ended: {job.status}')
        try:
            return running.perform(command)
        finally:
            if not isinstance(command, _QUESTIONS):
                self._forget(job_id)

    def _read(self, job_id: str, kind: type[V]) -> V:
        running = next((job for job in self._running() if job.job_id == job_id), None)
        if running is None:
            return self._read_ended(job_id, kind)
        try:
            return self._ask(running, kind)
        except JobRequestError as error:
            refused = error
        # It may have ended: what is kept of it is written before it goes.
        deadline_s = self._clock.monotonic() + _ENDING_S
        while True:
            kept = self._find_ended(job_id, fresh=True)
            if kept is not None:
                return kept.view(kind)
            if any(job.job_id == job_id for job in self._find_running()):
                raise _silent(job_id, refused.message)
            if self._clock.monotonic() >= deadline_s:
                raise self._unknown(job_id)
            self._clock.wait(_LOOK_S)

    def _ask(self, job: JobGateway, kind: type[V]) -> V:
        """Ask a job, on a thread that may be left behind if it is another process'; meanwhile nothing else is asked.

        Raises:
            JobRequestError: If the job refuses, or has gone.
            RestError: 503 if it does not answer in time.
        """
        if job.answers_here:
            return job.view(kind)
        with self._lock:
            hanging = self._hanging.get(job.job_id)
            if hanging is not None and not hanging.done():
                raise _silent(job.job_id, "an earlier question is still without an answer")
            self._hanging.pop(job.job_id, None)
        answer: Future[V] = Future()

        def ask() -> None:
            try:
                answer.set_result(job.view(kind))
            except BaseException as error:  # noqa: BLE001 - raised again where the answer is waited for
                answer.set_exception(error)

        threading.Thread(target=ask, name=f"rest-ask-{job.job_id[:8]}", daemon=True).start()
        try:
            return answer.result(_PATIENCE_S)
        except NotYet:
            with self._lock:
                self._hanging[job.job_id] = answer
            raise _silent(job.job_id, f"not within {_PATIENCE_S:.0f} s") from None

    def _read_ended(self, job_id: str, kind: type[V]) -> V:
        kept = self._find_ended(job_id, fresh=False)
        if kept is None:
            raise self._unknown(job_id)
        return kept.view(kind)

    def _find_ended(self, job_id: str, *, fresh: bool) -> JobGateway | None:
        return next((job for job in self._ended(fresh=fresh) if job.job_id == job_id), None)

    def _running(self) -> Sequence[JobGateway]:
        found: Sequence[JobGateway] = self._cached("running", self._find_running)
        return found

    def _ended(self, *, fresh: bool = False) -> Sequence[JobGateway]:
        if self._archive is None:
            return ()
        if fresh:
            return self._archive.jobs()
        found: Sequence[JobGateway] = self._cached("ended", self._archive.jobs)
        return found

    def _cached(self, key: Any, make: Callable[[], Any]) -> Any:
        with self._lock:
            if len(self._entries) > _MOST:
                self._entries.clear()
            entry = self._entries.setdefault(key, _Entry())
        with entry.lock:
            if self._tick() >= entry.until_tick:
                entry.value, entry.error, ticks = None, None, 1
                try:
                    entry.value = make()
                except RestError as error:
                    entry.error = error
                    ticks = _SILENT_TICKS if error.status == 503 else 1
                entry.until_tick = self._tick() + ticks
            if entry.error is not None:
                raise entry.error
            return entry.value

    def _tick(self) -> int:
        return int(self._clock.monotonic() / _TICK_S)

    def _forget(self, job_id: str) -> None:
        with self._lock:
            self._commands += 1
            for key in [key for key in self._entries if isinstance(key, tuple) and key[0] == job_id]:
                del self._entries[key]
