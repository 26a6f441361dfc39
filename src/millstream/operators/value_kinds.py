"""What kind of value an object is, as far as its class says: which can never change, which can be looked into.

::

    IMMUTABLE   numbers, strings, times, enums, functions, classes: handed on as they are, without a look inside
    PARTS       tuples, named tuples, frozen sets, frozen dataclasses: immutable if everything in them is
    OPEN        lists, dicts, sets, Rows, objects of classes written in Python: they change, and the garbage
                collector shows everything they refer to
    BUFFER      bytearrays and arrays of numbers: they change, and refer to nothing
    ARRAY       arrays of numpy: as buffers, if they have memory of their own
    OPAQUE      everything else: it may share something that nobody sees, as a memoryview does
"""

from __future__ import annotations

import array
import dataclasses
import datetime
import decimal
import re
import types
from collections import ChainMap, Counter, OrderedDict, UserDict, UserList, defaultdict, deque
from collections.abc import Iterable
from enum import Enum, IntEnum
from gc import get_referents
from types import NoneType
from typing import Any

from millstream.base.time import Duration, Instant, Time
from millstream.common.output_tag import OutputTag
from millstream.common.windows import CountWindow, GlobalWindow, TimeWindow
from millstream.types.row import Row, RowSchema

__all__ = ["ATOMIC", "Kind", "is_immutable", "kind_of"]


class Kind(IntEnum):
    """What the class of an object says about it; see the module's table."""

    IMMUTABLE = 0
    PARTS = 1
    OPEN = 2
    BUFFER = 3
    ARRAY = 4
    OPAQUE = 5


ATOMIC: set[type] = {
    bool,
    bytes,
    complex,
    datetime.date,
    datetime.datetime,
    datetime.time,
    datetime.timedelta,
    datetime.timezone,
    decimal.Decimal,
    float,
    int,
    NoneType,
    range,
    str,
    type,
}
"""Classes whose objects never change, nor refer to what does; hot loops ask for it.

Grows by what `kind_of` is asked about and finds immutable, but never has OutputTag: loops that look for side outputs
take what is not in here for a closer look.
"""

_MOST_CLASSES = 10_000

_KINDS: dict[type, Kind] = {
    array.array: Kind.BUFFER,
    bytearray: Kind.BUFFER,
    ChainMap: Kind.OPEN,
    Counter: Kind.OPEN,
    CountWindow: Kind.IMMUTABLE,
    defaultdict: Kind.OPEN,
    deque: Kind.OPEN,
    dict: Kind.OPEN,
    Duration: Kind.IMMUTABLE,
    frozenset: Kind.PARTS,
    GlobalWindow: Kind.IMMUTABLE,
    Instant: Kind.IMMUTABLE,
    list: Kind.OPEN,
    object: Kind.IMMUTABLE,
    OrderedDict: Kind.OPEN,
    OutputTag: Kind.IMMUTABLE,
    re.Pattern: Kind.IMMUTABLE,
    Row: Kind.OPEN,
    RowSchema: Kind.IMMUTABLE,
    set: Kind.OPEN,
    slice: Kind.PARTS,
    Time: Kind.IMMUTABLE,
    TimeWindow: Kind.IMMUTABLE,
    tuple: Kind.PARTS,
    types.BuiltinFunctionType: Kind.OPAQUE,  # a method of a list is one, and holds the list
    types.CodeType: Kind.IMMUTABLE,
    types.EllipsisType: Kind.IMMUTABLE,
    types.FunctionType: Kind.IMMUTABLE,
    types.GenericAlias: Kind.IMMUTABLE,
    types.ModuleType: Kind.IMMUTABLE,
    types.NotImplementedType: Kind.IMMUTABLE,
    types.UnionType: Kind.IMMUTABLE,
    UserDict: Kind.OPEN,
    UserList: Kind.OPEN,
}

_IMMUTABLE_BY_NAME = frozenset(
    {
        ("fractions", "Fraction"),
        ("ipaddress", "_IPAddressBase"),
        ("numpy", "dtype"),
        ("numpy", "generic"),
        ("pandas", "Timedelta"),
        ("pandas", "Timestamp"),
        ("pandas._libs.tslibs.timedeltas", "Timedelta"),
        ("pandas._libs.tslibs.timestamps", "Timestamp"),
        ("pathlib", "PurePath"),
        ("pyarrow.lib", "Array"),
        ("pyarrow.lib", "ChunkedArray"),
        ("pyarrow.lib", "DataType"),
        ("pyarrow.lib", "Field"),
        ("pyarrow.lib", "Scalar"),
        ("pyarrow.lib", "Schema"),
        ("pyarrow.lib", "_Tabular"),
        ("pathlib._local", "PurePath"),
        ("uuid", "UUID"),
        ("zoneinfo", "ZoneInfo"),
    }
)
"""Module and name of classes of which all subclasses are immutable; by name, so that nothing is imported for it."""

