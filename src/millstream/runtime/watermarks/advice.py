"""What a split's event time means: why it holds the watermark back, and what to configure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from millstream.base.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from millstream.common.watermark_strategy import BoundedOutOfOrderness, WatermarkStrategy
from millstream.operators.column_watermarks import TableWatermarks
from millstream.runtime.control.views import WatermarkFact

__all__ = ["advise", "format_duration", "format_timestamp", "looks_like_seconds"]

_LAGGING_MS = 60_000
_FUTURE_MS = 86_400_000
_QUIET_MS = 5_000
_SET_IDLENESS = "SET 'table.exec.source.idle-timeout' = '1 min'"
_SECONDS_MS = range(100_000_000, 10_000_000_000)
"""Seconds since 1970 of the years 1973 to 2286; as milliseconds they lie in the first months of 1970."""


def advise(
    fact: WatermarkFact,
    strategy: WatermarkStrategy,
    *,
    is_source: bool,
    holds_back: bool,
    ahead_ms: int,
    smallest_window_ms: int | None,
    started_ms: int,
    now_ms: int,
) -> WatermarkFact:
    """Complete a fact: since when, by how much, why and what to do.

    Args:
        fact: What is known.
        strategy: How the operator makes watermarks.
        is_source: Whether the operator is a source.
        holds_back: Whether the job's watermark is this one's.
        ahead_ms: The watermark that is farthest ahead.
        smallest_window_ms: Size of the smallest event-time windows; None if there are none.
        started_ms: Processing time of the job's start.
        now_ms: Processing time.
    """
    behind = None if fact.watermark_ms is None or ahead_ms == MIN_TIMESTAMP else ahead_ms - fact.watermark_ms
    fact = replace(
        fact,
        holds_back=holds_back,
        since_ms=started_ms if fact.advanced_ms is None else fact.advanced_ms,
        behind_ms=behind,
    )
    if not holds_back:
        return fact
    case = _Case(fact, strategy, is_source, smallest_window_ms, now_ms)
    for check in _CHECKS:
        found = check(case)
        if found is not None:
            return replace(fact, reason=found[0], hint=found[1])
    return fact


@dataclass(frozen=True, slots=True)
class _Case:
    fact: WatermarkFact
    strategy: WatermarkStrategy
    is_source: bool
    smallest_window_ms: int | None
    now_ms: int

    @property
    def of_table(self) -> bool:
        """Whether the watermarks are those that a table of SQL declares."""
        return isinstance(self.strategy.generator, TableWatermarks)

    @property
    def silent_ms(self) -> int:
        """How long no record came; since the start if none ever did."""
        since_ms = self.fact.last_record_ms
        if since_ms is None:
            since_ms = self.fact.since_ms or 0
        return max(self.now_ms - since_ms, 0)


_Finding = tuple[str, str] | None


def _no_strategy(case: _Case) -> _Finding:
    if case.strategy.generator is not None:
        return None
    call = "from_source" if case.is_source else "assign_timestamps_and_watermarks"
    return (
        "it makes no watermarks: its strategy is no_watermarks()",
        f"Give {call}(...) a strategy, such as WatermarkStrategy.for_bounded_out_of_orderness("
        "Duration.of_seconds(10)), or call assign_timestamps_and_watermarks(...) behind it.",
    )


def _no_split(case: _Case) -> _Finding:
    if not case.is_source or case.fact.split is not None:
        return None
    said = f"it has {'had ' if case.fact.watermark_ms is None else ''}nothing to read"
    if case.strategy.idle_timeout_ms is not None:
        return (
            said,
            f"It will be idle {format_duration(case.strategy.idle_timeout_ms)} after it had one last, "
            "and hold nothing back.",
        )
    idleness = (
        _SET_IDLENESS if case.of_table else "Add .with_idleness(Duration.of_minutes(1)) to the strategy"
    )
    parallelism = "set the table's 'scan.parallelism'" if case.of_table else "lower its parallelism"
    return (
        said,
        f"{idleness}; or, if the source has fewer splits than subtasks, {parallelism} to their number.",
    )


def _no_timestamps(case: _Case) -> _Finding:
    if case.fact.stamped is not False:
        return None
    if case.of_table:
        return (
            "the event time of its rows is NULL",
            "Check the column that WATERMARK FOR names: the format gives no value for it, or what computes it does.",
        )
    return (
        "its records have no timestamps",
        "Add .with_timestamp_assigner(...) to the strategy.",
    )


def _silent(case: _Case) -> _Finding:
    fact = case.fact
    if case.silent_ms < _QUIET_MS and fact.last_record_ms is not None:
        return None
    said = (
        "it has given no record yet"
        if fact.last_record_ms is None
        else f"it has given no record for {format_duration(case.silent_ms)}"
    )
    timeout_ms = case.strategy.idle_timeout_ms
    if timeout_ms is not None:
        return (
            said,
            f"It will be idle after {format_duration(timeout_ms)} without records, and hold nothing back.",
        )
    idleness = (
        _SET_IDLENESS if case.of_table else "Add .with_idleness(Duration.of_minutes(1)) to the strategy"
    )
    return said, f"{idleness}: splits that are silent for so long are not waited for."


def _in_seconds(case: _Case) -> _Finding:
    event_time_ms = case.fact.event_time_ms
    if event_time_ms is None or not looks_like_seconds(event_time_ms):
        return None
    return (
        f"its largest timestamp is {format_timestamp(event_time_ms)}, as of seconds that are taken for milliseconds; "
        f"as seconds it is {format_timestamp(event_time_ms * 1000)}",
        "Compute the column by TO_TIMESTAMP_LTZ(seconds, 0): with 3 it takes milliseconds."
        if case.of_table
        else "Timestamps are milliseconds since 1970: have the timestamp assigner return seconds * 1000.",
    )


def looks_like_seconds(event_time_ms: int) -> bool:
    """Return whether a timestamp, meant to be milliseconds, is likely to be seconds.

    >>> looks_like_seconds(1_700_000_000), looks_like_seconds(1_700_000_000_000), looks_like_seconds(50_000)
    (True, False, False)
    """
    return event_time_ms in _SECONDS_MS


def _future(case: _Case) -> _Finding:
    event_time_ms = case.fact.event_time_ms
    if event_time_ms is None or event_time_ms <= case.now_ms + _FUTURE_MS:
        return None
    return (
        f"its largest timestamp, {format_timestamp(event_time_ms)}, is in the future",
        "Check what the event-time column is computed of: TO_TIMESTAMP_LTZ(n, 3) takes milliseconds, (n, 0) seconds."
        if case.of_table
        else "Timestamps are milliseconds since 1970: check the unit that the timestamp assigner returns.",
    )


def _bound(case: _Case) -> _Finding:
    generator, size_ms = case.strategy.generator, case.smallest_window_ms
    if not isinstance(generator, BoundedOutOfOrderness) or not size_ms or generator.bound_ms <= size_ms:
        return None
    return (
        f"it trails its records by {format_duration(generator.bound_ms)}, "
        f"more than a window of {format_duration(size_ms)}",
        "Results come so much later than their records: lower the bound of for_bounded_out_of_orderness(...) "
        "and let windows take late records by allowed_lateness(...).",
    )


def _lagging(case: _Case) -> _Finding:
    behind_ms = case.fact.behind_ms
    if behind_ms is None or behind_ms < _LAGGING_MS or not case.is_source:
        return None
    if case.of_table:
        return (
            f"it lags behind others by {format_duration(behind_ms)}",
            "What is ahead waits in windows and joins; more parallelism makes the one behind faster.",
        )
    if case.strategy.alignment is not None:
        return (
            f"it lags behind others by {format_duration(behind_ms)}",
            "Others of its alignment group wait for it; only more parallelism makes it faster.",
        )
    return (
        f"it lags behind others by {format_duration(behind_ms)}",
        'Add .with_watermark_alignment("group", Duration.of_seconds(30)) to the strategies: sources that are '
        "ahead wait, and less state piles up.",
    )


def _generator(case: _Case) -> _Finding:
    fact = case.fact
    silent = fact.advanced_ms is None or (fact.last_record_ms or 0) - fact.advanced_ms >= _QUIET_MS
    if isinstance(case.strategy.generator, BoundedOutOfOrderness):
        if fact.event_time_ms is None or not silent:
            return None
        return (
            f"records come, but none later than {format_timestamp(fact.event_time_ms)}",
            "Check the field that the timestamp assigner returns.",
        )
    if not silent:
        return None
    if case.of_table:
        return (
            f"rows come, but none later than {format_timestamp(fact.event_time_ms)}",
            "Check the column that WATERMARK FOR names, and whether its expression is NULL.",
        )
    return (
        "records come, but its watermark generator emits nothing",
        "Call output.emit_watermark(...) in its on_periodic_emit or on_event, with a timestamp that advances.",
    )


_CHECKS = (
    _no_strategy,
    _no_split,
    _no_timestamps,
    _in_seconds,
    _silent,
    _future,
    _bound,
    _lagging,
    _generator,
)


def format_timestamp(timestamp_ms: int | None) -> str:
    """Return an instant as a user reads it, in UTC.

    >>> format_timestamp(1_357_017_300_000), format_timestamp(1), format_timestamp(None)
    ('2013-01-01 05:15:00', '1970-01-01 00:00:00.001', '-')
    """
    if timestamp_ms is None or timestamp_ms == MIN_TIMESTAMP:
        return "-"
    if timestamp_ms == MAX_TIMESTAMP:
        return "end"
    try:
        instant = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return str(timestamp_ms)
    text = f"{instant:%Y-%m-%d %H:%M:%S}"
    return f"{text}.{timestamp_ms % 1000:03}" if timestamp_ms % 1000 else text


def format_duration(duration_ms: int) -> str:
    """Return a duration as a user reads it.

    >>> format_duration(1_500), format_duration(60_000), format_duration(3_600_000)
    ('1.5 s', '1 min', '1 h')
    """
    for unit, size_ms in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000)):
        if duration_ms >= size_ms:
            return f"{duration_ms / size_ms:.3g} {unit}"
    return f"{duration_ms / 1000:.3g} s"
