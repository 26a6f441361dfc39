"""Shows how many seeds are done and how long the others will take: a bar on a terminal, else a line now and then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TextIO

from millstream.base.clock import Clock

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

__all__ = ["SeedProgress", "format_seconds"]

LINE_INTERVAL_S = 10.0
REFRESH_INTERVAL_S = 0.1


class SeedProgress:
    """Progress of one job at a time; there is no thread: it is told often enough.

    Args:
        total: Seeds of each job.
        stream: Where it is shown; None for nowhere.
        clock: Time.
    """

    def __init__(self, total: int, stream: TextIO | None, clock: Clock) -> None:
        self._total = total
        self._stream = stream
        self._clock = clock
        self._bar: Progress | None = None
        self._task: Any = None
        self._started_s = self._shown_s = clock.monotonic()

    def begin(self) -> None:
        """Begin with a job."""
        self._started_s = self._shown_s = self._clock.monotonic()

    def advance(self, done: int, failures: int) -> None:
        """Show that so many seeds are done, and how many of them found something."""
        now_s = self._clock.monotonic()
        if self._stream is None or self._total == 1:
            return
        if done >= self._total:
            self.end()
        elif self._stream.isatty():
            self._draw(done, failures, now_s)
        elif now_s - self._shown_s >= LINE_INTERVAL_S:
            self._shown_s = now_s
            print(
                f"  {done:,} of {self._total:,} seeds, {failures:,} failed; {self._left(done, now_s)} left",
                file=self._stream,
                flush=True,
            )

    def end(self) -> None:
        """Take the bar away; the next `advance` shows it again."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _draw(self, done: int, failures: int, now_s: float) -> None:
        if self._bar is None:
            self._bar, self._task = self._begin_bar()
        elif now_s - self._shown_s < REFRESH_INTERVAL_S:
            return
        self._shown_s = now_s
        self._bar.update(self._task, completed=done, left=self._left(done, now_s), failures=failures)
        self._bar.refresh()

    def _left(self, done: int, now_s: float) -> str:
        return format_seconds((now_s - self._started_s) / max(done, 1) * (self._total - done))

    def _begin_bar(self) -> tuple[Progress, TaskID]:
        # Takes longer than all of the rest; needed on a terminal only.
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        bar = Progress(
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("seeds, {task.fields[failures]} failed; {task.fields[left]} left"),
            console=Console(file=self._stream),
            auto_refresh=False,
            transient=True,
        )
        bar.start()
        return bar, bar.add_task("", total=self._total, failures=0, left="?")


def format_seconds(seconds: float) -> str:
    """Return a time to wait, roughly.

    >>> format_seconds(0.2), format_seconds(42), format_seconds(200), format_seconds(7300)
    ('1 s', '42 s', '3 min 20 s', '2 h 1 min')
    """
    whole = max(round(seconds), 1)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
