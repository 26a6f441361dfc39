"""Which messages were processed and not acknowledged yet.

A broker knows a message by its packet id until it is acknowledged, and gives it again, by the same id, when a session
is resumed with a new connection. So this process knows it again, and drops it::

    connection 1    m5 m6 │ m7          5 and 6 are in checkpoint 3, 7 is not
    lost            3 is complete: 5 and 6 are done, but nobody can be told
    connection 2    m5 m6   m7          5 and 6: acknowledged at once; 7: known, waits for its checkpoint

A later attempt does not know: packet ids are used again, so those of a checkpoint may be of other messages by now.
"""

from __future__ import annotations

from collections import deque

__all__ = ["Unacknowledged"]


class Unacknowledged:
    """Packet ids in use; for callers that hold the checkpoint lock, or one lock of their own."""

    def __init__(self) -> None:
        self._connection = 0
        self._came_by: dict[int, int] = {}
        self._since_checkpoint: list[int] = []
        self._pending: deque[tuple[int, list[int]]] = deque()
        self._done: set[int] = set()

    def connected(self, *, resumed: bool) -> None:
        """Learn that there is a new connection.

        Args:
            resumed: Whether the broker goes on with the session; if not, it knows no packet ids any more.
        """
        self._connection += 1
        if not resumed:
            self._came_by.clear()
            self._since_checkpoint = []
            self._pending.clear()
            self._done.clear()

    def is_done(self, packet_id: int) -> bool:
        """Return whether a message that came again is in a complete checkpoint: it is to be acknowledged."""
        if packet_id in self._done:
            self._done.remove(packet_id)
            return True
        return False

    def note(self, packet_id: int) -> bool:
        """Take note of a message; return whether it is new."""
        is_new = packet_id not in self._came_by
        self._came_by[packet_id] = self._connection
        if is_new:
            self._since_checkpoint.append(packet_id)
        return is_new

    def checkpoint(self, checkpoint_id: int) -> None:
        """Learn that a checkpoint has all messages until now."""
        self._pending.append((checkpoint_id, self._since_checkpoint))
        self._since_checkpoint = []

    def complete(self, checkpoint_id: int) -> list[int]:
        """Learn that a checkpoint is complete; return what is to be acknowledged by the present connection."""
        ready: list[int] = []
        while self._pending and self._pending[0][0] <= checkpoint_id:
            for packet_id in self._pending.popleft()[1]:
                if self._came_by.pop(packet_id) == self._connection:
                    ready.append(packet_id)
                else:
                    self._done.add(packet_id)
        return ready
