"""The keys of a batch of records, as state, windows and timers take them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

from millstream.common.typeinfo import TypeInformation
from millstream.operators.user_code import attach_element
from millstream.state.keys import canonical_key, canonical_keys

__all__ = ["TypedSelector", "key_list", "keys_of", "typed_selector"]

_PORTION = 1_024

KeySelect = Callable[[Any], Any]


class TypedSelector:
    """Gives keys as their declared type has them: of DOUBLE the int 1 is the key 1.0, of TUPLE a list is a tuple.

    Args:
        select: Gives a record's key.
        key_type: The declared type.
    """

    def __init__(self, select: KeySelect, key_type: TypeInformation) -> None:
        self.select = select
        self.key_type = key_type

    def __call__(self, value: Any) -> Any:
        """Return a record's key."""
        return _typed([self.select(value)], self.key_type)[0]


def _typed(keys: list[Any], key_type: TypeInformation) -> list[Any]:
    """Return keys as the type has them; those that do not fit it stay as they are: no key is refused by its type."""
    if key_type.find_mismatch(keys) is None:
        return key_type.conform(keys)
    return keys if len(keys) == 1 else [_typed([key], key_type)[0] for key in keys]


def typed_selector(select: KeySelect, key_type: TypeInformation | None) -> KeySelect:
    """Return a selector whose keys are of the declared type; itself where the type changes nothing."""
    return select if key_type is None or not key_type.adapts() else TypedSelector(select, key_type)


def keys_of(select: KeySelect, values: list[Any]) -> Iterator[Any]:
    """Return the canonical key of each record, selected a few records ahead of their use.

    Raises:
        ConfigurationError: If a key has no canonical form; the record is noted on it, as on a selector's own errors.
    """
    if len(values) <= _PORTION:
        return iter(key_list(select, values))
    starts = range(0, len(values), _PORTION)
    return chain.from_iterable(key_list(select, values[start : start + _PORTION]) for start in starts)


def key_list(
    select: KeySelect, values: list[Any], use: Callable[[list[Any]], list[Any]] = canonical_keys
) -> list[Any]:
    """Return the canonical keys of a few records.

    Args:
        select: Gives a record's key.
        values: The records.
        use: Makes something else of the keys as they were selected, one for each.
    """
    keys: list[Any] = []
    key_type: TypeInformation | None = None
    if isinstance(select, TypedSelector):
        key_type = select.key_type
        select = select.select
    try:
        keys.extend(map(select, values))  # keeps those before an error
    except BaseException as error:
        attach_element(error, values[len(keys)])
        raise
    try:
        return use(keys if key_type is None else _typed(keys, key_type))
    except BaseException:
        for key, value in zip(keys, values, strict=True):
            try:
                canonical_key(key)
            except BaseException as error:
                attach_element(error, value)
                raise
        raise
