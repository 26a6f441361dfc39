"""Rows as the server sends them (texts), made into columns of Arrow."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from typing import Any

from millstream.base.errors import MalformedRecordError, shorten
from millstream.connectors.decimal_text import decimals_of
from millstream.connectors.mysql.relation import Relation
from millstream.types.arrow_types import Form, arrow_type, load_arrow

__all__ = ["WHAT", "RowParser", "schema_of"]

WHAT = "MySQL sources"
"""Who needs pyarrow, for messages."""


def schema_of(relation: Relation) -> Any:
    """Return the Arrow schema of rows."""
    pa = load_arrow(WHAT)
    return pa.schema(
        [
            pa.field(name, arrow_type(each, Form.STORED))
            for name, each in zip(relation.columns, relation.data_types, strict=True)
        ]
    )


class RowParser:
    """Makes record batches of rows of texts.

    Args:
        relation: What they were read of.
    """

    def __init__(self, relation: Relation) -> None:
        self._pa = load_arrow(WHAT)
        self._relation = relation
        self._schema = schema_of(relation)

    def batch(self, rows: Sequence[Sequence[Any]]) -> tuple[Any, tuple[str, ...]]:
        """Return the rows, and the key of the last one, which stands behind its columns.

        Raises:
            MalformedRecordError: If a value does not fit its type; names the column.
        """
        count = len(self._schema)
        columns = list(zip(*rows, strict=True))[:count]
        arrays = [self._array(place, values) for place, values in enumerate(columns)]
        return self._pa.record_batch(arrays, schema=self._schema), tuple(map(str, rows[-1][count:]))

    def _array(self, place: int, values: Sequence[Any]) -> Any:
        pa, kind = self._pa, self._schema.field(place).type
        try:
            return _array_of(pa, values, kind, self._relation.kinds[place].name)
        except (pa.ArrowException, ValueError) as error:
            raise self._misfit(place, values, error) from error

    def _misfit(self, place: int, values: Sequence[Any], error: Exception) -> MalformedRecordError:
        relation = self._relation
        kind = relation.kinds[place]
        return MalformedRecordError(
            f"column {relation.columns[place]!r} of {relation.name}, of type {kind.shown}: "
            f"a value does not fit {relation.data_types[place]}",
            detail=shorten(str(error)),
            hint="Declare a type that holds all values, such as STRING for their text (set_row_type); "
            "or leave such rows out by a query.",
        )


def _array_of(pa: Any, values: Sequence[Any], kind: Any, name: str) -> Any:
    if name == "bit":
        values = [None if value is None else _bits(pa, value, kind) for value in values]
        return pa.array(values, kind)
    if pa.types.is_binary(kind):
        return pa.array([value.encode() if isinstance(value, str) else value for value in values], kind)
    texts = pa.array(values, pa.string())  # bytes are taken if they are UTF-8
    for is_kind, convert in _CONVERSIONS:
        if getattr(pa.types, is_kind)(kind):
            return convert(pa, texts, kind)
    return texts.cast(kind)


def _bits(pa: Any, value: bytes, kind: Any) -> Any:
    if pa.types.is_binary(kind):
        return value
    number = int.from_bytes(value, "big")
    return str(number) if pa.types.is_string(kind) else number != 0 if pa.types.is_boolean(kind) else number


def _booleans(pa: Any, texts: Any, kind: Any) -> Any:
    return texts.cast(pa.int64()).cast(kind)


def _moments(pa: Any, texts: Any, kind: Any) -> Any:
    if kind.tz is None:
        return texts.cast(kind)
    import pyarrow.compute as pc  # optional: whoever has an array has it

    return pc.assume_timezone(texts.cast(pa.timestamp(kind.unit)), "UTC").cast(kind)


def _times(pa: Any, texts: Any, kind: Any) -> Any:
    # MySQL's TIME is a duration too: what is negative or longer than a day does not parse.
    values = texts.to_pylist()
    return pa.array([None if text is None else datetime.time.fromisoformat(text) for text in values], kind)


_CONVERSIONS: list[tuple[str, Callable[[Any, Any, Any], Any]]] = [
    ("is_decimal", decimals_of),
    ("is_boolean", _booleans),
    ("is_time", _times),
    ("is_timestamp", _moments),
]
