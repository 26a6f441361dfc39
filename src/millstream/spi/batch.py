"""What flows between operators.

A **batch** is one object, in one of two forms: `Rows`, a list of Python objects with a parallel list of timestamps, or
`Columns`, the same as Arrow has it. Batches and **watermarks** travel in one list, in order. Watermarks stand between
batches, or between the records of one as columns of the batch: what a generator emits at each record does not cut the
stream into pieces::

    [Rows([a, b], [5, 3]), Watermark(4), Rows([c], [9]), IDLE]
    [Rows([a, b, c], [5, 3, 9], Marks([2], [4])), IDLE]            the same

Operators take and give whole batches. Rows and their lists belong to the receiver, who may keep or change them;
columns never change, and are shared. Which operators take columns their specs say (`takes_columns`): all others get
rows, whatever was emitted. Jobs without columns never import pyarrow.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import repeat
from pickle import PickleBuffer
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from millstream.base.errors import TypeMismatchError
from millstream.types.row import RowKind

if TYPE_CHECKING:
    import pyarrow

__all__ = [
    "ACTIVE",
    "IDLE",
    "Batch",
    "Columns",
    "Element",
    "LatencyMarker",
    "Marks",
    "Rows",
    "StreamStatus",
    "Watermark",
    "column_of",
    "concat_columns",
]


class Marks(NamedTuple):
    """Watermarks between the records of a batch: two columns of the same length, both in ascending order.

    Attributes:
        positions: How many of the records come before each; several watermarks may be in one place.
        watermarks: The watermarks, epoch milliseconds.
    """

    positions: list[int]
    watermarks: list[int]

    def part(self, start: int, stop: int) -> Marks | None:
        """Return those between the records `[start, stop)`, as of a batch of these records; None if there are none.

        A watermark between two parts belongs to the one before it.
        """
        positions = self.positions
        first = bisect_right(positions, start) if start else 0
        end = bisect_right(positions, stop)
        if first == end:
            return None
        return Marks([position - start for position in positions[first:end]], self.watermarks[first:end])

    def behind(self, index: int) -> Marks | None:
        """Return those after the one with an index, as of a batch of the records behind it; None if there are none."""
        start = self.positions[index]
        positions = [position - start for position in self.positions[index + 1 :]]
        return Marks(positions, self.watermarks[index + 1 :]) if positions else None


class _Marked(ABC):
    """What both forms of a batch do with the watermarks between their records."""

    __slots__ = ("marks",)
    marks: Marks | None

    @abstractmethod
    def __len__(self) -> int:
        """Return how many records there are."""

    @abstractmethod
    def unmarked(self) -> Self:
        """Return the same records without the watermarks between them."""

    @abstractmethod
    def cut(self, start: int, stop: int) -> Self:
        """Take records out, with the watermarks between them; the whole is the batch itself."""

    @property
    def last_mark_ms(self) -> int:
        """The last watermark between the records; there must be one."""
        assert self.marks is not None, "a batch without watermarks between its records"
        return self.marks.watermarks[-1]

    def pieces(self) -> list[Self | Watermark]:
        """Take the batch apart: records and the watermarks between them, in order."""
        if self.marks is None:
            return [self]
        whole, count, start = self.unmarked(), len(self), 0
        pieces: list[Self | Watermark] = []
        for position, watermark_ms in zip(*self.marks, strict=True):
            if position > start:
                pieces.append(whole.cut(start, position))
                start = position
            pieces.append(Watermark(watermark_ms))
        if start < count:
            pieces.append(whole.cut(start, count))
        return pieces

    def behind(self, index: int, count: int) -> Self:
        """Take out what is behind one of the watermarks between the records: records and further watermarks.

        Args:
            index: Of the watermark.
            count: How many records the batch has; who got the first ones may have put more behind them.
        """
        assert self.marks is not None, "a batch without watermarks between its records"
        rest = self.unmarked().cut(self.marks.positions[index], count)
        rest.marks = self.marks.behind(index)
        return rest


class Rows(_Marked):
    """Records that are processed together, as a list of Python objects.

    Args:
        values: The records, in order.
        timestamps: Event time of each in epoch milliseconds, or None if they have none.
        marks: Watermarks between them, or None if there are none.

    Attributes:
        smallest_slice: So few records are worth a call.

    Example:
        >>> from millstream.datastream.connectors.base import Rows
        >>> rows = Rows(["a", "b"], [1_000, 2_000])
        >>> rows.values, rows.timestamps
        (['a', 'b'], [1000, 2000])
    """

    __slots__ = ("timestamps", "values")
    smallest_slice = 1

    def __init__(
        self, values: list[Any], timestamps: list[int] | None = None, marks: Marks | None = None
    ) -> None:
        self.values = values
        self.timestamps = timestamps
        self.marks = marks

    def __len__(self) -> int:
        return len(self.values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rows) and self._parts() == other._parts()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Rows{self._parts()!r}"

    def __reduce__(self) -> Any:
        return Rows, self._parts()

    def _parts(self) -> tuple[list[Any], list[int] | None, Marks | None]:
        return self.values, self.timestamps, self.marks

    def to_rows(self) -> Rows:
        """Return the batch itself."""
        return self

    def unmarked(self) -> Rows:
        """Return the same records, in the same lists, without the watermarks between them."""
        return Rows(self.values, self.timestamps)

    def cut(self, start: int, stop: int) -> Rows:
        """Take records out, with the watermarks between them; the whole is the batch itself.

        The batch no longer refers to the values that were taken out: what is in the part stays its holder's alone.
        """
        values, timestamps, marks = self.values, self.timestamps, self.marks
        if start == 0 and stop >= len(values):
            return self
        part = values[start:stop]
        values[start:stop] = repeat(None, len(part))
        return Rows(
            part,
            None if timestamps is None else timestamps[start:stop],
            None if marks is None else marks.part(start, stop),
        )


class Columns(_Marked):
    """Records that are processed together, as Arrow has them; never changed, so one batch may have many readers.

    Args:
        data: The records. They are rows with the schema's names, or the bare values of the only column
            (`types.arrow_values.bare_schema`).
        timestamps: Event time of each in epoch milliseconds, an int64 array without null; None if they have none.
        kinds: Kind of each row, an int8 array of values of `RowKind`; None if all are inserted.
        marks: Watermarks between them, or None if there are none.

    Attributes:
        smallest_slice: A call for fewer records than this costs about as much as one for so many.

    Example:
        >>> import pyarrow
        >>> from millstream.datastream.connectors.base import Columns
        >>> batch = pyarrow.record_batch({"shop": ["Bonn", "Ulm"], "cents": [250, 120]})
        >>> Columns(batch).to_rows().values
        [Row(shop='Bonn', cents=250), Row(shop='Ulm', cents=120)]
    """

    __slots__ = ("data", "kinds", "timestamps")
    smallest_slice = 4_096

    def __init__(
        self,
        data: pyarrow.RecordBatch,
        timestamps: pyarrow.Int64Array | None = None,
        kinds: pyarrow.Int8Array | None = None,
        marks: Marks | None = None,
    ) -> None:
        self.data = data
        self.timestamps = timestamps
        self.kinds = kinds
        self.marks = marks

    @staticmethod
    def from_rows(rows: Rows, schema: pyarrow.Schema | None = None) -> Columns:
        """Make columns of records: Rows, named tuples or dicts of the same names, tuples, or bare values.

        Args:
            rows: The records; those of a batch without any have no columns unless there is a schema.
            schema: Names and types; None takes the records' names (tuples have f0, f1, ...) and what types their
                values have.

        Raises:
            ConfigurationError: If pyarrow is not installed.
            TypeMismatchError: If the records do not fit the schema or each other; names the column.
        """
        from millstream.types.arrow_records import batch_of, int64_array, kinds_of

        data = batch_of(rows.values, schema)
        timestamps = None if rows.timestamps is None else int64_array(rows.timestamps)
        return Columns(data, timestamps, kinds_of(rows.values), rows.marks)

    def __len__(self) -> int:
        return int(self.data.num_rows)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Columns)
            and self.data.equals(other.data, check_metadata=True)
            and (self.timestamps, self.kinds, self.marks) == (other.timestamps, other.kinds, other.marks)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Columns of {len(self)} records: {', '.join(self.data.schema.names)}"

    def __reduce_ex__(self, protocol: Any) -> Any:
        from millstream.types.arrow_records import dump_batch

        extra = [each for each in (self.timestamps, self.kinds) if each is not None]
        has = (self.timestamps is not None, self.kinds is not None)
        dumped = dump_batch(self.data, extra)
        return _load_columns, (PickleBuffer(dumped) if protocol >= 5 else bytes(dumped), *has, self.marks)

    @property
    def nbytes(self) -> int:
        """How many bytes the records take."""
        return sum(each.nbytes for each in (self.data, self.timestamps, self.kinds) if each is not None)

    def to_rows(self) -> Rows:
        """Make Python objects of the records, column by column; they are the caller's alone."""
        from millstream.types.arrow_values import records_of

        values = records_of(self.data)
        if self.kinds is not None:
            for place, kind in enumerate(self.kinds.to_pylist()):
                if kind:
                    values[place].set_row_kind(RowKind(kind))
        return Rows(values, None if self.timestamps is None else self.timestamps.to_pylist(), self.marks)

    def unmarked(self) -> Columns:
        """Return the same records without the watermarks between them."""
        return Columns(self.data, self.timestamps, self.kinds)

    def slice(self, start: int, stop: int) -> Columns:
        """Return some of the records, with the watermarks between them; nothing is copied."""
        count = stop - start
        return Columns(
            self.data.slice(start, count),
            None if self.timestamps is None else self.timestamps.slice(start, count),
            None if self.kinds is None else self.kinds.slice(start, count),
            None if self.marks is None else self.marks.part(start, stop),
        )

    def cut(self, start: int, stop: int) -> Columns:
        """Return some of the records, as `slice` does; the whole is the batch itself."""
        return self if start == 0 and stop >= len(self) else self.slice(start, stop)

    def take(self, indices: Any) -> Columns:
        """Return the records in some places, without the watermarks between them.

        Args:
            indices: The places, an array of integers.
        """
        return Columns(
            self.data.take(indices),
            None if self.timestamps is None else self.timestamps.take(indices),
            None if self.kinds is None else self.kinds.take(indices),
        )


