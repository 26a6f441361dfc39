"""Interval join: pairs of two keyed streams whose times lie within bounds of each other.

A left record at time `l` and a right one at `r` of the same key are a pair if `l + lower <= r <= l + upper`::

    left       ----------l------------------>
    right      ----r1-----r2------r3-------->      pairs: (l, r1), (l, r2)
               l+lower             |
                    l+upper _______|

A pair is emitted as soon as both are there, by the later one to arrive, with the later of both times. The
watermark only cleans up: a left record goes when it reaches `l + max(upper, 0)`, a right one at
`r + max(-lower, 0)`; then nothing that is still on time can match it. A record before the watermark is late.

State is a buffer for each side: buckets of time (`interval_buffers`), read by key where the other side looks
(`interval_index`). A batch joins its own side's buffer, then its records look for matches in the other one. There is no
timer for a record: the watermark drops whole buckets, and what waits in one for longer than it has to is not looked at
any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import length_hint
from typing import Any

from millstream.base.errors import ConfigurationError, JobDefinitionError, shorten
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
from millstream.operators.inlined.pair_loops import pair_loop
from millstream.operators.interval_buffers import Buffer, Extent, bucket_width, extent_of, runs_of
from millstream.operators.interval_index import Cell
from millstream.operators.keys import key_list
from millstream.operators.own_entries import TouchedPanes, touched_panes
from millstream.operators.plain_functions import only_reads
from millstream.operators.runtime_context import OperatorRuntimeContext
from millstream.operators.user_code import attach_element
from millstream.operators.values import ATOMIC, all_immutable, copy_of, protect_produced
from millstream.spi.batch import Rows
from millstream.state.keyed import NO_KEY
from millstream.state.snapshots import Entries, StateChanges
from millstream.types.typeinfo import TypeInformation

__all__ = ["LATE_RECORDS_DROPPED", "LEFT", "LEFT_EDGE", "RIGHT", "RIGHT_EDGE", "IntervalJoinSpec"]

LEFT = "left"
RIGHT = "right"
"""Entries of the sides of interval joins: start of a bucket -> key -> [(time, record), ...]."""

LEFT_EDGE = "left-edge"
RIGHT_EDGE = "right-edge"
"""Entries of those that are there until time goes on: key -> [(time, record), ...]."""

LATE_RECORDS_DROPPED = "numLateRecordsDropped"
"""Counter of late records that went nowhere."""

Found = tuple[Any, int, Any, Cell]
"""Key, time and value of a record, and what may match it."""


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


class _Side:
    """What differs between left and right.

    Attributes:
        name, edge_name: Of its entries.
        key_selector: Gives a record's key.
        from_ms, to_ms: Matching records of the other side, relative to a record of this one.
        keep_ms: How long a record is kept after its time.
        late_tag_id: Side output of late records.
        buffer: Its records.
        touched: What changed in the buffer; None if nobody asks.
        other: The other side.
    """

    __slots__ = (
        "buffer",
        "edge_name",
        "from_ms",
        "keep_ms",
        "key_selector",
        "late_tag_id",
        "name",
        "other",
        "to_ms",
        "touched",
    )

    def __init__(
        self,
        names: tuple[str, str],
        key_selector: Callable[[Any], Any],
        from_ms: int,
        to_ms: int,
        late_tag_id: str | None,
    ) -> None:
        self.name, self.edge_name = names
        self.key_selector = key_selector
        self.from_ms = from_ms
        self.to_ms = to_ms
        self.keep_ms = max(to_ms, 0)
        self.late_tag_id = late_tag_id
        self.buffer = Buffer(bucket_width(to_ms - from_ms), self.keep_ms)
        self.touched: TouchedPanes | None = None
        self.other = self

    def pass_over(self, time_ms: int) -> None:
        """Let time go on: what matches nothing any more goes."""
        dropped = self.buffer.pass_over(time_ms)
        if self.touched is not None:
            for start_ms in dropped:
                self.touched.end(start_ms)

    def add_changed(self, changes: StateChanges) -> bool:
        """Add what changed; return whether that is all of it."""
        if self.touched is None or not self.touched.add_to(changes, self.name, self.buffer.held()):
            return False
        changes.dropped[self.edge_name] = [None]
        for key, cell in self.buffer.edge.cells().items():
            changes.put(self.edge_name, None, key, cell)
        return True


class _Context(ProcessJoinFunction.Context):
    """What a pair comes with: one object for all pairs of an operator.

    Attributes:
        is_left: Whether the later one of the pair to arrive is the left one.
        own_ms: Its time.
        other_ms: The time of the one that was there.
    """

    def __init__(self) -> None:
        self.is_left = True
        self.own_ms = self.other_ms = 0

    def get_left_timestamp(self) -> int:
        return self.own_ms if self.is_left else self.other_ms

    def get_right_timestamp(self) -> int:
        return self.other_ms if self.is_left else self.own_ms

    def get_timestamp(self) -> int:
        return max(self.own_ms, self.other_ms)


class IntervalJoinOperator(Operator):
    """Runs an interval join."""

    def __init__(self, spec: IntervalJoinSpec) -> None:
        self._function = spec.function
        self._event_time = spec.event_time
        self._output_type = spec.output_type
        self._left = _Side(
            (LEFT, LEFT_EDGE), spec.key_selector1, spec.lower_ms, spec.upper_ms, spec.late_left_tag_id
        )
        self._right = _Side(
            (RIGHT, RIGHT_EDGE), spec.key_selector2, -spec.upper_ms, -spec.lower_ms, spec.late_right_tag_id
        )
        self._left.other, self._right.other = self._right, self._left
        self._sides = (self._left, self._right)
        self._width_ms = bucket_width(spec.upper_ms - spec.lower_ms)
        self._context = _Context()
        self._late_dropped = 0
        self._restored = False
        self._process: Callable[[Any, Any, Any], Any] = spec.function.process_element
        self._looks = not only_reads(
            spec.function.process_element
        )  # whether the function may change a record

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Be told where it runs and where results go."""
        super().setup(context, output)
        self._left.touched = touched_panes(context)
        self._right.touched = None if self._left.touched is None else TouchedPanes()

    def open(self) -> None:
        """Open the function."""
        state = self.context.keyed_state
        assert state is not None, "a keyed operator without keyed state"
        self._state = state
        open_function(self._function, OperatorRuntimeContext(self.context))
        self._loop = pair_loop(self._process, state, self._context)

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
            self._pass_over(timestamp_ms)
        self.output.emit_watermark(timestamp_ms)

    def on_processing_time(self) -> None:
        """Clean up, if pairs are made by processing time."""
        if not self._event_time:
            # Records of this very millisecond may still come: an epoch's time may be that of the one before.
            self._pass_over(self.context.time.now_ms - 1)

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
            timestamps, extent = [now_ms] * len(values), Extent(now_ms, now_ms, True)
        elif timestamps is None:
            raise JobDefinitionError(
                f"a record has no timestamp: {shorten(values[0])}",
                detail="An interval join in event time pairs records by their timestamps.",
                hint="Call assign_timestamps_and_watermarks(...), with a TimestampAssigner, before key_by.",
            )
        else:
            extent = extent_of(timestamps)
            if extent.lowest_ms < self.watermark_ms:
                values, timestamps = self._take_out_late(side, values, timestamps)
                if not values:
                    return
                extent = extent_of(timestamps)
        self._look_at(values)
        made = Produced([], [], [])
        self._join_batch(side, values, timestamps, extent, made)
        self._state.current_key = NO_KEY
        emit_produced(self, made if self._event_time else made._replace(timestamps=None), self._output_type)

    def _look_at(self, values: list[Any]) -> None:
        """Have the function called with copies from the first record on that it could change."""
        if self._looks and not all_immutable(values):
            self._looks = False
            self._process = self._process_copies

    def _join_batch(
        self,
        side: _Side,
        values: list[Any],
        stamps: list[int],
        extent: Extent,
        made: Produced,
    ) -> None:
        keys = key_list(side.key_selector, values)
        runs = runs_of(stamps, extent, self._width_ms)
        starts = side.buffer.add(keys, stamps, values, extent.lowest_ms, runs)
        if side.touched is not None:
            side.touched.note(keys, starts, side.buffer.buckets())
        if runs is None:
            self._pair(side, keys, stamps, values, extent.lowest_ms, extent.highest_ms, made)
            return
        for step, start, stop, lowest_ms in runs:
            last_ms = (step + 1) * self._width_ms - 1
            part = keys[start:stop], stamps[start:stop], values[start:stop]
            self._pair(side, *part, lowest_ms, last_ms, made)

    def _pair(
        self,
        side: _Side,
        keys: list[Any],
        stamps: list[int],
        values: list[Any],
        lowest_ms: int,
        last_ms: int,
        made: Produced,
    ) -> None:
        """Give the function the pairs of some records.

        Args:
            side: The records' side.
            keys: Their keys.
            stamps: Their times.
            values: The records.
            lowest_ms: The lowest of the times.
            last_ms: None of the times is behind it.
            made: Gets the results.
        """
        bounds = side.from_ms, side.to_ms
        found = side.other.buffer.near(keys, stamps, lowest_ms, last_ms, bounds)
        if found is None:
            return
        if self._state.touched is not None:
            self._state.touched.update(keys)
        remaining = iter(values)
        records = zip(keys, stamps, remaining, found, strict=True)
        loop, process = self._loop, self._process
        self._context.is_left = is_left = side is self._left
        try:
            if loop is not None and loop.stands_for(process):
                loop.run(records, bounds, made, is_left=is_left)
            else:
                self._pair_each(side, records, made)
        except BaseException as error:
            attach_element(error, values[len(values) - length_hint(remaining) - 1])
            raise

    def _pair_each(self, side: _Side, found: Iterable[Found], made: Produced) -> None:
        context, atomic, state, process = self._context, ATOMIC, self._state, self._process
        results, stamps, tagged = made
        assert stamps is not None
        append, append_stamp = results.append, stamps.append
        is_left = context.is_left
        from_ms, to_ms = side.from_ms, side.to_ms
        for key, stamp, value, matches in found:
            lowest, highest = stamp + from_ms, stamp + to_ms
            for other_ms, match in matches:
                if not lowest <= other_ms <= highest:
                    continue
                state.current_key = key
                context.own_ms, context.other_ms = stamp, other_ms
                produced = process(value, match, context) if is_left else process(match, value, context)
                # As in the loops of `operators.calls`: a call for the results of each pair would cost a tenth.
                for result in () if produced is None else produced:
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
                if len(results) - len(stamps) == 1:
                    append_stamp(stamp if stamp > other_ms else other_ms)
                else:
                    stamps.extend([max(stamp, other_ms)] * (len(results) - len(stamps)))

    def _process_copies(self, left: Any, right: Any, context: _Context) -> Any:
        """Call the function with copies: it may change its arguments, which have other pairs."""
        return self._function.process_element(copy_of(left), copy_of(right), context)

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

    def _pass_over(self, time_ms: int) -> None:
        for side in self._sides:
            side.pass_over(time_ms)

    # Snapshots

    def snapshot_state(self) -> int:
        """Return the watermark."""
        return self.watermark_ms

    def restore_state(self, snapshot: int, scope: RestoreScope) -> None:
        """Take over the watermark."""
        # Of several the lowest, so that nothing counts as late that did not before.
        self.watermark_ms = min(self.watermark_ms, snapshot) if self._restored else snapshot
        self._restored = True
        if self._event_time:
            for side in self._sides:
                side.buffer.gone_ms = self.watermark_ms - side.keep_ms

    def snapshot_entries(self) -> Iterator[OwnEntries]:
        """Return the records of both sides by bucket and key."""
        for side in self._sides:
            for start_ms, cells in side.buffer.held().items():
                yield side.name, start_ms, cells.items()
            yield side.edge_name, None, side.buffer.edge.cells().items()

    def changed_entries(self, changes: StateChanges) -> bool:
        """Add what keys have in the buckets that had records, and the buckets that are gone."""
        return all(side.add_changed(changes) for side in self._sides)

    def forget_changes(self) -> None:
        """Take the buffers as they are as known."""
        for side in self._sides:
            if side.touched is not None:
                side.touched.forget()

    def restore_entries(self, name: str, entries: Entries) -> None:
        """Take over records."""
        (side,) = (side for side in self._sides if name in (side.name, side.edge_name))
        first_ms = side.buffer.gone_ms + 1
        for _, key, cell in entries:
            if name == side.name:  # patches leave in older files what has gone since
                cell = [record for record in cell if record[0] >= first_ms]
            if not cell:
                continue
            keys, stamps, values = [key] * len(cell), [each[0] for each in cell], [each[1] for each in cell]
            if name == side.name:
                extent = extent_of(stamps)
                runs = runs_of(stamps, extent, self._width_ms)
                side.buffer.add(keys, stamps, values, extent.lowest_ms, runs)
            else:
                side.buffer.edge.add(keys, stamps, values)
            self._look_at(values)
