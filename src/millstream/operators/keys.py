"""The keys of a batch of records, as state, windows and timers take them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

from millstream.operators.field_functions import getter_of
from millstream.operators.user_code import apply_to_each, attach_element
from millstream.state.keys import are_plain, canonical_key, canonical_keys
from millstream.types.typeinfo import TypeInformation

__all__ = [
    "TypedSelector",
    "key_fields",
    "key_list",
    "key_portions",
    "keys_of",
    "typed_selector",
    "unused_key_portions",
]

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


def key_fields(select: KeySelect) -> tuple[str, ...] | None:
    """Return the fields that are the key, if a selector says so: the key is the only one, or a tuple of them."""
    fields = getattr(select, "fields", None)
    return fields if isinstance(fields, tuple) and all(isinstance(each, str) for each in fields) else None


def key_portions(
    select: KeySelect, values: list[Any], touched: set[Any] | None
) -> Iterator[tuple[list[Any], list[Any]]]:
    """Return a few records at a time with their canonical keys, so that both are in the processor's cache when used.

    Args:
        select: Gives a record's key.
        values: The records.
        touched: Gets the keys, those of a portion before it comes; None if nobody asks for them.

    Raises:
        ConfigurationError: If a key has no canonical form; the record is noted on it, as on a selector's own errors.
    """
    for start in range(0, len(values), _PORTION):
        portion = values[start : start + _PORTION]
        keys = key_list(select, portion)
        if touched is not None:
            touched.update(keys)
        yield portion, keys


def unused_key_portions(
    select: KeySelect, values: list[Any], touched: set[Any] | None
) -> Iterator[tuple[list[Any], None]]:
    """Return records as `key_portions` does, where only `touched` needs their keys; wrong ones are told all the same.

    Raises:
        ConfigurationError: As `key_portions` does.
    """
    getter = getter_of(select) if touched is None else None
    for start in range(0, len(values), _PORTION):
        portion = values[start : start + _PORTION]
        if getter is None or not _are_plain(getter, portion):
            keys = key_list(select, portion)
            if touched is not None:
                touched.update(keys)
        yield portion, None


def _are_plain(getter: Callable[[Any], Any], values: list[Any]) -> bool:
    """Return whether the keys of records stand for themselves: False where that has to be looked at."""
    try:
        return are_plain(map(getter, values), len(values))
    except Exception:  # noqa: BLE001 - the selector itself says what is wrong, in its own lines
        return False


def keys_of(select: KeySelect, values: list[Any], touched: set[Any] | None = None) -> Iterator[Any]:
    """Return the canonical key of each record, as `key_portions` does; each key is there just before its use.

    Raises:
        ConfigurationError: As `key_portions` does.
    """
    return chain.from_iterable(keys for _, keys in key_portions(select, values, touched))


def key_list(
    select: KeySelect, values: list[Any], use: Callable[[list[Any]], list[Any]] = canonical_keys
) -> list[Any]:
    """Return the canonical keys of a few records.

    Args:
        select: Gives a record's key.
        values: The records.
        use: Makes something else of the keys as they were selected, one for each.
    """
    key_type: TypeInformation | None = None
    if isinstance(select, TypedSelector):
        key_type = select.key_type
        select = select.select
    keys = apply_to_each(select, values)
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
