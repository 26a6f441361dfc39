"""What a dispatcher does next: a pure machine, without processes, files or clocks.

The shell (`dispatcher.py`) gives it what has happened, performs what it answers, and tells what became of that::

    Submitted, CancelAsked, SessionOpened, SessionEnded, ProcessEnded, Elapsed
                         │ handle(event, now_ms)
                         ▼
    Note(application)  Start(application, recover)  Terminate(application)  OpenSession()

Rules:

- A process is started only while there is a session.
- Each change is noted before anything is started or ended for it: a dispatcher that is killed in between finds what it
  wanted, and does it again. To start twice does no harm: the second driver takes the job over from the first.
- A process that ended without its jobs having ended is started again to recover them, behind a delay. A program that
  ends so three times in a row before it submits a job has failed; each time the delay is twice as long.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from millstream.cluster.applications import (
    CANCELED,
    FAILED,
    RUNNING,
    SUBMITTED,
    WAITING,
    Application,
)

__all__ = [
    "CancelAsked",
    "Command",
    "DispatcherCore",
    "Elapsed",
    "Event",
    "Note",
    "OpenSession",
    "ProcessEnded",
    "ProcessStarted",
    "SessionEnded",
    "SessionOpened",
    "Start",
    "Submitted",
    "Terminate",
]

_FIRST_DELAY_MS = 1_000
_LONGEST_DELAY_MS = 60_000
_MOST_LOSSES = 3
_SESSION_RETRY_MS = 5_000


@dataclass(frozen=True, slots=True)
class Submitted:
    """A program was submitted."""

    application: Application


@dataclass(frozen=True, slots=True)
class CancelAsked:
    """Somebody wants an application to end."""

    application_id: str


@dataclass(frozen=True, slots=True)
class SessionOpened:
    """There is a Spark session."""


@dataclass(frozen=True, slots=True)
class SessionEnded:
    """The Spark session is gone, or could not be opened.

    Attributes:
        reason: Why.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class ProcessStarted:
    """An application's process runs.

    Attributes:
        application_id: Whose.
        pid: Its number.
        process_start: What tells it from a later one with that number.
    """

    application_id: str
    pid: int
    process_start: str | None


@dataclass(frozen=True, slots=True)
class ProcessEnded:
    """An application's process has ended.

    Attributes:
        application_id: Whose.
        status: FINISHED, FAILED or CANCELED if the program has come to its end so; None if it was stopped on its way.
        submitted: Whether it had submitted a job.
        session_lost: Whether it ended because its session had.
        message: What is to be told.
    """

    application_id: str
    status: str | None
    submitted: bool
    session_lost: bool = False
    message: str = ""


@dataclass(frozen=True, slots=True)
class Elapsed:
    """Some time has passed."""


Event = Submitted | CancelAsked | SessionOpened | SessionEnded | ProcessStarted | ProcessEnded | Elapsed


@dataclass(frozen=True, slots=True)
class Note:
    """Write an application's record, durably."""

    application: Application


@dataclass(frozen=True, slots=True)
class Start:
    """Start a process for an application.

    Attributes:
        application: Which.
        recover: Whether it is to go on with what an earlier process left.
    """

    application: Application
    recover: bool


@dataclass(frozen=True, slots=True)
class Terminate:
    """Have an application's process cancel its jobs and end; comes again until it has."""

    application: Application


@dataclass(frozen=True, slots=True)
class OpenSession:
    """Open a Spark session."""


Command = Note | Start | Terminate | OpenSession


