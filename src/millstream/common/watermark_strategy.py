"""How a stream gets timestamps and watermarks (PyFlink's `pyflink.common.watermark_strategy`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from millstream.base.errors import ConfigurationError, TypeMismatchError, shorten
from millstream.base.time import MIN_TIMESTAMP, Duration
from millstream.types.row import Row, unpack_rows

__all__ = [
    "FieldTimestamps",
    "HasWatermarkStrategy",
    "TimestampAssigner",
    "WatermarkAlignment",
    "WatermarkGenerator",
    "WatermarkOutput",
    "WatermarkStrategy",
]

_DEFAULT_UPDATE_INTERVAL_MS = 1_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class TimestampAssigner(ABC):
    """Gives a record its event time.

    Example:
        >>> from millstream.common.watermark_strategy import TimestampAssigner, WatermarkStrategy
        >>> class Seconds(TimestampAssigner):
        ...     def extract_timestamp(self, value, record_timestamp):
        ...         return value["unix_seconds"] * 1_000
        >>> strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Seconds())
        >>> strategy.timestamp_assigner.extract_timestamp({"unix_seconds": 12}, record_timestamp=0)
        12000
    """

    @abstractmethod
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        """Return the event time in epoch milliseconds.

        Args:
            value: The record.
            record_timestamp: The timestamp it had before; -2**63 if none.
        """


@dataclass(frozen=True)
class FieldTimestamps(TimestampAssigner):
    """Takes event time from a field: epoch milliseconds, or datetimes (in UTC if they have no zone).

    Attributes:
        field: Its name, in rows, dicts, named tuples, other objects, and columns.

    Example:
        >>> from millstream.common.watermark_strategy import FieldTimestamps
        >>> from datetime import datetime
        >>> FieldTimestamps("at").extract_timestamp({"at": 1_500}, 0)
        1500
        >>> FieldTimestamps("at").extract_timestamp({"at": datetime(1970, 1, 1, 0, 1)}, 0)
        60000
    """

    field: str

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        """Return the field of a record as epoch milliseconds.

        Raises:
            TypeMismatchError: If the record has no such field, or it holds no time.
        """
        try:
            found = value[self.field] if isinstance(value, (Row, Mapping)) else getattr(value, self.field)
        except (AttributeError, KeyError) as error:
            raise TypeMismatchError(
                f"a record of type {type(value).__name__} has no field {self.field!r}: {shorten(value)}",
                detail="Event time is taken from it: with_timestamp_assigner(...) was given its name.",
            ) from error
        if isinstance(found, datetime):
            moment = found.replace(tzinfo=UTC) if found.tzinfo is None else found
            return (moment - _EPOCH) // _MILLISECOND
        if isinstance(found, (int, float)) and not isinstance(found, bool):
            return int(found)
        raise TypeMismatchError(
            f"field {self.field!r} holds no event time: {shorten(found)}",
            detail="Event time is a number of epoch milliseconds, or a datetime.",
        )

    def numbers_of(self, values: Sequence[Any]) -> list[int] | None:
        """Return the fields of many rows with the same names if they are integers; None if that is not certain."""
        packed = unpack_rows(values)
        if packed is None or packed[0] is None or self.field not in packed[0]:
            return None
        place = packed[0].index(self.field)
        try:
            found = [fields[place] for fields in packed[1]]
        except IndexError:  # a row with fewer values than names
            return None
        return found if set(map(type, found)) == {int} else None


class WatermarkOutput(ABC):
    """Where a generator emits watermarks.

    Example:
        >>> from millstream.common.watermark_strategy import WatermarkGenerator, WatermarkOutput
        >>> class Watermarks(WatermarkOutput):
        ...     def __init__(self):
        ...         self.seen = []
        ...     def emit_watermark(self, timestamp_ms):
        ...         self.seen.append(timestamp_ms)
        ...     def mark_idle(self):
        ...         self.seen.append("idle")
        ...     def mark_active(self):
        ...         self.seen.append("active")
        >>> class Highest(WatermarkGenerator):
        ...     highest = 0
        ...     def on_event(self, value, timestamp_ms, output):
        ...         self.highest = max(self.highest, timestamp_ms)
        ...     def on_periodic_emit(self, output):
        ...         output.emit_watermark(self.highest - 1_000)
        >>> generator, output = Highest(), Watermarks()
        >>> generator.on_event("a", 5_000, output); generator.on_event("b", 4_000, output)
        >>> generator.on_periodic_emit(output)
        >>> output.seen
        [4000]
    """

    @abstractmethod
    def emit_watermark(self, timestamp_ms: int) -> None:
        """Emit a watermark; one that does not advance is ignored. The stream is active from then on."""

    @abstractmethod
    def mark_idle(self) -> None:
        """Tell that nobody is to wait for this stream, until its next record or watermark."""

    @abstractmethod
    def mark_active(self) -> None:
        """Tell that the stream counts again."""


class WatermarkGenerator(ABC):
    """Decides when event time advances; one instance for each split of a source.

    `on_event` is called for every record, `on_periodic_emit` at the end of each source range of an epoch.
    A generator that emits in `on_event` is punctuated: its watermarks stand exactly where they were emitted,
    so what is late does not depend on where epochs are cut.

    Example:
        >>> from millstream.common.watermark_strategy import WatermarkGenerator, WatermarkOutput
        >>> from millstream.common import WatermarkStrategy
        >>> class AtMarkers(WatermarkGenerator):
        ...     def on_event(self, value, timestamp_ms, output):
        ...         if value == "end of minute":
        ...             output.emit_watermark(timestamp_ms)
        ...     def on_periodic_emit(self, output):
        ...         pass
        >>> strategy = WatermarkStrategy.for_generator(AtMarkers)
        >>> class Show(WatermarkOutput):
        ...     def emit_watermark(self, timestamp_ms):
        ...         print("nothing at or before", timestamp_ms, "follows")
        ...     def mark_idle(self):
        ...         pass
        ...     def mark_active(self):
        ...         pass
        >>> generator = AtMarkers()
        >>> generator.on_event("reading", 59_000, Show())
        >>> generator.on_event("end of minute", 60_000, Show())
        nothing at or before 60000 follows
    """

    @abstractmethod
    def on_event(self, value: Any, timestamp_ms: int, output: WatermarkOutput) -> None:
        """See a record; may emit."""

    @abstractmethod
    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Emit the present watermark, if any."""


