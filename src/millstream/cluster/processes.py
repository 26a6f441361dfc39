"""The processes that run a cluster's programs: started, watched, ended.

A program runs as `millstream run` in a session of its own, so that neither Ctrl-C in the dispatcher's terminal nor its
death reaches it. A dispatcher that starts anew finds processes that an earlier one had started: they are watched like
its own, only that nobody tells what exit code they have.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from millstream.cluster.applications import Application
from millstream.runtime.control.status_files import is_alive, process_start

__all__ = ["ProgramProcesses", "compose_command", "compose_environment"]

CONFIG_VARIABLE = "MILLSTREAM_CONFIG"

OnEnd = Callable[[str, int | None], None]
"""Told of an application whose process has ended, and of its exit code: None if that is not known."""


def compose_command(application: Application, *, recover: bool) -> list[str]:
    """Return the command that runs an application's program.

    >>> from millstream.cluster.applications import Program
    >>> one = Application("0" * 32, "job", Program("/job.py", ("--fast",)), submitted_ms=0)
    >>> compose_command(one, recover=True)[1:]
    ['-m', 'millstream.cli', 'run', '--no-progress', '--recover', '/job.py', '--fast']
    """
    program = application.program
    command = [sys.executable, "-m", "millstream.cli", "run", "--no-progress"]
    if program.pyflink:
        command.append("--pyflink")
    if recover:
        command.append("--recover")
    return [*command, program.path, *program.arguments]


def compose_environment(
    inherited: Mapping[str, str], options: Mapping[str, str], variables: Mapping[str, str]
) -> dict[str, str]:
    """Return a process's environment.

    Args:
        inherited: The dispatcher's.
        options: Options of millstream, which have the last word over configuration files.
        variables: Further variables.
    """
    return {
        **inherited,
        "PYTHONUNBUFFERED": "1",
        **variables,
        CONFIG_VARIABLE: json.dumps(dict(options)),
    }


class ProgramProcesses:
    """Starts processes and tells when they end; any thread may call it.

    Args:
        on_end: Called once for each process, on a thread of its own.
    """

    def __init__(self, on_end: OnEnd) -> None:
        self._on_end = on_end

    def start(
        self, application: Application, *, recover: bool, environment: Mapping[str, str], log: Path
    ) -> tuple[int, str | None]:
        """Start an application's process and watch it.

        Args:
            application: Whose.
            recover: Whether it goes on with what an earlier one left.
            environment: All its variables.
            log: Takes what it writes to standard output and error.

        Returns:
            Its number, and what tells it from a later one with that number.

        Raises:
            OSError: If it cannot be started.
        """
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            process = subprocess.Popen(
                compose_command(application, recover=recover),
                stdin=subprocess.DEVNULL,
                stdout=descriptor,
                stderr=subprocess.STDOUT,
                cwd=application.program.working_directory,
                env=dict(environment),
                start_new_session=True,
            )
        finally:
            os.close(descriptor)
        started = process_start(process.pid)
        self._watch(application.application_id, process.wait)
        return process.pid, started

    def adopt(self, application: Application) -> bool:
        """Watch a process that an earlier dispatcher had started; return whether it still runs."""
        if not self.is_running(application):
            return False
        assert application.pid is not None
        try:
            descriptor = os.pidfd_open(application.pid)
        except ProcessLookupError:
            return False
        if not self.is_running(application):  # its number may have gone to another one
            os.close(descriptor)
            return False

        def wait() -> None:
            try:
                select.select([descriptor], [], [])
            finally:
                os.close(descriptor)

        self._watch(application.application_id, wait)
        return True

    def terminate(self, application: Application) -> None:
        """Have a process end; its jobs are cancelled, or left to a later one where that can go on with them."""
        self._signal(application, signal.SIGTERM)

    def kill(self, application: Application) -> None:
        """End a process at once."""
        self._signal(application, signal.SIGKILL)

    def is_running(self, application: Application) -> bool:
        """Return whether an application has a process that has not ended."""
        return application.pid is not None and is_alive(application.pid, application.process_start)

    def _signal(self, application: Application, number: signal.Signals) -> None:
        if self.is_running(application):
            assert application.pid is not None
            with suppress(ProcessLookupError):
                os.kill(application.pid, number)

    def _watch(self, application_id: str, wait: Callable[[], int | None]) -> None:
        def watch() -> None:
            self._on_end(application_id, wait())

        threading.Thread(target=watch, name=f"process-{application_id[:8]}", daemon=True).start()
