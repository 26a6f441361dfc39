"""What can go wrong in a simulation, and where."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from millstream.base.crash_points import DRIVER_POINTS, GUARDED_POINTS, SLOT_POINTS, STORAGE_POINTS
from millstream.base.interrupts import Interruption

__all__ = ["POINTS", "DriverKilled", "Fault", "FaultKind", "InjectedFault", "SlotKilled", "kinds_at"]


class InjectedFault(RuntimeError):
    """An exception that a simulation raised on purpose."""


class SlotKilled(Interruption):
    """A slot was ended as by SIGKILL: nothing of it runs any more, not even its clean-up."""


class DriverKilled(Interruption):
    """The driver was ended as by SIGKILL, and its slots with it."""


class FaultKind(Enum):
    """How something goes wrong; the value is how traces and summaries name it."""

    EXCEPTION = "exception"
    """An error is raised."""
    KILL = "kill"
    """Whoever is there, slot or driver, is gone without any clean-up."""
    KILL_DRIVER = "kill driver"
    """The driver is gone while a slot works, and the slot with it."""
    PAUSE = "paused driver"
    """The driver stands still, with all that it does, and goes on when another one has taken over."""
    POWER_LOSS = "power loss"
    """Driver and slots are gone, and of their files what was not synced."""
    HANG = "hang"
    """A slot does not answer in time and goes on later, when others have taken over; a driver stands still."""
    IO_ERROR = "I/O error"
    """Nothing was done, and an error is raised."""
    LOST_ANSWER = "lost answer"
    """Everything was done, and an error is raised."""
    LATE = "late"
    """An error is raised, and everything is done later."""
    DUPLICATE = "duplicate"
    """Everything is done, and done again later."""
    TORN = "torn"
    """Half of a file is left beside its place, and an error is raised."""


POINTS = DRIVER_POINTS + SLOT_POINTS + STORAGE_POINTS
"""All places where something can go wrong."""

_K = FaultKind
_STOPS = (_K.KILL, _K.POWER_LOSS, _K.HANG, _K.PAUSE)
_GUARDED = (_K.IO_ERROR, _K.LOST_ANSWER, _K.LATE, _K.DUPLICATE)


def kinds_at(point: str) -> tuple[FaultKind, ...]:
    """Return what can go wrong at a place.

    >>> [kind.value for kind in kinds_at("plan")]
    ['exception', 'I/O error', 'kill', 'power loss', 'hang', 'paused driver']
    """
    if point == "storage.read":
        return (_K.IO_ERROR, *_STOPS)
    if point == "storage.write":
        return (*_GUARDED, _K.TORN, *_STOPS)
    if point == "storage.staged":
        return (_K.IO_ERROR, *_STOPS)
    if point in GUARDED_POINTS:
        return (*_GUARDED, *_STOPS)
    if point in SLOT_POINTS:
        return (_K.EXCEPTION, _K.IO_ERROR, _K.KILL_DRIVER, *_STOPS)
    return (_K.EXCEPTION, _K.IO_ERROR, *_STOPS)


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is to go wrong.

    Attributes:
        point: Where.
        kind: How.
        nth: At which time that the place is reached, from 1, counted over the whole simulation.
    """

    point: str
    kind: FaultKind
    nth: int

    def __str__(self) -> str:
        return f"{self.kind.value} at {self.point}, time {self.nth}"
