"""What handlers ask."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from millstream.base.clock import Clock
from millstream.rest.directory import JobDirectory
from millstream.rest.operations import Operations
from millstream.rest.programs import Programs

__all__ = ["RestContext", "no_logs_of"]


def no_logs_of(pid: int) -> Mapping[str, Path]:
    """Return nothing: where programs are not started by who serves, nobody knows where they log."""
    return {}


@dataclass(frozen=True, slots=True)
class RestContext:
    """Shared by all requests to a server.

    Attributes:
        jobs: The jobs that it shows.
        operations: What clients have triggered.
        clock: Time.
        started_ms: When the server was started, epoch milliseconds.
        address: Where it listens, `http://host:port`.
        options: The options of the server's own process by key, without secrets.
        openapi: The OpenAPI document.
        logs: Gives the log files that are shown, by name.
        logs_of: Gives those of the program that runs as a process, by name.
        programs: Who keeps and runs programs; None if nobody does.
        main_log: Which of them is the serving process' own.
    """

    jobs: JobDirectory
    operations: Operations
    clock: Clock
    started_ms: int
    address: str
    options: Mapping[str, str]
    openapi: Mapping[str, Any] = field(default_factory=dict)
    logs: Callable[[], Mapping[str, Path]] = dict
    logs_of: Callable[[int], Mapping[str, Path]] = no_logs_of
    main_log: str = ""
    programs: Programs | None = None
