"""Runs a user's program in this process, as Python itself would, and reports how it ended.

==============================================  =====================================================
the program                                     exit code
==============================================  =====================================================
ends, and submitted a job                       0
ends without having submitted a job             1, with a message (a script of SQL: 0)
calls `sys.exit(code)`                          its own
raises, or its job fails                        1; user's traceback or millstream's message
has opened a Spark session whose JVM ended      75: what started it may start it again, with --recover
is interrupted (Ctrl-C)                         130, after its jobs were cancelled
is terminated (SIGTERM)                         143, after its jobs were cancelled, or suspended if another
                                                driver can go on with them
==============================================  =====================================================
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import FrameType

import click

from millstream.base.clock import SystemClock
from millstream.base.error_display import describe_error
from millstream.base.errors import JobDefinitionError, SessionLostError
from millstream.base.pyflink_names import is_installed
from millstream.base.signals import Terminated, handle_once
from millstream.graph.ending import end_jobs
from millstream.graph.launcher import (
    JobLauncher,
    JobSubmission,
    RunningJob,
    find_launcher,
    set_launcher_override,
)

__all__ = ["JobRecorder", "launching_with", "run_action", "run_as_main", "run_program", "tell_error"]

SQL_SUFFIX = ".sql"
EXIT_FAILED = 1
EXIT_SESSION_LOST = 75
EXIT_INTERRUPTED = 130
EXIT_TERMINATED = 143
ENDED = frozenset({"FINISHED", "FAILED", "CANCELED", "SUSPENDED"})


class JobRecorder(JobLauncher):
    """Hands jobs to the installed runtime and remembers them, to cancel them if the user gives up.

    The runtime is looked for when the first job is submitted: programs that submit none start no machinery.
    """

    def __init__(self) -> None:
        self.jobs: list[RunningJob] = []
        self.submissions = 0

    def launch(self, submission: JobSubmission) -> RunningJob:
        """Launch the job and remember it."""
        self.submissions += 1
        with launching_with(None):
            installed = find_launcher()
        job = installed.launch(submission)
        self.jobs.append(job)
        return job

    def end(self, *, suspend: bool = False) -> bool:
        """Cancel what runs and wait until it has ended, a while at most.

        Args:
            suspend: Whether jobs with which a later driver can go on are left to it.

        Returns:
            Whether any was left so.

        Raises:
            KeyboardInterrupt: If the wait was interrupted.
        """
        running = [job for job in self.jobs if job.status() not in ENDED]
        end_jobs(running, SystemClock(), suspend=suspend)
        return any(job.is_suspended for job in running)


@contextmanager
def launching_with(launcher: JobLauncher | None) -> Iterator[None]:
    """Have jobs launched by `launcher`, None for the installed runtime; then by what did before."""
    before = set_launcher_override(launcher)
    try:
        yield
    finally:
        set_launcher_override(before)


def run_program(
    path: str,
    arguments: Sequence[str],
    *,
    verbose: bool = False,
    recorder: JobRecorder | None = None,
    display: AbstractContextManager[None] | None = None,
) -> int:
    """Run a program; prints errors to standard error.

    Must be called on the main thread.

    Args:
        path: A Python file.
        arguments: The program's own arguments, without its name.
        verbose: Show all frames of errors.
        recorder: Takes its jobs; by default, they are run by the installed runtime.
        display: Entered while the program runs, left before how it ended is told.

    Returns:
        The exit code, see the module's table.
    """
    recorder = recorder or JobRecorder()

    def perform() -> None:
        run_as_main(path, arguments)
        if not path.endswith(SQL_SUFFIX):
            _check_submitted(path, recorder)

    return run_action(perform, path, verbose=verbose, recorder=recorder, display=display)


def run_action(
    action: Callable[[], None],
    path: str,
    *,
    verbose: bool = False,
    recorder: JobRecorder,
    display: AbstractContextManager[None] | None = None,
) -> int:
    """Do what a program does; prints errors to standard error.

    Args:
        action: What is done.
        path: Of the program, for messages.
        verbose: Show all frames of errors.
        recorder: Takes its jobs.
        display: Entered meanwhile, left before how it ended is told.

    Returns:
        The exit code, see the module's table.
    """
    try:
        with _sigterm_raises(), display or nullcontext(), launching_with(recorder):
            action()
    except KeyboardInterrupt as interrupt:
        code = EXIT_TERMINATED if isinstance(interrupt, Terminated) else EXIT_INTERRUPTED
        try:
            suspended = recorder.end(suspend=code == EXIT_TERMINATED)
        except KeyboardInterrupt:
            os._exit(code)  # the second; SIGTERM has its default again and ends the process anyway
        click.echo("suspended" if suspended else "cancelled", err=True)
        return code
    except SystemExit as end:
        return _exit_code(end)
    except Exception as error:  # noqa: BLE001 - a program may raise anything
        tell_error(error, path, verbose=verbose)
        lost = isinstance(error, SessionLostError) or isinstance(error.__cause__, SessionLostError)
        return EXIT_SESSION_LOST if lost else EXIT_FAILED
    return 0


def tell_error(error: Exception, path: str, *, verbose: bool = False) -> None:
    """Print what a user is to read about an error that ended the program `path`."""
    click.echo(describe_error(error, path, verbose=verbose), err=True)
    if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == "pyflink":
        click.echo(
            f"Hint: A program written against PyFlink runs with --pyflink: millstream run --pyflink {path}. "
            "Or change pyflink to millstream in its imports.",
            err=True,
        )


def run_as_main(path: str, arguments: Sequence[str]) -> None:
    """Run a Python file as `__main__`, with `sys.argv` and `sys.path[0]` as Python would set them.

    A script of SQL, `*.sql`, is executed statement by statement.
    """
    if path.endswith(SQL_SUFFIX):
        from millstream.table.session.scripts import run_scripts  # only for scripts of SQL

        run_scripts([path])
        return
    argv, search_path = sys.argv, list(sys.path)
    sys.argv = [path, *arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    try:
        runpy.run_path(path, run_name="__main__")
    finally:
        sys.argv = argv
        sys.path[:] = search_path


def _check_submitted(path: str, recorder: JobRecorder) -> None:
    if recorder.submissions == 0 and "pyflink" in sys.modules and not is_installed():
        raise JobDefinitionError(
            f'program "{path}" ended without running a job here',
            detail="It imports PyFlink itself, which is installed in this Python.",
            hint=f"Have it import millstream as pyflink: millstream run --pyflink {path}.",
        )
    if recorder.submissions == 0:
        raise JobDefinitionError(
            f'program "{path}" ended without running a job',
            detail="A program only declares streams until it calls execute() on its environment.",
            hint="Call env.execute() as its last step, and check that it is reached "
            '(if __name__ == "__main__": main()).',
        )


def _exit_code(end: SystemExit) -> int:
    """Return the exit code as Python would; prints a code that is a message."""
    if end.code is None:
        return 0
    if isinstance(end.code, int):
        return end.code
    click.echo(str(end.code), err=True)
    return EXIT_FAILED


@contextmanager
def _sigterm_raises() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def raise_terminated(_number: int, _frame: FrameType | None) -> None:
        raise Terminated

    before = handle_once(signal.SIGTERM, raise_terminated)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
