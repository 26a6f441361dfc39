"""Who owns a value: what was emitted is what it was when it was emitted.

**The invariant.** Operators work on whole batches, so a user's function goes on long before the next operator sees
what it has emitted. Every value of a batch that is handed on is therefore *deeply immutable*, or *the pipeline's
alone*: nobody else refers to it or to anything in it that can be changed. What is neither is replaced by a copy at the
moment it is emitted, before the user's code runs again::

    user's function         this module                           next operator
    yield row      ──►  immutable? ── yes ──────────────────────►  row
                        │ no
                        referred to by us only? ── yes ─────────►  row
                        │ no: the function, its state, another value
                        copy (value_copies) ────────────────────►  copy of row

So a batch may wait in a chain, an exchange or a window for as long as it likes, and whoever receives a value may change
it: nobody else sees that, neither an upstream function's members and state nor another branch.

**Who keeps it.**

- Loops that call user code protect each result before the next call: `protect` for what a function returned,
  `take_all` for what it yielded or returned as a list (`operators/results.py` has these loops).
- What user code saw and did not return (filters, key selectors, timestamp assigners, readers of sources) is claimed:
  `claim`.
- Where the pipeline itself gives a value to several (branches of a stream, overlapping windows), each gets its own:
  `copy_of`, `copies`, `copy_of_batch`.
- What is put into state, or kept by a member, stays shared with it: only handing on protects.

**How.** The class of a value says most (`value_kinds`). Whether it is ours alone is told by reference counts: a fresh
list is held by one local variable of the loop, and what is in it by the list. An object that is held by more is shared,
rightly or not, and copied; a count is never too low. Weak references are looked for.

**What it costs.** One look at the class of a result; of a tuple, at each of its items. Functions that can be seen to do
nothing but compute (`plain_functions`) are not looked at. See benchmarks/results/values.md.

An object that cannot be copied (a socket, a lock, a generator) is handed on as it is; between processes it is an error.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from gc import get_referents
from itertools import repeat
from sys import getrefcount
from typing import Any
from weakref import getweakrefcount

from millstream.common.output_tag import OutputTag
from millstream.operators.tuple_shapes import all_of_shape, are_own_rows, row_shape_of, shape_of
from millstream.operators.value_copies import copy_of
from millstream.operators.value_kinds import ATOMIC, Kind, is_immutable, kind_of
from millstream.spi.batch import Batch, Columns, Rows
from millstream.types.row import Row, copy_rows

__all__ = [
    "ATOMIC",
    "all_immutable",
    "claim",
    "copies",
    "copy_of",
    "copy_of_batch",
    "cut",
    "is_immutable",
    "protect",
    "protect_produced",
    "take_all",
]


def protect(value: Any, held: int = 0) -> Any:
    """Return what a function returned, or a copy if it could change later.

    Called with a local variable's value, before the function is called again.

    Args:
        value: The result.
        held: How many references to it are known to be the pipeline's, beside the caller's variable.
    """
    cls = type(value)
    if cls in ATOMIC or (cls is tuple and _are_atoms(value)):
        return value
    if getrefcount(value) > _VARIABLE_REFS + held:
        return copy_of(value)
    if cls is dict:
        if _are_atoms(value) and _are_atoms(value.values()):
            return value
    elif (cls is list and _are_atoms(value)) or (cls is Row and _are_atoms(value._values)):
        return value
    return value if _is_sole_owner(value) else copy_of(value)


def _are_atoms(items: Iterable[Any]) -> bool:
    for item in items:  # noqa: SIM110 - `all` would take three times as long
        if type(item) not in ATOMIC:
            return False
    return True


def protect_produced(value: Any, produced: Iterable[Any], tagged: list[bool], held: int = 0) -> Any:
    """Return one of the results that a function yielded, or returned as a list, or a copy if it could change later.

    Called in a loop over `produced`, with local variables' values.

    Args:
        value: The result.
        produced: What the function returned; what is in a list is ours if the list is.
        tagged: Gets an entry if the result is `(OutputTag, value)`.
        held: How many references to `produced` are known to be the pipeline's, beside the caller's variable and loop.
    """
    if type(value) is tuple and len(value) == 2 and type(value[0]) is OutputTag:
        tagged.append(True)
    cls = type(produced)
    listed = (cls is list or cls is tuple) and getrefcount(produced) <= _PRODUCED_REFS + held
    return protect(value, _DEEPER_REFS + 1 if listed else _DEEPER_REFS)


def _is_sole_owner(value: Any) -> bool:
    """Return whether nobody but `value` refers to what is in it and can be changed."""
    if not _COUNTS_TELL:
        return False
    if _is_shared_unseen(value, kind_of(type(value))):
        return False
    pending = [value]
    while pending:
        whole = pending.pop()
        for part in get_referents(whole):
            cls = type(part)
            if cls in ATOMIC:
                continue
            kind = kind_of(cls)
            if kind is Kind.IMMUTABLE:
                continue
            if getrefcount(part) > _PART_REFS or _is_shared_unseen(part, kind):
                if is_immutable(part):
                    continue
                return False
            pending.append(part)
    return True


def _is_shared_unseen(value: Any, kind: Kind) -> bool:
    """Return whether somebody may refer to an object, or to its memory, whom the count does not tell of."""
    if kind is Kind.ARRAY:
        return value.base is not None or not value.flags.owndata or value.dtype.hasobject
    return kind is Kind.OPAQUE or (type(value).__weakrefoffset__ != 0 and getweakrefcount(value) > 0)


def claim(values: list[Any], held: int = 0) -> list[Any]:
    """Replace those of a list's values that somebody else could change; returns the list.

    For values that user code saw and may have kept. The list is the caller's, and nobody else's.

    Args:
        values: The values.
        held: How many references to each are known to be the pipeline's, beside the list's.
    """
    shape = row_shape_of(values[0]) if values else None
    if shape is not None and are_own_rows(len(shape))(values, shape, held):
        return values
    if not all_immutable(values):
        for index, value in enumerate(values):
            if type(value) not in ATOMIC:
                values[index] = protect(value, held + _LISTED_REFS)
    return values


def all_immutable(values: list[Any]) -> bool:
    """Return whether no value can be changed; quick for numbers, strings and tuples of them."""
    shape = shape_of(values[0]) if values else None
    if shape is not None and all_of_shape(len(shape))(values, shape, ATOMIC):
        return True
    for value in values:
        cls = type(value)
        if cls is tuple:
            for item in value:
                if type(item) not in ATOMIC and not is_immutable(item):
                    return False
        elif cls not in ATOMIC and not is_immutable(value):
            return False
    return True


def copies(values: list[Any]) -> list[Any]:
    """Return a list of copies that share nothing that can be changed; immutable values are themselves."""
    shape = row_shape_of(values[0]) if values else None
    if shape is not None and are_own_rows(len(shape))(values, shape, sys.maxsize):
        return copy_rows(values)
    if all_immutable(values):
        return values.copy()
    return [value if type(value) in ATOMIC else copy_of(value) for value in values]


def copy_of_batch(batch: Batch) -> Batch:
    """Return a batch that shares nothing that can be changed with the other; columns are shared."""
    if type(batch) is Columns:
        return batch
    assert type(batch) is Rows
    timestamps = batch.timestamps
    return Rows(copies(batch.values), None if timestamps is None else timestamps.copy(), batch.marks)


def cut(values: list[Any], start: int, stop: int) -> list[Any]:
    """Take a part out of a list, which no longer refers to it then: what is in it stays its holder's alone."""
    part = values[start:stop]
    values[start:stop] = repeat(None, len(part))
    return part


