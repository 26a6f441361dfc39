"""Kinds of change and weights: +1 for a row that comes, -1 for one that goes.

Inside operators the kinds of a batch are one column of weights. They become kinds again at emission, from what a
key's row was and is::

    was   is      emitted
    -     new     +I new
    old   new     -U old, +U new      nothing if they are equal; without -U if nobody wants it
    old   -       -D old

In a batch all rows that go come before all rows that come.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.spi.batch import Columns
from millstream.table.runtime.arrays import concat, differ

__all__ = [
    "DELETE",
    "INSERT",
    "UPDATE_AFTER",
    "UPDATE_BEFORE",
    "changed_rows",
    "columns_batch",
    "net_changes",
    "weighted",
    "weights_of",
]

INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = range(4)

_WEIGHTS = np.array([1, -1, 1, -1], np.int64)


def weights_of(kinds: Any) -> Any:
    """Return the weight of each row by its kind, an int8 array of Arrow's or numpy's."""
    return _WEIGHTS[np.asarray(kinds)]


def columns_batch(columns: Sequence[pa.Array], kinds: Any | None, count: int) -> Columns:
    """Return a batch of columns f0, f1, ...

    Args:
        columns: The columns.
        kinds: Of each row, numpy's; None if all are inserts.
        count: How many rows there are.
    """
    if columns:
        data = pa.RecordBatch.from_arrays(list(columns), [f"f{place}" for place in range(len(columns))])
    else:  # no columns, but rows
        data = pa.RecordBatch.from_struct_array(pa.array([{}] * count, pa.struct([])))
    return Columns(data, kinds=None if kinds is None else pa.array(kinds, pa.int8()))


def net_changes(
    keys: Sequence[pa.Array],
    old: Sequence[pa.Array],
    new: Sequence[pa.Array],
    *,
    existed: Any,
    exists: Any,
    before: bool,
    forced: Any | None = None,
) -> Columns | None:
    """Return what changed of the rows of some keys; None if nothing did.

    Args:
        keys: Columns that are the same before and after.
        old: What rows were.
        new: What they are.
        existed: Whether there was a row.
        exists: Whether there is one.
        before: Whether -U is wanted.
        forced: Rows that count as changed although they are equal; None for none.
    """
    unlike = changed_rows(old, new, existed & exists)
    if forced is not None:
        unlike |= forced
    gone = np.flatnonzero(existed & (~exists | unlike) if before else existed & ~exists)
    come = np.flatnonzero(exists & (~existed | unlike))
    if not len(gone) and not len(come):
        return None
    kinds = np.concatenate(
        [
            np.where(exists[gone], np.int8(UPDATE_BEFORE), np.int8(DELETE)),
            np.where(existed[come], np.int8(UPDATE_AFTER), np.int8(INSERT)),
        ]
    )
    both = pa.array(np.concatenate([gone, come]))
    columns = [key.take(both) for key in keys]
    going, coming = pa.array(gone), pa.array(come)
    columns += [
        concat([was.take(going), now.take(coming)]) if len(gone) else now.take(coming)
        for was, now in zip(old, new, strict=True)
    ]
    return columns_batch(columns, kinds if kinds.any() else None, len(kinds))


def changed_rows(old: Sequence[pa.Array], new: Sequence[pa.Array], both: Any) -> Any:
    """Return for each row whether any column differs, where there was one and is one."""
    unlike = np.zeros(len(both), bool)
    for was, now in zip(old, new, strict=True):
        if unlike.all():
            break
        unlike |= differ(was, now)
    return unlike & both


def weighted(columns: Sequence[pa.Array], weights: Any, *, update: Any | None = None) -> Columns | None:
    """Return rows with weights as a changelog: those that go first, a row of weight n as n rows.

    Args:
        columns: The rows.
        weights: Of each; of weight 0 nothing comes.
        update: Where rows are halves of an update (-U, +U); None for nowhere.
    """
    repeats = np.abs(weights)
    gone, come = np.flatnonzero(weights < 0), np.flatnonzero(weights > 0)
    order = np.concatenate([gone, come])
    if not len(order):
        return None
    kinds = np.where(weights[order] < 0, np.int8(DELETE), np.int8(INSERT))
    if update is not None:
        halves = update[order]
        kinds = np.where(
            halves, np.where(kinds == DELETE, np.int8(UPDATE_BEFORE), np.int8(UPDATE_AFTER)), kinds
        )
    often = repeats[order]
    if (often > 1).any():
        order, kinds = np.repeat(order, often), np.repeat(kinds, often)
    if len(order) == len(weights) and not len(gone):
        taken = list(columns)
    else:
        taken = [column.take(pa.array(order)) for column in columns]
    return columns_batch(taken, kinds if kinds.any() else None, len(order))
