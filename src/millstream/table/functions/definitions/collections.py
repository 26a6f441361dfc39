"""Arrays, maps, rows: how they are made, read and changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from millstream.table.expressions.rex import Call, Literal, RowExpression
from millstream.table.functions import types as kinds
from millstream.table.functions.coercion import coerce, to_common
from millstream.table.functions.signatures import FunctionDefinition, Types, nullable, signature
from millstream.types import datatypes as t
from millstream.types import further_types as f

__all__ = ["DEFINITIONS"]

Operands = Sequence[RowExpression]
Bound = RowExpression | None
_INT, _STRING, _BOOLEAN = t.IntType(), t.VarCharType(), t.BooleanType()
_GROUP = "Collections"


def _array(operands: Operands) -> Bound:
    converted = to_common(operands)
    if converted is None:
        return None
    kind = kinds.common_type([each.type for each in converted])
    assert kind is not None
    return Call("ARRAY", tuple(coerce(each, kind) for each in converted), t.ArrayType(kind, False))


def _map(operands: Operands) -> Bound:
    if len(operands) % 2 or not operands:
        return None
    keys, values = to_common(operands[::2]), to_common(operands[1::2])
    if keys is None or values is None:
        return None
    key = kinds.common_type([each.type for each in keys])
    value = kinds.common_type([each.type for each in values])
    assert key is not None and value is not None
    pairs = [part for pair in zip(keys, values, strict=True) for part in pair]
    return Call("MAP", tuple(pairs), t.MapType(key, value, False))


def _row(operands: Operands) -> Bound:
    fields = [t.RowField(f"EXPR${place}", each.type) for place, each in enumerate(operands)]
    return Call("ROW", tuple(operands), t.RowType(fields, False))


def _item(operands: Operands) -> Bound:
    """`array[i]` from 1, `map[key]`, `row['name']`, `variant[i]`."""
    if len(operands) != 2:
        return None
    whole, place = operands
    kind = whole.type
    if isinstance(kind, t.ArrayType) and kinds.is_integer(place.type):
        return Call("ITEM", (whole, coerce(place, _INT)), kinds.with_nullable(kind.element_type, True))
    if isinstance(kind, t.MapType):
        if kinds.common_type([kind.key_type, place.type]) is None:
            return None
        return Call("ITEM", (whole, coerce(place, kind.key_type)), kinds.with_nullable(kind.value_type, True))
    if isinstance(kind, t.RowType) and isinstance(place, Literal):
        return _field(operands)
    if isinstance(kind, f.VariantType) and (kinds.is_string(place.type) or kinds.is_integer(place.type)):
        return Call("ITEM", (whole, place), f.VariantType())
    return None


def _field(operands: Operands) -> Bound:
    """A field of a row by name, or by place from 1."""
    if len(operands) != 2 or not isinstance(operands[1], Literal):
        return None
    row, name = operands
    if not isinstance(row.type, t.RowType):
        return None
    names = row.type.field_names()
    value = name.value if isinstance(name, Literal) else None
    if isinstance(value, int):
        if not 1 <= value <= len(names):
            return None
        value = names[value - 1]
    if value not in names:
        return None
    kind = row.type.field_types()[names.index(value)]
    literal = Literal(value, t.CharType(max(len(value), 1), False))
    return Call("FIELD", (row, literal), kinds.with_nullable(kind, kind.nullable or row.type.nullable))


def _element(types: Types) -> t.DataType:
    kind = types[0]
    inner = kind.element_type if isinstance(kind, t.ArrayType | f.MultisetType) else kind
    return kinds.with_nullable(inner, True)


def _first_nullable(kind: t.DataType) -> Callable[[Types], t.DataType]:
    return lambda types: kinds.with_nullable(kind, types[0].nullable)


def _with_element(
    name: str, *, element_matters: bool, result: t.DataType | None = None
) -> Callable[[Operands], Bound]:
    """Functions of an array and an element: both in the common type of elements."""

    def bind(operands: Operands) -> Bound:
        if len(operands) != 2 or not isinstance(operands[0].type, t.ArrayType):
            return None
        array, element = operands
        common = kinds.common_type([array.type.element_type, element.type])  # type: ignore[attr-defined]
        if common is None:
            return None
        whole = t.ArrayType(common, array.type.nullable)
        is_nullable = array.type.nullable or (element_matters and element.type.nullable)
        kind = kinds.with_nullable(whole if result is None else result, is_nullable)
        return Call(name, (coerce(array, whole), coerce(element, common)), kind)

    return bind


def _common_arrays(name: str, least: int = 2, most: int = 2) -> Callable[[Operands], Bound]:
    def bind(operands: Operands) -> Bound:
        arrays = all(isinstance(each.type, t.ArrayType) for each in operands)
        if not least <= len(operands) <= most or not arrays:
            return None
        converted = to_common(operands)
        if converted is None:
            return None
        kind = kinds.common_type([each.type for each in converted])
        assert kind is not None
        return Call(name, tuple(coerce(each, kind) for each in converted), kind)

    return bind


def _map_union(operands: Operands) -> Bound:
    if not operands or not all(isinstance(each.type, t.MapType) for each in operands):
        return None
    converted = to_common(operands)
    if converted is None:
        return None
    kind = kinds.common_type([each.type for each in converted])
    assert kind is not None
    return Call("MAP_UNION", tuple(coerce(each, kind) for each in converted), kind)


def _same(types: Types) -> t.DataType:
    return kinds.with_nullable(types[0], any(each.nullable for each in types))


def _keys(types: Types) -> t.DataType:
    return t.ArrayType(types[0].key_type, types[0].nullable)  # type: ignore[attr-defined]


def _values(types: Types) -> t.DataType:
    return t.ArrayType(types[0].value_type, types[0].nullable)  # type: ignore[attr-defined]


def _entries(types: Types) -> t.DataType:
    kind = types[0]
    assert isinstance(kind, t.MapType)
    row = t.RowType([t.RowField("key", kind.key_type), t.RowField("value", kind.value_type)])
    return t.ArrayType(row, kind.nullable)


def _from_arrays(types: Types) -> t.DataType:
    keys, values = types
    assert isinstance(keys, t.ArrayType) and isinstance(values, t.ArrayType)
    return t.MapType(keys.element_type, values.element_type, keys.nullable or values.nullable)


def _bound(name: str, bind: Callable[[Operands], Bound], example: str, *syntax: str) -> FunctionDefinition:
    return FunctionDefinition(name, bind=bind, syntax=syntax, group=_GROUP, example=example)


def _define(
    name: str,
    parameters: str,
    result: t.DataType | Callable[[Types], t.DataType],
    example: str,
    *syntax: str,
    fails: bool = False,
) -> FunctionDefinition:
    return FunctionDefinition(
        name,
        (signature(parameters, result),),
        syntax=syntax,
        group=_GROUP,
        example=example,
        fails=fails,
    )


DEFINITIONS: tuple[FunctionDefinition, ...] = (
    _bound("ARRAY", _array, "ARRAY[1, 2, 3]", "ARRAY[value1, ...]"),
    _bound("MAP", _map, "MAP['a', 1, 'b', 2]", "MAP[key1, value1, ...]"),
    _bound("ROW", _row, "ROW(1, 'a')", "ROW(value1, ...)", "(value1, value2, ...)"),
    _bound("ITEM", _item, "ARRAY[7, 8][1]", "array[index]", "map[key]"),
    _bound("FIELD", _field, "", "row.field"),
    _define(
        "CARDINALITY",
        "collection",
        _first_nullable(_INT),
        "CARDINALITY(ARRAY[1, 2])",
        "CARDINALITY(array | map)",
    ),
    _define("ELEMENT", "collection", _element, "ELEMENT(ARRAY[7])", "ELEMENT(array)", fails=True),
    _bound(
        "ARRAY_APPEND",
        _with_element("ARRAY_APPEND", element_matters=True),
        "ARRAY_APPEND(ARRAY[1, 2], 3)",
        "ARRAY_APPEND(array, element)",
    ),
    _bound(
        "ARRAY_PREPEND",
        _with_element("ARRAY_PREPEND", element_matters=True),
        "ARRAY_PREPEND(ARRAY[1, 2], 0)",
        "ARRAY_PREPEND(array, element)",
    ),
    _bound(
        "ARRAY_CONTAINS",
        _with_element("ARRAY_CONTAINS", element_matters=False, result=_BOOLEAN),
        "ARRAY_CONTAINS(ARRAY[1, 2], 2)",
        "ARRAY_CONTAINS(array, element)",
    ),
    _bound(
        "ARRAY_POSITION",
        _with_element("ARRAY_POSITION", element_matters=True, result=_INT),
        "ARRAY_POSITION(ARRAY[1, 2], 2)",
        "ARRAY_POSITION(array, element)",
    ),
    _bound(
        "ARRAY_REMOVE",
        _with_element("ARRAY_REMOVE", element_matters=False),
        "ARRAY_REMOVE(ARRAY[1, 2, 2], 2)",
        "ARRAY_REMOVE(array, element)",
    ),
    _define("ARRAY_DISTINCT", "array", _same, "ARRAY_DISTINCT(ARRAY[1, 2, 2])", "ARRAY_DISTINCT(array)"),
    _define("ARRAY_REVERSE", "array", _same, "ARRAY_REVERSE(ARRAY[1, 2])", "ARRAY_REVERSE(array)"),
    _define(
        "ARRAY_SLICE",
        "array, int, [int]",
        nullable(_same),
        "ARRAY_SLICE(ARRAY[1, 2, 3], 2, 3)",
        "ARRAY_SLICE(array, start[, end])",
    ),
    _define(
        "ARRAY_SORT",
        "array, [boolean], [boolean]",
        _same,
        "ARRAY_SORT(ARRAY[3, 1, 2], FALSE)",
        "ARRAY_SORT(array[, ascending[, nullsFirst]])",
    ),
    _bound(
        "ARRAY_UNION",
        _common_arrays("ARRAY_UNION"),
        "ARRAY_UNION(ARRAY[1, 2], ARRAY[2, 3])",
        "ARRAY_UNION(array1, array2)",
    ),
    _bound(
        "ARRAY_CONCAT",
        _common_arrays("ARRAY_CONCAT", 1, 10**6),
        "ARRAY_CONCAT(ARRAY[1], ARRAY[2, 3])",
        "ARRAY_CONCAT(array1, ...)",
    ),
    _bound(
        "ARRAY_EXCEPT",
        _common_arrays("ARRAY_EXCEPT"),
        "ARRAY_EXCEPT(ARRAY[1, 2], ARRAY[2])",
        "ARRAY_EXCEPT(array1, array2)",
    ),
    _bound(
        "ARRAY_INTERSECT",
        _common_arrays("ARRAY_INTERSECT"),
        "ARRAY_INTERSECT(ARRAY[1, 2], ARRAY[2, 3])",
        "ARRAY_INTERSECT(array1, array2)",
    ),
    _define("ARRAY_MAX", "array", _element, "ARRAY_MAX(ARRAY[1, 3, 2])", "ARRAY_MAX(array)"),
    _define("ARRAY_MIN", "array", _element, "ARRAY_MIN(ARRAY[3, 1, 2])", "ARRAY_MIN(array)"),
    _define(
        "ARRAY_JOIN",
        "string_array, string, [string]",
        nullable(_STRING),
        "ARRAY_JOIN(ARRAY['a', 'b'], '-')",
        "ARRAY_JOIN(array, delimiter[, nullReplacement])",
    ),
    _define("MAP_KEYS", "map", _keys, "MAP_KEYS(MAP['a', 1])", "MAP_KEYS(map)"),
    _define("MAP_VALUES", "map", _values, "MAP_VALUES(MAP['a', 1])", "MAP_VALUES(map)"),
    _define("MAP_ENTRIES", "map", _entries, "MAP_ENTRIES(MAP['a', 1])", "MAP_ENTRIES(map)"),
    _bound("MAP_UNION", _map_union, "MAP_UNION(MAP['a', 1], MAP['b', 2])", "MAP_UNION(map1, ...)"),
    _define(
        "MAP_FROM_ARRAYS",
        "array, array",
        _from_arrays,
        "MAP_FROM_ARRAYS(ARRAY['a'], ARRAY[1])",
        "MAP_FROM_ARRAYS(keys, values)",
        fails=True,
    ),
)
