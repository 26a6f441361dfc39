"""What a dispatcher knows of a program that it was given, and where that may go.

::

    SUBMITTED ─► RUNNING ─► FINISHED | FAILED | CANCELED     the program has ended, or its last job
        │           │
        │           │ the process was killed, or lost its Spark session
        │           ▼
        └──────► WAITING ─► RUNNING                          once there is a session, and behind a delay
                    │
                    └─► CANCELED | FAILED

Flink calls a program with its jobs an application, and so do we.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final

from millstream.base.errors import MillstreamError

__all__ = [
    "ENDED",
    "Application",
    "ApplicationRecordError",
    "Program",
    "application_from_json",
    "application_to_json",
    "program_from_json",
    "program_to_json",
]

SUBMITTED: Final = "SUBMITTED"
RUNNING: Final = "RUNNING"
WAITING: Final = "WAITING"
FINISHED: Final = "FINISHED"
FAILED: Final = "FAILED"
CANCELED: Final = "CANCELED"
ENDED: Final = frozenset({FINISHED, FAILED, CANCELED})

_MOVES = {
    SUBMITTED: {RUNNING, WAITING, CANCELED, FAILED},
    RUNNING: {WAITING, *ENDED},
    WAITING: {RUNNING, CANCELED, FAILED},
}
"""Where an application may go from each status."""

_VERSION = 1


class ApplicationRecordError(MillstreamError, ValueError):
    """What is noted of an application cannot be understood."""

    code = "APPLICATION_RECORD"
    domain = "external"


@dataclass(frozen=True, slots=True)
class Program:
    """A program as it was submitted.

    Attributes:
        path: The Python file, absolute.
        arguments: Its own arguments.
        options: Options by key, as `-D` gives them.
        working_directory: Where it runs, absolute.
        pyflink: Whether `pyflink` in it means millstream.
    """

    path: str
    arguments: tuple[str, ...] = ()
    options: dict[str, str] = field(default_factory=dict)
    working_directory: str = "/"
    pyflink: bool = False


@dataclass(frozen=True, slots=True)
class Application:
    """A submitted program and how it fares.

    Attributes:
        application_id: 32 hexadecimal digits.
        name: Shown to users: the program's file name, unless the user gave another.
        program: What runs.
        submitted_ms: When it was submitted, epoch milliseconds.
        status: See the module.
        since_ms: When it came to that, epoch milliseconds.
        starts: How many processes have run it.
        losses: How many of the last ones, one behind the other, ended without having submitted a job.
        pid: Of its process, if it has one.
        process_start: What tells that process from a later one with its number.
        cancelling: Whether the user wants it to end.
        message: Why it failed, or waits; empty if there is nothing to say.
    """

    application_id: str
    name: str
    program: Program
    submitted_ms: int
    status: str = SUBMITTED
    since_ms: int = 0
    starts: int = 0
    losses: int = 0
    pid: int | None = None
    process_start: str | None = None
    cancelling: bool = False
    message: str = ""

    @property
    def has_ended(self) -> bool:
        """Whether nothing of it runs or will run."""
        return self.status in ENDED

    def moved(self, status: str, now_ms: int, *, message: str = "", **changes: Any) -> Application:
        """Return it with another status.

        Raises:
            AssertionError: If it cannot go there from where it is.
        """
        assert status in _MOVES.get(self.status, ()), (
            f"application {self.application_id} went from {self.status} to {status}"
        )
        return replace(self, status=status, since_ms=now_ms, message=message, **changes)


def program_to_json(program: Program) -> dict[str, Any]:
    """Return a JSON object that `program_from_json` understands."""
    return {
        "path": program.path,
        "arguments": list(program.arguments),
        "options": dict(program.options),
        "working_directory": program.working_directory,
        "pyflink": program.pyflink,
    }


def program_from_json(document: Any) -> Program:
    """Read what `program_to_json` wrote.

    Raises:
        ApplicationRecordError: If it is something else.
    """
    try:
        return Program(**{**document, "arguments": tuple(document["arguments"])})
    except (KeyError, TypeError) as error:
        raise ApplicationRecordError(f"what is said of a program cannot be understood: {error!r}") from error


def application_to_json(application: Application) -> dict[str, Any]:
    """Return a JSON object that `application_from_json` understands."""
    return {
        "version": _VERSION,
        "application_id": application.application_id,
        "name": application.name,
        "program": program_to_json(application.program),
        "submitted_ms": application.submitted_ms,
        "status": application.status,
        "since_ms": application.since_ms,
        "starts": application.starts,
        "losses": application.losses,
        "pid": application.pid,
        "process_start": application.process_start,
        "cancelling": application.cancelling,
        "message": application.message,
    }


def application_from_json(document: Any) -> Application:
    """Read what `application_to_json` wrote.

    Raises:
        ApplicationRecordError: If it is something else, or of a later version.
    """
    try:
        version = document["version"]
        if version != _VERSION:
            raise ApplicationRecordError(
                f"an application is noted in version {version!r}",
                detail=f"This millstream knows version {_VERSION}.",
                hint="Start the cluster with the millstream that wrote it, or a later one.",
            )
        values = {key: value for key, value in document.items() if key != "version"}
        return Application(program=program_from_json(values.pop("program")), **values)
    except (KeyError, TypeError) as error:
        raise ApplicationRecordError(
            f"what is noted of an application cannot be understood: {error!r}",
            hint="Remove the file if the application is not to run any more.",
        ) from error
