"""The server in the process of a program that runs jobs: one for all its jobs, for as long as the process lives."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from millstream.base.clock import SystemClock
from millstream.config.configuration import Configuration
from millstream.config.options_operating import ARCHIVE_MAX_CAPACITY
from millstream.rest.directory import JobDirectory
from millstream.rest.server import RestServer
from millstream.rest.settings import RestSettings
from millstream.runtime.control.configuration import describe_configuration
from millstream.runtime.control.gateway import JobGateway
from millstream.runtime.control.views import JobView

__all__ = ["ProcessServer", "close_server", "open_server", "process_address"]

log = logging.getLogger("millstream")


class ProcessServer:
    """The server and the jobs of this process; any thread may add one.

    Args:
        configuration: Of the first job: where to listen, who may ask, how many ended jobs are kept.

    Raises:
        ConfigurationError: If no port is free, or the options do not fit.
    """

    def __init__(self, configuration: Configuration) -> None:
        clock = SystemClock()
        self._lock = threading.Lock()
        self._jobs: dict[str, JobGateway] = {}
        self._most_ended: int = configuration.get(ARCHIVE_MAX_CAPACITY)
        view = describe_configuration(configuration)
        self._server = RestServer(
            RestSettings.of(configuration),
            JobDirectory(self._list, None, clock),
            clock,
            {option.key: option.value for option in view.options if option.value is not None},
        )
        self._server.start()
        log.info("REST API at %s", self._server.address)

    @property
    def address(self) -> str:
        """Where it listens: `http://host:port`."""
        return self._server.address

    def show(self, job: JobGateway) -> None:
        """Show a job, from now on; of those that have ended the first are forgotten when there are many."""
        with self._lock:
            self._jobs[job.job_id] = job
            ended = [each for each in self._jobs.values() if each.view(JobView).ended_ms is not None]
            for each in ended[: max(len(ended) - self._most_ended, 0)]:
                del self._jobs[each.job_id]

    def close(self) -> None:
        """Answer no more."""
        self._server.close()

    def _list(self) -> Sequence[JobGateway]:
        with self._lock:
            return list(self._jobs.values())


_OPENING = threading.Lock()
_OPENED: list[ProcessServer] = []


def open_server(configuration: Configuration) -> Callable[[JobGateway], None]:
    """Return what shows jobs on the server of this process; starts it the first time.

    Called through the entry point `millstream.servers`, before a job is made.

    Args:
        configuration: Of the job.

    Raises:
        ConfigurationError: If no port is free, or the options do not fit.
    """
    with _OPENING:
        if not _OPENED:
            _OPENED.append(ProcessServer(configuration))
        return _OPENED[0].show


def process_address() -> str | None:
    """Return where the server of this process listens; None if there is none."""
    with _OPENING:
        return _OPENED[0].address if _OPENED else None


def close_server() -> None:
    """End the server of this process, if there is one; the next job that asks for one starts another."""
    with _OPENING:
        while _OPENED:
            _OPENED.pop().close()
