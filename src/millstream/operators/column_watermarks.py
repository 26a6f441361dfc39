"""Watermarks of whole batches: what a generator is that looks at columns, and not at one record after the other."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple

from millstream.common.watermark_strategy import WatermarkGenerator, WatermarkOutput
from millstream.spi.batch import Columns

__all__ = ["BatchTimes", "ColumnWatermarks", "TableWatermarks"]


class BatchTimes(NamedTuple):
    """What is known of a batch's event time, in epoch milliseconds; None if no record has any.

    Attributes:
        latest_ms: Its latest event time.
        watermark_ms: The watermark behind it.
    """

    latest_ms: int | None
    watermark_ms: int | None


class ColumnWatermarks(WatermarkGenerator):
    """A generator that is shown batches; there is a watermark behind each.

    It keeps nothing: how far event time has come knows who asks it.
    """

    @abstractmethod
    def times_of(self, columns: Columns) -> BatchTimes:
        """Return the event time of a batch."""

    def on_event(self, value: Any, timestamp_ms: int, output: WatermarkOutput) -> None:
        """Never called: it is shown batches."""
        raise AssertionError("a generator of watermarks of batches was shown a record")

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Emit nothing: the watermark is behind the last batch already."""


class TableWatermarks:
    """Base of what makes the generators of SQL tables: their watermarks are what WATERMARK FOR says."""

    def __call__(self) -> ColumnWatermarks:
        """Return a generator for one split."""
        raise NotImplementedError(f"{type(self).__name__} makes no generators")
