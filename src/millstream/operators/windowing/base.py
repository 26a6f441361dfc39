"""What all window operators share: functions, late records, results, the heap of due times, snapshots.

A window `[start, end)` fires when the watermark reaches `end - 1` and is cleaned up
`allowed_lateness_ms` later::

    event time   start                    end-1      end-1+lateness
                   |------- on time --------|---- late, kept ---|--- late, dropped or side output --->
                                          fires   fires again for       cleaned up
                                                  each late record

Where a record falls is decided by the watermark before it, so results do not depend on how the input is cut
into batches.

Windows by the clock are the same, with the clock in the place of the watermark: a record's time is the epoch's
processing time, and what has passed is everything before it. As in Flink a window `[0, 5)` therefore fires once
the clock shows 5, and nothing is ever late.
"""

from __future__ import annotations

import heapq
from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from millstream.common.functions import Function
from millstream.common.windows import TimeWindow
from millstream.operators.base import Operator, OperatorContext, OperatorReport, Output, Reach
from millstream.operators.calls import emit_results
from millstream.operators.functions_adapter import open_function
from millstream.operators.keys import key_list
from millstream.operators.portions import Pace
from millstream.operators.runtime_context import OperatorRuntimeContext
from millstream.operators.values import cut
from millstream.operators.windowing.assigners import no_timestamp
from millstream.operators.windowing.firing import Firing
from millstream.operators.windowing.folds import Fold
from millstream.operators.windowing.passing import PassingTime
from millstream.operators.windowing.runs import Runs
from millstream.spi.batch import Rows

if TYPE_CHECKING:
    from millstream.types.typeinfo import TypeInformation

__all__ = ["LATE_RECORDS_DROPPED", "DueTimes", "TimedWindowOperator", "WindowOperator"]

LATE_RECORDS_DROPPED = "numLateRecordsDropped"
"""Counter of late records that went nowhere."""


