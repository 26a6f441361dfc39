"""Stable texts of operators: the same for the same operator of the same query, in every process and version.

What state does not depend on is left out of uids: names of columns (but of a table's own, as places in it may change),
options of tables, whether a table has an end.
"""

from __future__ import annotations

import hashlib
from dataclasses import fields
from enum import Enum
from typing import Any

from millstream.table.expressions.rex import RowSchema
from millstream.table.plan import physical as p
from millstream.types.datatypes import DataType

__all__ = ["digest", "exact_digest", "uid_of"]


def digest(node: p.PhysicalNode) -> str:
    """Return a text that tells an operator with all below it from others."""
    return _text(node, exact=False)


def exact_digest(node: Any) -> str:
    """Return a text that is the same only for what is the same in this process: options of tables, functions."""
    return _text(node, exact=True)


def uid_of(node: p.PhysicalNode) -> str:
    """Return a uid of an operator: its kind, and a hash of what it and those below it do."""
    if isinstance(node, p.ProcessTableNode) and node.clause.keyed:
        return f"ProcessTableFunction-{node.clause.uid}"  # its state outlives changes of the query around it
    found = hashlib.sha256(digest(node).encode()).hexdigest()[:16]
    return f"{type(node).__name__}-{found}"


def _text(value: Any, *, exact: bool) -> str:
    if isinstance(value, p.TableScan) and not exact:
        names = ",".join(value.table.schema.names[place] for place in value.columns)
        mode = _text(value.mode, exact=exact)
        return f"TableScan({_text(value.table, exact=exact)}, {names}, {_text(value.schema, exact=exact)}, {mode})"
    if hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        if type(value).__name__ == "ResolvedTable":
            name = f"table({'.'.join(value.identifier)})"
            return f"{name}{sorted(value.options.items())}" if exact else name
        if isinstance(value, RowSchema):
            return _schema(value, exact=exact)
        parts = [f"{each.name}={_text(getattr(value, each.name), exact=exact)}" for each in fields(value)]
        return f"{type(value).__name__}({', '.join(parts)})"
    if isinstance(value, DataType):
        return str(value)
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(_text(each, exact=exact) for each in value)}]"
    if isinstance(value, (frozenset, set)):
        return f"{{{', '.join(sorted(_text(each, exact=exact) for each in value))}}}"
    if value is None or isinstance(value, (str, int, float, bool, bytes)):
        return repr(value)
    return _text_of_object(value, exact=exact)


def _text_of_object(value: Any, *, exact: bool) -> str:
    """Return the text of a function, a class, or a value of a program."""
    if exact:
        return (
            f"{type(value).__name__}@{id(value)}" if callable(value) or not _is_value(value) else repr(value)
        )
    shown = getattr(value, "name", None) or getattr(value, "__qualname__", None)
    if shown or not _is_value(value):  # an object of a function's class has its address for a text
        return f"{type(value).__name__}:{shown or ''}"
    return f"{type(value).__name__}:{value}"


def _schema(schema: RowSchema, *, exact: bool) -> str:
    if exact:
        return ",".join(f"{name} {kind}" for name, kind in zip(schema.names, schema.types, strict=True))
    return ",".join(map(str, schema.types))


def _is_value(value: Any) -> bool:
    """Whether an object is told from others by its text: a decimal, a date; not one with its address for a text."""
    return " at 0x" not in repr(value)