def column_of(batch: Columns, field: str, use: str = "") -> Any:
    """Return the column of a field of the records.

    Args:
        batch: The records.
        field: The field's name.
        use: What it is wanted for, for the message: ` for the key`.

    Raises:
        TypeMismatchError: If they have no such field.
    """
    place = batch.data.schema.get_field_index(field)
    if place < 0:
        raise TypeMismatchError(
            f"the records have no field {field!r}{use}",
            detail=f"They have: {', '.join(batch.data.schema.names)}.",
        )
    return batch.data.column(place)


def concat_columns(batches: Sequence[Columns]) -> Columns:
    """Return batches as one, with the watermarks between their records.

    Args:
        batches: At least one; all of the same schema, all with timestamps or none, all with kinds or none.
    """
    from millstream.types.arrow_records import concat_batches

    extra = [
        None if getattr(batches[0], name) is None else [getattr(each, name) for each in batches]
        for name in ("timestamps", "kinds")
    ]
    whole = Columns(*concat_batches([each.data for each in batches], extra))
    whole.marks = _concat_marks(batches)
    return whole


def _concat_marks(batches: Sequence[Columns]) -> Marks | None:
    positions: list[int] = []
    watermarks: list[int] = []
    before = 0
    for batch in batches:
        if batch.marks is not None:
            positions += [before + position for position in batch.marks.positions]
            watermarks += batch.marks.watermarks
        before += len(batch)
    return Marks(positions, watermarks) if positions else None


