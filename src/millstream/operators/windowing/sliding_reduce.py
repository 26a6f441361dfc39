"""Sliding windows with a user's reduce function: by slices if it is associative, else by panes.

A reduce function has to be associative: Flink says that sliding windows may reduce by slices. Flink does not do
so, though, and functions like `lambda a, b: (a[0], a[1] + 1)`, which count, work there. So the function is tried
on copies of the first records, before a third record of any key is reduced (two come out the same either way):
if `f(f(a, b), c)` and `f(a, f(b, c))` differ, each window is reduced record by record in order of arrival, as in
Flink, and a record costs size / slide.

Slices are combined in order of time, so where records of a key arrive out of order, a function that is not
commutative (such as one that keeps the last record) sees them in order of their slices.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable
from typing import Any

from millstream.operators.base import OperatorReport, OwnEntries, Reach, RestoreScope
from millstream.operators.windowing.base import WindowOperator
from millstream.operators.windowing.panes import PaneOperator
from millstream.operators.windowing.slices import SLICES, SliceOperator
from millstream.spi.batch import Rows
from millstream.state.snapshots import Entries, StateChanges
from millstream.types.row import Row

__all__ = ["SlidingReduceOperator", "breaks_associativity"]

_TRIALS = 5
_SAMPLE_LIMIT = 20_000


class SlidingReduceOperator(WindowOperator):
    """Hands everything on to an operator by slices, or to one by panes once the function has failed its trial.

    Args:
        size_ms: Length of a window.
        slide_ms: From start to start.
        offset_ms: Moves all starts.
        shared: For `WindowOperator`.
    """

    def __init__(self, *, size_ms: int, slide_ms: int, offset_ms: int, **shared: Any) -> None:
        super().__init__(**shared)
        self._arguments = {"size_ms": size_ms, "slide_ms": slide_ms, "offset_ms": offset_ms, **shared}
        self._chosen: SliceOperator | PaneOperator | None = None
        self._sample: dict[Any, list[Any]] | None = {}
        self._sampled = 0

    @property
    def chosen(self) -> SliceOperator | PaneOperator:
        """The operator that has the records; the functions are opened here, not there."""
        if self._chosen is None:
            self._chosen = self._build(SliceOperator)
        return self._chosen

    def process(self, batch: Rows) -> None:
        """Hand a batch on, after the function's trial."""
        if self._sample is not None:
            self._try(self._sample, batch.values)
        self.chosen.process(batch)

    def process_marked(self, batch: Rows, reach: Reach) -> int | None:
        """Hand a batch on with the watermarks between its records, once the trial is over."""
        if self._sample is not None:
            return super().process_marked(batch, reach)
        return self.chosen.process_marked(batch, reach)

    def process_watermark(self, timestamp_ms: int) -> None:
        """Hand a watermark on."""
        self.watermark_ms = max(self.watermark_ms, timestamp_ms)
        self.chosen.process_watermark(timestamp_ms)

    def advance_watermark(self, timestamp_ms: int) -> bool:
        """Hand a watermark on, as far as the epoch has room for what it fires."""
        reached = self.chosen.advance_watermark(timestamp_ms)
        self.watermark_ms = max(self.watermark_ms, self.chosen.watermark_ms)
        return reached

    def on_processing_time(self) -> None:
        """Fire what is due by the clock."""
        self.chosen.on_processing_time()

    def next_processing_time(self) -> int | None:
        """Return when the next window by the clock fires."""
        return self.chosen.next_processing_time()

    def end_epoch(self, report: OperatorReport, *, checkpoint: bool) -> None:
        """Report how many late records were dropped in the epoch."""
        self.chosen.end_epoch(report, checkpoint=checkpoint)

    def snapshot_state(self) -> tuple[bool, int]:
        """Return whether slices are kept, and the time passed."""
        return isinstance(self.chosen, SliceOperator), self.chosen.snapshot_state()

    def restore_state(self, snapshot: tuple[bool, int], scope: RestoreScope) -> None:
        """Take over a snapshot; if subtasks had chosen differently, slices are put together to panes."""
        sliced, passed_ms = snapshot
        if not sliced and isinstance(self.chosen, SliceOperator):
            self._turn_to_panes(self.chosen)
        self.chosen.restore_state(passed_ms, scope)
        self.watermark_ms = self.chosen.watermark_ms

    def snapshot_entries(self) -> Iterable[OwnEntries]:
        """Return the slices or panes."""
        return self.chosen.snapshot_entries()

    def changed_entries(self, changes: StateChanges) -> bool:
        """Add what changed in the slices or panes; panes are new to checkpoints once slices have turned to them."""
        return self.chosen.changed_entries(changes)

    def forget_changes(self) -> None:
        """Take the slices or panes as they are as known."""
        self.chosen.forget_changes()

    def restore_entries(self, name: str, entries: Entries) -> None:
        """Take over slices or panes; slices are put together if there are panes here."""
        chosen = self.chosen
        if name == SLICES and isinstance(chosen, PaneOperator):
            slices: SliceOperator = self._build(SliceOperator)
            slices.take_over(chosen)
            slices.restore_entries(name, entries)
            chosen.add_panes(slices.window_panes())
        else:
            chosen.restore_entries(name, entries)

    def _build(self, kind: Callable[..., Any]) -> Any:
        operator = kind(**self._arguments)
        operator.setup(self.context, self.output)
        return operator

    def _try(self, sample: dict[Any, list[Any]], values: list[Any]) -> None:
        """Try the function as soon as a key has three records; after many records without one, give up."""
        longest: list[Any] = []
        for key, value in zip(self._keys(values), values, strict=True):
            own = sample.setdefault(key, [])
            own.append(value)
            if len(own) > len(longest):
                longest = own
        self._sampled += len(values)
        if len(longest) < 3 and self._sampled < _SAMPLE_LIMIT:
            return
        self._sample = None
        chosen = self.chosen
        if isinstance(chosen, SliceOperator) and breaks_associativity(
            self._fold.merge, longest[: _TRIALS + 2]
        ):
            self._turn_to_panes(chosen)

    def _turn_to_panes(self, slices: SliceOperator) -> None:
        self._sample = None
        panes: PaneOperator = self._build(PaneOperator)
        panes.take_over(slices)
        panes.add_panes(slices.window_panes())
        self._chosen = panes


