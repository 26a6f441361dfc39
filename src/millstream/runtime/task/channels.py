"""The input of a subtask: many channels, merged deterministically by watermark.

The merge always goes on with the channel whose watermark is lowest, up to and including its next watermark; the
subtask's own watermark is the minimum over the channels that are not idle::

    channel 0   a b W5 c W9            order: a b W5 | x W3 y W7 | ...
    channel 1   x W3 y W7              subtask's watermark: 3, then 5, 7

Idleness is Flink's (its status watermark valve): a channel that is active again but behind what was told counts
only from when it has caught up, so it neither turns the watermark back nor stops it; when the last channel of an
input goes idle and was the one that held back, the input's watermark becomes the largest of all its channels.
Channels are valves of their input; the subtask's watermark is the minimum over the inputs that are not idle.

What does not fit into an epoch (`operators.budget`) stays in its channel; what comes later queues behind it. Not so on
broadcast edges when a checkpoint is made: all subtasks have seen the same of them then, which functions rely on that
keep it in broadcast or union state. (Flink's unaligned checkpoints leave broadcast edges aligned as well.)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

from millstream.base.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from millstream.operators.base import BatchHandler
from millstream.operators.budget import WorkBudget
from millstream.runtime.task.measures import MarkedHandler
from millstream.spi.batch import ACTIVE, IDLE, Columns, Element, LatencyMarker, Rows, StreamStatus, Watermark

__all__ = ["ChannelId", "ChannelMerger"]


class ChannelId(NamedTuple):
    """One sender of one edge."""

    edge_id: int
    sender: int


class _Input:
    """Watermark and status of one input, combined of its channels."""

    __slots__ = ("_behind", "_idle", "_watermarks", "combined")

    def __init__(self) -> None:
        self.combined = MIN_TIMESTAMP
        self._watermarks: dict[ChannelId, int] = {}
        self._idle: set[ChannelId] = set()
        self._behind: set[ChannelId] = set()

    def add(self, channel: ChannelId) -> None:
        self._watermarks[channel] = MIN_TIMESTAMP

    def snapshot(self) -> Any:
        return self.combined, dict(self._watermarks), set(self._idle), set(self._behind)

    def restore(self, snapshot: Any) -> None:
        self.combined, self._watermarks, self._idle, self._behind = snapshot

    @property
    def idle(self) -> bool:
        return len(self._idle) == len(self._watermarks)

    def advance(self, channel: ChannelId, watermark_ms: int) -> None:
        """Take a channel's watermark; an idle channel has none to give."""
        if channel in self._idle or watermark_ms <= self._watermarks[channel]:
            return
        self._watermarks[channel] = watermark_ms
        if watermark_ms >= self.combined:
            self._behind.discard(channel)
        self._combine()

    def set_status(self, channel: ChannelId, status: StreamStatus) -> None:
        """Take a channel's status."""
        if status is ACTIVE:
            if channel in self._idle:
                self._idle.discard(channel)
                if self._watermarks[channel] < self.combined:
                    self._behind.add(channel)
            return
        if channel in self._idle:
            return
        held_back = self._watermarks[channel] == self.combined
        self._idle.add(channel)
        self._behind.discard(channel)
        if not self.idle:
            self._combine()
        elif held_back:
            self.combined = max(self._watermarks.values())

    def _combine(self) -> None:
        # Few channels hold something back; the sets are empty nearly always.
        if self._idle or self._behind:
            counted = [
                mark
                for channel, mark in self._watermarks.items()
                if channel not in self._idle and channel not in self._behind
            ]
            lowest = min(counted, default=MIN_TIMESTAMP)
        else:
            lowest = min(self._watermarks.values())
        if lowest > self.combined:
            self.combined = lowest


