"""How a stream gets timestamps and watermarks (PyFlink's `pyflink.common.watermark_strategy`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from millstream.common.errors import ConfigurationError
from millstream.common.time import MIN_TIMESTAMP, Duration

__all__ = ["TimestampAssigner", "WatermarkGenerator", "WatermarkOutput", "WatermarkStrategy"]


class TimestampAssigner(ABC):
    """Gives a record its event time."""

    @abstractmethod
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        """Return the event time in epoch milliseconds.

        Args:
            value: The record.
            record_timestamp: The timestamp it had before; -2**63 if none.
        """


class WatermarkOutput(ABC):
    """Where a generator emits watermarks."""

    @abstractmethod
    def emit_watermark(self, timestamp_ms: int) -> None:
        """Emit a watermark; one that does not advance is ignored."""


class WatermarkGenerator(ABC):
    """Decides when event time advances; one instance for each split of a source.

    `on_event` is called for every record, `on_periodic_emit` at the end of each source range of an epoch.
    A generator that emits in `on_event` is punctuated: its watermarks stand exactly where they were emitted,
    so what is late does not depend on where epochs are cut.
    """

    @abstractmethod
    def on_event(self, value: Any, timestamp_ms: int, output: WatermarkOutput) -> None:
        """See a record; may emit."""

    @abstractmethod
    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Emit the present watermark, if any."""


@dataclass(frozen=True)
class BoundedOutOfOrderness:
    """Declares watermarks that trail the largest timestamp by a bound; the watermark is `max - bound - 1`."""

    bound_ms: int


@dataclass(frozen=True)
class WatermarkStrategy:
    """How timestamps and watermarks are made; immutable, each `with_…` returns a new one.

    Attributes:
        generator: None for no watermarks, a bound, or a factory of generators.
        timestamp_assigner: Gives timestamps; None keeps those that records have.
        idle_timeout_ms: After so long without records a split no longer holds the watermark back; None never.
    """

    generator: BoundedOutOfOrderness | Callable[[], WatermarkGenerator] | None = None
    timestamp_assigner: TimestampAssigner | None = None
    idle_timeout_ms: int | None = None

    @staticmethod
    def for_monotonous_timestamps() -> WatermarkStrategy:
        """Timestamps never go back."""
        return WatermarkStrategy(BoundedOutOfOrderness(0))

    @staticmethod
    def for_bounded_out_of_orderness(max_out_of_orderness: Duration) -> WatermarkStrategy:
        """Records come at most so late.

        Raises:
            ConfigurationError: If the bound is negative.
        """
        bound_ms = max_out_of_orderness.to_milliseconds()
        if bound_ms < 0:
            raise ConfigurationError(f"the bound of out-of-orderness is negative: {bound_ms} ms")
        return WatermarkStrategy(BoundedOutOfOrderness(bound_ms))

    @staticmethod
    def for_generator(factory: Callable[[], WatermarkGenerator]) -> WatermarkStrategy:
        """Watermarks from a generator of your own (Java's `forGenerator`); `factory` is called for each split."""
        return WatermarkStrategy(factory)

    @staticmethod
    def no_watermarks() -> WatermarkStrategy:
        """No watermarks: for processing time only."""
        return WatermarkStrategy()

    def with_timestamp_assigner(self, timestamp_assigner: TimestampAssigner) -> WatermarkStrategy:
        """Take timestamps from records.

        Raises:
            ConfigurationError: If it is not a TimestampAssigner.
        """
        if not isinstance(timestamp_assigner, TimestampAssigner):
            raise ConfigurationError(
                f"a timestamp assigner of type {type(timestamp_assigner).__name__} was given",
                hint="Derive it from TimestampAssigner and implement extract_timestamp(value, record_timestamp).",
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


NO_TIMESTAMP = MIN_TIMESTAMP
