"""Joins of two changing inputs.

What an epoch changes on the left meets the right side as it was, then what it changes on the right meets the left side
as it is::

    dL x R   apply dL   dR x L   apply dR      weights are multiplied

Rows of which a side is kept without partner (outer joins), or which are all there is to see (SEMI, ANTI), have a count
of matches; they are handed on, or taken back, when it leaves 0 or comes to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from millstream.operators.base import OperatorContext, Output, OwnEntries
from millstream.state.snapshots import Entries, KeyedStatePatch, StateChanges, States
from millstream.table.expressions.rex import RowSchema
from millstream.table.plan.logical import JoinKind
from millstream.table.runtime.arrays import arrow_types, concat, conform, validity_of
from millstream.table.runtime.changes import weighted
from millstream.table.runtime.epoch_operator import EpochOperator, Input
from millstream.table.runtime.evaluation import Expressions
from millstream.table.runtime.group_aggregate import distinct_slots
from millstream.table.runtime.join_rows import JoinRows, RowsInMemory
from millstream.table.runtime.join_side import Delta, JoinSide
from millstream.table.runtime.key_slots import KeySlots
from millstream.table.runtime.sorting import stable_argsort
from millstream.table.runtime.spill.spilled_keys import SpilledKeys
from millstream.table.runtime.spill.spilled_side import SpilledSide

if TYPE_CHECKING:
    from millstream.table.runtime.join_specs import JoinSpec

__all__ = ["LEFT", "RIGHT", "JoinOperator", "joined_schema"]

LEFT, RIGHT = "left", "right"
"""Entries of the sides: key -> [(how many, matches, alone, since, row), ...]."""

_HALF = 32
_DENSE = 8
"""A table of all rows up to the last one is made where it is at most so many times what is looked up."""

_ALONE = {
    JoinKind.LEFT: (True, False),
    JoinKind.RIGHT: (False, True),
    JoinKind.FULL: (True, True),
    JoinKind.SEMI: (True, False),
    JoinKind.ANTI: (True, False),
    JoinKind.INNER: (False, False),
}


def joined_schema(left: RowSchema, right: RowSchema) -> RowSchema:
    """Return the columns of two inputs behind each other."""
    return RowSchema(left.names + right.names, left.types + right.types)


def _places_in(rows: Any, wanted: Any) -> Any:
    """Return where each wanted row is among some; -1 where it is not."""
    if not len(wanted):
        return np.zeros(0, np.int64)
    span = int(max(rows.max(), wanted.max())) + 1
    if span <= _DENSE * (len(rows) + len(wanted)):
        table = np.full(span, -1, np.int64)
        table[rows[::-1]] = np.arange(len(rows) - 1, -1, -1)  # the first place of a row that is there twice
        return table[wanted]
    order = stable_argsort(rows)
    ordered = rows[order]
    place = np.minimum(np.searchsorted(ordered, wanted), len(rows) - 1)
    return np.where(ordered[place] == wanted, order[place], -1)


class _Pairs:
    """Pairs of rows with weights; `changes` is the part of the side that changed."""

    def __init__(self, left: Any, right: Any, weights: Any, changes: Any = None) -> None:
        self.left, self.right, self.weights, self.changes = left, right, weights, changes


class JoinOperator(EpochOperator):
    """Joins by key."""

    whole_in_batch = True

    def __init__(self, spec: JoinSpec) -> None:
        left, right = arrow_types(spec.left), arrow_types(spec.right)
        super().__init__(
            [left, right],
            [spec.left_retracts or spec.left_upserts, spec.right_retracts or spec.right_upserts],
        )
        self._spec = spec
        self._places = [list(spec.left_keys), list(spec.right_keys)]
        self._key_kinds = [left[place] for place in spec.left_keys]
        self._keys = KeySlots(self._key_kinds)
        self._sides = [
            JoinSide(left, spec.left_unique, retracts=self._retracts[0], ttl_ms=spec.ttl_left_ms),
            JoinSide(right, spec.right_unique, retracts=self._retracts[1], ttl_ms=spec.ttl_right_ms),
        ]
        condition = spec.condition
        self._condition = (
            None
            if condition is None
            else Expressions([condition], joined_schema(spec.left, spec.right), spec.zone)
        )
        self._alone = _ALONE[spec.join]
        self._pairs_matter = spec.join not in (JoinKind.SEMI, JoinKind.ANTI)
        self._right_rows = self._right_nulls = 0
        self._held: JoinRows = RowsInMemory(self._keys, self._sides, (LEFT, RIGHT))

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Learn where state lives: on disk, if keyed state does, and there are keys to find it by."""
        super().setup(context, output)
        disk = None if context.keyed_state is None else context.keyed_state.disk
        if disk is None or not self._spec.left_keys or self._spec.null_aware or context.batch:
            return
        spec = self._spec
        sides = [
            SpilledSide(
                self._kinds[index],
                (spec.left_unique, spec.right_unique)[index],
                retracts=self._retracts[index],
                alone=self._alone[index],
                ttl_ms=(spec.ttl_left_ms, spec.ttl_right_ms)[index],
                keys=self._places[index],
                key_kinds=self._key_kinds,
                directory=Path(disk.directory) / name,
            )
            for index, name in enumerate((LEFT, RIGHT))
        ]
        self._sides = list(sides)
        self._held = SpilledKeys(
            self._keys,
            sides,
            (LEFT, RIGHT),
            budget_bytes=disk.cache_bytes,
            max_parallelism=context.max_parallelism,
        )

    def open(self) -> None:
        """Make the condition ready."""
        if self._condition is not None:
            self._condition.open(self.context)

    def close(self) -> None:
        """Close user functions."""
        if self._condition is not None:
            self._condition.close()
        self._held.close()

    def work(self, inputs: list[Input | None]) -> None:
        """Join what an epoch changes."""
        now_ms = self.context.time.now_ms
        found: list[_Pairs] = []
        looked: list[list[Any]] = [[], []]
        updates: list[tuple[Any, Any] | None] = [None, None]
        forgets = self._null_aware_counts()
        for index, given in enumerate(inputs):
            if given is None:
                continue
            delta, joins = self._delta(index, given, now_ms)
            looked[index].append(delta.rows)
            updates[index] = delta.updates
            if not len(delta.rows):
                continue
            if index == 1 and self._spec.null_aware:
                self._right_rows += int(delta.weights.sum())
                self._right_nulls += 0 if joins is None else int(delta.weights[~joins].sum())
            pairs = self._meet(index, delta, joins, now_ms)
            self._count_matches(index, delta, pairs)
            looked[1 - index].append(pairs.right if index == 0 else pairs.left)
            found.append(pairs)
        if forgets != self._null_aware_counts():
            looked[0].append(self._sides[0].used)
        self._hand_on(found, looked, updates)
        self._held.end_round(now_ms)

    def _null_aware_counts(self) -> tuple[bool, bool]:
        return self._right_rows > 0, self._right_nulls > 0

    def _delta(self, index: int, given: Input, now_ms: int) -> tuple[Delta, Any]:
        """Return what changes on a side, already made so, and which of the rows may meet others."""
        side = self._sides[index]
        keys = [
            conform(given.columns[place], kind)
            for place, kind in zip(self._places[index], self._key_kinds, strict=True)
        ]
        slots = self._keys.of(keys, given.count)
        null_keys = self._have_null(keys, given.count)
        if null_keys is not None and not self._alone[index] and not self._spec.null_aware:
            kept = np.flatnonzero(~null_keys)
            given, slots, null_keys = given.take(kept), slots[kept], None
        self._held.note(slots)
        if self._retracts[index]:
            self._held.bring(index, slots)
        self._held.bring(1 - index, slots if null_keys is None else slots[~null_keys])
        delta = side.apply(side.change(given, slots), now_ms)
        if null_keys is None:
            return delta, None
        # Whether a key has a NULL is a property of its slot.
        nulls = np.zeros(len(self._keys), bool)
        nulls[slots[null_keys]] = True
        return delta, ~nulls[delta.slots]

    def _have_null(self, keys: list[pa.Array], count: int) -> Any | None:
        nulls = None
        for place, key in enumerate(keys):
            valid = validity_of(key)
            if valid is not None and not (self._spec.null_safe and self._spec.null_safe[place]):
                nulls = ~valid if nulls is None else nulls | ~valid
        return nulls

    def _meet(self, index: int, delta: Delta, joins: Any, now_ms: int) -> _Pairs:
        """Return the pairs of a side's changes and the other side's rows."""
        places = None if joins is None or joins.all() else np.flatnonzero(joins)
        slots = delta.slots if places is None else delta.slots[places]
        who, others = self._sides[1 - index].of_slots(slots, now_ms)
        if places is not None:
            who = places[who]
        mine, changes = delta.rows[who], delta.weights[who]
        weights = changes
        if self._retracts[1 - index]:
            weights = changes * self._sides[1 - index].weights.array[others]
        left, right = (mine, others) if index == 0 else (others, mine)
        pairs = _Pairs(left, right, weights, changes)
        if self._condition is None or not len(mine):
            return pairs
        columns = [*self._sides[0].rows.take(pairs.left), *self._sides[1].rows.take(pairs.right)]
        holds = self._condition.holds(columns, len(mine))
        if holds.all():
            return pairs
        return _Pairs(left[holds], right[holds], weights[holds], changes[holds])

    def _count_matches(self, index: int, delta: Delta, pairs: _Pairs) -> None:
        """Count for rows of both sides how many they match."""
        mine, others = (pairs.left, pairs.right) if index == 0 else (pairs.right, pairs.left)
        own, other = self._sides[index], self._sides[1 - index]
        if self._alone[index]:
            # Of rows that come, all there is of the other side.
            own.matches.array[delta.rows] = 0
            own.mark(delta.rows)
            np.add.at(own.matches.array, mine, other.weights.array[others])
        if self._alone[1 - index]:
            np.add.at(other.matches.array, others, pairs.changes)
            other.mark(others)

    def _hand_on(
        self, found: list[_Pairs], looked: list[list[Any]], updates: list[tuple[Any, Any] | None]
    ) -> None:
        columns: list[list[pa.Array]] = []
        weights: list[Any] = []
        halves = None
        if self._pairs_matter:
            pairs = self._net(found)
            if pairs is not None and len(pairs.weights):
                columns.append(
                    [*self._sides[0].rows.take(pairs.left), *self._sides[1].rows.take(pairs.right)]
                )
                weights.append(pairs.weights)
                if self._spec.before and self._spec.join is JoinKind.INNER:
                    halves = self._halves(pairs, updates)
        for index in (0, 1):
            if self._alone[index] and looked[index]:
                rows, changed = self._change_alone(index, np.concatenate(looked[index]))
                if len(rows):
                    columns.append(self._padded(index, rows))
                    weights.append(changed)
        if weights:
            whole = [concat(parts) for parts in zip(*columns, strict=True)]
            self.emit(weighted(whole, np.concatenate(weights), update=halves))

    def _halves(self, pairs: _Pairs, updates: list[tuple[Any, Any] | None]) -> Any | None:
        """Return where pairs are halves of an update (-U, +U) of an inner join; None for nowhere.

        They are where a row took the place of another one with the same unique key, and both meet the same row.
        """
        halves = None
        for index, update in enumerate(updates):
            if update is None:
                continue
            mine, others = (pairs.left, pairs.right) if index == 0 else (pairs.right, pairs.left)
            place = _places_in(np.concatenate(update), mine)
            known = np.flatnonzero(place >= 0)
            marks = place[known] % len(update[0]) << _HALF | others[known]
            order = np.argsort(marks)
            ordered = marks[order]
            same = np.zeros(len(order) + 1, bool)
            np.equal(ordered[1:], ordered[:-1], out=same[1:-1])
            found = np.zeros(len(mine), bool)
            # A row meets another one once, so there are two at most.
            found[known[order]] = same[1:] | same[:-1]
            halves = found if halves is None else halves | found
        return halves

    def _net(self, found: list[_Pairs]) -> _Pairs | None:
        """Return all pairs; those that came and went in the epoch are left out."""
        if len(found) < 2:
            return found[0] if found else None
        left, right, weights = (
            np.concatenate([getattr(each, name) for each in found]) for name in ("left", "right", "weights")
        )
        if not (weights < 0).any():
            return _Pairs(left, right, weights)
        both, places = np.unique(left << _HALF | right, return_inverse=True)
        net = np.zeros(len(both), np.int64)
        np.add.at(net, places, weights)
        moved = net != 0
        both, net = both[moved], net[moved]
        return _Pairs(both >> _HALF, both & (1 << _HALF) - 1, net)

    def _change_alone(self, index: int, rows: Any) -> tuple[Any, Any]:
        """Return rows that are now handed on by themselves, or not any more, and how many of each."""
        side = self._sides[index]
        rows = distinct_slots(rows, side.rows.count)
        there = np.maximum(side.weights.array[rows], 0)
        matched = side.matches.array[rows] > 0
        if self._spec.join is JoinKind.SEMI:
            now = np.where(matched, there, 0)
        else:
            now = np.where(matched, 0, there)
        if self._spec.null_aware and self._right_rows > 0:
            now = np.zeros_like(now) if self._right_nulls > 0 else np.where(self._null_left(rows), 0, now)
        before = side.alone.array[rows]
        side.alone.array[rows] = now
        changed = now - before
        moved = np.flatnonzero(changed)
        if len(moved):
            side.mark(rows[moved])
            self._held.note(side.slot_of.array[rows[moved]])
        return rows[moved], changed[moved]

    def _null_left(self, rows: Any) -> Any:
        nulls = np.zeros(len(rows), bool)
        for place in self._spec.left_keys:
            valid = validity_of(self._sides[0].rows.columns[place].take(rows))
            if valid is not None:
                nulls |= ~valid
        return nulls

    def _padded(self, index: int, rows: Any) -> list[pa.Array]:
        own = self._sides[index].rows.take(rows)
        if not self._pairs_matter:
            return own
        others = [pa.nulls(len(rows), kind) for kind in self._kinds[1 - index]]
        return [*own, *others] if index == 0 else [*others, *own]

    def end_epoch(self, report: Any, *, checkpoint: bool) -> None:
        """End the epoch; forget what has expired, and now and then give back the room of rows that are gone."""
        super().end_epoch(report, checkpoint=checkpoint)
        now_ms = self.context.time.now_ms
        for side in self._sides:
            if side.expiry.is_due(now_ms):
                self._held.note(side.expire(now_ms))
                self._held.expire(now_ms)
        if checkpoint:
            self._held.squeeze()

    def snapshot_state(self) -> tuple[int, int] | None:
        """Return how many right rows there are, and how many with a NULL key, where that matters."""
        return (self._right_rows, self._right_nulls) if self._spec.null_aware else None

    def restore_state(self, snapshot: tuple[int, int], scope: Any) -> None:
        """Take over how many right rows there are."""
        if snapshot is not None and scope.adopts:
            self._right_rows += snapshot[0]
            self._right_nulls += snapshot[1]

    def snapshot_entries(self) -> Iterator[OwnEntries]:
        """Return the rows of each key, side by side."""
        for name, held in self._held.entries():
            yield name, None, held

    def snapshot_groups(self) -> Iterator[tuple[int, States]] | None:
        """Return the rows by key group, in columns, if they are on disk."""
        return self._held.states()

    def changed_groups(self) -> Iterator[tuple[int, KeyedStatePatch]] | None:
        """Return what changed by key group, in columns, if rows are on disk."""
        return self._held.patches()

    def changed_entries(self, changes: StateChanges) -> bool:
        """Add the rows of keys that changed."""
        return self._held.changed_entries(changes)

    def forget_changes(self) -> None:
        """Take what is there as known."""
        self._held.forget_changes()

    def restore_entries(self, name: str, entries: Entries) -> None:
        """Take over the rows of keys of one side."""
        if entries:
            self._held.restore(name, entries)
            self._held.end_round(self.context.time.now_ms)
