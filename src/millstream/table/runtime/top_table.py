"""The first rows of each group by an order, kept up to date.

Rows are in a pool (`join_side.JoinSide`); a matrix has for each group the numbers of its first rows. Of rows that only
come, those that are not among the first are not kept, and most are left out by a look at the last of the first. Of rows
that also go, all are kept; a group's are looked at again only when one of its first went.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.table.expressions.rex import SortKey
from millstream.table.runtime.epoch_operator import Input
from millstream.table.runtime.growing import Lane
from millstream.table.runtime.join_side import JoinSide
from millstream.table.runtime.multimap import runs_of
from millstream.table.runtime.ordering import leading_numbers, sorted_places
from millstream.table.runtime.sorting import first_places

__all__ = ["TopChange", "TopTable"]

_NONE = -1
_LEAST_DEAD = 1 << 14


@dataclass(frozen=True, slots=True)
class TopChange:
    """What an epoch changed.

    Attributes:
        slots: The groups that were looked at.
        before: Rows of each at each place, -1 where there is none.
        now: The same, now.
    """

    slots: Any
    before: Any
    now: Any


class TopTable:
    """First rows of groups.

    Args:
        kinds: Arrow types of the columns.
        order: What rows are sorted by; equal ones stay in the order in which they came.
        most: How many rows of a group count.
        retracts: Whether rows are taken back.
        unique: Places of columns that tell a row from all others; None if there are none.
        end_column: Place of a column that has `most` instead; the first row of a group decides.
        newest: Whether equal rows are in the reverse of the order in which they came.

    Attributes:
        pool: The rows.
    """

    def __init__(
        self,
        kinds: Sequence[pa.DataType],
        order: Sequence[SortKey],
        most: int,
        *,
        retracts: bool,
        unique: Sequence[int] | None = None,
        end_column: int | None = None,
        newest: bool = False,
    ) -> None:
        self._order = list(order)
        self._most = most
        self._retracts = retracts
        self._end_column = end_column
        self._newest = newest
        self.pool = JoinSide(kinds, unique, retracts=retracts, ttl_ms=None)
        self._top = np.full((16, max(1, min(most, 1))), _NONE, np.int64)
        self._limits = Lane(np.int64, -1 if end_column is not None else most)
        self._full = Lane(bool, fill=False)
        self._worst = Lane(np.int64)
        self._in_top = Lane(bool, fill=False)

    def reach(self, count: int) -> None:
        """Make room for so many groups."""
        self._limits.reach(count)
        self._full.reach(count)
        self._worst.reach(count)
        rows, width = self._top.shape
        if count > rows:
            grown = np.full((max(2 * rows, count), width), _NONE, np.int64)
            grown[:rows] = self._top
            self._top = grown

    def _widen(self, width: int) -> None:
        rows, have = self._top.shape
        if width > have:
            grown = np.full((rows, width), _NONE, np.int64)
            grown[:, :have] = self._top
            self._top = grown

    def add(self, slots: Any, given: Input) -> TopChange | None:
        """Add and take back rows; None if nothing may have changed.

        Args:
            slots: The group of each row.
            given: The rows.
        """
        if self._end_column is not None:
            self._learn_limits(slots, given)
        if not self._retracts:
            kept = self._may_enter(slots, given)
            if kept is not None:
                given, slots = given.take(kept), slots[kept]
            if not given.count:
                return None
        delta = self.pool.apply(self.pool.change(given, slots), 0)
        if not len(delta.rows):
            return None
        in_top = self._in_top.reach(self.pool.rows.count)
        touched = np.unique(delta.slots)
        lost = np.zeros(len(touched), bool)
        went = delta.rows[(delta.weights < 0) & in_top[delta.rows]]
        if len(went):
            lost[np.searchsorted(touched, self.pool.slot_of.array[went])] = True
        came = delta.rows[(delta.weights > 0)]
        return self._rank(touched, lost, came)

    def _learn_limits(self, slots: Any, given: Input) -> None:
        assert self._end_column is not None
        new, first = first_places(slots)
        unknown = self._limits.array[new] < 0
        ends = given.columns[self._end_column].take(pa.array(first[unknown]))
        self._limits.array[new[unknown]] = np.asarray(ends.cast(pa.int64()).fill_null(0))

    def _may_enter(self, slots: Any, given: Input) -> Any | None:
        """Return the places of rows that may be among the first; None for all."""
        if self._newest:
            return None
        if not self._order:
            full = self._full.array[slots]
            return np.flatnonzero(~full) if full.any() else None
        key = self._order[0]
        found = leading_numbers(given.columns[key.index], key)
        if found is None:
            return None
        numbers, usable = found
        worst = self._worst.array[slots]
        worse = numbers >= worst if len(self._order) == 1 else numbers > worst
        worse &= self._full.array[slots] & usable
        return np.flatnonzero(~worse) if worse.any() else None

    def _rank(self, touched: Any, lost: Any, came: Any) -> TopChange:
        """Find the first rows of groups anew."""
        pool = self.pool
        before = self._top[touched]
        held = before[~lost]
        kept = held[held != _NONE]
        if lost.any():
            again = np.zeros(int(touched[-1]) + 1, bool)
            again[touched[lost]] = True
            came = came[~again[pool.slot_of.array[came]]]
            found = np.sort(pool.of_slots(touched[lost], None)[1])
        else:
            found = np.empty(0, np.int64)
        if self._retracts:
            kept = kept[pool.weights.array[kept] > 0]
            if len(kept) > 1:  # a row that is there several times has several places
                kept = kept[np.concatenate([[True], kept[1:] != kept[:-1]])]
            came = came[~self._in_top.array[came]]
        # Equal rows stay as they are: those that have a place are older than those that came.
        rows = np.concatenate([kept, came, found])
        if self._newest:
            rows = rows[::-1]
        groups = pool.slot_of.array[rows]
        columns: dict[int, pa.Array] = {
            key.index: pool.rows.columns[key.index].take(rows) for key in self._order
        }
        order = sorted_places(groups, columns, self._order, -rows if self._newest else None)
        rows, groups = rows[order], groups[order]
        if self._retracts:
            often = pool.weights.array[rows]
            if (often > 1).any():
                often = np.minimum(often, self._limits.array[groups])
                rows, groups = np.repeat(rows, often), np.repeat(groups, often)
        starts, lengths = runs_of(groups)
        place = np.arange(len(rows)) - np.repeat(starts, lengths)
        first = place < self._limits.array[groups]
        dropped = rows[~first]
        rows, groups, place = rows[first], groups[first], place[first]
        self._widen(int(place.max()) + 1 if len(place) else 1)
        if self._top.shape[1] > before.shape[1]:
            wider = np.full((len(touched), self._top.shape[1]), _NONE, np.int64)
            wider[:, : before.shape[1]] = before
            before = wider
        now = np.full_like(before, _NONE)
        now[np.searchsorted(touched, groups), place] = rows
        self._top[touched] = now
        in_top = self._in_top.reach(pool.rows.count)
        in_top[before[before != _NONE]] = False
        in_top[rows] = True
        if not self._retracts:
            pool.weights.array[dropped] = 0
            self._note_worst(touched, now)
        return TopChange(touched, before, now)

    def _note_worst(self, touched: Any, now: Any) -> None:
        """Note of groups that are full the last of the first rows."""
        limits = self._limits.array[touched]
        counts = (now != _NONE).sum(1)
        full = (counts >= limits) & (limits > 0)
        self._full.array[touched] = full | (limits <= 0)
        if not self._order or not full.any():
            return
        last = now[full, limits[full] - 1]
        key = self._order[0]
        found = leading_numbers(self.pool.rows.columns[key.index].take(last), key)
        if found is None:
            return
        numbers, usable = found
        slots = touched[full]
        self._worst.array[slots] = numbers
        self._full.array[slots] = usable

    def rows_of(self, slots: Any) -> Any:
        """Return the first rows of groups, -1 where there is none."""
        return self._top[slots]

    def clear(self, slots: Any) -> None:
        """Have nothing in groups."""
        _, rows = self.pool.of_slots(slots, None)
        self.pool.weights.array[rows] = 0
        self._in_top.reach(self.pool.rows.count)[rows] = False
        self._top[slots] = _NONE
        self._full.array[slots] = False
        if self._end_column is not None:
            self._limits.array[slots] = -1

    @property
    def is_wasteful(self) -> bool:
        """Whether most rows are gone."""
        count = self.pool.rows.count
        return count > _LEAST_DEAD and 2 * len(self.pool.used) < count

    def keep(self, slots: Any) -> None:
        """Have some groups only, numbered anew in the order given, which is ascending."""
        used = self.pool.used
        self.pool.keep(used, np.searchsorted(slots, self.pool.slot_of.array[used]))
        top = self._top[slots]
        there = top != _NONE
        top[there] = np.searchsorted(used, top[there])
        self._top = top if len(top) else np.full((16, top.shape[1]), _NONE, np.int64)
        for lane in (self._limits, self._full, self._worst):
            lane.keep(slots)
        in_top = np.zeros(max(1, len(used)), bool)
        in_top[self._top[self._top != _NONE]] = True
        self._in_top = Lane(bool, fill=False)
        self._in_top.reach(len(in_top))[: len(in_top)] = in_top

    def entries(self, slots: Any) -> list[Any]:
        """Return for each group its limit and its rows, for a checkpoint."""
        return list(zip(self._limits.array[slots].tolist(), self.pool.entries(slots), strict=True))

    def restore(self, slots: Any, entries: Sequence[Any]) -> None:
        """Take over what `entries` gave."""
        if self._end_column is not None:
            self._limits.array[slots] = [limit for limit, _ in entries]
        start = self.pool.rows.count
        self.pool.restore(slots, [rows for _, rows in entries])
        came = np.arange(start, self.pool.rows.count)
        self._in_top.reach(self.pool.rows.count)
        touched = np.unique(slots)
        self._rank(touched, np.zeros(len(touched), bool), came)
