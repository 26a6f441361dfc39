"""Columns of results as Python values and as texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from millstream.table.expressions.rex import InputRef, RowSchema
from millstream.types.arrow_values import values_of
from millstream.types.datatypes import DataType, VarBinaryType, VarCharType

__all__ = ["python_rows", "text_rows"]


def python_rows(kinds: Any, batch: Any, types: Sequence[DataType]) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Yield kind and values of each row of a batch."""
    count = batch.num_rows
    columns: Iterable[Sequence[Any]] = [values_of(column) for column in batch.columns]
    rows = zip(*columns, strict=True) if batch.num_columns else iter([()] * count)
    yield from zip(_kinds(kinds, count), rows, strict=True)


def text_rows(
    kinds: Any, batch: Any, schema: RowSchema, zone: str
) -> Iterator[tuple[int, tuple[str | None, ...]]]:
    """Yield kind and texts of each row of a batch, as CAST ... AS STRING writes them."""
    count = batch.num_rows
    columns = [
        _texts(batch, place, kind, schema, zone).to_pylist() for place, kind in enumerate(schema.types)
    ]
    rows = zip(*columns, strict=True) if columns else iter([()] * count)
    yield from zip(_kinds(kinds, count), rows, strict=True)


def _kinds(kinds: Any, count: int) -> list[int]:
    return [0] * count if kinds is None else kinds.to_pylist()


def _texts(batch: Any, place: int, kind: DataType, schema: RowSchema, zone: str) -> Any:
    column = batch.column(place)
    if isinstance(kind, VarBinaryType):
        return pa.array(
            [None if value is None else f"x'{value.hex()}'" for value in column.to_pylist()], pa.string()
        )
    if type(kind) is VarCharType or pa.types.is_string(column.type):
        return column
    from millstream.table.expressions.compiling import ExpressionProgram
    from millstream.table.functions.coercion import build_cast
    from millstream.table.functions.kernels.values import Setting

    program = ExpressionProgram((build_cast(InputRef(0, kind), VarCharType()),), RowSchema(("f0",), (kind,)))
    program.open(Setting(zone=zone))
    return program.evaluate(pa.record_batch([column], names=["f0"]))[0]
