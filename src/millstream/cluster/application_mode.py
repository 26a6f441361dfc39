"""Application mode: one program in a Spark application of its own, watched by the process that started it.

::

    millstream run-application job.py          the supervisor: what a container or an init system starts and ends
        └─► millstream run --recover job.py    the driver: program, jobs, REST API, Spark's driver

The supervisor runs nothing of the user's. It starts the driver again where that was lost (a signal, the kernel's want
of memory, Spark's JVM), and the driver goes on from the newest checkpoint by what `high-availability.storageDir` keeps.
It hands SIGTERM and SIGINT on, buries the slots that nobody waits for if it is the first process of a container, and
its exit code says how the application ended:

=================================================  =============================================================
the driver                                         exit code
=================================================  =============================================================
ended, and its jobs finished                       0
ended, because its job was cancelled on purpose    0
ended by an error, or its job failed for good      1, or what the program gave `sys.exit`
was lost too often in a row, or nothing outlives   70
was interrupted (Ctrl-C)                           130, after its jobs were cancelled
was told to end (SIGTERM)                          143; the next start goes on with the jobs
=================================================  =============================================================
"""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType

from millstream.base.clock import Clock, SystemClock

__all__ = ["EXIT_LOST", "ApplicationCore", "Exit", "Restart", "end_with_supervisor", "supervise"]

log = logging.getLogger("millstream")

EXIT_LOST = 70
SUPERVISOR_VARIABLE = "MILLSTREAM_SUPERVISOR"
"""Process number of the supervisor, in the environment of its driver."""

_SESSION_LOST = 75
_TERMINATED = 143
_FIRST_DELAY_S = 1.0
_LONGEST_DELAY_S = 60.0
_MOST_LOSSES = 10
_SHORT_S = 60.0
_LOOK_S = 0.1
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class Restart:
    """Start the driver again.

    Attributes:
        delay_s: After how many seconds.
        reason: What became of the last one.
    """

    delay_s: float
    reason: str


@dataclass(frozen=True, slots=True)
class Exit:
    """End the application.

    Attributes:
        code: Exit code.
        reason: What is to be told; empty if the driver has told it.
    """

    code: int
    reason: str = ""


class ApplicationCore:
    """Decides what follows on a driver's end: a pure machine; one thread calls it.

    Args:
        outlives: Whether something outlives a driver, by which the next can go on.

    >>> core = ApplicationCore(outlives=True)
    >>> core.driver_ended(-9, ran_s=5.0)
    Restart(delay_s=1.0, reason='the driver was ended by signal 9 (Killed)')
    >>> core.driver_ended(0, ran_s=5.0)
    Exit(code=0, reason='')
    """

    def __init__(self, *, outlives: bool) -> None:
        self._outlives = outlives
        self._losses = 0
        self._told_to_end = False

    def told_to_end(self) -> None:
        """Note that somebody has asked for the end: however the driver ends, it is not started again."""
        self._told_to_end = True

    def driver_ended(self, code: int, *, ran_s: float) -> Restart | Exit:
        """Return what is to be done.

        Args:
            code: Its exit code, negative for a signal.
            ran_s: How long it had run; one that ran a while does not count as lost in a row.
        """
        reason = _why_lost(code)
        if self._told_to_end or reason is None:
            return Exit(code if code >= 0 else 128 - code)
        if not self._outlives:
            return Exit(
                EXIT_LOST, f"{reason}, and nothing outlives it: high-availability.storageDir is not set"
            )
        self._losses = self._losses + 1 if ran_s < _SHORT_S else 1
        if self._losses >= _MOST_LOSSES:
            return Exit(
                EXIT_LOST, f"{reason}, for the {self._losses}th time within {_SHORT_S:.0f} s of its start"
            )
        return Restart(min(_FIRST_DELAY_S * 2 ** (self._losses - 1), _LONGEST_DELAY_S), reason)


def _why_lost(code: int) -> str | None:
    """Return what a driver was lost by; None if it has come to an end of its own."""
    if code < 0:
        return f"the driver was ended by signal {-code} ({signal.strsignal(-code)})"
    if code == _SESSION_LOST:
        return "the driver's Spark session has ended"
    if code == _TERMINATED:
        return "the driver was told to end (SIGTERM)"
    return None


def supervise(
    command: Sequence[str],
    environment: Mapping[str, str],
    *,
    outlives: bool,
    tell: Callable[[str], None],
    clock: Clock | None = None,
) -> int:
    """Run a driver, again and again as `ApplicationCore` decides; return the application's exit code.

    Must be called on the main thread of a process that has no other children it waits for.

    Args:
        command: Starts the driver.
        environment: Its variables.
        outlives: As of `ApplicationCore`.
        tell: Shows a line to who started the application.
        clock: For delays; the machine's by default.
    """
    return _Supervisor(
        command, environment, ApplicationCore(outlives=outlives), tell, clock or SystemClock()
    ).run()


class _Supervisor:
    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        core: ApplicationCore,
        tell: Callable[[str], None],
        clock: Clock,
    ) -> None:
        self._command = list(command)
        self._environment = {**environment, SUPERVISOR_VARIABLE: str(os.getpid())}
        self._core = core
        self._tell = tell
        self._clock = clock
        self._driver: int | None = None
        self._asked: int | None = None
        self._is_told = False

    def run(self) -> int:
        before = {each: signal.signal(each, self._on_signal) for each in (signal.SIGTERM, signal.SIGINT)}
        try:
            while True:
                began = self._clock.monotonic()
                code = self._run_driver()
                step = self._core.driver_ended(code, ran_s=self._clock.monotonic() - began)
                if isinstance(step, Exit):
                    if step.reason:
                        self._tell(f"application ended: {step.reason}")
                    return step.code
                self._tell(f"{step.reason}; it is started again in {step.delay_s:.0f} s")
                if (asked := self._rest(step.delay_s)) is not None:
                    return 128 + asked
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _run_driver(self) -> int:
        process = subprocess.Popen(self._command, env=self._environment, start_new_session=True)
        self._is_told, self._driver = False, process.pid
        if self._asked is not None and not self._is_told:  # it came while the driver was being started
            self._hand_on(self._asked)
        while True:
            # Any child: as the first process of a container it inherits slots, whose end nobody else waits for.
            pid, status = os.waitpid(-1, 0)
            if pid == process.pid:
                self._driver = None
                process.returncode = os.waitstatus_to_exitcode(status)
                return process.returncode

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self._asked = number
        self._core.told_to_end()
        if self._driver is not None:
            self._hand_on(number)

    def _hand_on(self, number: int) -> None:
        assert self._driver is not None
        self._is_told = True
        os.kill(self._driver, number)

    def _rest(self, seconds: float) -> int | None:
        """Wait; return the signal that came, which a handler may only note: it runs amidst whatever waits."""
        deadline = self._clock.monotonic() + seconds
        while self._asked is None and self._clock.monotonic() < deadline:
            self._clock.wait(_LOOK_S)
        return self._asked


def end_with_supervisor(environment: Mapping[str, str]) -> None:
    """Have this driver told to end (SIGTERM) when the supervisor that started it is killed; called as it starts.

    Where the system cannot do that (it is Linux's), a driver whose supervisor was killed goes on; the next one that is
    started takes its job over (`high-availability.storageDir`).
    """
    supervisor = environment.get(SUPERVISOR_VARIABLE)
    if supervisor is None or int(supervisor) != os.getppid():
        return
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if int(supervisor) != os.getppid():  # it was killed before that
        os.kill(os.getpid(), signal.SIGTERM)
