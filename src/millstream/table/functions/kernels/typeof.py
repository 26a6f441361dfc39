"""TYPEOF: a type as Flink writes it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from millstream.table.functions.kernels.values import Factory, Kernel
from millstream.types import datatypes as t

__all__ = ["KERNELS", "type_text"]


def type_text(kind: t.DataType) -> str:
    """Return a type as Flink writes it: with fields of rows in backquotes.

    >>> type_text(t.RowType([t.RowField("a", t.IntType())]))
    'ROW<`a` INT>'
    """
    tail = "" if kind.nullable else " NOT NULL"
    if isinstance(kind, t.RowType) and type(kind) is t.RowType:
        fields = ", ".join(f"`{each.name}` {type_text(each.data_type)}" for each in kind.fields)
        return f"ROW<{fields}>{tail}"
    if isinstance(kind, t.MapType):
        return f"MAP<{type_text(kind.key_type)}, {type_text(kind.value_type)}>{tail}"
    if isinstance(kind, t.VarBinaryType) and kind.length == t.VarBinaryType.MAX_LENGTH:
        return f"BYTES{tail}"
    element = getattr(kind, "element_type", None)
    return f"{kind.name}<{type_text(element)}>{tail}" if isinstance(element, t.DataType) else str(kind)


def _typeof(call: Any) -> Kernel:
    text = pa.scalar(type_text(call.operands[0].type))
    return lambda setting, count, *values: text


KERNELS: dict[str, Factory] = {"TYPEOF": _typeof}
