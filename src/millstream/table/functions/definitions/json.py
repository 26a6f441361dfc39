"""Functions of JSON and of VARIANT.

Clauses become constant operands: JSON_VALUE(json, path, on empty, on error, default of empty, default of error),
JSON_QUERY(json, path, wrapper, on empty, on error), JSON_EXISTS(json, path, on error), JSON_OBJECT(on null, keys and
values), JSON_ARRAY(on null, values).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from millstream.table.expressions.rex import Call, Literal, RowExpression
from millstream.table.functions import types as kinds
from millstream.table.functions.coercion import coerce
from millstream.table.functions.signatures import FunctionDefinition, nullable, signature
from millstream.types import datatypes as t
from millstream.types import further_types as f

__all__ = ["CLAUSE_BINDERS", "DEFINITIONS"]

Operands = Sequence[RowExpression]
Clauses = Sequence[tuple[str, Any]]
Bound = RowExpression | None
_STRING = t.VarCharType()
_GROUP = "JSON"


def _word(text: str) -> Literal:
    return Literal(text, t.CharType(max(len(text), 1), False))


def _texts(operands: Operands) -> bool:
    return len(operands) == 2 and all(
        kinds.is_string(each.type) or isinstance(each.type, f.NullType) for each in operands
    )


def _default(clause: Any, kind: t.DataType) -> tuple[Literal, RowExpression]:
    """Return how a clause is called, and its default."""
    if isinstance(clause, str):
        return _word(clause), Literal(None, kinds.with_nullable(kind, True))
    value = clause
    if not isinstance(clause, InputExpression):
        value = Literal(clause.value, clause.type or f.NullType())
    return _word("DEFAULT"), coerce(value, kind)


InputExpression = Call | Literal  # what the Table API gives; the parser gives literals of its tree


def _value(operands: Operands, clauses: Clauses = ()) -> Bound:
    if not _texts(operands):
        return None
    given = dict(clauses)
    kind: t.DataType = given.get("RETURNING") or _STRING
    if not isinstance(kind, t.VarCharType | t.BooleanType | t.IntType | t.DoubleType):
        return None
    empty, empty_default = _default(given.get("ON EMPTY", "NULL"), kind)
    error, error_default = _default(given.get("ON ERROR", "NULL"), kind)
    parts = (*operands, empty, error, empty_default, error_default)
    return Call("JSON_VALUE", parts, kinds.with_nullable(kind, True))


def _query(operands: Operands, clauses: Clauses = ()) -> Bound:
    if not _texts(operands):
        return None
    given = dict(clauses)
    kind: t.DataType = given.get("RETURNING") or _STRING
    words = [
        given.get(name, default)
        for name, default in (("WRAPPER", "WITHOUT"), ("ON EMPTY", "NULL"), ("ON ERROR", "NULL"))
    ]
    return Call("JSON_QUERY", (*operands, *map(_word, words)), kinds.with_nullable(kind, True))


def _exists(operands: Operands, clauses: Clauses = ()) -> Bound:
    if not _texts(operands):
        return None
    word = dict(clauses).get("ON ERROR", "FALSE")
    can_be_null = word == "UNKNOWN" or any(each.type.nullable for each in operands)
    return Call("JSON_EXISTS", (*operands, _word(word)), t.BooleanType(can_be_null))


def _object(operands: Operands, clauses: Clauses = ()) -> Bound:
    if len(operands) % 2 or not all(kinds.is_string(each.type) for each in operands[::2]):
        return None
    word = dict(clauses).get("ON NULL", "NULL")
    marked = _marked(operands, clauses)
    return Call("JSON_OBJECT", (_word(word), *marked), t.VarCharType(nullable=False))


def _array(operands: Operands, clauses: Clauses = ()) -> Bound:
    word = dict(clauses).get("ON NULL", "ABSENT")
    return Call("JSON_ARRAY", (_word(word), *_marked(operands, clauses)), t.VarCharType(nullable=False))


def _marked(operands: Operands, clauses: Clauses) -> list[RowExpression]:
    """Return the operands, those that are JSON already as calls of JSON."""
    places = {place for name, place in clauses if name == "FORMAT JSON"}
    return [
        Call("JSON", (each,), each.type) if place in places else each for place, each in enumerate(operands)
    ]


CLAUSE_BINDERS: dict[str, Callable[[Operands, Clauses], Bound]] = {
    "JSON_VALUE": _value,
    "JSON_QUERY": _query,
    "JSON_EXISTS": _exists,
    "JSON_OBJECT": _object,
    "JSON_ARRAY": _array,
}


def _bound(
    name: str, bind: Callable[[Operands], Bound], example: str, *syntax: str, fails: bool = False
) -> FunctionDefinition:
    return FunctionDefinition(name, bind=bind, syntax=syntax, group=_GROUP, example=example, fails=fails)


def _test(name: str) -> FunctionDefinition:
    def bind(operands: Operands) -> Bound:
        if len(operands) != 1 or not kinds.is_string(operands[0].type):
            return None
        return Call(name, tuple(operands), t.BooleanType(False))

    return _bound(name, bind, f"'[1]' {name}", f"string {name}")


_SHAPES = ("", " VALUE", " SCALAR", " ARRAY", " OBJECT")

DEFINITIONS: tuple[FunctionDefinition, ...] = (
    *(_test(f"IS {negated}JSON{shape}") for negated in ("", "NOT ") for shape in _SHAPES),
    _bound(
        "JSON_EXISTS",
        _exists,
        "JSON_EXISTS('{\"a\": 1}', '$.a')",
        "JSON_EXISTS(json, path [{TRUE | FALSE | UNKNOWN | ERROR} ON ERROR])",
        fails=True,
    ),
    _bound(
        "JSON_VALUE",
        _value,
        "JSON_VALUE('{\"a\": 1}', '$.a' RETURNING INT)",
        "JSON_VALUE(json, path [RETURNING type] [{NULL | ERROR | DEFAULT value} ON EMPTY]"
        " [{NULL | ERROR | DEFAULT value} ON ERROR])",
        fails=True,
    ),
    _bound(
        "JSON_QUERY",
        _query,
        "JSON_QUERY('{\"a\": [1, 2]}', '$.a')",
        "JSON_QUERY(json, path [{WITHOUT | WITH CONDITIONAL | WITH UNCONDITIONAL} WRAPPER]"
        " [{NULL | EMPTY ARRAY | EMPTY OBJECT | ERROR} ON EMPTY] [... ON ERROR])",
        fails=True,
    ),
    _bound(
        "JSON_OBJECT",
        _object,
        "JSON_OBJECT('a' VALUE 1)",
        "JSON_OBJECT([[KEY] key VALUE value, ...] [{NULL | ABSENT} ON NULL])",
    ),
    _bound("JSON_ARRAY", _array, "JSON_ARRAY(1, 'a')", "JSON_ARRAY([value, ...] [{NULL | ABSENT} ON NULL])"),
    FunctionDefinition(
        "JSON_STRING",
        (signature("any", _STRING),),
        syntax=("JSON_STRING(value)",),
        group=_GROUP,
        example="JSON_STRING(ARRAY[1, 2])",
    ),
    FunctionDefinition(
        "JSON",
        (signature("string", _STRING),),
        syntax=("JSON(string): a value of JSON_OBJECT or JSON_ARRAY that is JSON already",),
        group=_GROUP,
        example="JSON_OBJECT('a' VALUE JSON('[1]'))",
    ),
    FunctionDefinition(
        "PARSE_JSON",
        (signature("string, [boolean]", f.VariantType()),),
        syntax=("PARSE_JSON(string[, allowDuplicateKeys])",),
        group="VARIANT",
        fails=True,
        example="JSON_STRING(PARSE_JSON('{\"a\": 1}'))",
    ),
    FunctionDefinition(
        "TRY_PARSE_JSON",
        (signature("string, [boolean]", nullable(f.VariantType())),),
        syntax=("TRY_PARSE_JSON(string[, allowDuplicateKeys])",),
        group="VARIANT",
        example="TRY_PARSE_JSON('bad') IS NULL",
    ),
)