def take_all(produced: Iterable[Any], results: list[Any], tagged: list[bool] | None = None) -> None:
    """Append what a function yielded or returned as a list, each result protected before the function goes on.

    Called with a local variable's value. Loops that are hot have this loop in themselves.

    Args:
        produced: What the function returned.
        results: Gets its elements.
        tagged: Gets an entry for each result `(OutputTag, value)`.
    """
    append = results.append
    tags = [] if tagged is None else tagged
    for result in produced:
        if type(result) is tuple:
            for item in result:
                if type(item) not in ATOMIC:
                    break
            else:
                append(result)
                continue
            item = None  # it counts as a reference
        elif type(result) in ATOMIC:
            append(result)
            continue
        append(protect_produced(result, produced, tags, 1))


def _count(value: Any) -> int:
    return getrefcount(value)


def _measure_variable() -> int:
    """Return the count that `protect` sees of an object held by one variable of its caller."""
    fresh: list[Any] = []
    return _count(fresh)


def _measure_deeper() -> int:
    """Return how many more references are seen of an object that is handed on to another function."""

    def hand_on(value: Any) -> int:
        return _count(value)

    fresh: list[Any] = []
    return hand_on(fresh) - _VARIABLE_REFS


def _measure_part() -> int:
    """Return the count that `_is_sole_owner` sees of an object held by its whole."""
    whole: list[Any] = [[]]
    for part in get_referents(whole):
        return getrefcount(part)
    raise AssertionError("a list without its item")


def _measure_produced() -> int:
    """Return the count that `protect_produced` sees of a list held by one variable of its caller, who loops over it."""
    fresh: list[Any] = [0]
    for _ in fresh:
        return _count(fresh)
    raise AssertionError("a list without its item")


def _measure_listed() -> int:
    """Return how many more references `protect` sees in `claim` than those of its caller's variable."""
    values: list[Any] = [[], []]
    for _, value in enumerate(values):
        return _count(value) - _VARIABLE_REFS
    raise AssertionError("a list without its items")


_VARIABLE_REFS = _measure_variable()
_DEEPER_REFS = _measure_deeper()
_PART_REFS = _measure_part()
_PRODUCED_REFS = _measure_produced()
_LISTED_REFS = _measure_listed()

_COUNTS_TELL = getattr(sys, "_is_gil_enabled", lambda: True)()
"""Without the interpreter's lock counts are spread over threads, and everything is copied."""
