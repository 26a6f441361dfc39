"""Iterations: records that go round, from the tail of a loop back to its head.

The loop is no cycle of the graph. In each subtask the tail keeps what is to go back, and the runtime hands it to
the head of the same slot when the epoch ends; the head emits it as the next epoch begins::

    epoch n    input ─► head ─► body ─► tail (keeps)        ─► out
                                         │ end of epoch
    epoch n+1  input ─► head ◄───────────┘

So an epoch is a barrier here as well, and what goes round is in one place at its end: the head. Watermarks do
not go round. The head keeps the final watermark until nothing goes round any more.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

from millstream.base.time import MAX_TIMESTAMP
from millstream.operators.base import Operator, OperatorReport, OperatorSpec, RestoreScope
from millstream.spi.batch import Rows

__all__ = [
    "FEEDBACK_DROPPED",
    "IterationHead",
    "IterationHeadSpec",
    "IterationTail",
    "IterationTailSpec",
]

FEEDBACK_DROPPED = "numFeedbackRecordsDropped"
"""Counter of records that were to go back when the last epoch had begun."""


@dataclass(frozen=True)
class IterationHeadSpec(OperatorSpec):
    """Declares where records come back."""

    is_fed_back = True

    def build(self) -> Operator:
        """Make the running half."""
        return IterationHead()


@dataclass(frozen=True)
class IterationTailSpec(OperatorSpec):
    """Declares where records go back from.

    Attributes:
        head: Node id of the head.
    """

    head: int

    @property
    def feeds(self) -> int:
        """The head."""
        return self.head

    def build(self) -> Operator:
        """Make the running half."""
        return IterationTail()


class IterationHead(Operator):
    """Emits its input and what comes back."""

    def __init__(self) -> None:
        self._returned: deque[Rows] = deque()
        self._held = False
        self._waiting = 0

    def process(self, batch: Rows) -> None:
        """Emit the input."""
        self.output.emit(batch)

    def process_watermark(self, timestamp_ms: int) -> None:
        """Hand a watermark on, except the final one."""
        if timestamp_ms == MAX_TIMESTAMP:
            self._held = True
        else:
            super().process_watermark(timestamp_ms)

    def accept(self, batches: list[Rows]) -> bool:
        """Take what comes back, for the next epoch; return whether there is anything."""
        self._returned.extend(batches)
        return bool(self._returned)

    def on_processing_time(self) -> None:
        """Emit what came back, as an epoch begins and as far as it goes; in the last epoch the final watermark too."""
        returned, take = self._returned, self.context.budget.take
        while returned:
            batch = returned.popleft()
            count = len(batch)
            granted = take(count, "returned")
            if granted < count:
                returned.appendleft(batch.cut(granted, count))
            if not granted:
                break
            self.output.emit(batch.cut(0, granted))
        self._waiting = sum(len(batch.values) for batch in returned)
        if self.context.time.final and self._held:
            self._held = False
            super().process_watermark(MAX_TIMESTAMP)

    @property
    def held(self) -> int:
        """Records that came back and have to wait."""
        return self._waiting

    def next_processing_time(self) -> int | None:
        """Return now, if something came back."""
        return self.context.time.now_ms if self._returned else None

    def snapshot_state(self) -> Any:
        """Return what came back, and whether the final watermark is held."""
        return [(batch.values, batch.timestamps) for batch in self._returned], self._held

    def restore_state(self, snapshot: Any, scope: RestoreScope) -> None:
        """Take over what came back."""
        returned, held = snapshot
        if scope.adopts:
            self._returned.extend(Rows(values, timestamps) for values, timestamps in returned)
        self._held = self._held or held


class IterationTail(Operator):
    """Keeps records until the epoch ends."""

    def __init__(self) -> None:
        self._kept: list[Rows] = []
        self._dropped = 0

    def process(self, batch: Rows) -> None:
        """Keep a batch."""
        self._kept.append(batch)

    def take(self) -> list[Rows]:
        """Return what is to go back, once."""
        kept, self._kept = self._kept, []
        return kept

    def end_input(self) -> None:
        """Drop what the last epoch would send back: there is no epoch left for it."""
        self._dropped = sum(len(batch.values) for batch in self.take())

    def end_epoch(self, report: OperatorReport, *, checkpoint: bool) -> None:
        """Report what was dropped."""
        if self._dropped:
            report.counters[FEEDBACK_DROPPED] = self._dropped
            self._dropped = 0
