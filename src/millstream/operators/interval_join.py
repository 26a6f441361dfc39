"""Interval join: pairs of two keyed streams whose times lie within bounds of each other.

A left record at time `l` and a right one at `r` of the same key are a pair if `l + lower <= r <= l + upper`::

    left       ----------l------------------>
    right      ----r1-----r2------r3-------->      pairs: (l, r1), (l, r2)
               l+lower             |
                    l+upper _______|

A pair is emitted as soon as both are there, by the later one to arrive, with the later of both times. The
watermark only cleans up: a left record goes when it reaches `l + max(upper, 0)`, a right one at
`r + max(-lower, 0)`; then nothing that is still on time can match it. A record before the watermark is late.

State is two buffers for each key, sorted by time. A key is cleaned when one of its records comes, and by a
sweep that visits it once in a while, not by a timer for each record.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any

from millstream.base.errors import ConfigurationError, JobDefinitionError, shorten
from millstream.base.time import MIN_TIMESTAMP
from millstream.common.co_functions import ProcessJoinFunction
from millstream.operators.base import (
    BatchHandler,
    Operator,
    OperatorContext,
    OperatorReport,
    OperatorSpec,
    Output,
    OwnEntries,
    RestoreScope,
)
from millstream.operators.calls import Produced, emit_produced
from millstream.operators.functions_adapter import open_function
from millstream.operators.keys import keys_of
from millstream.operators.own_entries import add_changed, touched_keys
from millstream.operators.runtime_context import OperatorRuntimeContext
from millstream.operators.user_code import attach_element
from millstream.operators.values import ATOMIC, all_immutable, copy_of, protect_produced
from millstream.spi.batch import Rows
from millstream.state.keyed import NO_KEY
from millstream.state.snapshots import Entries, StateChanges
from millstream.state.touched import TouchedKeys
from millstream.types.typeinfo import TypeInformation

__all__ = ["BUFFERS", "LATE_RECORDS_DROPPED", "IntervalJoinSpec"]

BUFFERS = "buffers"
"""Entries of interval joins: key -> (clean until, (times, left records), (times, right records))."""

LATE_RECORDS_DROPPED = "numLateRecordsDropped"
"""Counter of late records that went nowhere."""


@dataclass(frozen=True)
class IntervalJoinSpec(OperatorSpec):
    """Declares an interval join of two keyed streams.

    Attributes:
        function: Gets the pairs.
        key_selector1: Gives the key of a left record.
        key_selector2: Gives the key of a right record.
        lower_ms: Least difference of right and left time, inclusive.
        upper_ms: Greatest difference, inclusive.
        event_time: Whether times are the records' timestamps; else the processing times of arrival.
        late_left_tag_id: Side output of late left records; None drops and counts them.
        late_right_tag_id: Side output of late right records; None drops and counts them.
        output_type: Type to check results against; None leaves them unchecked.

    Raises:
        ConfigurationError: If the lower bound is above the upper one.
    """

    function: ProcessJoinFunction
    key_selector1: Callable[[Any], Any]
    key_selector2: Callable[[Any], Any]
    lower_ms: int
    upper_ms: int
    event_time: bool = True
    late_left_tag_id: str | None = None
    late_right_tag_id: str | None = None
    output_type: TypeInformation | None = None
    is_keyed = True

    def __post_init__(self) -> None:
        if self.lower_ms > self.upper_ms:
            raise ConfigurationError(
                f"no pair fits the bounds of an interval join: from {self.lower_ms} to {self.upper_ms} ms",
                detail="Bounds are differences of right and left time; exclusive ones count inwards by 1 ms.",
                hint="Give between(lower, upper) the lower one first.",
            )

    @property
    def state_form(self) -> str:
        """What is kept, and until when: records that other bounds pair may be gone."""
        time = "event time" if self.event_time else "processing time"
        return f"{time}, from {self.lower_ms} to {self.upper_ms} ms"

    def build(self) -> Operator:
        """Make the running half."""
        return IntervalJoinOperator(self)


class _Buffer:
    """The records of one key of one side, sorted by time, then by arrival."""

    __slots__ = ("stamps", "values")

    def __init__(self) -> None:
        self.stamps: list[int] = []
        self.values: list[Any] = []

    def drop_until(self, time_ms: int) -> None:
        """Remove the records at or before a time."""
        stamps = self.stamps
        if stamps and stamps[0] <= time_ms:
            count = bisect_right(stamps, time_ms)
            del stamps[:count]
            del self.values[:count]


class _KeyBuffers:
    """Both buffers of one key, and up to which watermark they are clean."""

    __slots__ = ("cleaned_ms", "sides")

    def __init__(self, cleaned_ms: int) -> None:
        self.sides = (_Buffer(), _Buffer())
        self.cleaned_ms = cleaned_ms


class _Side:
    """What differs between left (0) and right (1).

    Attributes:
        index: Which one.
        key_selector: Gives a record's key.
        from_ms, to_ms: Matching records of the other side, relative to a record of this one.
        keep_ms: How long a record is kept after its time.
        late_tag_id: Side output of late records.
    """

    __slots__ = ("from_ms", "index", "keep_ms", "key_selector", "late_tag_id", "to_ms")

    def __init__(
        self,
        index: int,
        key_selector: Callable[[Any], Any],
        from_ms: int,
        to_ms: int,
        late_tag_id: str | None,
    ) -> None:
        self.index = index
        self.key_selector = key_selector
        self.from_ms = from_ms
        self.to_ms = to_ms
        self.keep_ms = max(to_ms, 0)
        self.late_tag_id = late_tag_id


class _Context(ProcessJoinFunction.Context):
    """What a pair comes with: one object for all pairs of an operator."""

    def __init__(self) -> None:
        self.left_ms = self.right_ms = 0

    def get_left_timestamp(self) -> int:
        return self.left_ms

    def get_right_timestamp(self) -> int:
        return self.right_ms

    def get_timestamp(self) -> int:
        return max(self.left_ms, self.right_ms)


class IntervalJoinOperator(Operator):
    """Runs an interval join."""

    def __init__(self, spec: IntervalJoinSpec) -> None:
        self._function = spec.function
        self._event_time = spec.event_time
        self._output_type = spec.output_type
        self._left = _Side(0, spec.key_selector1, spec.lower_ms, spec.upper_ms, spec.late_left_tag_id)
        self._right = _Side(1, spec.key_selector2, -spec.upper_ms, -spec.lower_ms, spec.late_right_tag_id)
        self._keys: dict[Any, _KeyBuffers] = {}
        self._sweeps = _Sweeps(grain_ms=max(1, (spec.upper_ms - spec.lower_ms) // 8))
        self._context = _Context()
        self._late_dropped = 0
        self._restored = False
        self._changeable = False  # whether any record so far could be changed
        self._touched: TouchedKeys | None = None

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Be told where it runs and where results go."""
        super().setup(context, output)
        self._touched = touched_keys(context)

    def open(self) -> None:
        """Open the function."""
        state = self.context.keyed_state
        assert state is not None, "a keyed operator without keyed state"
        self._state = state
        open_function(self._function, OperatorRuntimeContext(self.context))

    def close(self) -> None:
        """Close the function."""
        self._function.close()

    def batch_handlers(self) -> list[BatchHandler]:
        """Return the handlers of the left and the right stream."""
        return [self.process, self.process_right]

    def process(self, batch: Rows) -> None:
        """Join a batch of the left stream.

        Raises:
            JobDefinitionError: If records have no timestamps, which event time needs.
        """
        values, timestamps = batch.values, batch.timestamps
        self._join(self._left, values, timestamps)

    def process_right(self, batch: Rows) -> None:
        """Join a batch of the right stream.

        Raises:
            JobDefinitionError: If records have no timestamps, which event time needs.
        """
        values, timestamps = batch.values, batch.timestamps
        self._join(self._right, values, timestamps)

    def process_watermark(self, timestamp_ms: int) -> None:
        """Clean up, then hand the watermark on."""
        self.watermark_ms = timestamp_ms
        if self._event_time:
            self._sweep(timestamp_ms)
        self.output.emit_watermark(timestamp_ms)

    def on_processing_time(self) -> None:
        """Clean up, if pairs are made by processing time."""
        if not self._event_time:
            # Records of this very millisecond may still come: an epoch's time may be that of the one before.
            self._sweep(self.context.time.now_ms - 1)

    def end_epoch(self, report: OperatorReport, *, checkpoint: bool) -> None:
        """Report how many late records were dropped in the epoch."""
        if self._late_dropped:
            counters = report.counters
            counters[LATE_RECORDS_DROPPED] = counters.get(LATE_RECORDS_DROPPED, 0) + self._late_dropped
            self._late_dropped = 0

    # Joining

    def _join(self, side: _Side, values: list[Any], timestamps: list[int] | None) -> None:
        if not values:
            return
        if not self._event_time:
            now_ms = self.context.time.now_ms
            timestamps, time_ms = [now_ms] * len(values), now_ms - 1
        elif timestamps is None:
            raise JobDefinitionError(
                f"a record has no timestamp: {shorten(values[0])}",
                detail="An interval join in event time pairs records by their timestamps.",
                hint="Call assign_timestamps_and_watermarks(...), with a TimestampAssigner, before key_by.",
            )
        else:
            time_ms = self.watermark_ms
            if time_ms > MIN_TIMESTAMP and min(timestamps) < time_ms:
                values, timestamps = self._take_out_late(side, values, timestamps)
        self._changeable = self._changeable or not all_immutable(values)
        made = Produced([], [], [])
        self._join_batch(side, values, timestamps, time_ms, made)
        self._state.current_key = NO_KEY
        emit_produced(self, made if self._event_time else made._replace(timestamps=None), self._output_type)

    def _join_batch(
        self,
        side: _Side,
        values: list[Any],
        timestamps: list[int],
        time_ms: int,
        made: Produced,
    ) -> None:
        own_index, other_index = side.index, 1 - side.index
        from_ms, to_ms = side.from_ms, side.to_ms
        all_keys, clean, emit = self._keys, self._clean, self._emit_pairs
        value = None
        keys: Iterable[Any] = keys_of(side.key_selector, values)
        if self._touched is not None:
            keys = list(keys)
            self._touched.note(keys, len(self._keys))
        try:
            for value, key, stamp in zip(values, keys, timestamps, strict=True):
                buffers = all_keys.get(key)
                if buffers is None:
                    buffers = all_keys[key] = _KeyBuffers(time_ms)
                    self._sweeps.add(stamp + side.keep_ms, key)
                elif buffers.cleaned_ms < time_ms:
                    clean(buffers, time_ms)
                own = buffers.sides[own_index]
                own_stamps = own.stamps
                if not own_stamps or own_stamps[-1] <= stamp:
                    own_stamps.append(stamp)
                    own.values.append(value)
                else:
                    place = bisect_right(own_stamps, stamp)
                    own_stamps.insert(place, stamp)
                    own.values.insert(place, value)
                other = buffers.sides[other_index]
                other_stamps = other.stamps
                if other_stamps:
                    lowest, highest = stamp + from_ms, stamp + to_ms
                    first = 0 if other_stamps[0] >= lowest else bisect_left(other_stamps, lowest)
                    last = len(other_stamps)
                    if other_stamps[-1] > highest:
                        last = bisect_right(other_stamps, highest, first)
                    if first < last:
                        self._state.current_key = key
                        emit(own_index, value, stamp, other, range(first, last), made)
        except BaseException as error:
            attach_element(error, value)
            raise

    def _emit_pairs(
        self, own_index: int, value: Any, stamp: int, other: _Buffer, places: range, made: Produced
    ) -> None:
        process, context, atomic = self._function.process_element, self._context, ATOMIC
        other_stamps, other_values = other.stamps, other.values
        results, stamps, tagged = made
        assert stamps is not None
        append, kept, changeable = results.append, value, self._changeable
        for place in places:
            other_ms, match = other_stamps[place], other_values[place]
            # The function may change its arguments, which have other pairs.
            if changeable:
                value, match = copy_of(kept), copy_of(match)
            if own_index == 0:
                context.left_ms, context.right_ms = stamp, other_ms
                produced = process(value, match, context)
            else:
                context.left_ms, context.right_ms = other_ms, stamp
                produced = process(match, value, context)
            if produced is not None:
                for result in produced:
                    if type(result) is tuple:
                        for item in result:
                            if type(item) not in atomic:
                                break
                        else:
                            append(result)
                            continue
                        item = None  # it counts as a reference
                    elif type(result) in atomic:
                        append(result)
                        continue
                    append(protect_produced(result, produced, tagged))
                missing = len(results) - len(stamps)
                if missing == 1:
                    stamps.append(stamp if stamp > other_ms else other_ms)
                else:
                    stamps.extend([max(stamp, other_ms)] * missing)

    def _take_out_late(
        self, side: _Side, values: list[Any], timestamps: list[int]
    ) -> tuple[list[Any], list[int]]:
        watermark_ms = self.watermark_ms
        late = [place for place, stamp in enumerate(timestamps) if stamp < watermark_ms]
        if side.late_tag_id is None:
            self._late_dropped += len(late)
        else:
            self.output.emit_side(
                side.late_tag_id,
                Rows([values[place] for place in late], [timestamps[place] for place in late]),
            )
        on_time = [place for place, stamp in enumerate(timestamps) if stamp >= watermark_ms]
        return [values[place] for place in on_time], [timestamps[place] for place in on_time]

    # Cleaning

    def _clean(self, buffers: _KeyBuffers, time_ms: int) -> None:
        """Remove what was there when the time came to `time_ms`, and is of no use any more."""
        buffers.cleaned_ms = time_ms
        left, right = buffers.sides
        left.drop_until(time_ms - self._left.keep_ms)
        right.drop_until(time_ms - self._right.keep_ms)

    def _sweep(self, time_ms: int) -> None:
        """Visit the keys whose turn has come: clean them, drop those that are empty."""
        swept = self._sweeps.take_until(time_ms)
        if self._touched is not None:
            self._touched.note(swept, len(self._keys))
        for key in swept:
            buffers = self._keys[key]
            self._clean(buffers, time_ms)
            next_ms = self._last_use(buffers)
            if next_ms is None:
                del self._keys[key]
            else:
                self._sweeps.add(next_ms, key)

    def _last_use(self, buffers: _KeyBuffers) -> int | None:
        """Return when the last record of a key may go; None if it has none."""
        sides = zip(buffers.sides, (self._left, self._right), strict=True)
        return max(
            (buffer.stamps[-1] + side.keep_ms for buffer, side in sides if buffer.stamps), default=None
        )

    # Snapshots

    def snapshot_state(self) -> int:
        """Return the watermark."""
        return self.watermark_ms

    def restore_state(self, snapshot: int, scope: RestoreScope) -> None:
        """Take over the watermark."""
        # Of several the lowest, so that nothing counts as late that did not before.
        self.watermark_ms = min(self.watermark_ms, snapshot) if self._restored else snapshot
        self._restored = True

    def snapshot_entries(self) -> Iterator[OwnEntries]:
        """Return all buffers: key -> (clean until, left, right); left and right are (times, records)."""
        yield BUFFERS, None, ((key, _kept(buffers)) for key, buffers in self._keys.items())

    def changed_entries(self, changes: StateChanges) -> bool:
        """Add the buffers of keys that had records, or were cleaned."""
        return add_changed(changes, BUFFERS, self._keys, self._touched, _kept)

    def forget_changes(self) -> None:
        """Take the buffers as they are as known."""
        if self._touched is not None:
            self._touched.forget()

    def restore_entries(self, name: str, entries: Entries) -> None:
        """Take over buffers."""
        for _, key, (cleaned_ms, *sides) in entries:
            buffers = self._keys[key] = _KeyBuffers(cleaned_ms)
            for buffer, (stamps, values) in zip(buffers.sides, sides, strict=True):
                buffer.stamps, buffer.values = list(stamps), list(values)
                self._changeable = self._changeable or not all_immutable(values)
            last_use = self._last_use(buffers)
            self._sweeps.add(cleaned_ms if last_use is None else last_use, key)


def _kept(buffers: _KeyBuffers) -> tuple[Any, ...]:
    return buffers.cleaned_ms, *((buffer.stamps, buffer.values) for buffer in buffers.sides)


class _Sweeps:
    """Keys to visit, by time in steps: each key waits in one place."""

    def __init__(self, *, grain_ms: int) -> None:
        self._grain_ms = grain_ms
        self._keys: dict[int, list[Any]] = {}
        self._heap: list[int] = []

    def add(self, time_ms: int, key: Any) -> None:
        """Have a key visited at the next step from `time_ms` on."""
        step = -(-time_ms // self._grain_ms)
        waiting = self._keys.get(step)
        if waiting is None:
            self._keys[step] = [key]
            heappush(self._heap, step)
        else:
            waiting.append(key)

    def take_until(self, time_ms: int) -> list[Any]:
        """Remove and return the keys whose step has come."""
        taken: list[Any] = []
        last = time_ms // self._grain_ms
        while self._heap and self._heap[0] <= last:
            taken += self._keys.pop(heappop(self._heap))
        return taken
