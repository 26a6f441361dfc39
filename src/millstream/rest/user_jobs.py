"""A server for all jobs of this user on this machine: those that run, and the last that have ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from millstream.base.clock import Clock
from millstream.config.configuration import Configuration
from millstream.rest.context import no_logs_of
from millstream.rest.directory import JobDirectory, StartingProgram
from millstream.rest.programs import Programs
from millstream.rest.server import RestServer
from millstream.rest.settings import RestSettings
from millstream.runtime.control.archive import JobArchive
from millstream.runtime.control.channel import find_jobs
from millstream.runtime.control.configuration import describe_configuration
from millstream.runtime.control.conversations import Conversations

__all__ = ["serve_user_jobs"]


def serve_user_jobs(
    configuration: Configuration,
    clock: Clock,
    find_starting: Callable[[], Sequence[StartingProgram]] = tuple,
    *,
    logs: Callable[[], Mapping[str, Path]] = dict,
    logs_of: Callable[[int], Mapping[str, Path]] = no_logs_of,
    main_log: str = "",
    programs: Programs | None = None,
) -> RestServer:
    """Start the REST API and the dashboard; `close` the server that is returned.

    Args:
        configuration: Where to listen, and who may ask.
        clock: Time.
        find_starting: Finds programs that have no job.
        logs: Gives the log files that are shown, by name.
        logs_of: Gives those of the program that runs as a process, by name.
        main_log: Which of them is this process' own.
        programs: Who keeps and runs programs; None if nobody does.

    Raises:
        ConfigurationError: If no port is free, or the options do not fit.
    """
    shown = describe_configuration(configuration).options
    server = RestServer(
        RestSettings.of(configuration),
        JobDirectory(
            partial(find_jobs, Conversations()), JobArchive.of(configuration, clock), clock, find_starting
        ),
        clock,
        {option.key: option.value for option in shown if option.value is not None},
        logs=logs,
        logs_of=logs_of,
        main_log=main_log,
        programs=programs,
    )
    server.start()
    return server
