"""Rows as the connector `print` shows them: `+I[1, a, 2020-01-01T10:00]`, each value as its Java class prints it."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from millstream.operators.base import Operator, OperatorSpec
from millstream.spi.batch import Batch, Columns, Rows
from millstream.types import datatypes as sql
from millstream.types.java_text import double_text, float_text

__all__ = ["RowTextSpec", "value_text"]

_KINDS = ("+I", "-U", "+U", "-D")


@dataclass(frozen=True)
class RowTextSpec(OperatorSpec):
    """Declares that columns of SQL become the texts of their rows.

    Attributes:
        types: Of the columns.
    """

    types: tuple[sql.DataType, ...]
    takes_columns = True
    acts_on_time = False

    def build(self) -> Operator:
        """Make the running half."""
        return _RowText(self.types)


class _RowText(Operator):
    def __init__(self, types: tuple[sql.DataType, ...]) -> None:
        self._texts = [_text_of(kind) for kind in types]

    def process(self, batch: Batch) -> None:
        """Convert a batch."""
        assert isinstance(batch, Columns), "streams of SQL are columns"
        count = len(batch)
        columns = [
            ["null" if value is None else text(value) for value in column.to_pylist()]
            for text, column in zip(self._texts, batch.data.columns, strict=True)
        ]
        kinds = [0] * count if batch.kinds is None else batch.kinds.to_pylist()
        rows = zip(*columns, strict=True) if columns else iter([()] * count)
        self.output.emit(
            Rows([f"{_KINDS[kind]}[{', '.join(row)}]" for kind, row in zip(kinds, rows, strict=True)])
        )


def value_text(value: Any, kind: sql.DataType) -> str:
    """Return a value as its Java class prints it.

    >>> value_text(1e10, sql.DoubleType()), value_text(None, sql.IntType())
    ('1.0E10', 'null')
    """
    return "null" if value is None else _text_of(kind)(value)


def _text_of(kind: sql.DataType) -> Callable[[Any], str]:
    if isinstance(kind, sql.RowType):
        parts = [(field.name, _text_of(field.data_type)) for field in kind.fields]
        return lambda value: f"+I[{', '.join(_or_null(value[name], text) for name, text in parts)}]"
    if isinstance(kind, sql.ArrayType):
        element = _text_of(kind.element_type)
        return lambda value: f"[{', '.join(_or_null(part, element) for part in value)}]"
    if isinstance(kind, sql.MapType):
        key, item = _text_of(kind.key_type), _text_of(kind.value_type)
        return lambda value: f"{{{', '.join(f'{_or_null(k, key)}={_or_null(v, item)}' for k, v in value)}}}"
    if isinstance(kind, sql.FloatType):
        return float_text
    if isinstance(kind, sql.DoubleType):
        return double_text
    if isinstance(kind, sql.BooleanType):
        return lambda value: "true" if value else "false"
    if isinstance(kind, sql.VarBinaryType):
        return lambda value: f"[{', '.join(str(byte - 256 if byte > 127 else byte) for byte in value)}]"
    if isinstance(kind, sql.LocalZonedTimestampType):
        return lambda value: _instant(value.astimezone(datetime.UTC).replace(tzinfo=None))
    return _PLAIN.get(type(kind), str)


def _or_null(value: Any, text: Callable[[Any], str]) -> str:
    return "null" if value is None else text(value)


def _clock(value: datetime.time | datetime.datetime) -> str:
    text = f"{value.hour:02d}:{value.minute:02d}"
    if value.second or value.microsecond:
        text += f":{value.second:02d}"
    if value.microsecond:
        fraction = f"{value.microsecond:06d}"
        text += f".{fraction[:3] if fraction.endswith('000') else fraction}"
    return text


def _moment(value: datetime.datetime) -> str:
    return f"{value.date().isoformat()}T{_clock(value)}"


def _instant(value: datetime.datetime) -> str:
    """Return a moment as Java's Instant prints it: with seconds, always."""
    text = _moment(value)
    return f"{text if value.second or value.microsecond else f'{text}:00'}Z"


def _decimal(value: decimal.Decimal) -> str:
    return f"{value:f}"


_PLAIN: dict[type[sql.DataType], Callable[[Any], str]] = {
    sql.DecimalType: _decimal,
    sql.TimestampType: _moment,
    sql.TimeType: _clock,
}
