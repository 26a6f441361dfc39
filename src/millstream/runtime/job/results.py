"""Results on their way to whoever collects them, and whether there is room for more.

With checkpoints a result is handed on when a checkpoint holds that it was: after a failure it does not come again. So
results wait twice in the driver's memory, and together they are bounded::

    slots ──► waiting for a checkpoint ──► waiting for the program ──► taken
              full: one is made early      full: the job goes on when some are taken
"""

from __future__ import annotations

from typing import Any

from millstream.operators.weight import estimate_bytes
from millstream.runtime.control.console import JobOutput

__all__ = ["CollectedResults"]


class CollectedResults:
    """What one attempt has collected; the job master's thread calls it.

    Args:
        output: Takes the results.
        max_bytes: Estimated size from which nothing more is read; None for no bound.
    """

    def __init__(self, output: JobOutput, max_bytes: int | None) -> None:
        self._output = output
        self._max_bytes = max_bytes
        self._unrecorded: list[tuple[int, list[Any]]] = []
        self._unrecorded_bytes = 0

    def add(self, node_id: int, records: list[Any]) -> None:
        """Take what an operator has collected in an epoch."""
        self._unrecorded.append((node_id, records))
        self._unrecorded_bytes += estimate_bytes(records)

    def hand_on(self) -> None:
        """Give everything to whoever collects it: a checkpoint says so, or none is going to."""
        for node_id, records in self._unrecorded:
            self._output.collected(node_id, records)
        self._unrecorded.clear()
        self._unrecorded_bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether so much waits that nothing more is to be read."""
        if self._max_bytes is None:
            return False
        return self._unrecorded_bytes + self._output.waiting_bytes >= self._max_bytes

    @property
    def wait_for_record(self) -> bool:
        """Whether some of it waits for a checkpoint."""
        return bool(self._unrecorded)
