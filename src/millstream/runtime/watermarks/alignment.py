"""Watermark alignment: sources of a group that are ahead of its slowest split are not read for a while.

Decided before each epoch, on what the last one told::

    group "g", drift 20 s      split a   12:00:05   lowest: read
                               split b   12:00:20   within the drift: read
                               split c   12:00:40   ahead: gets no range until a is past 12:00:20

Unit: a split; for splits that a subtask reads one after the other (files), the subtask. A split that was not read
yet is not held back, and one epoch may carry it ahead by all that the epoch reads. Idle splits and sources that
have ended hold nobody back. Pure; the job master's thread calls it.
"""

from __future__ import annotations

from dataclasses import dataclass

from millstream.base.time import MIN_TIMESTAMP
from millstream.runtime.watermarks.progress import Origin, WatermarkMonitor

__all__ = ["HeldBack", "SplitAligner"]


@dataclass(frozen=True, slots=True)
class HeldBack:
    """What one source is not to read in the next epoch.

    Attributes:
        splits: Splits that are held back, by subtask.
        subtasks: Subtasks of which the splits that are read one after the other are held back.
    """

    splits: dict[int, frozenset[str]]
    subtasks: frozenset[int]

    @property
    def split_ids(self) -> frozenset[str]:
        """All splits that are held back."""
        return frozenset().union(*self.splits.values())


class SplitAligner:
    """Says which splits of which sources are too far ahead.

    Args:
        monitor: Knows the watermarks of all splits.
        started_ms: Processing time of the start.
    """

    def __init__(self, monitor: WatermarkMonitor, *, started_ms: int = 0) -> None:
        self._monitor = monitor
        self._started_ms = started_ms
        self._groups: dict[str, list[Origin]] = {}
        for origin in monitor.origins.values():
            if origin.is_source and origin.strategy.alignment is not None:
                self._groups.setdefault(origin.strategy.alignment.group, []).append(origin)

    def held_back(self, now_ms: int) -> dict[int, HeldBack]:
        """Return what is to be held back, by node id; sources that may read everything are not there."""
        held: dict[int, HeldBack] = {}
        for origins in self._groups.values():
            lowest_ms = min(
                (mark for origin in origins for mark in self._marks(origin, now_ms)), default=MIN_TIMESTAMP
            )
            for origin in origins:
                found = _ahead(origin, lowest_ms)
                if found.splits or found.subtasks:
                    held[origin.node.id] = found
        if self._groups:
            self._monitor.hold(
                {
                    (node_id, subtask): splits
                    for node_id, each in held.items()
                    for subtask, splits in each.splits.items()
                }
            )
        return held

    def _marks(self, origin: Origin, now_ms: int) -> list[int]:
        """Return the watermarks that others have to wait for."""
        if not any(subtask.had_split for subtask in origin.subtasks):
            timeout_ms = origin.strategy.idle_timeout_ms
            idle = timeout_ms is not None and now_ms - self._started_ms >= timeout_ms
            ended = all(subtask.finished for subtask in origin.subtasks)
            return [] if idle or ended else [MIN_TIMESTAMP]
        return [
            subtask.mark(split)
            for subtask in origin.subtasks
            if not subtask.finished
            for split in subtask.splits.values()
            if not split.idle
        ]


def _ahead(origin: Origin, lowest_ms: int) -> HeldBack:
    assert origin.strategy.alignment is not None
    ceiling_ms = lowest_ms + origin.strategy.alignment.max_drift_ms
    splits: dict[int, frozenset[str]] = {}
    subtasks = set()
    for index, subtask in enumerate(origin.subtasks):
        ahead = frozenset(
            split_id for split_id, split in subtask.splits.items() if subtask.mark(split) > ceiling_ms
        )
        if ahead:
            splits[index] = ahead
        # Between two files there is no open split, but the next one begins where the subtask is.
        if subtask.watermark_ms > ceiling_ms and all(each.sequential for each in subtask.splits.values()):
            subtasks.add(index)
    return HeldBack(splits, frozenset(subtasks))