@dataclass(frozen=True)
class BoundedOutOfOrderness:
    """Declares watermarks that trail the largest timestamp by a bound; the watermark is `max - bound - 1`.

    Attributes:
        bound_ms: The bound.
        each_record: Whether there is one behind each record that is the latest so far, not only from time to time.
    """

    bound_ms: int
    each_record: bool = False


@dataclass(frozen=True)
class WatermarkAlignment:
    """Declares that a source does not run ahead of others.

    Attributes:
        group: Sources of the same group are aligned with each other.
        max_drift_ms: How far a split's watermark may be ahead of the group's lowest.
        update_interval_ms: Accepted for compatibility: alignment is decided before each epoch.

    Example:
        >>> from millstream.common import Duration, WatermarkStrategy
        >>> strategy = WatermarkStrategy.for_monotonous_timestamps()
        >>> strategy.with_watermark_alignment("topics", Duration.of_seconds(30)).alignment
        WatermarkAlignment(group='topics', max_drift_ms=30000, update_interval_ms=1000)
    """

    group: str
    max_drift_ms: int
    update_interval_ms: int = _DEFAULT_UPDATE_INTERVAL_MS


@dataclass(frozen=True)
class WatermarkStrategy:
    """How timestamps and watermarks are made; immutable, each `with_…` returns a new one.

    Attributes:
        generator: None for no watermarks, a bound, or a factory of generators.
        timestamp_assigner: Gives timestamps; None keeps those that records have.
        idle_timeout_ms: After so long without records a split no longer holds the watermark back; None never.
        alignment: Keeps a source's splits from running ahead; None lets them.

    Example:
        >>> from millstream.common import Duration, WatermarkStrategy
        >>> strategy = (
        ...     WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(20))
        ...     .with_timestamp_assigner("time_ms")
        ...     .with_idleness(Duration.of_minutes(1))
        ... )
        >>> strategy.idle_timeout_ms
        60000
        >>> from millstream.testing import MiniCluster
        >>> with MiniCluster() as cluster:
        ...     readings = cluster.environment().from_collection([{"time_ms": 1_000, "degrees": 20}])
        ...     cluster.collect(readings.assign_timestamps_and_watermarks(strategy))
        [{'time_ms': 1000, 'degrees': 20}]
    """

    generator: BoundedOutOfOrderness | Callable[[], WatermarkGenerator] | None = None
    timestamp_assigner: TimestampAssigner | None = None
    idle_timeout_ms: int | None = None
    alignment: WatermarkAlignment | None = None

    @staticmethod
    def for_monotonous_timestamps(*, each_record: bool = False) -> WatermarkStrategy:
        """Timestamps never go back.

        Args:
            each_record: See `for_bounded_out_of_orderness`.
        """
        return WatermarkStrategy(BoundedOutOfOrderness(0, each_record))

    @staticmethod
    def for_bounded_out_of_orderness(
        max_out_of_orderness: Duration, *, each_record: bool = False
    ) -> WatermarkStrategy:
        """Records come at most so late.

        Args:
            max_out_of_orderness: The bound.
            each_record: Whether event time advances at each record, as with a generator of your own that emits in
                `on_event`: which records are late depends on their order alone then, and on nothing else. If not, it
                advances from time to time, as in Flink.

        Raises:
            ConfigurationError: If the bound is negative, or no Duration.
        """
        if not hasattr(max_out_of_orderness, "to_milliseconds"):
            raise ConfigurationError(
                f"the bound of out-of-orderness is {max_out_of_orderness!r}, not a Duration",
                hint="Give it a unit: Duration.of_seconds(10).",
            )
        bound_ms = max_out_of_orderness.to_milliseconds()
        if bound_ms < 0:
            raise ConfigurationError(f"the bound of out-of-orderness is negative: {bound_ms} ms")
        return WatermarkStrategy(BoundedOutOfOrderness(bound_ms, each_record))

    @staticmethod
    def for_generator(factory: Callable[[], WatermarkGenerator]) -> WatermarkStrategy:
        """Watermarks from a generator of your own (Java's `forGenerator`).

        Args:
            factory: Called without arguments, once for each split.

        Raises:
            ConfigurationError: If it cannot be called.
        """
        if not callable(factory):
            raise ConfigurationError(
                f"for_generator was given a {type(factory).__name__}",
                hint="Give it a class or function without arguments that returns a WatermarkGenerator.",
            )
        return WatermarkStrategy(factory)

    @staticmethod
    def no_watermarks() -> WatermarkStrategy:
        """No watermarks: for processing time only."""
        return WatermarkStrategy()

    def with_timestamp_assigner(self, timestamp_assigner: TimestampAssigner | str) -> WatermarkStrategy:
        """Take timestamps from records.

        Args:
            timestamp_assigner: Takes them, or the name of the field that holds them: epoch milliseconds, or datetimes
                (in UTC if they have no zone).

        Raises:
            ConfigurationError: If it is neither.
        """
        if isinstance(timestamp_assigner, str):
            timestamp_assigner = FieldTimestamps(timestamp_assigner)
        if not isinstance(timestamp_assigner, TimestampAssigner):
            raise ConfigurationError(
                f"a timestamp assigner of type {type(timestamp_assigner).__name__} was given",
                hint="Derive it from TimestampAssigner and implement extract_timestamp(value, record_timestamp), or "
                "name a field.",
            )
        return replace(self, timestamp_assigner=timestamp_assigner)

    def with_idleness(self, idle_timeout: Duration) -> WatermarkStrategy:
        """Do not wait for splits that are silent for `idle_timeout`.

        Raises:
            ConfigurationError: If it is not positive.
        """
        timeout_ms = idle_timeout.to_milliseconds()
        if timeout_ms <= 0:
            raise ConfigurationError(f"the idle timeout is not positive: {timeout_ms} ms")
        return replace(self, idle_timeout_ms=timeout_ms)

    def with_watermark_alignment(
        self,
        watermark_group: str,
        max_allowed_watermark_drift: Duration,
        update_interval: Duration | None = None,
    ) -> WatermarkStrategy:
        """Do not read splits whose watermark is too far ahead of the lowest in the group.

        Holds for `from_source`: what is held back are ranges of splits, so a split may be ahead by the drift
        and what it reads in one epoch. In `assign_timestamps_and_watermarks` it has no effect, as in Flink.

        Args:
            watermark_group: Sources of the same group are aligned with each other.
            max_allowed_watermark_drift: How far a split may be ahead.
            update_interval: Accepted for compatibility: alignment is decided before each epoch.

        Raises:
            ConfigurationError: If the drift is negative or the interval not positive.
        """
        drift_ms = max_allowed_watermark_drift.to_milliseconds()
        interval_ms = (
            _DEFAULT_UPDATE_INTERVAL_MS if update_interval is None else update_interval.to_milliseconds()
        )
        if drift_ms < 0:
            raise ConfigurationError(f"the drift of watermarks is negative: {drift_ms} ms")
        if interval_ms <= 0:
            raise ConfigurationError(f"the update interval of an alignment is not positive: {interval_ms} ms")
        return replace(self, alignment=WatermarkAlignment(watermark_group, drift_ms, interval_ms))

    def without_watermarks(self) -> WatermarkStrategy:
        """Return what is left of the strategy in batch mode: the timestamps."""
        return replace(self, generator=None, idle_timeout_ms=None, alignment=None)


NO_TIMESTAMP = MIN_TIMESTAMP


class HasWatermarkStrategy(ABC):
    """A source that says itself how watermarks are made: for `add_source`, which is given no strategy.

    Example:
        >>> from millstream.common.watermark_strategy import HasWatermarkStrategy
        >>> from millstream.common import WatermarkStrategy
        >>> class InOrder(HasWatermarkStrategy):
        ...     def watermark_strategy(self):
        ...         return WatermarkStrategy.for_monotonous_timestamps()
        >>> InOrder().watermark_strategy() == WatermarkStrategy.for_monotonous_timestamps()
        True
    """

    @abstractmethod
    def watermark_strategy(self) -> WatermarkStrategy:
        """Return how records get timestamps, and the stream watermarks."""
