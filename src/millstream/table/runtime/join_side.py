"""One side of a join: its rows, which of them have which key, and which row a change is about.

Every row has a number. How a row that is taken back is found depends on the input::

    inserts only          never: rows are appended
    with a unique key     by the values of that key; the last change of a key in an epoch counts
    else                  by the values of all columns, with how many equal rows there are
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.table.runtime.epoch_operator import Input
from millstream.table.runtime.expiry import Expiry
from millstream.table.runtime.growing import GrowingRows, Lane
from millstream.table.runtime.key_slots import KeySlots
from millstream.table.runtime.multimap import Multimap
from millstream.table.runtime.sorting import first_places, last_places

__all__ = ["Delta", "JoinSide"]


@dataclass(frozen=True, slots=True)
class Delta:
    """How many of which rows come and go in an epoch.

    Attributes:
        rows: Numbers of rows, each once.
        weights: How many come, negative if they go; never 0.
        slots: The key of each.
        updates: Numbers of rows that are replaced, and of those in their place, of the same key; None if none are.
    """

    rows: Any
    weights: Any
    slots: Any
    updates: tuple[Any, Any] | None = None


class JoinSide:
    """Rows of one side.

    Args:
        kinds: Arrow types of the columns.
        unique: Places of the columns of a unique key; None if there is none.
        retracts: Whether rows are taken back.
        ttl_ms: How long rows are kept; None for ever.

    Attributes:
        rows: The rows.
        weights: How many of each there are.
        matches: How many rows of the other side match each.
        alone: How many of each were handed on without a partner (of a SEMI join: because they have one).
        slot_of: The key of each.
        expiry: When each came.
    """

    def __init__(
        self,
        kinds: Sequence[pa.DataType],
        unique: Sequence[int] | None,
        *,
        retracts: bool,
        ttl_ms: int | None,
    ) -> None:
        self._kinds = list(kinds)
        self._by_key = unique is not None and bool(unique)
        self._identity = list(unique) if unique else list(range(len(kinds)))
        self._retracts = retracts
        self.expiry = Expiry(ttl_ms)
        self.rows = GrowingRows(kinds)
        self.weights, self.matches, self.alone, self.slot_of = (Lane(np.int64) for _ in range(4))
        self._map = Multimap()
        self._known = KeySlots([kinds[place] for place in self._identity])
        self._at = Lane(np.int64, -1)

    def change(self, given: Input, slots: Any) -> Delta:
        """Return what an epoch's rows change; `apply` makes it so.

        Args:
            given: The rows.
            slots: The key of each.
        """
        if not self._retracts:
            rows = self._append(given.columns, slots)
            return Delta(rows, np.ones(given.count, np.int64), slots)
        weights = np.ones(given.count, np.int64) if given.weights is None else given.weights
        known = self._known.of([given.columns[place] for place in self._identity], given.count)
        at = self._at.reach(len(self._known))
        if self._by_key:
            return self._change_by_key(given, slots, weights, known, at)
        touched, first = first_places(known)
        net = np.zeros(len(touched), np.int64)
        np.add.at(net, np.searchsorted(touched, known), weights)
        new = np.flatnonzero((at[touched] < 0) & (net != 0))
        if len(new):
            places = first[new]
            indices = pa.array(places)
            at[touched[new]] = self._append([column.take(indices) for column in given.columns], slots[places])
        rows = at[touched]
        there = np.flatnonzero((rows >= 0) & (net != 0))
        rows, net = rows[there], net[there]
        return Delta(rows, net, self.slot_of.array[rows])

    def _change_by_key(self, given: Input, slots: Any, weights: Any, known: Any, at: Any) -> Delta:
        touched, last = last_places(known)
        before = at[touched]
        gone = before[before >= 0]
        comes = weights[last] > 0
        places = last[comes]
        indices = pa.array(places)
        come = self._append([column.take(indices) for column in given.columns], slots[places])
        at[touched] = -1
        at[touched[comes]] = come
        rows = np.concatenate([gone, come])
        net = np.concatenate([np.full(len(gone), -1), np.ones(len(come), np.int64)])
        both = (before >= 0) & comes
        replaced, by = before[both], at[touched[both]]
        same = self.slot_of.array[replaced] == self.slot_of.array[by]
        updates = (replaced[same], by[same]) if same.any() else None
        return Delta(rows, net, self.slot_of.array[rows], updates)

    def _append(self, columns: Sequence[pa.Array], slots: Any) -> Any:
        rows = self.rows.append(columns, len(slots))
        count = self.rows.count
        for lane in (self.weights, self.matches, self.alone):
            lane.reach(count)
        self.slot_of.reach(count)[rows] = slots
        self.expiry.reach(count)
        self._map.append(slots, rows)
        return rows

    def apply(self, delta: Delta, now_ms: int) -> Delta:
        """Have the rows come and go; return what that is: rows that were taken back before they came do not."""
        before = self.weights.array[delta.rows]
        after = before + delta.weights
        self.weights.array[delta.rows] = after
        self.expiry.touch(delta.rows[delta.weights > 0], now_ms)
        if not self._retracts:
            return delta
        net = np.maximum(after, 0) - np.maximum(before, 0)
        if (net != 0).all():
            return Delta(delta.rows, net, delta.slots, delta.updates)
        moved = net != 0
        return Delta(delta.rows[moved], net[moved], delta.slots[moved], delta.updates)

    def mark(self, rows: Any) -> None:
        """Note that what is kept of rows changes, other than by `apply`: here nobody has to know."""

    def of_slots(self, slots: Any, now_ms: int | None) -> tuple[Any, Any]:
        """Return the places in `slots`, and the rows that are there of each; None shows expired ones too."""
        who, rows = self._map.fetch(slots)
        there = self.weights.array[rows] > 0
        alive = None if now_ms is None else self.expiry.alive(rows, now_ms)
        if alive is not None:
            there &= alive
        if there.all():
            return who, rows
        return who[there], rows[there]

    def expire(self, now_ms: int) -> Any:
        """Forget rows that have expired; return their keys."""
        rows = self.expiry.expired(self.rows.count, now_ms)
        rows = rows[self.weights.array[rows] != 0]
        self.weights.array[rows] = 0
        if self._by_key and self._retracts:
            known = self._known.of(
                [self.rows.columns[place].take(rows) for place in self._identity], len(rows)
            )
            mine = self._at.array[known] == rows
            self._at.array[known[mine]] = -1
        return self.slot_of.array[rows]

    @property
    def used(self) -> Any:
        """The rows that are there, ascending."""
        return np.flatnonzero(self.weights.array[: self.rows.count])

    def keep(self, rows: Any, slots: Any) -> None:
        """Have some rows only, numbered anew in the order given.

        Args:
            rows: Their numbers.
            slots: Their keys, which are numbered anew as well.
        """
        self.rows.keep(rows)
        for lane in (self.weights, self.matches, self.alone):
            lane.keep(rows)
        self.slot_of.keep(rows)
        self.slot_of.array[: len(rows)] = slots
        self.expiry.keep(rows)
        self._map = Multimap()
        self._map.append(slots, np.arange(len(rows)))
        self._index()

    def _index(self) -> None:
        """Learn anew which rows are there."""
        self._known = KeySlots([self._kinds[place] for place in self._identity])
        self._at = Lane(np.int64, -1)
        self._learn(self.used)

    def _learn(self, rows: Any) -> None:
        """Learn where rows are found that are taken back."""
        if not self._retracts:
            return
        columns = [self.rows.columns[place].take(rows) for place in self._identity]
        known = self._known.of(columns, len(rows))
        self._at.reach(len(self._known))[known] = rows

    def entries(self, slots: Any) -> list[list[Any]]:
        """Return for each key its rows, for a checkpoint."""
        who, rows = self._map.fetch(slots)
        there = self.weights.array[rows] != 0
        who, rows = who[there], rows[there]
        order = np.lexsort((rows, who))
        who, rows = who[order], rows[order]
        lanes = (lane.array[rows].tolist() for lane in (self.weights, self.matches, self.alone))
        entries: list[list[Any]] = [[] for _ in range(len(slots))]
        for place, *row in zip(
            who.tolist(), *lanes, self.expiry.stamps(rows), self.rows.entries(rows), strict=True
        ):
            entries[place].append(tuple(row))
        return entries

    def restore(self, slots: Any, entries: Sequence[Sequence[Any]]) -> None:
        """Take over what `entries` gave."""
        flat = [row for each in entries for row in each]
        if not flat:
            return
        of = np.repeat(np.asarray(slots, np.int64), [len(each) for each in entries])
        weights, matches, alone, stamps, values = zip(*flat, strict=True)
        held = GrowingRows(self._kinds)
        rows = self._append(held.take(held.restore(list(values))), of)
        for lane, numbers in ((self.weights, weights), (self.matches, matches), (self.alone, alone)):
            lane.array[rows] = numbers
        self.expiry.restore(rows, stamps)
        self._learn(rows)
