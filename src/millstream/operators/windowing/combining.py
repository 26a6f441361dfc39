"""Sums, least and largest of windows, begun before the exchange: one record for each key and slice of a batch.

Such a record is one like those that it stands for, so the windows that get it need not know::

    records      (a, 1) @3   (b, 5) @4   (a, 2) @5   (a, 4) @12        sum(1) over 10 ms
    combined     (a, 3) @5   (b, 5) @4               (a, 4) @12

Records of one slice are in the same windows. If the record that is to stand for them has not their key, which may
depend on what is added up, they travel as they are. So do all as soon as one has something else to add up than a whole
number: what floats come to depends on the order in which they are added, the whole numbers among them too. What may be
late is left alone, so that each late record counts:
records of slices that the last watermark that was sent has passed. The receiver's is not ahead of that one, unless the
sender has paused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from millstream.base.interrupts import is_interruption
from millstream.operators.combining import Combiner
from millstream.operators.keys import key_list, keys_of
from millstream.operators.reduce import RollingAggregate
from millstream.spi.batch import Rows

__all__ = ["RollingCombiner"]


class RollingCombiner(Combiner):
    """Puts together the records of a batch that have the same key and are in the same windows.

    Args:
        key_selector: Gives a record's key.
        aggregate: What is computed.
        size_ms: Length of a window.
        slide_ms: From start to start, not longer than a window.
        offset_ms: Moves all starts.
    """

    form = Rows

    def __init__(
        self,
        key_selector: Callable[[Any], Any],
        aggregate: RollingAggregate,
        size_ms: int,
        slide_ms: int,
        offset_ms: int,
    ) -> None:
        self._key_selector = key_selector
        self._aggregate = aggregate
        self._cut = size_ms % slide_ms  # where windows end within a slide
        self._slide_ms, self._offset_ms = slide_ms, offset_ms

    def combine(self, batch: Rows, sent_ms: int | None) -> Rows | None:
        """Return a record for each key and slice, in the order of their first ones.

        Returns:
            None for good if records have no timestamps, or cannot be added up in any order.
        """
        if batch.timestamps is None or not self._aggregate.goes_in_any_order(batch.values):
            return None
        if sent_ms is None:
            return batch
        groups = self._group(batch.values, batch.timestamps)
        values: list[Any] = []
        stamps: list[int] = []
        for (end, key), (members, times) in groups.items():
            whole = None if end <= sent_ms + 1 or len(members) == 1 else self._aggregate.of_many(members)
            if whole is None or not self._has_key(whole, key):
                values += members
                stamps += times
            else:
                values.append(whole)
                stamps.append(times[-1])
        return Rows(values, stamps)

    def may_go_on(self, batch: Rows) -> bool:
        """Return whether what is added up are whole numbers; least and largest are the same in any order."""
        return (
            not self._aggregate.adds_up or not batch.values or self._aggregate.goes_in_any_order(batch.values)
        )

    def _has_key(self, whole: Any, key: Any) -> bool:
        """Return whether a record that stands for others has their key: it may depend on what is added up."""
        try:
            return key_list(self._key_selector, [whole]) == [key]
        except BaseException as error:
            if is_interruption(error):
                raise
            return False  # the selector was made for records that come, and this one did not

    def _group(self, values: list[Any], timestamps: list[int]) -> dict[tuple[int, Any], _Group]:
        """Return the records, with their timestamps, by the end of their slice and key."""
        keys = keys_of(self._key_selector, values)
        end = self._end_of(min(timestamps))
        if max(timestamps) < end:
            return {(end, key): group for key, group in _by_place(keys, values, timestamps).items()}
        places = zip(map(self._end_of, timestamps), keys, strict=True)
        return _by_place(places, values, timestamps)

    def _end_of(self, stamp: int) -> int:
        """Return where the slice of a timestamp ends."""
        into = (stamp - self._offset_ms) % self._slide_ms
        return stamp - into + (self._cut if into < self._cut else self._slide_ms)


_Group = tuple[list[Any], list[int]]
"""Records and their timestamps."""


def _by_place(places: Iterable[Any], values: list[Any], timestamps: list[int]) -> dict[Any, _Group]:
    groups: dict[Any, _Group] = {}
    find = groups.get
    for place, value, stamp in zip(places, values, timestamps, strict=True):
        group = find(place)
        if group is None:
            groups[place] = [value], [stamp]
        else:
            group[0].append(value)
            group[1].append(stamp)
    return groups
