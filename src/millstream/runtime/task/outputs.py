"""Where an operator's output goes: to the operators chained behind it, and into blocks for other subtasks."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from operator import itemgetter
from typing import Any

from millstream.base.errors import RecordTooLargeError
from millstream.base.time import MAX_TIMESTAMP
from millstream.config.options import EPOCH_MAX_BYTES
from millstream.graph.job_graph import JobEdge
from millstream.operators.base import BatchHandler, Operator, OperatorSpec, Output
from millstream.operators.budget import WorkBudget, slice_seconds
from millstream.operators.combining import CombiningGate
from millstream.operators.partitioners import ColumnSelector
from millstream.operators.values import copy_of_batch
from millstream.operators.weight import estimate_bytes, weigh
from millstream.runtime.protocol.blocks import Block, encode_elements, join_columns
from millstream.runtime.task.failures import guarded
from millstream.runtime.task.measures import counted_marked
from millstream.spi.batch import Batch, Columns, Element, LatencyMarker, Marks, Rows, StreamStatus, Watermark
from millstream.types.arrow_records import int64_array

__all__ = ["ChainOutput", "ExchangeWriter"]


_LOOK_RECORDS = 16_384
_MOST_BLOCK_BYTES = (1 << 31) - (1 << 20)
"""Spark counts the bytes of what a task gives in 32 bits."""
_MOST_JOINED = 4_096
"""Small batches are joined; larger ones are processed as they are, while they are in the processor's cache."""
_LARGEST_SLICE = 1 << 20


