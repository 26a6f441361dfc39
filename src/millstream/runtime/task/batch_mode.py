"""Batch mode in a subtask: processing time does not pass, and all its timers fire at the end of the input.

Per operator, as the final watermark arrives::

    records ... | event-time timers | processing-time timers | final watermark to the next operator

Flink does this for each key by itself, its input being sorted by key; here it is done once for all keys, in the
order of the timers. Timers that are registered by the timers' own callbacks are ignored in both.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from millstream.graph.stream_graph import StreamEdge
from millstream.operators.base import Operator, OperatorSpec
from millstream.operators.partitioners import Broadcast
from millstream.state.keyed import KeyedStateBackend
from millstream.state.timers import TimerQueue

__all__ = ["fire_processing_timers", "input_waits", "keep_batch_timers"]

_LOG = logging.getLogger("millstream")
_MOST_ROUNDS = 10_000


class _BatchTimers(TimerQueue):
    """Timers that can be set until the first of them fires, at the end of the input; later ones are ignored.

    Args:
        ended: Shared by the timers of an operator: true once it is not empty.
    """

    __slots__ = ("_ended",)

    def __init__(self, ended: list[bool]) -> None:
        super().__init__()
        self._ended = ended

    def register(self, timestamp_ms: int, key: Any) -> None:
        if not self._ended:
            super().register(timestamp_ms, key)

    def fire_until(
        self, time_ms: int, fire: Callable[[int, Any], None], grant: Callable[[], int] | None = None
    ) -> bool:
        self._ended.append(True)
        return super().fire_until(time_ms, fire, grant)


def keep_batch_timers(state: KeyedStateBackend) -> None:
    """Have an operator's timers ignored that its timers set, as Flink does in batch mode: they might never end."""
    ended: list[bool] = []
    state.event_timers = _BatchTimers(ended)
    state.processing_timers = _BatchTimers(ended)


def fire_processing_timers(operator: Operator) -> None:
    """Fire an operator's processing-time timers, whenever they are due.

    Processing time is put forward to each timer and back in the end. An operator with timers of its own that never
    end, because each sets another, is stopped with a warning.
    """
    time = operator.context.time
    now_ms = time.now_ms
    try:
        for _ in range(_MOST_ROUNDS):
            due_ms = operator.next_processing_time()
            if due_ms is None:
                return
            time.now_ms = max(time.now_ms, due_ms)
            operator.on_processing_time()
        _LOG.warning(
            'operator "%s" still had processing-time timers after %d rounds at the end of a batch job; '
            "the rest is ignored",
            operator.context.name,
            _MOST_ROUNDS,
        )
    finally:
        time.now_ms = now_ms


def input_waits(spec: OperatorSpec, inputs: int, edges: Sequence[StreamEdge]) -> list[str]:
    """Return for each input of an operator how its records wait, see `SortedInput`.

    Args:
        spec: The operator.
        inputs: How many inputs it has.
        edges: What feeds them.
    """
    broadcast = {edge.input_index for edge in edges if isinstance(edge.partitioning, Broadcast)}
    if inputs > 1 and 0 < len(broadcast) < inputs:
        return ["never" if index in broadcast else "always" for index in range(inputs)]
    return ["stamped" if spec.is_keyed else "never"] * inputs