class ChannelMerger:
    """Merges the channels of one subtask; the subtask's thread calls it, once for each epoch.

    Args:
        channels: Every channel and the input it feeds.
        handlers: One for each input.
        on_watermark: Told when the subtask's watermark advances.
        on_status: Told when all inputs are idle, or one is active again.
        budget: Says how much of the input is processed in an epoch; None for all of it.
        aligned: Channels of which nothing waits when a checkpoint is made.
        advance: Called in the place of `on_watermark` where it may take its time: returns False if there was no room in
            the epoch for all that is due then, and is called again in the next one, before anything else.
        marked: Takes batches with watermarks between their records whole, where there is only one channel: its
            watermarks are the subtask's own. Else they are cut there, and take their turn.
        on_latency_marker: Told of latency markers; None drops them.
    """

    def __init__(
        self,
        channels: Mapping[ChannelId, int],
        handlers: Sequence[BatchHandler],
        on_watermark: Callable[[int], None],
        on_status: Callable[[StreamStatus], None],
        budget: WorkBudget | None = None,
        aligned: Collection[ChannelId] = (),
        advance: Callable[[int], bool] | None = None,
        marked: MarkedHandler | None = None,
        on_latency_marker: Callable[[LatencyMarker], None] | None = None,
    ) -> None:
        self._on_latency_marker = on_latency_marker
        self._marked = marked if len(channels) == 1 else None
        self._advance_some = advance
        self._aligning = False
        self._aligned = frozenset(aligned)
        self._budget = budget
        self._pending: dict[ChannelId, deque[Element]] = {}
        self._order = {channel: index for index, channel in enumerate(sorted(channels))}
        self._handlers = {channel: handlers[index] for channel, index in channels.items()}
        self._on_watermark = on_watermark
        self._on_status = on_status
        # The merge's own order: also of channels whose watermark does not count for now.
        self._watermarks = dict.fromkeys(channels, MIN_TIMESTAMP)
        inputs: dict[int, _Input] = {}
        for channel, index in channels.items():
            inputs.setdefault(index, _Input()).add(channel)
        self._input_of = {channel: inputs[index] for channel, index in channels.items()}
        self._inputs = list(inputs.values())
        self._input_numbers = tuple(inputs)
        self._combined = MIN_TIMESTAMP
        self._due: int | None = None

    def restore(self, watermark_ms: int) -> None:
        """Go on with the subtask's watermark of a checkpoint: what the channels had is not known any more.

        Each tells its own with the first epoch; one that is behind has nothing to say until it has caught up, so
        the watermark does not turn back.
        """
        self._combined = watermark_ms
        for source in self._inputs:
            source.combined = watermark_ms

    @property
    def input_watermarks(self) -> Mapping[int, int]:
        """The watermark of each input, by its index."""
        return dict(zip(self._input_numbers, (source.combined for source in self._inputs), strict=True))

    @property
    def channels(self) -> Set[ChannelId]:
        """All channels."""
        return self._order.keys()

    @property
    def held(self) -> int:
        """Records that wait in the channels; a watermark that is not there yet counts as one."""
        return (self._due is not None) + sum(
            len(element)
            for elements in self._pending.values()
            for element in elements
            if isinstance(element, (Rows, Columns))
        )

    @property
    def has_ended(self) -> bool:
        """Whether every channel has given its final watermark and nothing waits."""
        return (
            not self._pending
            and self._due is None
            and all(mark == MAX_TIMESTAMP for mark in self._watermarks.values())
        )

    def snapshot(self) -> tuple[Any, dict[ChannelId, list[Element]]]:
        """Return how far event time has come in all channels, and what waits in them; may share live objects.

        Latency markers are left out: they would tell of the time until somebody restores it.
        """
        inputs = [source.snapshot() for source in self._inputs]
        pending: dict[ChannelId, list[Element]] = {
            channel: [each for each in elements if not isinstance(each, LatencyMarker)]
            for channel, elements in self._pending.items()
        }
        return (self._combined, dict(self._watermarks), inputs), pending

    def restore_channels(self, time: Any, pending: Mapping[ChannelId, list[Element]]) -> None:
        """Go on exactly where `snapshot` was taken, with the same channels."""
        self._combined, self._watermarks, inputs = time
        for source, saved in zip(self._inputs, inputs, strict=True):
            source.restore(saved)
        for channel, elements in pending.items():
            self.put(channel, elements)

    def put(self, channel: ChannelId, elements: Iterable[Element]) -> None:
        """Queue elements behind what waits in a channel; the lists in them belong to the merger."""
        waiting = self._pending.get(channel)
        if waiting is None:
            waiting = deque()
        waiting.extend(elements)
        if waiting:
            self._pending[channel] = waiting

    def run(self, inputs: Mapping[ChannelId, list[Element]]) -> None:
        """Process what waits and one epoch's elements, as far as the budget goes."""
        for channel, elements in inputs.items():
            self.put(channel, elements)
        if self._due is None:
            self._combine()  # a checkpoint may have been made before a watermark was there
        else:
            self._reach(self._due)
        if self._due is not None:
            return
        heap = [(self._watermarks[channel], self._order[channel], channel) for channel in self._pending]
        heapify(heap)
        while heap:
            _, order, channel = heappop(heap)
            more = self._advance(channel, self._pending[channel])
            if not self._pending[channel]:
                del self._pending[channel]
            elif more:
                heappush(heap, (self._watermarks[channel], order, channel))
            if not more:
                return

    def align(self) -> None:
        """Process all that waits in aligned channels, whatever it costs: a checkpoint is about to be made."""
        budget, self._budget = self._budget, None
        self._aligning = True
        try:
            for channel in sorted(self._aligned & self._pending.keys()):
                elements = self._pending[channel]
                while elements:
                    self._advance(channel, elements)
                del self._pending[channel]
        finally:
            self._budget = budget
            self._aligning = False

    def _advance(self, channel: ChannelId, elements: deque[Element]) -> bool:
        """Process a channel's elements up to its next watermark; return False if the budget is spent before.

        So it is, too, when the watermark has not all of its room: what is behind it has to wait for it.
        """
        handler = self._handlers[channel]
        while elements:
            element = elements[0]
            if isinstance(element, (Rows, Columns)):
                if element.marks is not None:
                    done = self._process_marked(channel, elements)
                else:
                    done = self._process(handler, elements, channel.edge_id)
                if not done:
                    return False
                continue
            elements.popleft()
            if isinstance(element, Watermark):
                self._watermarks[channel] = element.timestamp_ms
                self._input_of[channel].advance(channel, element.timestamp_ms)
                self._combine()
                break
            if isinstance(element, LatencyMarker):
                if self._on_latency_marker is not None:
                    self._on_latency_marker(element)
                continue
            self._set_status(channel, element)
            if self._due is not None:
                break
        return self._due is None

    def _process(self, handler: BatchHandler, elements: deque[Element], edge_id: int) -> bool:
        """Process the batch in front, or as much of it as may be begun; return False if some of it has to wait.

        It leaves the channel first: what is suspended in the middle is not begun twice.
        """
        batch = elements.popleft()
        assert isinstance(batch, (Rows, Columns))
        count, start = len(batch), 0
        while start < count:
            granted = (
                count
                if self._budget is None
                else self._budget.take(count - start, edge_id, batch.smallest_slice)
            )
            if not granted:
                elements.appendleft(batch.cut(start, count))
                return False
            stop = min(start + granted, count)
            handler(batch.cut(start, stop))
            start = stop
        return True

    def _process_marked(self, channel: ChannelId, elements: deque[Element]) -> bool:
        """Process the batch in front, which has watermarks between its records; as `_process` does."""
        batch = elements.popleft()
        assert isinstance(batch, (Rows, Columns))
        marks = batch.marks
        assert marks is not None
        behind = marks.watermarks[0] <= self._combined
        process, advance = self._marked, self._advance_some
        if process is None or advance is None or self._aligning or behind or self._input_of[channel].idle:
            elements.extendleft(reversed(batch.pieces()))
            return True
        count, start = len(batch), 0
        while True:
            stop = count
            if start < count and self._budget is not None:
                stop = start + self._budget.take(count - start, channel.edge_id, batch.smallest_slice)
            if start == stop < count:
                elements.appendleft(batch.cut(start, count))
                return False
            part = batch.cut(start, stop)
            between = part.marks
            if between is None:
                self._handlers[channel](part)
            else:
                stopped_at = process(part, advance)
                self._reached(channel, between.watermarks[:stopped_at])
                if stopped_at is not None:
                    if stop < count:
                        elements.appendleft(batch.cut(stop, count))
                    rest = part.behind(stopped_at, stop - start)
                    if len(rest) or rest.marks:
                        elements.appendleft(rest)
                    self._due = between.watermarks[stopped_at]
                    self._watermarks[channel] = self._due
                    self._input_of[channel].advance(channel, self._due)
                    return False
            start = stop
            if start == count:
                return True

    def _reached(self, channel: ChannelId, watermarks: list[int]) -> None:
        """Take note of watermarks of the only channel, which the subtask has reached."""
        if watermarks:
            self._watermarks[channel] = self._combined = watermarks[-1]
            self._input_of[channel].advance(channel, watermarks[-1])

    def _combine(self) -> None:
        active = [source.combined for source in self._inputs if not source.idle]
        combined = min(active, default=MIN_TIMESTAMP)
        if combined > self._combined:
            self._reach(combined)

    def _reach(self, watermark_ms: int) -> None:
        """Have the subtask's watermark advance, or note that it is to advance as soon as there is room."""
        if self._advance_some is None:
            self._reach_whole(watermark_ms)
        elif self._due is not None and self._aligning:
            self._due = max(self._due, watermark_ms)  # one is on its way: the two become one
        elif self._advance_some(watermark_ms):
            self._combined, self._due = watermark_ms, None
        else:
            self._due = watermark_ms

    def _reach_whole(self, watermark_ms: int) -> None:
        """Have the subtask's watermark advance, whatever that takes."""
        self._combined, self._due = watermark_ms, None
        self._on_watermark(watermark_ms)

    def _set_status(self, channel: ChannelId, status: StreamStatus) -> None:
        if self._due is not None:
            self._reach_whole(self._due)
        source = self._input_of[channel]
        were_idle = all(each.idle for each in self._inputs)
        source.set_status(channel, status)
        are_idle = all(each.idle for each in self._inputs)
        if are_idle and source.combined > self._combined:
            self._reach_whole(source.combined)
        self._combine()
        if are_idle != were_idle:
            self._on_status(IDLE if are_idle else ACTIVE)
