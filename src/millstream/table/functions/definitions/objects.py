"""Structured objects: OBJECT_OF makes one, OBJECT_UPDATE another with some fields changed."""

from __future__ import annotations

from collections.abc import Sequence

from millstream.table.expressions.rex import Call, Literal, RowExpression
from millstream.table.functions.signatures import FunctionDefinition
from millstream.types import datatypes as t
from millstream.types.further_types import StructuredType

__all__ = ["DEFINITIONS"]

Operands = Sequence[RowExpression]
Bound = RowExpression | None


def _pairs(operands: Operands) -> list[tuple[str, RowExpression]] | None:
    """Return names with values; None if a name is no constant text or comes twice."""
    if len(operands) % 2:
        return None
    names = [each.value if isinstance(each, Literal) else None for each in operands[::2]]
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        return None
    return [(str(name), value) for name, value in zip(names, operands[1::2], strict=True)]


def _object_of(operands: Operands) -> Bound:
    if not operands or not isinstance(operands[0], Literal) or not isinstance(operands[0].value, str):
        return None
    pairs = _pairs(operands[1:])
    if pairs is None:
        return None
    kind = StructuredType(operands[0].value, [t.RowField(name, value.type) for name, value in pairs], False)
    return Call("ROW", tuple(value for _, value in pairs), kind)


def _object_update(operands: Operands) -> Bound:
    pairs = _pairs(operands[1:]) if operands else None
    if not pairs or not isinstance(operands[0].type, StructuredType):
        return None
    whole, changed = operands[0], dict(pairs)
    names = whole.type.field_names()  # type: ignore[attr-defined]
    if not set(changed) <= set(names):
        return None
    fields, parts = [], []
    for field in whole.type.fields:  # type: ignore[attr-defined]
        part = changed.get(field.name)
        if part is None:
            literal = Literal(field.name, t.CharType(max(len(field.name), 1), False))
            part = Call("FIELD", (whole, literal), field.data_type)
        fields.append(t.RowField(field.name, part.type))
        parts.append(part)
    kind = StructuredType(whole.type.class_name, fields, whole.type.nullable)  # type: ignore[attr-defined]
    made = Call("ROW", tuple(parts), kind)
    if not whole.type.nullable:
        return made
    missing = Call("IS NULL", (whole,), t.BooleanType(False))
    return Call("CASE", (missing, Literal(None, kind), made), kind)


DEFINITIONS: tuple[FunctionDefinition, ...] = (
    FunctionDefinition(
        "OBJECT_OF",
        bind=_object_of,
        syntax=("OBJECT_OF(className, [key, value, ...])",),
        group="Collections",
        example="CAST(OBJECT_OF('example.User', 'name', 'Bob', 'age', 42) AS STRING)",
    ),
    FunctionDefinition(
        "OBJECT_UPDATE",
        bind=_object_update,
        syntax=("OBJECT_UPDATE(object, key, value, ...)",),
        group="Collections",
        example="CAST(OBJECT_UPDATE(OBJECT_OF('example.User', 'name', 'Bob', 'age', 42), 'age', 43) AS STRING)",
    ),
)
