"""Values of Python and attribute values of DynamoDB: what becomes of which, and how large it is.

============================================  ==========================================
Python                                        DynamoDB
============================================  ==========================================
str; date, time, datetime as ISO 8601         S
int, Decimal, float                           N, read as Decimal
bytes, bytearray, memoryview                  B
bool; None                                    BOOL; NULL
set, frozenset of one of the first three      SS, NS, BS
list, tuple, Row without names                L
dict, Row with names                          M
============================================  ==========================================

Sizes are as DynamoDB counts them: names and texts in UTF-8, two digits of a number in a byte, a byte for each element.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any

from millstream.base.errors import MillstreamError, NumberRangeError, TypeMismatchError, shorten
from millstream.types.row import Row

__all__ = ["Attributes", "from_attribute", "item_of", "size_of_item", "to_attribute", "values_of"]

Attributes = dict[str, dict[str, Any]]
"""An item or a key, as boto3 has it: `{"id": {"S": "7"}, "price": {"N": "1.5"}}`."""

_DIGITS = 38
_LOWEST, _HIGHEST = -130, 125
_SMALL = 10**_DIGITS
_DEEPEST = 32
_HINT = "Convert the values before the sink: docs/connectors/dynamodb.md has the types."


class _Unfit(Exception):
    """A value that does not fit; `path` is where it is, the innermost name last."""

    def __init__(self, reason: str, error_type: type[MillstreamError] = TypeMismatchError) -> None:
        super().__init__(reason)
        self.path: list[str] = []
        self.error_type = error_type

    def at(self, name: object) -> _Unfit:
        self.path.insert(0, str(name))
        return self


def item_of(record: Any) -> Attributes:
    """Return the item of a dict, or of a Row with names, whose fields that are None are left out.

    >>> item_of({"id": "7", "price": 1.5})
    {'id': {'S': '7'}, 'price': {'N': '1.5'}}

    Raises:
        TypeMismatchError: If it is something else, or holds a value that DynamoDB has no type for.
        NumberRangeError: If it holds a number that DynamoDB cannot hold.
    """
    if isinstance(record, Row) and record._fields is not None:
        pairs = zip(record._fields, record._values, strict=False)
        fields: Iterable[tuple[Any, Any]] = [(name, value) for name, value in pairs if value is not None]
    elif isinstance(record, Mapping):
        fields = record.items()
    else:
        raise TypeMismatchError(
            f"a DynamoDB item cannot be made of {shorten(record)}, which has no names for its fields",
            hint="Give dicts or Rows with names, or say what is written by set_element_converter(function).",
        )
    try:
        return _map(fields, 0)
    except _Unfit as unfit:
        raise _explained(unfit) from unfit.__cause__


def to_attribute(value: Any) -> dict[str, Any]:
    """Return a value as an attribute value.

    >>> to_attribute([1, {"a": None}])
    {'L': [{'N': '1'}, {'M': {'a': {'NULL': True}}}]}

    Raises:
        TypeMismatchError: If DynamoDB has no type for it.
        NumberRangeError: If it holds a number that DynamoDB cannot hold.
    """
    try:
        return _attribute(value, 0)
    except _Unfit as unfit:
        raise _explained(unfit) from unfit.__cause__


def values_of(item: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the values of an item.

    >>> values_of({"id": {"S": "7"}, "price": {"N": "1.5"}})
    {'id': '7', 'price': Decimal('1.5')}
    """
    return {name: from_attribute(value) for name, value in item.items()}


def from_attribute(attribute: Mapping[str, Any]) -> Any:
    """Return the value of an attribute value.

    Raises:
        TypeMismatchError: If it is of a type that is none of DynamoDB's.
    """
    for kind, value in attribute.items():
        read = _READ.get(kind)
        if read is not None:
            return read(value)
    raise TypeMismatchError(f"{shorten(attribute)} is no attribute value of DynamoDB")


def size_of_item(item: Attributes) -> int:
    """Return how large an item is, in bytes; it may have 409,600.

    >>> size_of_item({"id": {"S": "é"}, "price": {"N": "-12.5"}})
    13
    """
    return sum(len(name.encode()) + _size(value) for name, value in item.items())


def _attribute(value: Any, depth: int) -> dict[str, Any]:
    kind = type(value)
    if kind is str:
        return {"S": value}
    make = _MADE.get(kind) or next((each for base, each in _MADE.items() if isinstance(value, base)), None)
    if make is None:
        raise _Unfit(f"{shorten(value)} is a {kind.__name__}, which no type of DynamoDB holds")
    return make(value, depth)


def _map(fields: Iterable[tuple[Any, Any]], depth: int) -> dict[str, dict[str, Any]]:
    made: dict[str, dict[str, Any]] = {}
    for name, value in fields:
        if type(name) is not str or not name:
            raise _Unfit(f"the name {shorten(name)} is no text, or empty")
        try:
            made[name] = _attribute(value, depth)
        except _Unfit as unfit:
            raise unfit.at(name) from unfit.__cause__
    return made


