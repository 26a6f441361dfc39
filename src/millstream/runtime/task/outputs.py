"""Where an operator's output goes: to the operators chained behind it, and into blocks for other subtasks."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Any

from millstream.base.time import MAX_TIMESTAMP
from millstream.graph.job_graph import JobEdge
from millstream.operators.base import BatchHandler, Operator, Output
from millstream.operators.budget import WorkBudget
from millstream.operators.values import copies, cut
from millstream.operators.weight import estimate_bytes
from millstream.runtime.protocol.blocks import Block, encode_elements
from millstream.runtime.task.failures import guarded
from millstream.runtime.task.measures import counted, counted_marked
from millstream.spi.batch import Batch, Element, Marks, StreamStatus, Watermark

__all__ = ["ChainOutput", "ExchangeWriter"]


MarkedReader = Callable[[list[Any], "list[int] | None", Marks], object]
"""Takes a batch with watermarks between its records."""

_LOOK_RECORDS = 16_384
_MOST_JOINED = 4_096
"""Small batches are joined; larger ones are processed as they are, while they are in the processor's cache."""
_SLICE_S = 0.002
_LARGEST_SLICE = 1 << 20


class ExchangeWriter:
    """Gathers what one subtask sends over one edge, until the epoch's end; the subtask's thread calls it.

    Args:
        edge: The exchange.
        sender: The sending subtask.
        budget: Told how many bytes are gathered, and asked now and then whether it is enough; None if nobody cares.
    """

    def __init__(self, edge: JobEdge, sender: int, budget: WorkBudget | None = None) -> None:
        self._budget = budget
        self._gathered_bytes = 0
        self._unweighed = 0
        self._newest: list[Any] = []
        if budget is not None:
            budget.scales.append(self._weigh)
        partitioning = edge.edge.partitioning
        self._edge_id = edge.id
        self._sender = sender
        self._selector = partitioning.build(sender, edge.senders, edge.receivers, edge.max_parallelism)
        self._elements: dict[int, list[Element]] = {
            target: [] for target in partitioning.targets(sender, edge.senders, edge.receivers)
        }

    def batch(self, values: list[Any], timestamps: list[int] | None) -> None:
        """Deal a batch to its targets."""
        for target, part, stamps in self._selector.split(values, timestamps):
            self._gather(target, part, stamps)
        self._note(values)

    def marked(self, values: list[Any], timestamps: list[int] | None, marks: Marks) -> None:
        """Deal a batch with watermarks between its records to its targets: each gets all of the watermarks."""
        without = set(self._elements)
        if values:
            for target, part, places in self._selector.split(values, list(range(len(values)))):
                assert places is not None
                stamps = None if timestamps is None else [timestamps[place] for place in places]
                self._gather(target, part, stamps, _marks_between(places, marks))
                without.discard(target)
            self._note(values)
        for target in without:
            self._mark(target, marks.watermarks[-1])

    def _gather(
        self, target: int, part: list[Any], stamps: list[int] | None, marks: Marks | None = None
    ) -> None:
        elements = self._elements[target]
        last = elements[-1] if elements else None
        if (
            not isinstance(last, Batch)
            or (last.timestamps is None) != (stamps is None)
            or len(last.values) + len(part) > _MOST_JOINED
        ):
            elements.append(Batch(part, stamps, marks))
            return
        if marks is not None:
            if last.marks is None:
                elements[-1] = last = last._replace(marks=Marks([], []))
            before, gathered = len(last.values), last.marks
            assert gathered is not None
            gathered.positions.extend([before + position for position in marks.positions])
            gathered.watermarks.extend(marks.watermarks)
        last.values.extend(part)
        if stamps is not None and last.timestamps is not None:
            last.timestamps.extend(stamps)

    def _note(self, values: list[Any]) -> None:
        """Take note of what was gathered, and let the epoch end if it is much."""
        self._newest = values
        self._unweighed += len(values)
        if self._unweighed >= _LOOK_RECORDS and self._budget is not None:
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
        for target in self._elements:
            self._mark(target, timestamp_ms)

    def _mark(self, target: int, timestamp_ms: int) -> None:
        elements = self._elements[target]
        if elements and isinstance(elements[-1], Watermark):
            elements[-1] = Watermark(timestamp_ms)
        else:
            elements.append(Watermark(timestamp_ms))

    def status(self, status: StreamStatus) -> None:
        """Send a change of status to every target."""
        for elements in self._elements.values():
            elements.append(status)

    def flush(self) -> list[Block]:
        """Return the epoch's blocks and start anew; channels that carried nothing have none."""
        blocks = []
        self._gathered_bytes = self._unweighed = 0
        self._newest = []
        for target, elements in self._elements.items():
            if elements:
                payload = elements if target == self._sender else encode_elements(elements)
                blocks.append(Block(self._edge_id, self._sender, target, payload))
                self._elements[target] = []
        return blocks


