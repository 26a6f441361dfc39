"""Event time from a column of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from millstream.base.errors import ConfigurationError, SourceError, TypeMismatchError, shorten

__all__ = ["EventTime", "disorder_ms"]


@dataclass(frozen=True, slots=True)
class EventTime:
    """Says which column holds event time.

    Timestamps and dates are instants, those without a zone in UTC, whatever the zone of the machine; integers are epoch
    milliseconds.

    Attributes:
        column: Its name.
    """

    column: str

    def check(self, schema: Any) -> None:
        """Check that a table has such a column.

        Raises:
            TypeMismatchError: If it is no name.
            ConfigurationError: If the table has none, or it holds something else.
        """
        import pyarrow as pa  # optional: whoever has a schema has it

        if not isinstance(self.column, str):
            raise TypeMismatchError(
                f"timestamp is {shorten(self.column)}", detail="It is the name of the column of event time."
            )
        if schema.get_field_index(self.column) < 0:
            raise ConfigurationError(
                f"there is no column {self.column!r} for event time",
                detail=f"Columns: {', '.join(schema.names)}.",
            )
        kind = schema.field(self.column).type
        if kind == pa.uint64() or not (
            pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_integer(kind)
        ):
            raise ConfigurationError(
                f"column {self.column!r} is of type {kind}, which holds no event time",
                hint="Cast it to a timestamp, a date, or an integer of epoch milliseconds.",
            )

    def stamps(self, table: Any) -> Any:
        """Return the event times of a table or batch in epoch milliseconds, rounded down, int64.

        Raises:
            SourceError: If one is missing.
        """
        import pyarrow as pa  # optional: whoever has a table has it

        column = table.column(self.column)
        if column.null_count:
            raise SourceError(
                f"column {self.column!r} holds event time, and is null in {column.null_count} of {len(column)} rows",
                hint="Leave these rows out, or fill in a time, before the table becomes a stream.",
            )
        if pa.types.is_integer(column.type):
            return column.cast(pa.int64())
        return _milliseconds(column)


def disorder_ms(stamps: Any) -> int:
    """Return how far event times are out of order: by how much one is behind the largest before it, at most.

    >>> import pyarrow as pa
    >>> disorder_ms(pa.chunked_array([[1, 5, 3], [4, 9]]))
    2
    """
    import pyarrow.compute as pc  # optional: whoever has an array has it

    if not len(stamps):
        return 0
    behind = pc.max(pc.subtract(pc.cumulative_max(stamps), stamps)).as_py()
    return int(behind)


def _milliseconds(column: Any) -> Any:
    import pyarrow as pa  # optional: whoever has a table has it
    import pyarrow.compute as pc

    micros = column.cast(pa.timestamp("us")).cast(pa.int64())
    cut = pc.divide(micros, 1000)  # towards zero
    return pc.subtract(cut, pc.less(micros, pc.multiply(cut, 1000)).cast(pa.int64()))