_MUTABLE_BY_NAME = frozenset({("numpy", "void"), ("numpy", "object_")})

_BASES = (
    bool,
    bytes,
    complex,
    datetime.date,
    datetime.time,
    datetime.timedelta,
    datetime.tzinfo,
    decimal.Decimal,
)
_IMMUTABLE_BASES = (*_BASES, float, int, range, str)
_HEAP_TYPE = 1 << 9
_IMMUTABLE_TYPE = 1 << 8
_WORD = object.__basicsize__ // 2


def kind_of(cls: type) -> Kind:
    """Return the kind of a class' objects; found once for each class."""
    kind = _KINDS.get(cls)
    if kind is None:
        kind = Kind.IMMUTABLE if cls in ATOMIC else _find(cls)
        if len(_KINDS) < _MOST_CLASSES:
            _KINDS[cls] = kind
            if kind is Kind.IMMUTABLE:
                ATOMIC.add(cls)
    return kind


def _find(cls: type) -> Kind:
    names = {(base.__module__, base.__qualname__) for base in cls.__mro__}
    if issubclass(cls, (Enum, type)) or (names & _IMMUTABLE_BY_NAME and not names & _MUTABLE_BY_NAME):
        return Kind.IMMUTABLE
    if (cls.__module__, cls.__qualname__) == ("numpy", "ndarray"):
        return Kind.ARRAY
    bare = not _has_own_state(cls)
    if issubclass(cls, _IMMUTABLE_BASES):
        return Kind.IMMUTABLE if bare else Kind.OPAQUE
    if issubclass(cls, (tuple, frozenset)):
        return Kind.PARTS if bare else Kind.OPAQUE
    if _is_frozen(cls):
        return Kind.PARTS
    return Kind.OPEN if _is_transparent(cls) else Kind.OPAQUE


def _has_own_state(cls: type) -> bool:
    """Return whether objects have attributes beside what a builtin base class keeps."""
    return cls.__dictoffset__ != 0 or any(
        isinstance(member, types.MemberDescriptorType)
        for base in cls.__mro__
        for member in vars(base).values()
        if base.__flags__ & _HEAP_TYPE and not base.__flags__ & _IMMUTABLE_TYPE
    )


def _is_frozen(cls: type) -> bool:
    if not dataclasses.is_dataclass(cls) or not _is_transparent(cls):
        return False
    return all(
        base is object or getattr(vars(base).get("__dataclass_params__"), "frozen", False)
        for base in cls.__mro__
    )


def _is_transparent(cls: type) -> bool:
    """Return whether all that objects hold are attributes and what builtin containers among their bases hold."""
    for base in cls.__mro__:
        if base is object or _KINDS.get(base) is Kind.OPEN:
            continue
        if not base.__flags__ & _HEAP_TYPE or base.__flags__ & _IMMUTABLE_TYPE:
            return False
        if not _is_written_in_python(base):
            return False
    return True


def _is_written_in_python(cls: type) -> bool:
    """Return whether an object is no larger than its slots, its dict and its list of weak references need."""
    words = 2 + sum(isinstance(member, types.MemberDescriptorType) for member in vars(cls).values())
    base = cls.__base__
    return base is None or cls.__basicsize__ <= base.__basicsize__ + words * _WORD


def is_immutable(value: Any) -> bool:
    """Return whether neither a value nor anything in it can be changed.

    >>> is_immutable((1, "a")), is_immutable((1, ["a"]))
    (True, False)
    """
    pending = [value]
    while pending:
        one = pending.pop()
        cls = type(one)
        if cls in ATOMIC:
            continue
        kind = kind_of(cls)
        if kind is Kind.PARTS:
            pending.extend(_parts(one))
        elif kind is not Kind.IMMUTABLE:
            return False
    return True


def _parts(frozen: Any) -> Iterable[Any]:
    """Return what an object holds; attributes that are in a dict for all to see are not the dict's own."""
    if isinstance(frozen, (tuple, frozenset)):
        return frozen
    attributes = getattr(frozen, "__dict__", None)
    parts = get_referents(frozen)
    return (
        parts
        if attributes is None
        else [*(one for one in parts if one is not attributes), *attributes.values()]
    )
