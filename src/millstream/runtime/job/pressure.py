"""Back pressure: whether sources wait because what they gave is not processed yet. A pure decision, for each region."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from millstream.runtime.protocol.report import Backlog

__all__ = ["Pressure"]


@dataclass(frozen=True, slots=True)
class Pressure:
    """How far a region of the job has come in all slots, as of the last epoch.

    Attributes:
        held: Records that wait at the input of the subtask with the most of them.
        begun: Records that it has begun in the epoch; of all subtasks the most, if none holds any.
        in_flight: Records that operators wait with for something outside.
        suspended: What was left in the middle of a record; None if nothing was.
        ended: Whether all input has come and is processed.
        busy_ms: How long its subtasks ran in the slot in which they ran longest, milliseconds.
        unknown: Whether no epoch has told it yet, and a checkpoint may hold records.
    """

    held: int = 0
    begun: int = 0
    in_flight: int = 0
    suspended: str | None = None
    ended: bool = False
    busy_ms: float = 0.0
    unknown: bool = False

    @staticmethod
    def of(slots: Sequence[Backlog]) -> Pressure:
        """Return what all slots together told of the region."""
        held = max((each.held for each in slots), default=0)
        return Pressure(
            held=held,
            begun=max((each.begun for each in slots if each.held == held), default=0),
            in_flight=sum(each.in_flight for each in slots),
            suspended=next((each.suspended for each in slots if each.suspended is not None), None),
            ended=all(each.ended for each in slots),
            busy_ms=max((each.busy_ms for each in slots), default=0.0),
        )

    @property
    def is_busy(self) -> bool:
        """Whether there is something to go on with, though nothing is read."""
        return self.unknown or bool(self.held or self.in_flight) or self.suspended is not None

    @property
    def is_high(self) -> bool:
        """Whether nothing is to be read now: about half of what an epoch does is waiting already.

        >>> Pressure(held=10, begun=100).is_high, Pressure(held=90, begun=100).is_high
        (False, True)
        """
        return self.unknown or self.suspended is not None or 2 * self.held > self.begun