def _load_columns(dumped: bytes, stamped: bool, has_kinds: bool, marks: Marks | None) -> Columns:
    from millstream.types.arrow_records import load_batch

    data, extra = load_batch(dumped, stamped + has_kinds)
    timestamps = extra.pop(0) if stamped else None
    return Columns(data, timestamps, extra.pop() if has_kinds else None, marks)


Batch = Rows | Columns


@dataclass(frozen=True, slots=True)
class Watermark:
    """Nothing with a timestamp at or before `timestamp_ms` is expected any more.

    Example:
        >>> from millstream.testing import OperatorHarness, Watermark
        >>> harness = OperatorHarness(lambda numbers: numbers.map(str))
        >>> harness.push_watermark(1_000)
        >>> harness.take_elements()
        [Watermark(timestamp_ms=1000)]
    """

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class LatencyMarker:
    """Tells those that it reaches how long records take from a source.

    Attributes:
        marked_ms: When the source put it between its records, epoch milliseconds of the wall clock.
        operator_id: The source.
        subtask: The source's subtask.
    """

    marked_ms: int
    operator_id: str
    subtask: int


class StreamStatus(Enum):
    """Whether a channel counts when watermarks are combined.

    Example:
        >>> from millstream.testing import OperatorHarness, StreamStatus
        >>> harness = OperatorHarness(lambda numbers: numbers.map(str))
        >>> harness.push_idle()
        >>> harness.take_elements()
        [<StreamStatus.IDLE: 'idle'>]
    """

    ACTIVE = "active"
    IDLE = "idle"


ACTIVE = StreamStatus.ACTIVE
IDLE = StreamStatus.IDLE

Element = Rows | Columns | Watermark | StreamStatus | LatencyMarker