class ExchangeWriter:
    """Gathers what one subtask sends over one edge, until the epoch's end; the subtask's thread calls it.

    Args:
        edge: The exchange.
        sender: The sending subtask.
        budget: Told how many bytes are gathered, and asked now and then whether it is enough; None if nobody cares.
        combining: Puts records together before they are dealt; None leaves them as they are.
    """

    def __init__(
        self,
        edge: JobEdge,
        sender: int,
        budget: WorkBudget | None = None,
        combining: CombiningGate | None = None,
    ) -> None:
        self._budget = budget
        self._combining = combining
        self._sent_ms: int | None = (
            None  # the last watermark; None as well behind a pause, when receivers may be ahead
        )
        self._has_paused = False
        self._marked = 0
        self._gathered_bytes = 0
        self._unweighed = self._unseen = 0
        self._newest: list[Any] = []
        if budget is not None:
            budget.scales.append(self._weigh)
        partitioning = edge.edge.partitioning
        self._edge_id = edge.id
        self._sender = sender
        self._selector = partitioning.build(sender, edge.senders, edge.receivers, edge.max_parallelism)
        self._of_columns = self._selector if isinstance(self._selector, ColumnSelector) else None
        self._elements: dict[int, list[Element]] = {
            target: [] for target in partitioning.targets(sender, edge.senders, edge.receivers)
        }

    def batch(self, batch: Batch) -> None:
        """Deal a batch to its targets; each gets all of the watermarks between its records."""
        if type(batch) is Columns and self._of_columns is not None:
            self._deal_columns(self._of_columns, batch)
            return
        rows = batch.to_rows()
        if rows.marks is not None:
            self._deal_marked_rows(rows, rows.marks)
            return
        if self._combining is not None:
            rows = self._combining.pass_through(rows, self._sent_ms).to_rows()
        newest = rows.values
        for target, part in self._selector.split(rows):
            self._gather(target, part)
        self._note(newest)

    @property
    def deals_columns(self) -> bool:
        """Whether columns are sent as such."""
        return self._of_columns is not None

    def _deal_columns(self, selector: ColumnSelector, batch: Columns) -> None:
        if batch.marks is None:
            if self._combining is not None:
                combined = self._combining.pass_through(batch, self._sent_ms)
                assert isinstance(combined, Columns)
                batch = combined
            for target, part in selector.split_columns(batch):
                self._elements[target].append(part)
        else:
            self._deal_marked_columns(selector, batch, batch.marks)
        self._gathered_bytes += batch.nbytes
        self._look(len(batch))

    def _deal_marked_columns(self, selector: ColumnSelector, batch: Columns, marks: Marks) -> None:
        """Deal records with their places in the batch for timestamps, and find each one's own by that."""
        # Whoever has columns has numpy; jobs without columns never import it.
        import numpy as np

        from millstream.operators.columnar.marks import kept_between
        from millstream.types.numpy_views import as_numpy

        if self._combining is not None:
            self._combining.let_pass(batch)
        without = set(self._elements)
        timestamps = batch.timestamps
        numbered = Columns(batch.data, int64_array(np.arange(len(batch))), batch.kinds)
        for target, part in selector.split_columns(numbered):
            places: Any = part.timestamps
            stamps = None if timestamps is None else timestamps.take(places)
            marked = Columns(part.data, stamps, part.kinds, kept_between(marks, as_numpy(places)))
            self._elements[target].append(marked)
            without.discard(target)
        self._mark_all(without, marks)

    def _deal_marked_rows(self, batch: Rows, marks: Marks) -> None:
        if self._combining is not None:
            self._combining.let_pass(batch)
        without = set(self._elements)
        values, timestamps = batch.values, batch.timestamps
        numbered = Rows(values, list(range(len(values))))
        for target, part in self._selector.split(numbered) if values else ():
            places = part.timestamps
            assert places is not None
            part.timestamps = None if timestamps is None else [timestamps[place] for place in places]
            part.marks = _marks_between(places, marks)
            self._gather(target, part)
            without.discard(target)
        self._note(values)
        self._mark_all(without, marks)

    def _mark_all(self, without: set[int], marks: Marks) -> None:
        """Tell targets that got no records of the batch its last watermark."""
        self._note_watermark(marks.watermarks[-1])
        for target in without:
            self._mark(target, marks.watermarks[-1])

    def _gather(self, target: int, part: Rows) -> None:
        elements = self._elements[target]
        last = elements[-1] if elements else None
        if (
            type(last) is not Rows
            or (last.timestamps is None) != (part.timestamps is None)
            or len(last.values) + len(part.values) > _MOST_JOINED
        ):
            elements.append(part)
            return
        if part.marks is not None:
            if last.marks is None:
                last.marks = Marks([], [])
            before, gathered = len(last.values), last.marks
            gathered.positions.extend([before + position for position in part.marks.positions])
            gathered.watermarks.extend(part.marks.watermarks)
        last.values.extend(part.values)
        if part.timestamps is not None and last.timestamps is not None:
            last.timestamps.extend(part.timestamps)

    def _note(self, values: list[Any]) -> None:
        """Take note of what was gathered, and let the epoch end if it is much."""
        self._newest = values
        self._unweighed += len(values)
        self._look(len(values))

    def _look(self, count: int) -> None:
        """Look now and then whether what is gathered is much, and let the epoch end then."""
        self._unseen += count
        if self._unseen >= _LOOK_RECORDS and self._budget is not None:
            self._unseen = 0
            self._budget.reach_safe_point()

    def _weigh(self) -> int:
        """Return about how many bytes are gathered: each part is weighed by samples of its last batch."""
        if self._unweighed:
            newest, self._newest = self._newest, []
            self._gathered_bytes += estimate_bytes(newest) * self._unweighed // len(newest)
            self._unweighed = 0
        return self._gathered_bytes

    def watermark(self, timestamp_ms: int) -> None:
        """Send a watermark to every target; it replaces one that nothing followed."""
        self._note_watermark(timestamp_ms)
        for target in self._elements:
            self._mark(target, timestamp_ms)

    def _note_watermark(self, timestamp_ms: int) -> None:
        self._sent_ms = None if self._has_paused else timestamp_ms

    def _mark(self, target: int, timestamp_ms: int) -> None:
        elements = self._elements[target]
        if elements and isinstance(elements[-1], Watermark):
            elements[-1] = Watermark(timestamp_ms)
        else:
            elements.append(Watermark(timestamp_ms))

    def status(self, status: StreamStatus) -> None:
        """Send a change of status to every target."""
        self._has_paused, self._sent_ms = True, None
        for elements in self._elements.values():
            elements.append(status)

    def latency_marker(self, marker: LatencyMarker) -> None:
        """Send a latency marker to one of the targets, each in its turn."""
        self._marked += 1
        targets = list(self._elements)
        self._elements[targets[self._marked % len(targets)]].append(marker)

    def flush(self) -> list[Block]:
        """Return the epoch's blocks and start anew; channels that carried nothing have none."""
        blocks = []
        self._gathered_bytes = self._unweighed = self._unseen = 0
        self._newest = []
        for target, elements in self._elements.items():
            if elements:
                joined = join_columns(elements)
                payload = joined if target == self._sender else _encoded(joined, target)
                blocks.append(Block(self._edge_id, self._sender, target, payload))
                self._elements[target] = []
        return blocks


