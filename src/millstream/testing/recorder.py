"""What an operator under test emits, kept in order."""

from __future__ import annotations

from itertools import repeat
from typing import Any, NamedTuple

from millstream.operators.base import Output
from millstream.spi.batch import Batch, Rows, StreamStatus, Watermark

__all__ = ["Emitted", "Record", "Recorder", "SideRecord"]


class Record(NamedTuple):
    """A record of the main output.

    Attributes:
        value: The record.
        timestamp: Its event time, epoch milliseconds; None if it has none.

    Example:
        >>> from millstream.testing import OperatorHarness
        >>> harness = OperatorHarness(lambda numbers: numbers.map(str))
        >>> harness.push(7, timestamp=1_000)
        >>> harness.take_records()
        [Record(value='7', timestamp=1000)]
    """

    value: Any
    timestamp: int | None = None


class SideRecord(NamedTuple):
    """A record of a side output.

    Attributes:
        tag_id: Id of the side output.
        value: The record.
        timestamp: Its event time, epoch milliseconds; None if it has none.

    Example:
        >>> from millstream.datastream import OutputTag
        >>> from millstream.datastream.functions import ProcessFunction
        >>> from millstream.testing import OperatorHarness
        >>> class Aside(ProcessFunction):
        ...     def process_element(self, value, ctx):
        ...         yield OutputTag("aside"), value
        >>> harness = OperatorHarness(lambda numbers: numbers.process(Aside()))
        >>> harness.push(7, timestamp=1_000)
        >>> harness.take_elements()
        [SideRecord(tag_id='aside', value=7, timestamp=1000)]
    """

    tag_id: str
    value: Any
    timestamp: int | None = None


Emitted = Record | SideRecord | Watermark | StreamStatus


class Recorder(Output):
    """Keeps what is emitted, one element for each record; several subtasks may share one.

    Attributes:
        elements: What was emitted and not taken.
    """

    def __init__(self) -> None:
        self.elements: list[Emitted] = []

    def emit(self, batch: Batch) -> None:
        """Keep a batch of the main output, and the watermarks between its records."""
        self.records_out += len(batch)
        for piece in batch.to_rows().pieces():
            if isinstance(piece, Watermark):
                self.elements.append(piece)
            else:
                self.elements += map(Record, piece.values, _stamps(piece))

    def emit_side(self, tag_id: str, batch: Batch) -> None:
        """Keep a batch of a side output."""
        self.records_out += len(batch)
        rows = batch.to_rows()
        self.elements += map(SideRecord, repeat(tag_id), rows.values, _stamps(rows))

    def emit_watermark(self, timestamp_ms: int) -> None:
        """Keep a watermark."""
        self.elements.append(Watermark(timestamp_ms))

    def emit_status(self, status: StreamStatus) -> None:
        """Keep a change of status."""
        self.elements.append(status)

    def take(self, kind: type[Any] | None = None) -> list[Any]:
        """Return what was emitted, of one kind or all, and forget it."""
        taken = [each for each in self.elements if kind is None or isinstance(each, kind)]
        self.elements = [each for each in self.elements if kind is not None and not isinstance(each, kind)]
        return taken


def _stamps(batch: Rows) -> list[Any]:
    if batch.timestamps is None:
        return [None] * len(batch)
    assert len(batch.timestamps) == len(batch), f"{len(batch)} values with {len(batch.timestamps)} timestamps"
    return list(batch.timestamps)
