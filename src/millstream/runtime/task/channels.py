"""The input of a subtask: many channels, merged deterministically by watermark.

The merge always goes on with the channel whose watermark is lowest, up to and including its next watermark; the
subtask's own watermark is the minimum over the channels that are not idle::

    channel 0   a b W5 c W9            order: a b W5 | x W3 y W7 | ...
    channel 1   x W3 y W7              subtask's watermark: 3, then 5, 7
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


class ChannelMerger:
    """Merges the channels of one subtask; the subtask's thread calls it, once for each epoch.

    Args:
        channels: Every channel and the input it feeds.
        handlers: One for each input.
        on_watermark: Told when the subtask's watermark advances.
        on_status: Told when all channels are idle, or one is active again.
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
        self._watermarks = dict.fromkeys(channels, MIN_TIMESTAMP)
        self._idle: set[ChannelId] = set()
        self._combined = MIN_TIMESTAMP

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
                self._combine()
                break
            else:
                self._set_status(channel, element)
        return cursor

    def _combine(self) -> None:
        active = (mark for channel, mark in self._watermarks.items() if channel not in self._idle)
        combined = min(active, default=MIN_TIMESTAMP)
        if combined > self._combined:
            self._combined = combined
            self._on_watermark(combined)

    def _set_status(self, channel: ChannelId, status: StreamStatus) -> None:
        were_idle = len(self._idle) == len(self._watermarks)
        if status is IDLE:
            self._idle.add(channel)
        else:
            self._idle.discard(channel)
        self._combine()
        are_idle = len(self._idle) == len(self._watermarks)
        if are_idle != were_idle:
            self._on_status(IDLE if are_idle else ACTIVE)
