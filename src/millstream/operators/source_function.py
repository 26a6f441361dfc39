"""The operator of a source function: event time comes from the function, its state goes into checkpoints."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Any, Protocol, cast

from millstream.base.time import MAX_TIMESTAMP
from millstream.operators.base import Operator, OperatorContext, RestoreScope
from millstream.operators.source import SourceOperator, SourceSpec
from millstream.spi.source import SplitRange

__all__ = ["FunctionReader", "SourceEvents", "SourceFunctionSpec"]


class SourceEvents(Protocol):
    """What a function's reader tells its operator between records."""

    def watermark(self, split_id: str, timestamp_ms: int) -> None:
        """Take a watermark of the function."""

    def idle(self, split_id: str) -> None:
        """Take that nobody is to wait for the function."""


class FunctionReader(Protocol):
    """What the operator asks of the reader besides `spi.source.SourceReader`; the subtask's thread calls it."""

    def bind(self, context: OperatorContext, events: SourceEvents) -> None:
        """Be told where it runs; called before `open`."""

    def restore(self, snapshots: Sequence[Any]) -> None:
        """Take over what was received and not processed; called before `open`."""

    def snapshot(self) -> Any:
        """Return what was received and is not processed yet, or where it is."""

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        """Learn that an earlier snapshot of this attempt is what a later one begins from."""

    def stop(self) -> None:
        """Have the function receive nothing more, and wait for it."""

    def is_drained(self, split_id: str) -> bool:
        """Return whether everything received has been read."""

    def abort(self) -> None:
        """Learn that the attempt failed: what was received is kept."""


@dataclass(frozen=True)
class SourceFunctionSpec(SourceSpec):
    """Declares a source function; its source's readers are `FunctionReader`s."""

    def build(self) -> Operator:
        """Make the running half."""
        return _SourceFunctionOperator(self)


class _SourceFunctionOperator(SourceOperator):
    """Reads what a function has received, and takes its watermarks in between."""

    def __init__(self, spec: SourceSpec) -> None:
        super().__init__(spec)
        self._received: list[Any] = []
        self._reading: FunctionReader | None = None

    def open(self) -> None:
        """Open the reader with the function's state."""
        context = self.context
        strategy = self._spec.strategy
        self._strategy = strategy.without_watermarks() if context.batch else strategy
        self._empty_since_ms = context.time.now_ms
        self._reader = self._build_reader()
        self._reading = cast(FunctionReader, self._reader)
        self._reading.bind(context, self)
        self._reading.restore(self._received)
        if context.operator_state is not None:
            context.operator_state.on_complete(self._reading.checkpoint_completed)
        self._reader.open()

    def read_ranges(
        self,
        ranges: Sequence[SplitRange],
        *,
        finished: bool,
        held: Set[str] = frozenset(),
        waits: bool = False,
    ) -> None:
        """Read what has been received; if the source is stopped, all of it, as far as the budget goes."""
        reader = self._reading
        assert reader is not None
        split_id = str(self.context.subtask_index)
        if finished and self.watermark_ms != MAX_TIMESTAMP and not reader.is_drained(split_id):
            reader.stop()
            super().read_ranges(ranges, finished=False, held=held)
            while not reader.is_drained(split_id) and not self._agenda:
                super().read_ranges([SplitRange(split_id, None)], finished=False)
            if not reader.is_drained(split_id):
                self._left_early = True
            ranges = ()
        super().read_ranges(ranges, finished=finished, held=held, waits=waits)

    def watermark(self, split_id: str, timestamp_ms: int) -> None:
        """Take a watermark of the function; the last of all comes with its end."""
        if not self.context.batch:
            self._tell(split_id, min(timestamp_ms, MAX_TIMESTAMP - 1))

    def idle(self, split_id: str) -> None:
        """Take that nobody is to wait for the function."""
        self._tell(split_id, None)

    def snapshot_state(self) -> Any:
        """Return how far event time has come, and what has been received."""
        assert self._reading is not None
        return super().snapshot_state(), self._reading.snapshot()

    def restore_state(self, snapshot: Any, scope: RestoreScope) -> None:
        """Take over what old subtasks had received."""
        event_time, received = snapshot
        super().restore_state(event_time, scope)
        if scope.adopts:
            self._received.append(received)

    def abort(self) -> None:
        """Keep what was received."""
        if self._reading is not None:
            self._reading.abort()

    def close(self) -> None:
        """Close the reader."""
        if self._reading is not None:
            self._reader.close()
