"""The dispatcher: performs what `core.py` decides, and tells it what has happened.

::

    requests (any thread) ──► queue ──► one thread: core.handle ──► store, processes, session
    processes, session ─────►                 ▲ Elapsed each second

What is asked is answered when it is noted: a submission that was answered is run, whatever happens to the dispatcher.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from millstream.base.clock import Clock, SystemClock
from millstream.base.errors import ConfigurationError, JobRequestError, MillstreamError
from millstream.base.ids import new_id
from millstream.base.signals import next_of
from millstream.cluster.application_store import ApplicationStore
from millstream.cluster.applications import RUNNING, Application, Program
from millstream.cluster.core import (
    CancelAsked,
    Command,
    DispatcherCore,
    Elapsed,
    Event,
    Note,
    OpenSession,
    ProcessEnded,
    ProcessStarted,
    SessionEnded,
    SessionOpened,
    Start,
    Submitted,
    Terminate,
)
from millstream.cluster.outcomes import find_outcome
from millstream.cluster.processes import ProgramProcesses, compose_environment
from millstream.cluster.session import ClusterSession
from millstream.config import options, options_checkpointing
from millstream.runtime.control.channel import find_jobs
from millstream.runtime.control.commands import Cancel
from millstream.runtime.control.gateway import JobGateway

__all__ = ["Dispatcher", "DispatcherConfig"]

_log = logging.getLogger(__name__)
_TICK_S = 1.0
_SESSION_VARIABLE = "MILLSTREAM_SESSION"
_SUSPEND_S = 20.0
_STARTING_S = 10.0
"""How long a process that is to end may go without a job before it is told so by a signal."""


@dataclass(frozen=True)
class DispatcherConfig:
    """How a cluster runs.

    Attributes:
        directory: Of the cluster: applications, logs; outlives dispatchers.
        options: Options of the session, and of programs that do not set them.
        target: Where jobs run: a Spark master, or `local` for jobs without Spark, each in its own process.
        variables: Environment of the processes.
        kept: How many applications that have ended are kept.
    """

    directory: Path
    options: Mapping[str, str]
    target: str
    variables: Mapping[str, str]
    kept: int = 100


class Dispatcher:
    """Runs the programs that it is given; its methods may be called on any thread while `run` goes on.

    Args:
        config: How.
        clock: Time.

    Raises:
        ApplicationRecordError: If what an earlier dispatcher noted cannot be understood.
        OSError: If the directory cannot be read.
    """

    def __init__(self, config: DispatcherConfig, clock: Clock | None = None) -> None:
        self._config = config
        self._clock = clock or SystemClock()
        self._store = ApplicationStore(config.directory)
        self._core = DispatcherCore(self._store.read())
        self._queue: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._processes = ProgramProcesses(self._process_ended)
        self._has_session = config.target == "local"
        self._session = ClusterSession(
            config.directory / "session.json",
            log=config.directory / "session.log",
            environment=compose_environment(
                config.variables, {**config.options, options.TARGET.key: config.target}, {}
            ),
            on_opened=lambda: self._tell(SessionOpened()),
            on_ended=lambda reason: self._tell(SessionEnded(reason)),
        )
        self._cancelled: dict[str, float] = {}
        self._ended = threading.Event()

    def run(self) -> None:
        """Work until `stop`; what an earlier dispatcher had begun goes on."""
        self._perform(self._adopt())
        if self._has_session:
            self._handle(SessionOpened())
        ticker = threading.Thread(target=self._tick, name="dispatcher-clock", daemon=True)
        ticker.start()
        try:
            while (work := next_of(self._queue)) is not None:
                work()
        finally:
            self._ended.set()
            self._suspend()
            self._session.close()
            ticker.join()

    def stop(self) -> None:
        """Have `run` return, behind what was asked before; programs are left to the next dispatcher."""
        self._queue.put(None)

    def submit(self, program: Program, *, name: str | None = None, timeout_s: float = 30.0) -> Application:
        """Take a program, and return its application once that is noted.

        Raises:
            ConfigurationError: If its file or working directory is not there.
            OSError: If it cannot be noted.
        """
        _check(program)
        application = Application(
            new_id(),
            name or Path(program.path).stem,
            program,
            submitted_ms=self._clock.now_ms(),
            since_ms=self._clock.now_ms(),
        )

        def take() -> None:
            self._store.write(application)  # else it is refused, and nothing of it is known
            self._handle(Submitted(application))

        self._ask(take, timeout_s)
        return application

    def cancel(self, application_id: str, *, timeout_s: float = 30.0) -> Application:
        """Have an application end; return it as it is once that is noted.

        Raises:
            JobRequestError: If there is no such application.
        """
        self.find(application_id)
        self._ask(lambda: self._handle(CancelAsked(application_id)), timeout_s)
        return self.find(application_id)

    def applications(self) -> list[Application]:
        """Return all applications, by submission."""
        applications: list[Application] = self._ask(lambda: self._core.applications, 30.0)
        return applications

    def find(self, application_id: str) -> Application:
        """Return an application by its id or the beginning of it.

        Raises:
            JobRequestError: If there is none, or several.
        """
        found = [each for each in self.applications() if each.application_id.startswith(application_id)]
        if len(found) == 1:
            return found[0]
        raise JobRequestError(
            f'{len(found) or "no"} applications have an id that begins with "{application_id}"',
            hint="`millstream cluster status` lists them.",
        )

    def log_file(self, application: Application) -> Path:
        """Return where an application's last process writes."""
        return self._store.log_file(application)

    # On the dispatcher's thread

    def _adopt(self) -> list[Command]:
        """See which processes of an earlier dispatcher still run; those that do not have ended meanwhile."""
        commands: list[Command] = []
        for application in self._core.applications:
            if application.status == RUNNING and not self._processes.adopt(application):
                commands += self._core.handle(self._outcome(application, None), self._clock.now_ms())
        return commands

    def _handle(self, event: Event) -> None:
        self._perform(self._core.handle(event, self._clock.now_ms()))

    def _perform(self, commands: list[Command]) -> None:
        """Do what was decided. What cannot be noted, as on a full disk, is not started either, but tried again."""
        refused: dict[str, OSError] = {}
        for command in commands:
            match command:
                case Note(application):
                    try:
                        self._store.write(application)
                    except OSError as error:
                        _log.error("application %s cannot be noted: %s", application.application_id, error)
                        refused[application.application_id] = error
                        continue
                    if application.has_ended:
                        self._tidy()
                case Start(application, recover):
                    refusal = refused.get(application.application_id)
                    if refusal is None:
                        self._start(application, recover=recover)
                    else:
                        self._not_started(application, refusal, submitted=True)
                case Terminate(application):
                    self._terminate(application)
                case OpenSession():
                    self._open_session()

    def _open_session(self) -> None:
        try:
            self._session.open()
        except OSError as error:
            self._handle(SessionEnded(f"the Spark session cannot be started: {error}"))

    def _not_started(self, application: Application, error: OSError, *, submitted: bool) -> None:
        self._handle(ProcessEnded(application.application_id, None, submitted, message=str(error)))

    def _start(self, application: Application, *, recover: bool) -> None:
        directory = self._store.directory_of(application.application_id)
        own = {
            options.TARGET.key: self._config.target,
            options_checkpointing.CHECKPOINT_DIRECTORY.key: str(directory / "checkpoints"),
            **self._config.options,
            **application.program.options,
            options_checkpointing.HA_DIRECTORY.key: str(directory / "recovery"),
        }
        variables = {_SESSION_VARIABLE: str(self._session.file)} if self._config.target != "local" else {}
        environment = compose_environment(self._config.variables, own, variables)
        try:
            self._store.prepare_start(application)
            pid, process_start = self._processes.start(
                application,
                recover=recover,
                environment=environment,
                log=self._store.log_file(application),
            )
        except OSError as error:
            _log.error("application %s cannot be started: %s", application.application_id, error)
            self._not_started(application, error, submitted=False)
            return
        self._handle(ProcessStarted(application.application_id, pid, process_start))

    def _terminate(self, application: Application) -> None:
        """Ask the jobs of a process to cancel; a process that has none for a while is told by a signal."""
        now_s = self._clock.monotonic()
        first_s = self._cancelled.setdefault(application.application_id, now_s)
        jobs = [job for job in find_jobs() if job.pid == application.pid]
        for job in jobs:
            threading.Thread(target=_cancel_job, args=(job,), daemon=True).start()
        if not jobs and now_s - first_s >= _STARTING_S:
            self._processes.terminate(application)

    def _tidy(self) -> None:
        """Forget the oldest applications that have ended, if there are more than are to be kept."""
        ended = sorted(
            (each for each in self._core.applications if each.has_ended), key=lambda each: each.since_ms
        )
        for application in ended[: max(len(ended) - self._config.kept, 0)]:
            self._core.forget(application.application_id)
            self._store.remove(application.application_id)
            self._cancelled.pop(application.application_id, None)

    def _outcome(self, application: Application, code: int | None) -> ProcessEnded:
        directory = self._store.directory_of(application.application_id)
        try:
            return find_outcome(
                application.application_id,
                code,
                recovery=directory / "recovery",
                log=self._store.log_file(application),
            )
        except MillstreamError as error:
            return ProcessEnded(
                application.application_id, None if code != 0 else "FINISHED", True, message=str(error)
            )

    def _suspend(self) -> None:
        """End all processes; their applications are noted as running, so that the next dispatcher goes on with them."""
        running = [each for each in self._core.applications if each.status == RUNNING]
        for application in running:
            self._processes.terminate(application)
        deadline = self._clock.monotonic() + _SUSPEND_S
        while any(map(self._processes.is_running, running)) and self._clock.monotonic() < deadline:
            self._clock.wait(0.05)
        for application in filter(self._processes.is_running, running):
            _log.warning("application %s does not end and is killed", application.application_id)
            self._processes.kill(application)

    # On others

    def _process_ended(self, application_id: str, code: int | None) -> None:
        def learn() -> None:
            application = self._core.find(application_id)
            if application is not None:
                self._handle(self._outcome(application, code))

        self._queue.put(learn)

    def _tell(self, event: Event) -> None:
        self._queue.put(lambda: self._handle(event))

    def _tick(self) -> None:
        while not self._clock.wait(_TICK_S, self._ended):
            self._tell(Elapsed())

    def _ask(self, work: Callable[[], Any], timeout_s: float) -> Any:
        answer: Future[Any] = Future()

        def answered() -> None:
            try:
                answer.set_result(work())
            except BaseException as error:  # noqa: BLE001 - raised again by who asks
                answer.set_exception(error)

        self._queue.put(answered)
        return answer.result(timeout_s)


def _check(program: Program) -> None:
    if not os.path.isfile(program.path):
        raise ConfigurationError(
            f'there is no program "{program.path}" on the host of the cluster',
            hint="Copy it there, or upload it.",
        )
    if not os.path.isdir(program.working_directory):
        raise ConfigurationError(
            f'there is no directory "{program.working_directory}" on the host of the cluster',
            hint="Submit from a directory that the cluster's host has too.",
        )


def _cancel_job(job: JobGateway) -> None:
    try:
        job.perform(Cancel()).result()
    except MillstreamError as error:  # it has ended by itself, or will be asked again
        _log.debug("job %s was not cancelled: %s", job.job_id, error)
