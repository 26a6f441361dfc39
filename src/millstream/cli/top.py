"""`millstream top`: watch the jobs that run, until q or Ctrl-C."""

from __future__ import annotations

import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TextIO

import click

from millstream.cli.jobs import EXIT_USAGE, choose_job, reporting_errors

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from millstream.cli.top_view import JobLine
    from millstream.runtime.control.channel import RemoteJob

__all__ = ["command"]

_SILENT_S = 2.0
_KEY_S = 0.25
_ONCE_WIDTH = 200


@click.command("top")
@click.option("--once", is_flag=True, help="Print one view and end; for scripts.")
@click.option(
    "--interval",
    "interval_s",
    type=click.FloatRange(0.2),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between two views.",
)
@click.option("-v", "--vertices", is_flag=True, help="Show the vertices of each job; key v switches.")
@click.argument("job", required=False, metavar="[JOB]")
def command(job: str | None, once: bool, interval_s: float, vertices: bool) -> None:
    """Watch the jobs that run on this machine for this user: throughput, back pressure, lag, checkpoints.

    JOB is the job's name, or its id or the beginning of it: that one is shown, with its vertices. Keys: q ends, v shows
    vertices or leaves them out.
    """
    from rich.console import Console

    with reporting_errors():
        if job is not None:
            job = choose_job(job).job_id
        screen = _Jobs(job, details=vertices or job is not None)
        console = Console(highlight=False)
        if once:
            if not console.is_terminal:  # a table that is cut to 80 columns helps no script
                console = Console(highlight=False, width=_ONCE_WIDTH)
            console.print(screen.view())
            return
        if not console.is_terminal:
            click.echo("millstream top needs a terminal; --once prints one view", err=True)
            sys.exit(EXIT_USAGE)
        _watch(console, screen, interval_s)


class _Jobs:
    """What is shown: jobs, and how they were a moment ago."""

    def __init__(self, job_id: str | None, *, details: bool) -> None:
        from millstream.base.clock import SystemClock

        self._job_id = job_id
        self._clock = SystemClock()
        self._before: dict[str, JobLine] = {}
        self.details = details

    def view(self) -> RenderableType:
        """Look at all jobs, and return what is to be shown."""
        from millstream.cli.text import format_moment
        from millstream.cli.top_view import render
        from millstream.runtime.control.channel import find_jobs

        jobs = [each for each in find_jobs() if self._job_id in (None, each.job_id)]
        lines = [line for job in jobs if (line := self._line(job)) is not None]
        self._before = {line.job_id: line for line in lines}
        running = sum(line.status == "RUNNING" for line in lines)
        rate = sum(line.per_second for line in lines)
        moment = format_moment(self._clock.now_ms())
        title = f"millstream  {moment}  {running} of {len(lines)} jobs run, {rate:,.0f} records/s"
        return render(lines, details=self.details, title=title)

    def _line(self, job: RemoteJob) -> JobLine | None:
        """Return how a job is; None if it has just ended."""
        from millstream.base.errors import JobExecutionError
        from millstream.cli.top_view import JobLine, look_at

        before = self._before.get(job.job_id)
        try:
            return self._clock.within(_SILENT_S, lambda: look_at(job, before))
        except TimeoutError:
            return JobLine(job.job_id, job.name, "SILENT", self._clock.now_ms())
        except JobExecutionError:
            return None


def _watch(console: Console, jobs: _Jobs, interval_s: float) -> None:
    from rich.live import Live

    from millstream.base.clock import SystemClock

    clock = SystemClock()
    with (
        _noting_signals() as ended,
        _reading_keys(sys.stdin) as next_key,
        Live(jobs.view(), console=console, screen=True, auto_refresh=False) as live,
    ):
        shown_s = clock.monotonic()
        while not ended.is_set():
            left_s = shown_s + interval_s - clock.monotonic()
            key = next_key(min(max(left_s, 0), _KEY_S))
            if key == "q":
                return
            if key == "v":
                jobs.details = not jobs.details
            if key == "v" or left_s <= 0:
                live.update(jobs.view(), refresh=True)
                shown_s = clock.monotonic()


@contextmanager
def _noting_signals() -> Iterator[threading.Event]:
    """Give an event that is set when the command is to end; nothing that draws is interrupted half-way."""
    ended = threading.Event()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, lambda *_: ended.set()) for number in numbers]
    try:
        yield ended
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


@contextmanager
def _reading_keys(stream: TextIO) -> Iterator[Callable[[float], str | None]]:
    """Give a function that waits for a key so many seconds; without a terminal to read from there are none.

    The terminal gives keys at once and does not show them; it is left as it was found.
    """
    from millstream.base.clock import SystemClock

    clock = SystemClock()

    def wait(seconds: float) -> str | None:
        clock.wait(seconds)
        return None

    if not stream.isatty():
        yield wait
        return
    import os
    import termios
    import tty

    descriptor = stream.fileno()
    found = termios.tcgetattr(descriptor)

    def next_key(seconds: float) -> str | None:
        if not select.select([descriptor], [], [], seconds)[0]:
            return None
        key = os.read(descriptor, 1)
        if not key:  # the terminal is gone
            return "q"
        return key.decode("latin-1").lower()

    try:
        tty.setcbreak(descriptor)
        yield next_key
    finally:
        with suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(descriptor, termios.TCSADRAIN, found)
