"""Shows how far a job is: a live line on a terminal, else a line every few seconds."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, TextIO

from millstream.base.clock import Clock, SystemClock
from millstream.base.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from millstream.graph.launcher import EpochProgress, set_progress_listener

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["ProgressMeter", "format_event_time", "showing_progress"]

WINDOW_S = 3.0
LINE_INTERVAL_S = 2.0
EPOCH_START = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass
class ProgressMeter:
    """Keeps the last reports of a job; the job's thread writes, the display's thread reads.

    Attributes:
        last: The latest report; None before the first.
    """

    last: EpochProgress | None = None
    _recent: deque[tuple[float, int]] = field(default_factory=deque)

    def update(self, progress: EpochProgress) -> None:
        """Take a report."""
        if self.last is not None and progress.epoch < self.last.epoch:  # the program's next job
            self._recent.clear()
        self.last = progress
        recent = self._recent
        recent.append((progress.elapsed_s, progress.records_in))
        while len(recent) > 2 and recent[1][0] <= progress.elapsed_s - WINDOW_S:
            recent.popleft()

    def records_per_second(self) -> float:
        """Return the throughput over the last seconds; over the whole job as long as there is one report.

        >>> meter = ProgressMeter()
        >>> for second, records in ((1.0, 100), (2.0, 100), (3.0, 300)):
        ...     meter.update(EpochProgress(1, records, None, None, elapsed_s=second, epoch_s=1.0))
        >>> meter.records_per_second()
        100.0
        """
        if self.last is None:
            return 0.0
        start_s, start_records = self._recent[0] if len(self._recent) > 1 else (0.0, 0)
        seconds = self.last.elapsed_s - start_s
        return (self.last.records_in - start_records) / seconds if seconds > 0 else 0.0

    def fields(self) -> list[tuple[str, str]]:
        """Return what is shown, as names and values."""
        progress = self.last
        if progress is None:
            return [("starting", "")]
        return [
            ("records", f"{progress.records_in:,}"),
            ("event time", format_event_time(progress.event_time_ms)),
            ("watermark", format_event_time(progress.watermark_ms)),
            ("records/s", f"{self.records_per_second():,.0f}"),
            ("epochs", f"{progress.epoch:,}"),
            ("elapsed", f"{progress.elapsed_s:,.1f} s"),
        ]

    def __rich__(self) -> Table:
        """Return the live table; called by its display, several times a second."""
        from rich.table import Table  # takes longer than all of the rest; needed when there is a terminal

        fields = self.fields()
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
        for name, value in fields:
            # Fixed widths: the table must not dance.
            table.add_column(name, justify="right", min_width=max(len(value), len(name), 8), no_wrap=True)
        table.add_row(*(value for _, value in fields))
        return table


def format_event_time(timestamp_ms: int | None) -> str:
    """Return an instant as a user reads it.

    >>> format_event_time(1_357_017_300_000), format_event_time(None), format_event_time(2**63 - 1)
    ('2013-01-01 05:15:00', '-', 'end')
    """
    if timestamp_ms is None or timestamp_ms <= MIN_TIMESTAMP:
        return "-"
    if timestamp_ms >= MAX_TIMESTAMP:
        return "end"
    try:
        return f"{EPOCH_START + timedelta(milliseconds=timestamp_ms):%Y-%m-%d %H:%M:%S}"
    except OverflowError:
        return str(timestamp_ms)


@contextmanager
def showing_progress(
    *, wanted: bool | None, stream: TextIO | None = None, clock: Clock | None = None
) -> Iterator[None]:
    """Show the progress of the jobs that run inside.

    Args:
        wanted: Whether to show it; None for "if `stream` is a terminal".
        stream: Where; standard error by default.
        clock: Spaces the lines where there is no terminal.
    """
    target = sys.stderr if stream is None else stream
    if wanted is False or (wanted is None and not target.isatty()):
        yield
        return
    meter = ProgressMeter()
    shown = _live(meter, target) if target.isatty() else _lines(meter, target, clock or SystemClock())
    with shown:
        try:
            yield
        finally:
            set_progress_listener(None)


@contextmanager
def _live(meter: ProgressMeter, stream: TextIO) -> Iterator[None]:
    from rich.console import Console
    from rich.live import Live

    # What a program prints to a terminal is written above the table; what it prints to a file stays there.
    live = Live(
        meter,
        console=Console(file=stream),
        refresh_per_second=8,
        redirect_stdout=sys.stdout.isatty(),
        redirect_stderr=True,
    )

    def start_or_update(progress: EpochProgress) -> None:
        # Not before the first epoch: until then a program may use the terminal as it likes.
        meter.update(progress)
        if not live.is_started:
            live.start()
        if progress.watermark_ms == MAX_TIMESTAMP:  # the job's end: let the program have the terminal again
            live.stop()

    set_progress_listener(start_or_update)
    try:
        yield
    finally:
        live.stop()


@contextmanager
def _lines(meter: ProgressMeter, stream: TextIO, clock: Clock) -> Iterator[None]:
    written = [-LINE_INTERVAL_S, 0]

    def write_line(now_s: float) -> None:
        text = "  ".join(f"{name} {value}".rstrip() for name, value in meter.fields())
        print(text, file=stream, flush=True)
        written[:] = [now_s, 0]

    def update(progress: EpochProgress) -> None:
        meter.update(progress)
        written[1] = 1
        now_s = clock.monotonic()
        if now_s - written[0] >= LINE_INTERVAL_S or progress.watermark_ms == MAX_TIMESTAMP:
            write_line(now_s)

    set_progress_listener(update)
    try:
        yield
    finally:
        if written[1]:
            write_line(clock.monotonic())
