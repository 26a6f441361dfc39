"""Records how the main job runs, epoch by epoch: for the report, and for the figures it ends with.

The engine tells how far a job is after each epoch; nothing here is computed from the flights themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from millstream.base.clock import Clock, SystemClock
from millstream.base.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from millstream.graph.launcher import EpochProgress, current_progress_listener, set_progress_listener

MOST_SPANS = 256
WARM_UP = 0.25


@dataclass(frozen=True, slots=True)
class Span:
    """One epoch, or several in a row of a long run.

    Attributes:
        first: Number of the first epoch.
        last: Number of the last epoch.
        begin_s: When the first began, in seconds since the job's first epoch did.
        end_s: When the last ended.
        busy_s: What the epochs took: without the time between them in which there was nothing to do.
        records: Records that were read.
        total: Records that were read so far.
        event_time_ms: Largest timestamp so far; None before the first.
        watermark_ms: Lowest watermark of the subtasks; None before the first and when event time has ended.
    """

    first: int
    last: int
    begin_s: float
    end_s: float
    busy_s: float
    records: int
    total: int
    event_time_ms: int | None
    watermark_ms: int | None

    @property
    def records_per_second(self) -> float:
        """Records read, by the seconds from begin to end."""
        seconds = self.end_s - self.begin_s
        return self.records / seconds if seconds > 0 else 0.0

    @property
    def trail_ms(self) -> int | None:
        """How far the watermark was behind the largest timestamp."""
        if self.event_time_ms is None or self.watermark_ms is None:
            return None
        return self.event_time_ms - self.watermark_ms

    def followed_by(self, other: Span) -> Span:
        """Return both as one."""
        return replace(
            other,
            first=self.first,
            begin_s=self.begin_s,
            busy_s=self.busy_s + other.busy_s,
            records=self.records + other.records,
        )


@dataclass
class Run:
    """What was told of a job: all epochs of its last attempt, in few enough spans to be drawn.

    Attributes:
        spans: In order.
        restarts: How often the job began anew after a failure; spans are those since then.
        start_s: Seconds from the job's submission to its first epoch; None before that.
    """

    spans: list[Span] = field(default_factory=list)
    restarts: int = 0
    start_s: float | None = None

    def add(self, progress: EpochProgress) -> None:
        """Take what is told after an epoch."""
        before = self.spans[-1] if self.spans else None
        if before is not None and _is_anew(progress, before):
            self.restarts += 1
            self.spans.clear()
            before = None
        self.spans.append(
            Span(
                first=progress.epoch,
                last=progress.epoch,
                begin_s=max(progress.elapsed_s - progress.epoch_s, 0.0 if before is None else before.end_s),
                end_s=progress.elapsed_s,
                busy_s=progress.epoch_s,
                records=progress.records_in - (0 if before is None else before.total),
                total=progress.records_in,
                event_time_ms=_instant(progress.event_time_ms),
                watermark_ms=_instant(progress.watermark_ms),
            )
        )
        if len(self.spans) > MOST_SPANS:
            pairs = zip(self.spans[::2], self.spans[1::2], strict=False)
            odd = self.spans[-1:] if len(self.spans) % 2 else []
            self.spans = [*(one.followed_by(other) for one, other in pairs), *odd]

    @property
    def epochs(self) -> int:
        """Number of epochs."""
        return sum(span.last - span.first + 1 for span in self.spans)

    @property
    def records(self) -> int:
        """Records that were read."""
        return self.spans[-1].total if self.spans else 0

    def steady(self) -> list[Span]:
        """Return the spans in which the job ran: its first quarter read, until nothing more came."""
        warm = self.records * WARM_UP
        after = [span for span in self.spans if span.total - span.records >= warm]
        while after and not after[-1].records:
            after.pop()
        return after

    def steady_rate(self) -> float | None:
        """Return the records a second once the job ran, by the time in epochs; None if it was too short."""
        steady = self.steady()
        seconds = sum(span.busy_s for span in steady)
        return sum(span.records for span in steady) / seconds if seconds > 0 else None


@contextmanager
def recording(clock: Clock | None = None) -> Iterator[Run]:
    """Record the jobs that are submitted inside; whoever is told of epochs already still is.

    Args:
        clock: Tells how long the start takes.
    """
    clock = clock or SystemClock()
    run = Run()
    before = current_progress_listener()
    submitted_s = clock.monotonic()

    def listen(progress: EpochProgress) -> None:
        if run.start_s is None:
            run.start_s = clock.monotonic() - progress.elapsed_s - submitted_s
        run.add(progress)
        if before is not None:
            before(progress)

    set_progress_listener(listen)
    try:
        yield run
    finally:
        set_progress_listener(before)


def _is_anew(progress: EpochProgress, before: Span) -> bool:
    return (
        progress.epoch <= before.last
        or progress.elapsed_s < before.end_s
        or progress.records_in < before.total
    )


def _instant(timestamp_ms: int | None) -> int | None:
    """Return an instant of event time; None for its begin and its end, which are no instants."""
    if timestamp_ms is None or not MIN_TIMESTAMP < timestamp_ms < MAX_TIMESTAMP:
        return None
    return timestamp_ms
