"""The input of a subtask: many channels, merged deterministically by watermark.

The merge always goes on with the channel whose watermark is lowest, up to and including its next watermark; the
subtask's own watermark is the minimum over the channels that are not idle::

    channel 0   a b W5 c W9            order: a b W5 | x W3 y W7 | ...
    channel 1   x W3 y W7              subtask's watermark: 3, then 5, 7

Idleness is Flink's (its status watermark valve): a channel that is active again but behind what was told counts
only from when it has caught up, so it neither turns the watermark back nor stops it; when the last channel of an
input goes idle and was the one that held back, the input's watermark becomes the largest of all its channels.
Channels are valves of their input; the subtask's watermark is the minimum over the inputs that are not idle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from millstream.common.batch import ACTIVE, IDLE, Batch, Element, StreamStatus, Watermark
from millstream.common.time import MIN_TIMESTAMP
from millstream.operators.base import BatchHandler

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
    """

    def __init__(
        self,
        channels: Mapping[ChannelId, int],
        handlers: Sequence[BatchHandler],
        on_watermark: Callable[[int], None],
        on_status: Callable[[StreamStatus], None],
    ) -> None:
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
        self._combined = MIN_TIMESTAMP

    def restore(self, watermark_ms: int) -> None:
        """Go on with the subtask's watermark of a checkpoint: what the channels had is not known any more.

        Each tells its own with the first epoch; one that is behind has nothing to say until it has caught up, so
        the watermark does not turn back.
        """
        self._combined = watermark_ms
        for source in self._inputs:
            source.combined = watermark_ms

    def run(self, inputs: Mapping[ChannelId, list[Element]]) -> None:
        """Process one epoch's elements."""
        cursors = {channel: 0 for channel, elements in inputs.items() if elements}
        heap = [(self._watermarks[channel], self._order[channel], channel) for channel in cursors]
        heapify(heap)
        while heap:
            _, order, channel = heappop(heap)
            cursors[channel] = self._advance(channel, inputs[channel], cursors[channel])
            if cursors[channel] < len(inputs[channel]):
                heappush(heap, (self._watermarks[channel], order, channel))

    def _advance(self, channel: ChannelId, elements: list[Element], cursor: int) -> int:
        """Process a channel's elements up to its next watermark; return the place behind it."""
        handler = self._handlers[channel]
        while cursor < len(elements):
            element = elements[cursor]
            cursor += 1
            if isinstance(element, Batch):
                handler(element.values, element.timestamps)
            elif isinstance(element, Watermark):
                self._watermarks[channel] = element.timestamp_ms
                self._input_of[channel].advance(channel, element.timestamp_ms)
                self._combine()
                break
            else:
                self._set_status(channel, element)
        return cursor

    def _combine(self) -> None:
        active = [source.combined for source in self._inputs if not source.idle]
        combined = min(active, default=MIN_TIMESTAMP)
        if combined > self._combined:
            self._combined = combined
            self._on_watermark(combined)

    def _set_status(self, channel: ChannelId, status: StreamStatus) -> None:
        source = self._input_of[channel]
        were_idle = all(each.idle for each in self._inputs)
        source.set_status(channel, status)
        are_idle = all(each.idle for each in self._inputs)
        if are_idle and source.combined > self._combined:
            self._combined = source.combined
            self._on_watermark(source.combined)
        self._combine()
        if are_idle != were_idle:
            self._on_status(IDLE if are_idle else ACTIVE)