def _encoded(elements: list[Element], target: int) -> bytes:
    payload = encode_elements(elements)
    if len(payload) <= _MOST_BLOCK_BYTES:
        return payload
    kind, size = max(map(_largest_record, elements), key=itemgetter(1))
    raise RecordTooLargeError(
        f"{len(payload):,} bytes for subtask {target} are more than the {_MOST_BLOCK_BYTES:,} of one epoch",
        detail=f"The largest record, a {kind}, takes about {size:,} of them.",
        hint=f"Make several records of it, or send a path in its place. {EPOCH_MAX_BYTES.key} bounds what records take "
        "together; a single one is sent whatever it takes.",
    )


def _largest_record(element: Element) -> tuple[str, int]:
    """Return the type and the estimated size of the largest record of a batch."""
    if isinstance(element, Rows) and element.values:
        size, place = max((weigh(value), place) for place, value in enumerate(element.values))
        return type(element.values[place]).__name__, size
    if isinstance(element, Columns) and len(element):
        return "row of columns", element.nbytes // len(element)
    return "", 0


class ChainOutput(Output):
    """The output of one operator: a few direct calls for each batch.

    Args:
        budget: Of the subtask; None if nobody cares how long operators take.
    """

    def __init__(self, budget: WorkBudget | None = None) -> None:
        self._budget = budget
        self._batch = _Readers()
        self._sole: BatchHandler | None = None  # of the main output, if it has one reader
        self._columnar: list[Callable[[], bool]] = []
        self._aside: list[Callable[[int], None]] = []
        self._side: dict[str, _Readers] = {}
        self._watermark: list[Callable[[int], None]] = []
        self._status: list[Callable[[StreamStatus], None]] = []
        self._latency: list[Callable[[LatencyMarker], None]] = []

    def add_operator(
        self, operator: Operator, spec: OperatorSpec, name: str, side_output: str | None
    ) -> None:
        """Have an operator chained behind; `name` is noted on what it raises."""
        handler: BatchHandler = guarded(_taking(operator), name)
        if side_output is None and spec.takes_columns:
            self._columnar.append(lambda: operator.wants_columns)
        if self._budget is not None:
            handler = _InSlices(handler, self._budget)
        advance = guarded(operator.process_watermark, name)
        self._add(handler, advance, side_output, takes_columns=spec.takes_columns)
        self._watermark.append(advance)
        self._status.append(guarded(operator.process_status, name))
        self._latency.append(operator.process_latency_marker)

    def add_exchange(self, writer: ExchangeWriter, spec: OperatorSpec, side_output: str | None) -> None:
        """Have output gathered for other subtasks."""
        if side_output is None and writer.deals_columns and spec.takes_columns:
            self._columnar.append(lambda: True)
        self._add(writer.batch, writer.watermark, side_output, takes_columns=True)
        self._watermark.append(writer.watermark)
        self._status.append(writer.status)
        self._latency.append(writer.latency_marker)

    @property
    def wants_columns(self) -> bool:
        """Whether a reader of the main output does best with columns; known when all of them are open."""
        return any(wants() for wants in self._columnar)

    def add_ending(self, action: Callable[[], None]) -> None:
        """Have something done before the final watermark is handed on."""

        def at_end(timestamp_ms: int) -> None:
            if timestamp_ms == MAX_TIMESTAMP:
                action()

        self._watermark.insert(0, at_end)

    def _add(
        self,
        handler: BatchHandler,
        advance: Callable[[int], None],
        side_output: str | None,
        *,
        takes_columns: bool,
    ) -> None:
        readers = self._batch
        if side_output is not None:
            self._aside.append(advance)
            readers = self._side.setdefault(side_output, _Readers())
        readers.add(handler, takes_columns=takes_columns)
        self._sole = self._batch.sole

    def emit(self, batch: Batch) -> None:
        """Hand on a batch; of watermarks between its records readers of side outputs get those only."""
        marks = batch.marks
        count = len(batch.values) if type(batch) is Rows else len(batch)  # small batches feel each call
        self.records_out += count
        if count or marks is not None:
            if self._sole is not None and type(batch) is Rows:
                self._sole(batch)
            else:
                self._batch.hand(batch)
        for advance in self._aside:
            for watermark_ms in () if marks is None else marks.watermarks:
                advance(watermark_ms)

    def emit_side(self, tag_id: str, batch: Batch) -> None:
        """Hand a batch to a side output."""
        count = len(batch)
        if count:
            self.records_out += count
            readers = self._side.get(tag_id)
            if readers is not None:
                readers.hand(batch)

    def emit_watermark(self, timestamp_ms: int) -> None:
        """Hand on a watermark to all readers, of side outputs too."""
        for advance in self._watermark:
            advance(timestamp_ms)

    def emit_status(self, status: StreamStatus) -> None:
        """Hand on a change of status to all readers."""
        for change in self._status:
            change(status)

    def emit_latency_marker(self, marker: LatencyMarker) -> None:
        """Hand on a latency marker to all readers."""
        for take in self._latency:
            take(marker)


