"""Copies of values that share nothing that can be changed.

Lists, dicts, tuples, sets and Rows are copied here, other objects by what they tell pickle (`__reduce_ex__`): what
goes from process to process and what is copied within one are the same. Objects that are one object within a value
are one in its copy. No class is looked up by name, so classes of the main module are copied as fast as others.
"""

from __future__ import annotations

import copyreg
import sys
from collections import OrderedDict
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

from millstream.operators.value_kinds import ATOMIC, Kind, is_immutable, kind_of
from millstream.types.row import Row, copy_row

__all__ = ["copy_of"]

Memo = dict[int, tuple[Any, Any]]
"""Original and copy by the original's id; the originals are held so that no id is given again."""

_PROTOCOL = 4
_MOST_CALLS = 100_000


def copy_of(value: Any) -> Any:
    """Return a copy that shares nothing that can be changed; what is immutable, or has no copy, is itself.

    >>> pair = (1, [2])
    >>> copy_of(pair) == pair, copy_of(pair)[1] is pair[1]
    (True, False)
    >>> numbers = (1, 2)
    >>> copy_of(numbers) is numbers
    True
    """
    kind = type(value)
    if kind in ATOMIC:
        return value
    if kind is dict:
        for key, item in value.items():
            if type(item) not in ATOMIC or type(key) not in ATOMIC:
                break
        else:
            return value.copy()
    elif kind is tuple or kind is list:
        for item in value:
            if type(item) not in ATOMIC:
                break
        else:
            return value if kind is tuple else value.copy()
    elif kind is Row:
        for item in value._values:
            if type(item) not in ATOMIC:
                break
        else:
            return copy_row(value, value._values)
    try:
        return _copy(value, {})
    except RecursionError:
        return _copy_deep(value)


def _copy_deep(value: Any) -> Any:
    """Copy what is nested deeply, such as a linked list; what is too deep even so is its own copy.

    Calls from Python to Python, as all here are, take no room on C's stack.
    """
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + _MOST_CALLS)
    try:
        return _copy(value, {})
    except RecursionError:
        return value
    finally:
        sys.setrecursionlimit(limit)


def _copy(value: Any, memo: Memo) -> Any:
    kind = type(value)
    if kind in ATOMIC:
        return value
    known = memo.get(id(value))
    if known is not None:
        return known[1]
    copier = _COPIERS.get(kind)
    if copier is not None:
        return copier(value, memo)
    what = kind_of(kind)
    if what is Kind.IMMUTABLE or (what is Kind.PARTS and is_immutable(value)):
        return value
    return _copy_object(value, memo)


def _copy_list(value: list[Any], memo: Memo) -> list[Any]:
    made: list[Any] = []
    memo[id(value)] = value, made
    made.extend([item if type(item) in ATOMIC else _copy(item, memo) for item in value])
    return made


def _copy_dict(value: dict[Any, Any], memo: Memo) -> dict[Any, Any]:
    made: dict[Any, Any] = {}
    memo[id(value)] = value, made
    for key, item in value.items():
        if type(key) not in ATOMIC:
            key = _copy(key, memo)
        made[key] = item if type(item) in ATOMIC else _copy(item, memo)
    return made


def _copy_tuple(value: tuple[Any, ...], memo: Memo) -> tuple[Any, ...]:
    made = tuple([item if type(item) in ATOMIC else _copy(item, memo) for item in value])
    known = memo.get(id(value))  # it may hold something that holds it
    if known is not None:
        known_copy: tuple[Any, ...] = known[1]
        return known_copy
    if all(map(_is, made, value)):
        made = value
    memo[id(value)] = value, made
    return made


def _is(one: object, other: object) -> bool:
    return one is other


def _copy_set(value: set[Any], memo: Memo) -> set[Any]:
    made: set[Any] = set()
    memo[id(value)] = value, made
    made.update([_copy(item, memo) for item in value])
    return made


def _copy_frozenset(value: frozenset[Any], memo: Memo) -> frozenset[Any]:
    if ATOMIC.issuperset(map(type, value)):
        return value
    items = list(value)
    copies = [_copy(item, memo) for item in items]
    made = value if all(map(_is, copies, items)) else frozenset(copies)
    memo[id(value)] = value, made
    return made


def _copy_bytearray(value: bytearray, memo: Memo) -> bytearray:
    made = bytearray(value)
    memo[id(value)] = value, made
    return made


def _copy_row(value: Row, memo: Memo) -> Row:
    made = copy_row(value, ())
    memo[id(value)] = value, made  # before its values, which may hold it
    made._values = _copy_tuple(value._values, memo)
    return made


def _copy_view(method: str) -> Callable[[Any, Memo], Any]:
    """Return what copies a view of a dict, which pickle does not take: the same view of a copy."""

    def copy_view(value: Any, memo: Memo) -> Any:
        mapping = value.mapping
        whole = OrderedDict(mapping) if isinstance(value, _ORDERED_VIEWS) else dict(mapping)
        made = getattr(_copy(whole, memo), method)()
        memo[id(value)] = value, made
        return made

    return copy_view


def _copy_proxy(value: Any, memo: Memo) -> Any:
    made = MappingProxyType(_copy(dict(value), memo))
    memo[id(value)] = value, made
    return made


_ORDERED = OrderedDict[Any, Any]()
_ORDERED_VIEWS = (type(_ORDERED.keys()), type(_ORDERED.values()), type(_ORDERED.items()))
_COPIERS: dict[type, Callable[[Any, Memo], Any]] = {
    type({}.keys()): _copy_view("keys"),
    type({}.values()): _copy_view("values"),
    type({}.items()): _copy_view("items"),
    type(_ORDERED.keys()): _copy_view("keys"),
    type(_ORDERED.values()): _copy_view("values"),
    type(_ORDERED.items()): _copy_view("items"),
    MappingProxyType: _copy_proxy,
    bytearray: _copy_bytearray,
    dict: _copy_dict,
    frozenset: _copy_frozenset,
    list: _copy_list,
    Row: _copy_row,
    set: _copy_set,
    tuple: _copy_tuple,
}


def _copy_object(value: Any, memo: Memo) -> Any:
    """Copy by what the object tells pickle; one that cannot be pickled is its own copy."""
    try:
        made = _rebuild(value, memo)
    except RecursionError:
        raise
    except Exception:  # noqa: BLE001 - any object may refuse in any way; exchanges say what cannot be pickled
        made = value
    memo[id(value)] = value, made
    return made


def _rebuild(value: Any, memo: Memo) -> Any:
    reducer = copyreg.dispatch_table.get(type(value))
    reduced = value.__reduce_ex__(_PROTOCOL) if reducer is None else reducer(value)
    if isinstance(reduced, str):  # a name: there is one such object
        return value
    build, arguments, *rest = reduced
    state, items, pairs, set_state = [*rest, None, None, None, None][:4]
    made = build(*[_copy(argument, memo) for argument in arguments])
    memo[id(value)] = value, made
    if state is not None:
        _give_state(made, _copy(state, memo), set_state)
    for item in items or ():
        made.append(_copy(item, memo))
    for key, item in pairs or ():
        made[_copy(key, memo)] = _copy(item, memo)
    return made


def _give_state(made: Any, state: Any, set_state: Callable[[Any, Any], Any] | None) -> None:
    if set_state is not None:
        set_state(made, state)
    elif hasattr(made, "__setstate__"):
        made.__setstate__(state)
    else:
        slots = None
        if isinstance(state, tuple) and len(state) == 2:
            state, slots = state
        if state:
            made.__dict__.update(state)
        for name, item in (slots or {}).items():
            setattr(made, name, item)