class WindowOperator(Operator):
    """Base of the window operators.

    Args:
        key_selector: Gives a record's key.
        fold: How records are taken in.
        fold_function: The user's function in `fold`, to open and close; None if there is none.
        firing: What becomes of contents that fire.
        allowed_lateness_ms: How long a window is kept after its end.
        late_tag_id: Side output of late records; None drops and counts them.
        output_type: Type to check results against.
        event_time: Whether windows follow event time (or the clock).
    """

    merging = False

    def __init__(
        self,
        *,
        key_selector: Callable[[Any], Any],
        fold: Fold,
        fold_function: Function | None,
        firing: Firing,
        allowed_lateness_ms: int,
        late_tag_id: str | None,
        output_type: TypeInformation | None,
        event_time: bool = True,
    ) -> None:
        self._event_time = event_time
        self._key_selector = key_selector
        self._fold = fold
        self._fold_function = fold_function
        self._firing = firing
        self._lateness_ms = allowed_lateness_ms
        self._late_tag_id = late_tag_id
        self._output_type = output_type
        self._late_values: list[Any] = []
        self._late_timestamps: list[int] = []
        self._late_dropped = 0
        self._results: list[Any] = []
        self._result_timestamps: list[int] = []

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Be told where it runs and where results go."""
        super().setup(context, output)
        self._pace = Pace(context.budget)
        self._firing.hand_on = self._hand_on

    def open(self) -> None:
        """Open the functions."""
        runtime_context = OperatorRuntimeContext(self.context)
        if self._fold_function is not None:
            open_function(self._fold_function, runtime_context)
        self._firing.open(self, runtime_context, merging=self.merging)

    def close(self) -> None:
        """Close the functions."""
        try:
            if self._fold_function is not None:
                self._fold_function.close()
        finally:
            self._firing.close()

    def end_epoch(self, report: OperatorReport, *, checkpoint: bool) -> None:
        """Report how many late records were dropped in the epoch."""
        if self._late_dropped:
            counters = report.counters
            counters[LATE_RECORDS_DROPPED] = counters.get(LATE_RECORDS_DROPPED, 0) + self._late_dropped
            self._late_dropped = 0

    def _keys(self, values: list[Any]) -> list[Any]:
        return key_list(self._key_selector, values)

    def _add_late(self, value: Any, timestamp: int) -> None:
        """Take a record that no window takes any more."""
        if self._late_tag_id is None:
            self._late_dropped += 1
        else:
            self._late_values.append(value)
            self._late_timestamps.append(timestamp)

    def _hand_on(self, window: Any) -> bool:
        """Emit what a window has given so far if it is time for it; return whether it comes quickly."""
        quick = self._pace.is_quick()
        if self._pace.is_due(len(self._results)):
            self._stamp_results(window)
            filled = self._results  # whoever fills it goes on doing so
            self._results = filled[:]
            filled.clear()
            self._flush()
            self._results = filled
            self._pace.pause()
        return quick

    def _stamp_results(self, window: Any) -> None:
        """Give the results of a window that have no timestamp yet theirs."""
        missing = len(self._results) - len(self._result_timestamps)
        self._result_timestamps.extend([self._stamp_of(window)] * missing)

    def _stamp_of(self, window: Any) -> Any:
        return window.end - 1

    def _flush(self) -> None:
        if self._late_values:
            values, timestamps = self._late_values, self._late_timestamps
            self._late_values, self._late_timestamps = [], []
            assert self._late_tag_id is not None
            self.output.emit_side(self._late_tag_id, Rows(values, timestamps))
        if self._results:
            values, timestamps = self._results, self._result_timestamps
            self._results, self._result_timestamps = [], []
            emit_results(self, values, timestamps, self._output_type)


class TimedWindowOperator(WindowOperator, PassingTime):
    """Base of the operators for windows by time with their default triggers: whole batches, due times."""

    def snapshot_state(self) -> Any:
        """Return the time passed; windows are entries."""
        return self._passed_ms

    def process(self, batch: Rows) -> None:
        """Add a batch to its windows; late records may fire at once.

        Raises:
            JobDefinitionError: If the records have no timestamps.
        """
        values, timestamps = batch.values, batch.timestamps
        if not values:
            return
        if not self._event_time:
            # A clock that was set back does not reopen windows.
            timestamps = [max(self.context.time.now_ms, self._passed_ms + 1)] * len(values)
        elif timestamps is None:
            raise no_timestamp(values[0])
        self._add_batch(values, timestamps)
        self._flush()

    def process_marked(self, batch: Rows, reach: Reach) -> int | None:
        """Add a batch that has watermarks between its records, cut only where one of them matters (`runs`)."""
        values, timestamps, marks = batch.values, batch.timestamps, batch.marks
        assert marks is not None
        if not self._event_time or timestamps is None:
            return super().process_marked(batch, reach)
        runs = Runs(self, values, timestamps, marks, reach)
        positions, watermarks = marks
        start, last, before = 0, len(positions) - 1, self.watermark_ms
        for index, (position, watermark_ms) in enumerate(zip(positions, watermarks, strict=True)):
            if position > start:
                lowest = timestamps[start] if start + 1 == position else min(timestamps[start:position])
                # Later ones are due no earlier, and not behind the watermark.
                matters = lowest < runs.lowest or lowest <= before
                if matters and not runs.take_in(start, position, index, lowest):
                    return index - 1
                start = position
            if (watermark_ms >= runs.first_due_ms or index == last) and not runs.reach(index, position):
                return index
            before = watermark_ms
        if start < len(values):
            self.process(Rows(cut(values, start, len(values)), timestamps[start:]))
        return None

    def first_due(self, timestamp: int) -> int:
        """Return a time such that earlier watermarks do not matter to a record: none of its windows is due by them."""
        return timestamp

    def late_from(self, timestamp: int) -> int | None:
        """Return the watermark from which on a record is late whatever else comes; None if that is not known."""
        return None

    def take_over(self, other: TimedWindowOperator) -> None:
        """Go on from where another has come; called before the first record."""
        self.watermark_ms, self._passed_ms = other.watermark_ms, other._passed_ms
        self._restored = other._restored
        self._late_dropped = other._late_dropped

    @abstractmethod
    def _add_batch(self, values: list[Any], timestamps: list[int]) -> None: ...

    def add_late(self, value: Any, timestamp: int) -> None:
        """Hand on a late record; its key is asked for, as of any other."""
        self._keys([value])
        self._add_late(value, timestamp)
        self._flush()

    def _fire(self, window: TimeWindow, accumulators: Iterable[tuple[Any, Any]], *, shared: bool) -> None:
        """Fire a window; `shared` tells that the accumulators are still in use afterwards."""
        if self._firing.plain and not shared:
            self._fold.add_results([accumulator for _, accumulator in accumulators], self._results)
            self._stamp_results(window)
            return
        result = self._fold.result
        if shared:
            result = self._fold.copy_result
        # One by one: what a function makes of a key is emitted before it is asked about the next.
        contents = ((key, result(accumulator)) for key, accumulator in accumulators)
        self._firing.fire(window, contents, self._results)
        self._stamp_results(window)


class DueTimes:
    """A heap of (time, start of window), each with what is due then.

    At the same time windows come by start; a window fires before it is cleaned up.
    """

    FIRE = 0
    CLEAN_UP = 1

    __slots__ = ("_heap",)

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, int]] = []

    def add(self, time_ms: int, start: int, what: int) -> None:
        """Note that `what` is due for a window."""
        heapq.heappush(self._heap, (time_ms, start, what))

    def next(self) -> int | None:
        """Return when the first is due, or None."""
        return self._heap[0][0] if self._heap else None

    def pop_due(self, passed_ms: int) -> Iterable[tuple[int, int]]:
        """Yield start and what is due, in order; what is added meanwhile is in time too."""
        heap = self._heap
        while heap and heap[0][0] <= passed_ms:
            _, start, what = heapq.heappop(heap)
            yield start, what
