"""The server in the process of a program that runs jobs: one for all its jobs, for as long as the process lives."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

from millstream.base.clock import SystemClock
from millstream.config.configuration import Configuration
from millstream.config.options_operating import ARCHIVE_MAX_CAPACITY
from millstream.rest.directory import JobDirectory
from millstream.rest.server import RestServer
from millstream.rest.settings import RestSettings
from millstream.runtime.control.configuration import describe_configuration
from millstream.runtime.control.gateway import JobGateway
from millstream.runtime.control.views import JobView

__all__ = ["serve_job"]

log = logging.getLogger("millstream")


class _ProcessServer:
    """The server and its jobs; any thread may add one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[str, JobGateway] = {}
        self._server: RestServer | None = None

    def add(self, configuration: Configuration, job: JobGateway) -> str:
        """Show a job; the options of the first job say where the server listens. Returns its address."""
        with self._lock:
            if self._server is None:
                clock = SystemClock()
                view = describe_configuration(configuration)
                server = RestServer(
                    RestSettings.of(configuration),
                    JobDirectory(self._list, None, clock),
                    clock,
                    {option.key: option.value for option in view.options if option.value is not None},
                )
                server.start()
                self._server = server
                log.info("REST API at %s", server.address)
            self._jobs[job.job_id] = job
            self._drop_ended(configuration.get(ARCHIVE_MAX_CAPACITY))
            return self._server.address

    def _drop_ended(self, most: int) -> None:
        """Forget the jobs that ended first, beyond so many."""
        ended = [job for job in self._jobs.values() if job.view(JobView).ended_ms is not None]
        for job in ended[: max(len(ended) - most, 0)]:
            del self._jobs[job.job_id]

    def _list(self) -> Sequence[JobGateway]:
        with self._lock:
            return list(self._jobs.values())


_PROCESS = _ProcessServer()


def serve_job(configuration: Configuration, job: JobGateway) -> str:
    """Show a job of this process on its REST server, which is started with the first one.

    Called through the entry point `millstream.servers`, before the job runs.

    Args:
        configuration: Of the job; of the first one, where to listen and who may ask.
        job: The job.

    Returns:
        The server's address.

    Raises:
        ConfigurationError: If no port is free, or the options do not fit.
    """
    return _PROCESS.add(configuration, job)