def breaks_associativity(function: Callable[[Any, Any], Any], sample: list[Any]) -> bool:
    """Return whether a reduce function is seen not to be associative on records of a key, which stay as they are.

    What cannot be compared, or raises, says nothing.

    >>> breaks_associativity(lambda a, b: a + b, [1, 2, 3]), breaks_associativity(lambda a, b: a + 1, [1, 2, 3])
    (False, True)
    """
    for triple in zip(sample, sample[1:], sample[2:], strict=False):
        try:
            a, b, c = copy.deepcopy(triple)
            left = function(function(a, b), c)
            a, b, c = copy.deepcopy(triple)
            right = function(a, function(b, c))
        except Exception:  # noqa: BLE001 - on real records the function raises again, where it is reported
            return False
        if _differ(left, right):
            return True
    return False


def _differ(left: Any, right: Any) -> bool:
    """Return whether two results are different for sure; rounding is no difference."""
    if isinstance(left, float) and isinstance(right, (float, int)):
        return not (
            math.isclose(left, right, rel_tol=1e-6, abs_tol=1e-9) or (left != left and right != right)
        )
    if isinstance(left, (tuple, list, Row)) and isinstance(right, type(left)):
        ours, theirs = list(left), list(right)
        return len(ours) != len(theirs) or any(map(_differ, ours, theirs))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() != right.keys() or any(_differ(left[key], right[key]) for key in left)
    compares = type(left).__eq__ is not object.__eq__  # type: ignore[comparison-overlap]
    return compares and bool(left != right)