class DispatcherCore:
    """Decides for all applications of a cluster; one thread calls it.

    Args:
        known: What was noted by earlier dispatchers. What ran is taken as running: the shell tells of each process that
            has ended since.
    """

    def __init__(self, known: Iterable[Application] = ()) -> None:
        self._applications = {each.application_id: each for each in known}
        self._has_session = self._opening = False
        self._open_at_ms = 0

    @property
    def applications(self) -> list[Application]:
        """All of them, by submission."""
        return sorted(self._applications.values(), key=lambda each: (each.submitted_ms, each.application_id))

    def find(self, application_id: str) -> Application | None:
        """Return one; None if there is none with that id."""
        return self._applications.get(application_id)

    def forget(self, application_id: str) -> None:
        """Drop one that has ended."""
        assert self._applications[application_id].has_ended
        del self._applications[application_id]

    def handle(self, event: Event, now_ms: int) -> list[Command]:
        """Learn what has happened and return what is to be done, in this order.

        Args:
            event: What has happened.
            now_ms: When, epoch milliseconds.
        """
        match event:
            case Submitted(application):
                self._applications[application.application_id] = application
                return [Note(application), *self._start_due(now_ms)]
            case CancelAsked(application_id):
                return self._cancel(application_id, now_ms)
            case SessionOpened():
                self._has_session, self._opening = True, False
                return self._start_due(now_ms)
            case SessionEnded(reason):
                return self._lose_session(reason, now_ms)
            case ProcessStarted(application_id, pid, process_start):
                return self._note(
                    replace(self._applications[application_id], pid=pid, process_start=process_start)
                )
            case ProcessEnded():
                return self._end_process(event, now_ms)
            case Elapsed():
                return [*self._terminate(), *self._start_due(now_ms)]

    def _cancel(self, application_id: str, now_ms: int) -> list[Command]:
        application = self._applications[application_id]
        if application.has_ended:
            return []
        if application.status != RUNNING and not application.starts:
            return self._note(application.moved(CANCELED, now_ms))
        # One that waits may have jobs with checkpoints to be removed: it is started once more, and ends them.
        cancelling = replace(application, cancelling=True)
        commands = self._note(cancelling)
        return [*commands, Terminate(cancelling)] if application.status == RUNNING else commands

    def _terminate(self) -> list[Command]:
        """Ask again: a process that has just started may not have had a job when it was asked."""
        return [Terminate(each) for each in self.applications if each.cancelling and each.status == RUNNING]

    def _lose_session(self, reason: str, now_ms: int) -> list[Command]:
        self._has_session = self._opening = False
        self._open_at_ms = now_ms + _SESSION_RETRY_MS
        commands: list[Command] = []
        for application in self.applications:
            if application.status in (SUBMITTED, WAITING):
                commands += self._note(replace(application, message=reason))
        return [*commands, *self._start_due(now_ms)]

    def _end_process(self, event: ProcessEnded, now_ms: int) -> list[Command]:
        application = self._applications[event.application_id]
        if application.has_ended:
            return []
        without_process = replace(application, pid=None, process_start=None)
        losses = 0 if event.submitted or event.session_lost else application.losses + 1
        if event.status is not None:
            return self._note(without_process.moved(event.status, now_ms, message=event.message))
        if application.cancelling:
            return self._note(without_process.moved(CANCELED, now_ms))
        if losses >= _MOST_LOSSES:
            message = f"the program ended {losses} times in a row before it submitted a job: {event.message}"
            return self._note(without_process.moved(FAILED, now_ms, message=message))
        waiting = without_process.moved(WAITING, now_ms, message=event.message, losses=losses)
        return [*self._note(waiting), *self._start_due(now_ms)]

    def _start_due(self, now_ms: int) -> list[Command]:
        due = [each for each in self.applications if _is_due(each, now_ms)]
        if not due:
            return []
        if not self._has_session:
            if self._opening or now_ms < self._open_at_ms:
                return []
            self._opening = True
            return [OpenSession()]
        commands: list[Command] = []
        for application in due:
            started = application.moved(RUNNING, now_ms, starts=application.starts + 1)
            commands += [*self._note(started), Start(started, recover=started.starts > 1)]
        return commands

    def _note(self, application: Application) -> list[Command]:
        self._applications[application.application_id] = application
        return [Note(application)]


def _is_due(application: Application, now_ms: int) -> bool:
    if application.status == SUBMITTED:
        return True
    return application.status == WAITING and now_ms >= application.since_ms + _delay_ms(application)


def _delay_ms(application: Application) -> int:
    """Return how long a process that was lost is waited with: not at all for the first time.

    >>> from millstream.cluster.applications import Program
    >>> one = Application("0" * 32, "job", Program("/job.py"), submitted_ms=0, starts=1)
    >>> [_delay_ms(replace(one, losses=losses)) for losses in (0, 1, 2, 12)]
    [1000, 2000, 4000, 60000]
    """
    return min(_FIRST_DELAY_MS << application.losses, _LONGEST_DELAY_MS)
