"""The keys of a batch of records, as state, windows and timers take them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

from millstream.operators.user_code import attach_element
from millstream.state.keys import canonical_key, canonical_keys

__all__ = ["key_list", "keys_of"]

_PORTION = 1_024

KeySelect = Callable[[Any], Any]


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
    try:
        keys.extend(map(select, values))  # keeps those before an error
    except BaseException as error:
        attach_element(error, values[len(keys)])
        raise
    try:
        return use(keys)
    except BaseException:
        for key, value in zip(keys, values, strict=True):
            try:
                canonical_key(key)
            except BaseException as error:
                attach_element(error, value)
                raise
        raise
