"""Windows of a number of records of a key, full windows fire once: a dict access and a fold for each record.

Without time there is nothing late and nothing to clean up: a window is forgotten as it fires. What does not get
full never fires.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Any

from millstream.common.windows import CountWindow, GlobalWindow, Window
from millstream.operators.base import OperatorContext, Output, OwnEntries
from millstream.operators.calls import emit_results
from millstream.operators.own_entries import add_changed, touched_keys
from millstream.operators.user_code import attach_element
from millstream.operators.values import ATOMIC, copy_of
from millstream.operators.windowing.base import WindowOperator
from millstream.spi.batch import Rows
from millstream.state.snapshots import Entries, StateChanges
from millstream.state.touched import TouchedKeys

__all__ = ["COUNTS", "CountWindowOperator", "SlidingCountWindowOperator"]

COUNTS = "counts"
"""Entries of counted windows: key -> [id, records, accumulator] or (records so far, accumulators)."""


class _CountingOperator(WindowOperator):
    """What both have in common: results carry the timestamp of the record that filled their window."""

    def __init__(self, **shared: Any) -> None:
        super().__init__(**shared)
        self._open: dict[Any, Any] = {}
        self._touched: TouchedKeys | None = None

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Be told where it runs and where results go."""
        super().setup(context, output)
        self._touched = touched_keys(context)

    def snapshot_entries(self) -> Iterator[OwnEntries]:
        """Return counts and open windows by key."""
        yield COUNTS, None, self._open.items()

    def changed_entries(self, changes: StateChanges) -> bool:
        """Add the counts and open windows of keys that had records."""
        return add_changed(changes, COUNTS, self._open, self._touched)

    def forget_changes(self) -> None:
        """Take the windows as they are as known."""
        if self._touched is not None:
            self._touched.forget()

    def restore_entries(self, name: str, entries: Entries) -> None:
        """Take over counts and open windows."""
        self._open.update((key, entry) for _, key, entry in entries)

    def process(self, batch: Rows) -> None:
        """Count a batch into windows."""
        values, timestamps = batch.values, batch.timestamps
        if not values:
            return
        self._stamped = timestamps is not None
        self._add_all(values, repeat(None) if timestamps is None else timestamps)
        self._flush()

    def _flush(self) -> None:
        results, stamps = self._results, self._result_timestamps
        self._results, self._result_timestamps = [], []
        if results:
            emit_results(self, results, stamps if self._stamped else None, self._output_type)

    def _stamp_of(self, window: Any) -> Any:
        return self._stamp

    @abstractmethod
    def _add_all(self, values: list[Any], stamps: Iterable[Any]) -> None:
        """Count records, with their timestamps or None, into windows."""

    def _touch(self, values: list[Any]) -> list[Any]:
        """Return the records' keys, known to be touched."""
        keys = self._keys(values)
        if self._touched is not None:
            self._touched.note(keys, len(self._open))
        return keys

    def _fire_full(self, window: Window, key: Any, accumulator: Any, stamp: Any) -> None:
        self._stamp = stamp
        self._firing.fire(window, [(key, self._fold.result(accumulator))], self._results)
        self._stamp_results(window)
        if self._firing.clears:
            state = self.context.keyed_state
            assert state is not None
            state.clear_namespace(window, key)


class CountWindowOperator(_CountingOperator):
    """Tumbling windows; by key [id of the window, records in it, accumulator].

    Args:
        size: Records in a window.
        numbered: Whether windows are `CountWindow`s; if not, each is the global window, emptied as it fires.
        shared: For `WindowOperator`.
    """

    def __init__(self, *, size: int, numbered: bool, **shared: Any) -> None:
        super().__init__(**shared)
        self._size = size
        self._numbered = numbered

    def _add_all(self, values: list[Any], stamps: Iterable[Any]) -> None:
        size, entries, first, add = self._size, self._open, self._fold.first, self._fold.add
        entry: list[Any] | None
        value = None
        try:
            for key, value, stamp in zip(self._touch(values), values, stamps, strict=False):
                entry = entries.get(key)
                if entry is None:
                    entry = entries[key] = [0, 1, first(value)]
                elif entry[1]:
                    entry[2] = add(value, entry[2])
                    entry[1] += 1
                else:
                    entry[2] = first(value)
                    entry[1] = 1
                if entry[1] == size:
                    self._close(key, entry, stamp)
        except BaseException as error:
            attach_element(error, value)
            raise

    def _close(self, key: Any, entry: list[Any], stamp: Any) -> None:
        number, _, accumulator = entry
        if self._numbered:
            entry[:] = [number + 1, 0, None]
            self._fire_full(CountWindow(number), key, accumulator, stamp)
        else:
            del self._open[key]
            self._fire_full(GlobalWindow.get(), key, accumulator, stamp)


class SlidingCountWindowOperator(_CountingOperator):
    """Sliding windows; by key [records so far, accumulators of the open windows, the oldest first].

    Args:
        size: Records in a window.
        slide: From start to start.
        shared: For `WindowOperator`.
    """

    def __init__(self, *, size: int, slide: int, **shared: Any) -> None:
        super().__init__(**shared)
        self._size = size
        self._slide = slide

    def _add_all(self, values: list[Any], stamps: Iterable[Any]) -> None:
        size, slide, entries = self._size, self._slide, self._open
        first, add = self._fold.first, self._fold.add
        value = None
        try:
            for key, value, stamp in zip(self._touch(values), values, stamps, strict=False):
                count, accumulators = entries.get(key) or (0, [])
                for index, accumulator in enumerate(accumulators):
                    # Each window has a record of its own, if functions can change it.
                    own = value if type(value) in ATOMIC else copy_of(value)
                    accumulators[index] = add(own, accumulator)
                if count % slide == 0:
                    accumulators.append(first(value))
                count += 1
                entries[key] = count, accumulators
                # With a slide larger than the size, records in a gap find no open window.
                if count >= size and (count - size) % slide == 0:
                    window = CountWindow((count - size) // slide)
                    self._fire_full(window, key, accumulators.pop(0), stamp)
        except BaseException as error:
            attach_element(error, value)
            raise
