"""Things that stop in the middle and go on later: slots that hang, drivers that are paused."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["DriverView", "PausableCall", "PausedDriver"]


class PausableCall:
    """Something that is done on a thread of its own, so that it can stop in the middle and go on later.

    Only one of the threads runs at any time: they hand over to each other.

    Attributes:
        who: Who does it, for names.
        is_paused: Whether it stopped in the middle.
    """

    def __init__(self, who: str, action: Callable[[], Any]) -> None:
        self.who = who
        self.is_paused = False
        self._action = action
        self._mine = threading.Semaphore(0)
        self._others = threading.Semaphore(0)
        self._thread: threading.Thread | None = None
        self._value: Any = None
        self._error: BaseException | None = None
        self._killed_by: type[BaseException] | None = None

    def go_on(self) -> None:
        """Run until it ends or pauses; the other thread calls it."""
        self.is_paused = False
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=f"simulated-{self.who}", daemon=True)
            self._thread.start()
        else:
            self._mine.release()
        self._others.acquire()

    def pause(self) -> None:
        """Stop until `go_on`; a thread that works for it calls it."""
        self.is_paused = True
        self._others.release()
        self._mine.acquire()
        if self._killed_by is not None:
            raise self._killed_by

    def kill(self, error: type[BaseException]) -> None:
        """End it where it is paused, by raising an error there; the other thread calls it."""
        self._killed_by = error
        self.go_on()

    def result(self) -> Any:
        """Return what the action gave, or raise what it raised."""
        if self._error is not None:
            raise self._error
        return self._value

    def _run(self) -> None:
        try:
            self._value = self._action()
        except BaseException as error:  # noqa: BLE001 - raised again by result()
            self._error = error
        finally:
            self._others.release()


@dataclass(slots=True)
class DriverView:
    """What a simulation knows of the driver that runs at present.

    Attributes:
        call: What it does, if it may be paused.
        slot: The slot that works at present; None for the driver itself.
        slot_call: What that does, if slots may hang.
        dead: Whether it is gone.
        job_ended: Whether an attempt has come to its end: all is committed.
        slots_lost: Whether its slots have ended themselves while it was paused, and it does not know yet.
        steps: After so many further steps it is paused again; None for never.
    """

    call: PausableCall | None = None
    slot: int | None = None
    slot_call: PausableCall | None = None
    dead: bool = False
    job_ended: bool = False
    slots_lost: bool = False
    steps: int | None = None


@dataclass(slots=True, eq=False)
class PausedDriver:
    """A driver that stands still while another one has taken over.

    Attributes:
        call: What it does.
        view: What is known of it.
        waits: It goes on after so many steps of others.
    """

    call: PausableCall
    view: DriverView
    waits: int
