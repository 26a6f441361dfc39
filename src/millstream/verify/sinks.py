"""Sinks that keep what they are given in the simulation's world, in the place of those that reach outside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millstream.base.ids import new_id
from millstream.common.functions import SinkFunction
from millstream.spi.batch import Rows
from millstream.spi.sink import Committer, Sink, SinkWriter, WriterContext
from millstream.verify.world import current_world

__all__ = ["RecordingFunction", "RecordingSink", "as_text"]


def as_text(value: Any) -> str:
    """Return a record as text, to compare it."""
    return repr(value)


class RecordingSink(Sink):
    """Publishes exactly once: a committable is its records under an id.

    Args:
        label: Names the sink.
    """

    def __init__(self, label: str) -> None:
        self._label = label

    def build_writer(self, context: WriterContext) -> SinkWriter:
        """Make the writer."""
        return _Writer()

    def build_committer(self) -> Committer:
        """Make the committer."""
        return _Committer(self._label)


class _Writer(SinkWriter):
    def __init__(self) -> None:
        self._staged: list[str] = []

    def write(self, batch: Rows, *, watermark_ms: int, now_ms: int) -> None:
        values = batch.values
        self._staged += map(as_text, values)

    def prepare_commit(self, *, now_ms: int, checkpoint: bool, end_of_input: bool) -> list[Any]:
        if not self._staged or not (checkpoint or end_of_input):
            return []
        staged, self._staged = self._staged, []
        return [(new_id(), staged)]


class _Committer(Committer):
    def __init__(self, label: str) -> None:
        self._label = label

    def commit(self, committables: Sequence[Any]) -> None:
        published = current_world().recorded.setdefault(self._label, {})
        for committable_id, records in committables:
            published[committable_id] = records


class RecordingFunction(SinkFunction):
    """Gives records at once, at least once.

    Args:
        label: Names the sink.
    """

    def __init__(self, label: str) -> None:
        super().__init__()
        self._label = label

    def invoke(self, value: Any) -> None:
        """Keep a record."""
        current_world().emitted.setdefault(self._label, []).append(as_text(value))