class ChainOutput(Output):
    """The output of one operator: a few direct calls for each batch.

    Args:
        budget: Of the subtask; None if nobody cares how long operators take.
    """

    def __init__(self, budget: WorkBudget | None = None) -> None:
        self._budget = budget
        self._batch: list[BatchHandler] = []
        self._marked: list[MarkedReader] = []
        self._aside: list[Callable[[int], None]] = []
        self._side: dict[str, list[BatchHandler]] = {}
        self._watermark: list[Callable[[int], None]] = []
        self._status: list[Callable[[StreamStatus], None]] = []

    def add_operator(self, operator: Operator, name: str, side_output: str | None) -> None:
        """Have an operator chained behind; `name` is noted on what it raises."""
        handler: BatchHandler = guarded(counted(operator, operator.process_batch), name)
        process = counted_marked(operator)
        marked: MarkedReader = guarded(
            lambda values, timestamps, marks: process(values, timestamps, marks, operator.reach_watermark),
            name,
        )
        if self._budget is not None:
            handler = in_slices = _InSlices(handler, marked, self._budget)
            marked = in_slices.marked
        advance = guarded(operator.process_watermark, name)
        self._add(handler, marked, advance, side_output)
        self._watermark.append(advance)
        self._status.append(guarded(operator.process_status, name))

    def add_exchange(self, writer: ExchangeWriter, side_output: str | None) -> None:
        """Have output gathered for other subtasks."""
        self._add(writer.batch, writer.marked, writer.watermark, side_output)
        self._watermark.append(writer.watermark)
        self._status.append(writer.status)

    def add_ending(self, action: Callable[[], None]) -> None:
        """Have something done before the final watermark is handed on."""

        def at_end(timestamp_ms: int) -> None:
            if timestamp_ms == MAX_TIMESTAMP:
                action()

        self._watermark.insert(0, at_end)

    def _add(
        self,
        handler: BatchHandler,
        marked: MarkedReader,
        advance: Callable[[int], None],
        side_output: str | None,
    ) -> None:
        if side_output is None:
            self._batch.append(handler)
            self._marked.append(marked)
        else:
            self._aside.append(advance)
            self._side.setdefault(side_output, []).append(handler)

    def emit(self, values: list[Any], timestamps: list[int] | None) -> None:
        """Hand on a batch."""
        if values:
            self.records_out += len(values)
            _fan_out(self._batch, values, timestamps)

    def emit_marked(self, values: list[Any], timestamps: list[int] | None, marks: Marks) -> None:
        """Hand on a batch with watermarks between its records; readers of side outputs get those only."""
        self.records_out += len(values)
        for marked in self._marked[1:]:
            marked(copies(values), None if timestamps is None else list(timestamps), marks)
        if self._marked:
            self._marked[0](values, timestamps, marks)
        for advance in self._aside:
            for watermark_ms in marks.watermarks:
                advance(watermark_ms)

    def emit_side(self, tag_id: str, values: list[Any], timestamps: list[int] | None) -> None:
        """Hand a batch to a side output."""
        if values:
            self.records_out += len(values)
            _fan_out(self._side.get(tag_id, []), values, timestamps)

    def emit_watermark(self, timestamp_ms: int) -> None:
        """Hand on a watermark to all readers, of side outputs too."""
        for advance in self._watermark:
            advance(timestamp_ms)

    def emit_status(self, status: StreamStatus) -> None:
        """Hand on a change of status to all readers."""
        for change in self._status:
            change(status)


class _InSlices:
    """Hands an operator batches in slices, and lets the epoch end between two of them.

    What was made of one record, or fired by one watermark, may take long where it goes to: a flat map of one to a
    thousand in front of a slow map, windows in front of a slow sink.
    """

    __slots__ = ("_budget", "_handler", "_marked", "_size")

    def __init__(self, handler: BatchHandler, marked: MarkedReader, budget: WorkBudget) -> None:
        self._marked = marked
        self._handler = handler
        self._budget = budget
        self._size = 1

    def __call__(self, values: list[Any], timestamps: list[int] | None) -> None:
        now, count, start = self._budget.now, len(values), 0
        while start < count:
            size, began = self._size, now()
            if start == 0 and count <= size:
                self._handler(values, timestamps)
            else:
                self._handler(
                    cut(values, start, start + size), timestamps and timestamps[start : start + size]
                )
            self._adapt(min(size, count - start), now() - began)
            start += size
            if start < count:
                self._budget.reach_safe_point()

    def marked(self, values: list[Any], timestamps: list[int] | None, marks: Marks) -> None:
        """Hand on a batch with watermarks between its records."""
        now, count, start = self._budget.now, len(values), 0
        if not count:
            self._marked(values, timestamps, marks)
        while start < count:
            stop, began = min(start + self._size, count), now()
            part, stamps, between = values, timestamps, marks.part(start, stop)
            if stop - start < count:
                part, stamps = cut(values, start, stop), timestamps and timestamps[start:stop]
            if between is None:
                self._handler(part, stamps)
            else:
                self._marked(part, stamps, between)
            self._adapt(stop - start, now() - began)
            start = stop
            if start < count:
                self._budget.reach_safe_point()

    def _adapt(self, done: int, took_s: float) -> None:
        if took_s < _SLICE_S / 2:
            if done == self._size:
                self._size = min(4 * done, _LARGEST_SLICE)
        elif took_s > 2 * _SLICE_S:
            self._size = max(1, int(done * _SLICE_S / took_s))


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


def _fan_out(handlers: list[BatchHandler], values: list[Any], timestamps: list[int] | None) -> None:
    """Call each handler with lists and values of its own: the receiver may change them."""
    for handler in handlers[1:]:
        handler(copies(values), None if timestamps is None else list(timestamps))
    if handlers:
        handlers[0](values, timestamps)