class _Readers:
    """Those who read an output: each gets a batch of its own, in a form that it takes."""

    __slots__ = ("_handlers", "_takes_columns")

    def __init__(self) -> None:
        self._handlers: list[BatchHandler] = []
        self._takes_columns: list[bool] = []

    def add(self, handler: BatchHandler, *, takes_columns: bool) -> None:
        """Have another one read."""
        self._handlers.append(handler)
        self._takes_columns.append(takes_columns)

    @property
    def sole(self) -> BatchHandler | None:
        """The only one, if there is only one."""
        return self._handlers[0] if len(self._handlers) == 1 else None

    def hand(self, batch: Batch) -> None:
        """Hand each a batch that it may change, the first one last; columns are made rows once."""
        rows = None if all(self._takes_columns) else batch.to_rows()
        for index in [*range(1, len(self._handlers)), 0] if self._handlers else ():
            mine = batch if rows is None or self._takes_columns[index] else rows
            self._handlers[index](copy_of_batch(mine) if index else mine)


class _InSlices:
    """Hands an operator batches in slices, and lets the epoch end between two of them.

    What was made of one record, or fired by one watermark, may take long where it goes to: a flat map of one to a
    thousand in front of a slow map, windows in front of a slow sink.
    """

    __slots__ = ("_budget", "_handler", "_size")

    def __init__(self, handler: BatchHandler, budget: WorkBudget) -> None:
        self._handler = handler
        self._budget = budget
        self._size = 1

    def __call__(self, batch: Batch) -> None:
        now, start = self._budget.now, 0
        smallest = batch.smallest_slice
        slice_s = slice_seconds(smallest)
        count = len(batch.values) if type(batch) is Rows else len(batch)
        if count <= self._size:
            began = now()
            self._handler(batch)
            if count:  # else watermarks only
                self._adapt(count, (now() - began) / slice_s)
            return
        while start < count:
            stop, began = min(start + max(self._size, smallest), count), now()
            self._handler(batch.cut(start, stop))
            self._adapt(stop - start, (now() - began) / slice_s)
            start = stop
            if start < count:
                self._budget.reach_safe_point()

    def _adapt(self, done: int, share: float) -> None:
        """Learn from a slice that took so much of the time that one is to take."""
        if share < 0.5:
            if done >= self._size:
                self._size = min(4 * done, _LARGEST_SLICE)
        elif share > 2.0:
            self._size = max(1, int(done / share))


def _marks_between(places: list[int], marks: Marks) -> Marks:
    """Return the watermarks between some of a batch's records; of those in one place only the last counts.

    Args:
        places: Of the records, in the batch that the watermarks are of; ascending.
        marks: The watermarks.
    """
    between = {
        bisect_left(places, position): watermark_ms for position, watermark_ms in zip(*marks, strict=True)
    }
    return Marks(list(between), list(between.values()))


def _taking(operator: Operator) -> BatchHandler:
    """Return what hands an operator batches, with or without watermarks between their records, and counts them."""
    process, process_marked = operator.process, counted_marked(operator, takes_columns=True)

    def take(batch: Batch) -> None:
        if batch.marks is None:
            operator.records_in += len(batch.values) if type(batch) is Rows else len(batch)
            process(batch)
        else:
            process_marked(batch, operator.reach_watermark)

    return take