def _deeper(depth: int) -> int:
    if depth >= _DEEPEST:
        raise _Unfit(f"values are nested more than {_DEEPEST} deep")
    return depth + 1


def _of_mapping(value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
    return {"M": _map(value.items(), _deeper(depth))}


def _of_row(value: Row, depth: int) -> dict[str, Any]:
    if value._fields is None:
        return _of_list(value._values, depth)
    return _of_mapping(value.as_dict(), depth)


def _of_list(value: Iterable[Any], depth: int) -> dict[str, Any]:
    made, inner = [], _deeper(depth)
    for index, each in enumerate(value):
        try:
            made.append(_attribute(each, inner))
        except _Unfit as unfit:
            raise unfit.at(index) from unfit.__cause__
    return {"L": made}


def _of_set(value: Iterable[Any], depth: int) -> dict[str, Any]:
    found = [_attribute(each, depth) for each in value]
    kinds = {kind for each in found for kind in each}
    if not kinds:
        raise _Unfit("it is an empty set, which DynamoDB does not hold")
    if len(kinds) > 1 or not kinds <= {"S", "N", "B"}:
        raise _Unfit(
            f"the set {shorten(value)} is not of one kind",
            TypeMismatchError,
        )
    (kind,) = kinds
    members = [each[kind] for each in found]
    if kind == "N" and len({Decimal(each) for each in members}) < len(members):
        raise _Unfit(f"the set {shorten(value)} holds a number twice")
    return {f"{kind}S": sorted(members)}


def _of_int(value: int, depth: int) -> dict[str, Any]:
    if -_SMALL < value < _SMALL:
        return {"N": int.__repr__(value)}
    return _of_decimal(Decimal(value), depth)


def _of_float(value: float, depth: int) -> dict[str, Any]:
    if not math.isfinite(value):
        raise _Unfit(f"{value!r} is no finite number", NumberRangeError)
    return _of_decimal(Decimal(float.__repr__(value)), depth)


def _of_decimal(value: Decimal, depth: int) -> dict[str, Any]:
    if not value.is_finite():
        raise _Unfit(f"{value} is no finite number", NumberRangeError)
    if value:
        digits = value.as_tuple().digits
        if len(digits) > _DIGITS and len("".join(map(str, digits)).strip("0")) > _DIGITS:
            raise _Unfit(f"{shorten(value)} has more than {_DIGITS} digits", NumberRangeError)
        if not _LOWEST <= value.adjusted() <= _HIGHEST:
            raise _Unfit(
                f"{shorten(value)} is not between 1E{_LOWEST} and 1E{_HIGHEST + 1}", NumberRangeError
            )
    return {"N": str(value)}


def _iso(value: datetime.date | datetime.time, depth: int) -> dict[str, Any]:
    return {"S": value.isoformat()}


_MADE: dict[type, Callable[[Any, int], dict[str, Any]]] = {
    str: lambda value, depth: {"S": str(value)},
    bool: lambda value, depth: {"BOOL": value},
    int: _of_int,
    float: _of_float,
    Decimal: _of_decimal,
    type(None): lambda value, depth: {"NULL": True},
    bytes: lambda value, depth: {"B": bytes(value)},
    bytearray: lambda value, depth: {"B": bytes(value)},
    memoryview: lambda value, depth: {"B": bytes(value)},
    dict: _of_mapping,
    Row: _of_row,
    list: _of_list,
    tuple: _of_list,
    set: _of_set,
    frozenset: _of_set,
    datetime.date: _iso,
    datetime.time: _iso,
    Mapping: _of_mapping,
}

_READ: dict[str, Callable[[Any], Any]] = {
    "S": lambda value: value,
    "N": Decimal,
    "B": bytes,
    "BOOL": lambda value: value,
    "NULL": lambda value: None,
    "M": values_of,
    "L": lambda value: [from_attribute(each) for each in value],
    "SS": set,
    "NS": lambda value: set(map(Decimal, value)),
    "BS": lambda value: set(map(bytes, value)),
}


def _size(attribute: Mapping[str, Any]) -> int:
    ((kind, value),) = attribute.items()
    if kind == "S":
        return len(value) if value.isascii() else len(value.encode())
    if kind == "N":
        return _size_of_number(value)
    if kind == "B":
        return len(value)
    if kind == "M":
        return 3 + len(value) + size_of_item(value)
    if kind == "L":
        return 3 + len(value) + sum(map(_size, value))
    if kind in ("SS", "NS", "BS"):
        return sum(_size({kind[0]: each}) for each in value)
    return 1


def _size_of_number(text: str) -> int:
    digits = text.partition("E")[0].lstrip("-").replace(".", "").strip("0")
    return min(21, (len(digits) + 1) // 2 + 1 + text.startswith("-"))


def _explained(unfit: _Unfit) -> MillstreamError:
    where = f"attribute {'.'.join(unfit.path)!r}: " if unfit.path else ""
    return unfit.error_type(f"a value does not fit DynamoDB, {where}{unfit}", hint=_HINT)
