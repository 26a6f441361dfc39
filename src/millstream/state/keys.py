"""Keys as operators use them: in dicts, sets, timers and files, each the same key as PyFlink has it.

Python's dicts take `1`, `1.0` and `True` for one key, every NaN for a new one, and refuse lists. PyFlink compares what
keys are pickled to. So keys that a dict treats differently have a stand-in, a `CanonicalKey`; all others, that is
nearly all, are what the user gave::

    "AA", 7, ("AA", 7), 1.5, date(2013, 1, 1), Color.RED      themselves
    True, 1.0, nan, Decimal("1"), [1, 2], {"a": 1}, Row(1)    CanonicalKey(bytes)
    (1, True), ("AA", [1, 2])                                 CanonicalKey(bytes)

Equal dicts and sets are one key in whatever order they were built (in PyFlink the order decides), and -0.0 is not 0.0.
Subclasses of int, str, bytes, tuple, ... count as those. What a class of the user's says to be equal (`__eq__`, fields
that are not compared) does not count, as in PyFlink: key groups could not follow it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date, datetime, time, timedelta
from itertools import chain
from operator import countOf
from types import FunctionType, NoneType
from typing import Any
from uuid import UUID

from millstream.base.errors import ConfigurationError, shorten
from millstream.common.windows import GlobalWindow, TimeWindow
from millstream.state.canonical_key import CanonicalKey, original_key
from millstream.state.key_encoding import encode_exactly, is_enum_or_type
from millstream.types.row import Row

__all__ = ["are_plain", "canonical_key", "canonical_keys", "original_key"]

Form = Callable[[Any], Any]

_KNOWN_LIMIT = 20_000
_PLAIN = frozenset(
    {
        bytes,
        CanonicalKey,
        date,
        datetime,
        GlobalWindow,
        int,
        NoneType,
        str,
        time,
        timedelta,
        TimeWindow,
        UUID,
    }
)


def canonical_key(key: Any) -> Any:
    """Return what stands for a key.

    Raises:
        ConfigurationError: If it has no canonical form; names the type and the value.

    Example:
        >>> canonical_key(7), canonical_key([7]) == canonical_key([7]), canonical_key(True) == canonical_key(1)
        (7, True, False)
    """
    kind = type(key)
    form = _FORMS.get(kind)
    if form is None:
        form = _FORMS[kind] = _form_of(kind)
    return form(key)


def are_plain(keys: Iterator[Any], count: int) -> bool:
    """Return whether keys are of one type, and stand for themselves; they are looked at once, and kept nowhere.

    Args:
        keys: The keys.
        count: How many there are.

    Example:
        >>> are_plain(iter(["a", "b"]), 2), are_plain(iter(["a", 1]), 2), are_plain(iter([[1]]), 1)
        (True, False, False)
    """
    kinds = map(type, keys)
    kind = next(kinds, NoneType)
    return kind in _PLAIN and countOf(kinds, kind) == count - 1


def canonical_keys(keys: list[Any]) -> list[Any]:
    """Return what stands for each key; the list itself if they stand for themselves.

    Raises:
        ConfigurationError: If a key has no canonical form; names the type and the value.
    """
    kind = type(keys[0]) if keys else NoneType
    # Nearly all batches have keys of one type, and counting those is faster than a set of all types.
    if kind in _PLAIN and countOf(map(type, keys), kind) == len(keys):
        return keys
    kinds = set(map(type, keys))
    if kinds <= _PLAIN:
        return keys
    if len(kinds) == 1:
        kind = kinds.pop()
        if kind is tuple and set(map(type, chain.from_iterable(keys))) <= _PLAIN:
            return keys
        if kind in _FORMS:
            return list(map(_FORMS[kind], keys))
    return list(map(canonical_key, keys))


_PRECISE = frozenset({bool, bytes, float, int, NoneType, str})
_FLAT = frozenset({frozenset, list, set, tuple})
_known: dict[tuple[type, bytes], CanonicalKey] = {}
"""Stand-ins that were made lately, of keys whose bytes tell all that there is to see of them."""
_known_rows: dict[tuple[Any, ...], CanonicalKey] = {}
"""Those of rows of plain values, by schema and values: encoding takes much longer than hashing."""


def _stand_in(key: Any) -> CanonicalKey:
    try:
        identity = encode_exactly(key)
    except RecursionError as error:
        raise ConfigurationError(
            f"a key of type {type(key).__name__} contains itself: {shorten(key)}",
            hint="Let the key selector return plain data.",
        ) from error
    kind = type(key)
    if kind not in _PRECISE and not (kind in _FLAT and _PRECISE.issuperset(map(type, key))):
        return CanonicalKey(identity, key)
    known = _known.get((kind, identity))
    if known is None:
        if len(_known) >= _KNOWN_LIMIT:
            _known.clear()
        known = _known[kind, identity] = CanonicalKey(identity, key)
    return known


_TRUE, _FALSE = _stand_in(True), _stand_in(False)


def _bool(key: bool) -> CanonicalKey:
    return _TRUE if key else _FALSE


def _float(key: float) -> Any:
    return _stand_in(key) if key.is_integer() or key != key else key


def _tuple(key: tuple[Any, ...]) -> Any:
    return key if _PLAIN.issuperset(map(type, key)) or all(map(_is_plain, key)) else _stand_in(key)


def _numpy(key: Any) -> Any:
    item = key.item()
    if key.dtype.kind in "mM" or type(item) is type(key):  # times of many units; more digits than a float has
        return _stand_in(key)
    return _stand_in(key) if type(canonical_key(item)) is CanonicalKey else key


def _row(key: Row) -> CanonicalKey:
    values = key._values
    if not _PLAIN.issuperset(map(type, values)):
        return _stand_in(key)
    short = key._schema, values
    known = _known_rows.get(short)
    if known is None:
        if len(_known_rows) >= _KNOWN_LIMIT:
            _known_rows.clear()
        known = _known_rows[short] = _stand_in(key)
    return known


def _frozen_form(kind: type) -> Form:
    """Return the form of a frozen dataclass, which compares as a tuple of its fields does."""
    names = tuple(kind.__dataclass_fields__)  # type: ignore[attr-defined]

    def frozen(key: Any) -> Any:
        fields = [getattr(key, name) for name in names]
        return key if _PLAIN.issuperset(map(type, fields)) or all(map(_is_plain, fields)) else _stand_in(key)

    return frozen


def _itself(key: Any) -> Any:
    return key


def _is_plain(key: Any) -> bool:
    return type(key) in _PLAIN or canonical_key(key) is key


def _form_of(kind: type) -> Form:
    if is_enum_or_type(kind):
        return _itself
    if kind.__name__ == "NaTType":  # of pandas: a datetime that is not equal to itself
        return _stand_in
    for base in kind.__mro__[1:]:
        if base in _FORMS and base is not object:
            return _stand_in if _compares_in_its_own_way(kind, base) else _FORMS[base]
    if kind.__module__ == "numpy" and callable(getattr(kind, "item", None)) and kind.__hash__ is not None:
        return _numpy
    parameters = kind.__dict__.get("__dataclass_params__")
    if parameters is not None and parameters.frozen and parameters.eq and _compares_all_fields(kind):
        return _frozen_form(kind)
    return _stand_in


def _compares_in_its_own_way(kind: type, base: type) -> bool:
    """Return whether a class below `base` says itself what is equal: dicts ask it, key groups do not."""
    below = kind.__mro__[: kind.__mro__.index(base)]
    return any(isinstance(vars(each).get("__eq__"), FunctionType) for each in below)


def _compares_all_fields(kind: type) -> bool:
    """Return whether a dataclass compares as the tuple of all its fields does, by the method made for it."""
    compare = kind.__dict__.get("__eq__")
    made = isinstance(compare, FunctionType) and compare.__code__.co_filename == "<string>"
    return made and all(field.compare for field in kind.__dataclass_fields__.values())  # type: ignore[attr-defined]


_FORMS: dict[type, Form] = {
    **dict.fromkeys(_PLAIN, _itself),
    bool: _bool,
    float: _float,
    Row: _row,
    tuple: _tuple,
}
