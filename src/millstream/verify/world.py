"""Everything around one simulated run: time, ids, randomness, what goes wrong, and what was seen of it."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

from millstream.base.clock import ManualClock
from millstream.base.crash_points import set_crash_hook
from millstream.base.errors import MillstreamError, SinkError, SlotLostError
from millstream.base.ids import set_id_source
from millstream.verify.disk import Disk
from millstream.verify.faults import DriverKilled, Fault, FaultKind, InjectedFault, SlotKilled
from millstream.verify.members import Members
from millstream.verify.pausing import DriverView, PausableCall, PausedDriver
from millstream.verify.scenario import Scenario
from millstream.verify.stored import broken_checkpoints
from millstream.verify.watch import Violation, Watch

__all__ = ["World", "current_world"]

START_MS = 1_700_000_000_000
SLOT_TIMEOUT_MS = 60_000
_MOST_EPOCHS = 5_000
_STEPS = (2, 8, 30, 100, None)
"""How far a driver goes on that was paused."""
_WAITS = (2, 10, 30, 100, 300)
"""How far others get before it does, at most: now and then not even through the steps of taking over."""
_SLOTS_LOST = 0.4
_LAGS = (0, 0, 1, 2, 4)
"""How many epochs a job is ahead of its commit."""
_LOG = logging.getLogger("millstream")

_world: World | None = None


def current_world() -> World:
    """Return the world of the simulation that runs; for what travels to slots and comes back as a copy."""
    assert _world is not None, "no simulation runs"
    return _world


class World:
    """One simulated run; one thread at a time runs in it: a slot that hangs waits until it is let go on, and so does a
    driver that is paused.

    Args:
        scenario: How it goes.
        scratch: A directory of its own, empty.
        watches: What looks at its sinks after every step.
        synced: Directories in which all is synced that somebody relies on.
        members: Looks at what functions keep in themselves; None if nobody wants to know.

    Attributes:
        disk: Loses what is not synced when power fails; None if it does not.
        power_lost: Whether power has failed, and nobody has come back since.
        scenario: How it goes.
        scratch: The directory.
        clock: Time.
        random: Randomness.
        trace: What happened, one line each.
        reached: How often each place was reached.
        fired: What went wrong, in order.
        driver: What is known of the driver that runs at present.
        failed_attempts: How many attempts failed under a driver that lived on.
        disturbances: How often something went wrong, or a driver that was paused went on.
        job_ids: Ids of the jobs that were deployed.
        ended_job_id: Id of the one that has come to its end; None if none has.
        recorded: What recording sinks published, by label of the sink and id of the committable.
        emitted: What sinks gave at once, by label of the sink.
        violations: What was wrong in sinks, for a moment at least.
    """

    def __init__(
        self,
        scenario: Scenario,
        scratch: Path,
        watches: Sequence[Watch] = (),
        synced: Sequence[Path] = (),
        members: Members | None = None,
    ) -> None:
        self.watches = watches
        self.members = members
        loses = any(fault.kind is FaultKind.POWER_LOSS for fault in scenario.faults)
        self.disk = Disk(synced, scratch / "synced") if loses else None
        self.power_lost = False
        self.violations: list[Violation] = []
        self.scenario = scenario
        self.scratch = scratch
        self.clock = ManualClock(START_MS)
        self.random = Random(f"world/{scenario.seed}")
        self.trace: list[str] = [f"scenario {scenario}"]
        self.reached: Counter[str] = Counter()
        self.fired: list[tuple[Fault, str]] = []
        self.driver = DriverView()
        self.failed_attempts = 0
        self.disturbances = 0
        self.job_ids: list[str] = []
        self.ended_job_id: str | None = None
        self.recorded: dict[str, dict[str, list[str]]] = {}
        self.emitted: dict[str, list[str]] = {}
        self.may_hang = any(fault.kind is FaultKind.HANG for fault in scenario.faults)
        self.may_pause = any(fault.kind is FaultKind.PAUSE for fault in scenario.faults)
        self._pending = {(fault.point, fault.nth): fault for fault in reversed(scenario.faults)}
        self._late: list[tuple[str, Callable[[], Any]]] = []
        self._zombies: list[PausableCall] = []
        self._paused: list[PausedDriver] = []
        self._quiet = False
        self._epochs = 0
        self._lags = Random(f"lags/{scenario.seed}")

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
            with self.disk.installed() if self.disk is not None else contextlib.nullcontext():
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

    def come_back(self) -> None:
        """Have power again, if it failed: nothing is left but what is on the disk."""
        if not self.power_lost or self.disk is None:
            return
        self._late.clear()
        for zombie in self._zombies:
            zombie.kill(SlotKilled)
        self._zombies.clear()
        self._kill_paused()
        self.disk.restart()
        for watch in self.watches:
            watch.forget()
        self.power_lost = False
        self.note("power is back")

    def _kill_paused(self) -> None:
        present = self.driver
        for paused in self._paused:
            self.driver = paused.view
            self.driver.dead = True
            paused.call.kill(DriverKilled)
        self._paused.clear()
        self.driver = present

    # Crash points

    def reach(self, name: str, detail: str) -> None:
        """Let happen what is to happen at a place."""
        self.look(name)
        if name == "tidied":
            self.check_checkpoints()
        fault = self._due(name, detail)
        if fault is not None:
            self._strike(fault, detail)

    def around(self, name: str, detail: str, action: Callable[[], Any]) -> Any:
        """Perform an action, or let it go wrong; then look at the sinks again."""
        try:
            result = self._around(name, detail, action)
        finally:
            self.look(name)
        self._pass_step()
        return result

    def commit_lag(self) -> int:
        """Draw how many epochs the job is ahead of its next commit, at least, unless it has to wait for it."""
        return self._lags.choice(_LAGS)

    def look(self, step: str) -> None:
        """See what readers see now."""
        if step.startswith("storage."):
            return  # of checkpoints: nobody writes to sinks between these and the next step
        for watch in self.watches:
            for what in watch.look():
                self.violate(watch, what, step)

    def check_leftovers(self, foreign: Collection[str]) -> None:
        """See whether anything staged is left, by others than jobs with given ids: those are lost for good.

        Where power has failed, what was removed may be back, hidden as it was.
        """
        if any(fault.kind is FaultKind.POWER_LOSS for fault, _ in self.fired):
            return
        for watch in self.watches:
            left = [text for text in watch.staged() if not any(job_id in text for job_id in foreign)]
            if left:
                names = ", ".join(text.replace(str(self.scratch), "") for text in left[:3])
                self.violate(watch, f"{len(left)} staged are left ({names})", "the end of the job")

    def check_checkpoints(self) -> None:
        """See whether the checkpoints that are kept can be restored, unless one may come late or twice."""
        if not any(fault.kind in (FaultKind.LATE, FaultKind.DUPLICATE) for fault in self.scenario.faults):
            for what in broken_checkpoints(self.scratch / "checkpoints"):
                self._violate("", what, "tidied")

    def violate(self, watch: Watch, what: str, step: str) -> None:
        """Take note of what is wrong in a sink."""
        self._violate(watch.label, what, step)

    def _violate(self, label: str, what: str, step: str) -> None:
        violation = Violation(label, what.replace(str(self.scratch), ""), step)
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
            self._step()
            return None
        if self.driver.dead:  # what Python still unwinds, nobody does
            raise DriverKilled
        self._pass_step()
        self.reached[name] += 1
        fault = self._pending.pop((name, self.reached[name]), None)
        if fault is not None:
            slot = self.driver.slot
            where = "driver" if slot is None else f"slot {slot}"
            self.fired.append((fault, where))
            self.disturbances += 1
            self.note(f"FAULT {fault} in {where}: {detail}")
        return fault

    def _strike(self, fault: Fault, detail: str) -> None:
        kind = fault.kind
        if kind is FaultKind.HANG:
            self._hang()
        elif kind is FaultKind.PAUSE:
            self._pause_driver()
        elif kind is FaultKind.EXCEPTION:
            raise InjectedFault(f"injected at {fault.point}")
        elif kind is FaultKind.IO_ERROR:
            raise _io_error(fault.point)
        elif kind is FaultKind.POWER_LOSS:
            assert self.disk is not None, "power is lost without a disk"
            self.disk.fail(self.random)
            self.power_lost = self.driver.dead = True
            raise DriverKilled
        elif kind in (FaultKind.KILL, FaultKind.KILL_DRIVER):
            if fault.point == "storage.staged":  # the dead do not clean up
                shutil.copy(detail, detail.removesuffix(".staged") + ".killed.staged")
            self._kill(kind)

    def _kill(self, kind: FaultKind) -> None:
        if kind is FaultKind.KILL and self.driver.slot is not None:
            raise SlotKilled
        self.driver.dead = True
        raise DriverKilled

    def _hang(self) -> None:
        if self.driver.slot is None or self.driver.slot_call is None:
            self.clock.advance(self.scenario.stall_ms)
        else:
            self.driver.slot_call.pause()

    # Drivers

    @property
    def is_quiet(self) -> bool:
        """Whether what runs at present is late: nothing more goes wrong by that."""
        return self._quiet

    def run_driver(self, start: int, action: Callable[[], Any]) -> tuple[bool, Any]:
        """Run a driver until it ends or is paused.

        Returns:
            Whether it was paused, and otherwise what the action gave.
        """
        self.driver = DriverView(job_ended=self.driver.job_ended)
        if not self.may_pause:
            return False, action()
        call = self.driver.call = PausableCall(f"driver-{start}", action)
        call.go_on()
        if not call.is_paused:
            return False, call.result()
        self._paused.append(PausedDriver(call, self.driver, self._draw_waits()))
        self.clock.advance(self.scenario.stall_ms)
        return True, None

    def _pause_driver(self) -> None:
        assert self.driver.call is not None, "a driver is paused that nobody can let go on"
        self.driver.call.pause()

    def _draw_waits(self) -> int:
        return self.random.randint(0, self.random.choice(_WAITS))

    def _pass_step(self) -> None:
        """Take note that whoever runs at present has got to its next step; drivers that are paused may go on there."""
        if self._quiet:
            return  # it is late itself
        for paused in self._paused:
            paused.waits -= 1
        for paused in [each for each in self._paused if each.waits < 0]:
            self._let_driver_go_on(paused)

    def _step(self) -> None:
        """Take note that a driver that was paused has got to its next step; it may be paused again there."""
        steps = self.driver.steps
        if steps is None:
            return
        self.driver.steps = steps - 1
        if steps == 0:
            self.driver.steps = None
            self._pause_driver()

    def _resume(self, paused: PausedDriver, *, steps: int | None) -> None:
        """Let a driver that was paused go on, for some steps or to its end."""
        present, self.driver = self.driver, paused.view
        self.driver.steps = steps
        self.driver.slots_lost = self.random.random() < _SLOTS_LOST
        self.note(
            f"{paused.call.who} goes on, {'its slots are gone' if self.driver.slots_lost else 'and its slots'}"
        )
        paused.call.go_on()
        self.driver = present
        if paused.call.is_paused:
            paused.waits = self._draw_waits()
            self._paused.append(paused)
            return
        _, error = paused.call.result()
        self.note(f"{paused.call.who} ended{'' if error is None else f' with {type(error).__name__}'}")

    # Slots

    def call_slot(self, slot: int, action: Callable[[], Any]) -> Any:
        """Have a slot do something.

        Raises:
            SlotKilled: If it was killed while it did.
            SlotLostError: If it hangs.
        """
        if self.driver.slots_lost:
            self.driver.slots_lost = False
            raise SlotLostError(f"slot {slot} has ended itself (simulated)")
        self.driver.slot = slot
        try:
            if not self.may_hang:
                return action()
            call = self.driver.slot_call = PausableCall(f"slot-{slot}", action)
            try:
                call.go_on()
            finally:
                self.driver.slot_call = None
            if call.is_paused:
                self._zombies.append(call)
                self.clock.advance(SLOT_TIMEOUT_MS)
                raise SlotLostError(f"slot {slot} did not answer within {SLOT_TIMEOUT_MS} ms (simulated)")
            return call.result()
        finally:
            self.driver.slot = None

    def begin_epoch(self) -> None:
        """Let time pass, and now and then what is late arrive."""
        self._epochs += 1
        if self._epochs > _MOST_EPOCHS:
            raise MillstreamError(f"the job did not end within {_MOST_EPOCHS} epochs")
        self.clock.advance(self.random.randint(1, 40))
        if self._quiet:
            return  # it is late itself
        while (self._late or self._zombies) and self.random.random() < 0.4:
            self._let_one_arrive()

    def let_all_arrive(self) -> None:
        """Have everything happen that is late."""
        while self._late or self._zombies:
            self._let_one_arrive()
        while self._paused:
            self._let_driver_go_on(self._paused[0])

    def _let_driver_go_on(self, paused: PausedDriver) -> None:
        self._paused.remove(paused)
        self.disturbances += 1
        self._quiet = True
        try:
            self.look("some step before a driver goes on")
            self._resume(paused, steps=self.random.choice(_STEPS))
        finally:
            self.look("a driver that was paused")
            self._quiet = False

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

    def _wake(self, zombie: PausableCall) -> None:
        zombie.go_on()
        try:
            zombie.result()
            self.note(f"zombie {zombie.who} ended")
        except Exception as error:  # noqa: BLE001 - nobody waits for it; what it did to files is what counts
            self.note(f"zombie {zombie.who} ended with {type(error).__name__}")

    def _end_zombies(self) -> None:
        self._quiet = True
        while self._zombies:
            self._wake(self._zombies.pop())
        while self._paused:
            self._resume(self._paused.pop(), steps=None)


def _io_error(point: str) -> Exception:
    if point == "sink.commit":
        return SinkError("input/output error (injected)")
    return OSError(errno.EIO, "input/output error (injected)")
