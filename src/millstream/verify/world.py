"""Everything around one simulated run: time, ids, randomness, what goes wrong, and what was seen of it."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import random
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

from millstream.common.clock import ManualClock
from millstream.common.crash_points import set_crash_hook
from millstream.common.errors import MillstreamError, SinkError, SlotLostError
from millstream.common.ids import set_id_source
from millstream.verify.faults import DriverKilled, Fault, FaultKind, InjectedFault, SlotKilled
from millstream.verify.members import Members
from millstream.verify.scenario import Scenario
from millstream.verify.watch import Violation, Watch

__all__ = ["SlotCall", "World", "current_world"]

START_MS = 1_700_000_000_000
SLOT_TIMEOUT_MS = 60_000
DRIVER_STALL_MS = 700_000
_MOST_EPOCHS = 5_000
_LOG = logging.getLogger("millstream")

_world: World | None = None


def current_world() -> World:
    """Return the world of the simulation that runs; for what travels to slots and comes back as a copy."""
    assert _world is not None, "no simulation runs"
    return _world


class World:
    """One simulated run; one thread at a time runs in it: a slot's that hangs waits until it is let go on.

    Args:
        scenario: How it goes.
        scratch: A directory of its own, empty.
        watches: What looks at its sinks after every step.
        members: Looks at what functions keep in themselves; None if nobody wants to know.

    Attributes:
        scenario: How it goes.
        scratch: The directory.
        clock: Time.
        random: Randomness.
        trace: What happened, one line each.
        reached: How often each place was reached.
        fired: What went wrong, in order.
        driver_dead: Whether the driver is gone.
        job_ended: Whether an attempt has come to its end: all is committed.
        failed_attempts: How many attempts failed under a driver that lived on.
        slot: The slot that works at present; None for the driver.
        recorded: What recording sinks published, by label of the sink and id of the committable.
        emitted: What sinks gave at once, by label of the sink.
        violations: What was wrong in sinks, for a moment at least.
    """

    def __init__(
        self,
        scenario: Scenario,
        scratch: Path,
        watches: Sequence[Watch] = (),
        members: Members | None = None,
    ) -> None:
        self.watches = watches
        self.members = members
        self.violations: list[Violation] = []
        self.scenario = scenario
        self.scratch = scratch
        self.clock = ManualClock(START_MS)
        self.random = Random(f"world/{scenario.seed}")
        self.trace: list[str] = [f"scenario {scenario}"]
        self.reached: Counter[str] = Counter()
        self.fired: list[tuple[Fault, str]] = []
        self.driver_dead = False
        self.job_ended = False
        self.failed_attempts = 0
        self.slot: int | None = None
        self.recorded: dict[str, dict[str, list[str]]] = {}
        self.emitted: dict[str, list[str]] = {}
        self.may_hang = any(fault.kind is FaultKind.HANG for fault in scenario.faults)
        self._pending = {(fault.point, fault.nth): fault for fault in reversed(scenario.faults)}
        self._late: list[tuple[str, Callable[[], Any]]] = []
        self._zombies: list[SlotCall] = []
        self._call: SlotCall | None = None
        self._quiet = False
        self._epochs = 0

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Be this process's world."""
        global _world
        assert _world is None, "a simulation runs already"
        _world = self
        hook = set_crash_hook(self)
        ids = set_id_source(Random(f"ids/{self.scenario.seed}"))
        state = random.getstate()
        random.seed(f"program/{self.scenario.seed}")
        # Failures are what a simulation is about: nobody wants to read of each.
        level = _LOG.level
        _LOG.setLevel(logging.CRITICAL)
        try:
            yield
        finally:
            self._end_zombies()
            _LOG.setLevel(level)
            random.setstate(state)
            set_id_source(ids)
            set_crash_hook(hook)
            _world = None

    def note(self, line: str) -> None:
        """Add a line to the trace; the scratch directory is left out of it."""
        self.trace.append(f"{self.clock.now_ms() - START_MS} {line.replace(str(self.scratch), '')}")

    # Crash points

    def reach(self, name: str, detail: str) -> None:
        """Let happen what is to happen at a place."""
        self.look(name)
        fault = self._due(name, detail)
        if fault is not None:
            self._strike(fault, detail)

    def around(self, name: str, detail: str, action: Callable[[], Any]) -> Any:
        """Perform an action, or let it go wrong; then look at the sinks again."""
        try:
            return self._around(name, detail, action)
        finally:
            self.look(name)

    def look(self, step: str) -> None:
        """See what readers see now."""
        if step.startswith("storage."):
            return  # of checkpoints: nobody writes to sinks between these and the next step
        for watch in self.watches:
            for what in watch.look():
                self.violate(watch, what, step)

    def check_leftovers(self, foreign: Collection[str]) -> None:
        """See whether anything staged is left, by others than jobs with given ids: those are lost for good."""
        for watch in self.watches:
            left = [text for text in watch.staged() if not any(job_id in text for job_id in foreign)]
            if left:
                names = ", ".join(text.replace(str(self.scratch), "") for text in left[:3])
                self.violate(watch, f"{len(left)} staged are left ({names})", "the end of the job")

    def violate(self, watch: Watch, what: str, step: str) -> None:
        """Take note of what is wrong in a sink."""
        violation = Violation(watch.label, what.replace(str(self.scratch), ""), step)
        self.violations.append(violation)
        self.note(f"WRONG {violation}")

    def _around(self, name: str, detail: str, action: Callable[[], Any]) -> Any:
        fault = self._due(name, detail)
        if fault is None:
            if name != "storage.read" and not self._quiet:
                self.note(f"{name} {detail}")
            return action()
        kind = fault.kind
        if kind in (FaultKind.LATE, FaultKind.DUPLICATE):
            self._late.append((f"{name} {detail}", action))
        if kind in (FaultKind.LOST_ANSWER, FaultKind.DUPLICATE):
            result = action()
            if kind is FaultKind.DUPLICATE:
                return result
        if kind is FaultKind.TORN:
            torn = f"{detail}.torn.staged"
            os.makedirs(os.path.dirname(torn), exist_ok=True)
            Path(torn).write_bytes(b"half of a fi")
        if kind in (FaultKind.LATE, FaultKind.LOST_ANSWER, FaultKind.TORN, FaultKind.IO_ERROR):
            raise _io_error(name)
        self._strike(fault, detail)
        return action()

    def _due(self, name: str, detail: str) -> Fault | None:
        if self._quiet:
            return None
        if self.driver_dead:  # what Python still unwinds, nobody does
            raise DriverKilled
        self.reached[name] += 1
        fault = self._pending.pop((name, self.reached[name]), None)
        if fault is not None:
            where = "driver" if self.slot is None else f"slot {self.slot}"
            self.fired.append((fault, where))
            self.note(f"FAULT {fault} in {where}: {detail}")
        return fault

    def _strike(self, fault: Fault, detail: str) -> None:
        kind = fault.kind
        if kind is FaultKind.HANG:
            self._hang()
        elif kind is FaultKind.EXCEPTION:
            raise InjectedFault(f"injected at {fault.point}")
        elif kind is FaultKind.IO_ERROR:
            raise _io_error(fault.point)
        elif kind in (FaultKind.KILL, FaultKind.KILL_DRIVER):
            if fault.point == "storage.staged":  # the dead do not clean up
                shutil.copy(detail, detail.removesuffix(".staged") + ".killed.staged")
            self._kill(kind)

    def _kill(self, kind: FaultKind) -> None:
        if kind is FaultKind.KILL and self.slot is not None:
            raise SlotKilled
        self.driver_dead = True
        raise DriverKilled

    def _hang(self) -> None:
        if self.slot is None or self._call is None:
            self.clock.advance(DRIVER_STALL_MS)
        else:
            self._call.hang()

    # Slots

    def call_slot(self, slot: int, action: Callable[[], Any]) -> Any:
        """Have a slot do something.

        Raises:
            SlotKilled: If it was killed while it did.
            SlotLostError: If it hangs.
        """
        self.slot = slot
        try:
            if not self.may_hang:
                return action()
            call = self._call = SlotCall(slot, action)
            try:
                call.go_on()
            finally:
                self._call = None
            if call.hangs:
                self._zombies.append(call)
                self.clock.advance(SLOT_TIMEOUT_MS)
                raise SlotLostError(f"slot {slot} did not answer within {SLOT_TIMEOUT_MS} ms (simulated)")
            return call.result()
        finally:
            self.slot = None

    def begin_epoch(self) -> None:
        """Let time pass, and now and then what is late arrive."""
        self._epochs += 1
        if self._epochs > _MOST_EPOCHS:
            raise MillstreamError(f"the job did not end within {_MOST_EPOCHS} epochs")
        self.clock.advance(self.random.randint(1, 40))
        while (self._late or self._zombies) and self.random.random() < 0.4:
            self._let_one_arrive()

    def let_all_arrive(self) -> None:
        """Have everything happen that is late."""
        while self._late or self._zombies:
            self._let_one_arrive()

    def _let_one_arrive(self) -> None:
        self._quiet = True
        try:
            self.look("some step before something late")
            if self._zombies and (not self._late or self.random.random() < 0.5):
                self._wake(self._zombies.pop(0))
                return
            what, action = self._late.pop(0)
            try:
                action()
                self.note(f"late {what}")
            except (OSError, MillstreamError) as error:
                self.note(f"late {what}: {type(error).__name__}")
        finally:
            self.look("something late")
            self._quiet = False

    def _wake(self, zombie: SlotCall) -> None:
        zombie.go_on()
        try:
            zombie.result()
            self.note(f"zombie slot {zombie.slot} ended")
        except Exception as error:  # noqa: BLE001 - nobody waits for it; what it did to files is what counts
            self.note(f"zombie slot {zombie.slot} ended with {type(error).__name__}")

    def _end_zombies(self) -> None:
        self._quiet = True
        while self._zombies:
            self._wake(self._zombies.pop())


class SlotCall:
    """Something that a slot does on a thread of its own, so that it can stop in the middle and go on later.

    Only one of the threads runs at any time: they hand over to each other.

    Attributes:
        slot: The slot.
        hangs: Whether it stopped in the middle.
    """

    def __init__(self, slot: int, action: Callable[[], Any]) -> None:
        self.slot = slot
        self.hangs = False
        self._action = action
        self._mine = threading.Semaphore(0)
        self._others = threading.Semaphore(0)
        self._thread: threading.Thread | None = None
        self._value: Any = None
        self._error: BaseException | None = None

    def go_on(self) -> None:
        """Run until it ends or hangs; the other thread calls it."""
        self.hangs = False
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=f"simulated-slot-{self.slot}", daemon=True)
            self._thread.start()
        else:
            self._mine.release()
        self._others.acquire()

    def hang(self) -> None:
        """Stop until `go_on`; the slot's thread calls it."""
        self.hangs = True
        self._others.release()
        self._mine.acquire()

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


def _io_error(point: str) -> Exception:
    if point == "sink.commit":
        return SinkError("input/output error (injected)")
    return OSError(errno.EIO, "input/output error (injected)")
