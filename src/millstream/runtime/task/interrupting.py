"""Interrupts the functions of a job that is cancelled: `JobInterrupted` is raised where they are.

A slot's functions run on its main thread, where a signal ends what waits too (`time.sleep`, a socket). Those of the
local executor run on a thread of the job's, where only Python code notices; a call into C ends first. Code that holds
the interpreter's lock is never interrupted: who waits for it must have an end (`CancelWatch`, `Executor.abandon`).
"""

from __future__ import annotations

import ctypes
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

from millstream.base.interrupts import JobInterrupted

__all__ = ["MainThreadInterrupter", "ThreadInterrupter"]

Result = TypeVar("Result")

_LINES_UNTIL_IT_ARRIVES = 1_000


class MainThreadInterrupter:
    """Interrupts the main thread of this process, by SIGINT; made on that thread.

    Ctrl-C itself does nothing any more: it is the driver's business. Children of this process have SIGINT's default.
    """

    def __init__(self) -> None:
        self._running = self._wanted = False
        signal.signal(signal.SIGINT, self._on_signal)

    @property
    def is_running(self) -> bool:
        """Whether the main thread is in `run`."""
        return self._running

    def run(self, action: Callable[[], Result]) -> Result:
        """Do what may be interrupted.

        Raises:
            JobInterrupted: If it was.
        """
        self._running = True
        try:
            return action()
        finally:
            self._running = False

    def interrupt(self) -> None:
        """Interrupt what runs, if anything does; any thread may call it, any number of times."""
        self._wanted = True
        if self._running:
            ident = threading.main_thread().ident
            assert ident is not None
            signal.pthread_kill(ident, signal.SIGINT)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        if self._wanted and self._running:
            raise JobInterrupted


class ThreadInterrupter:
    """Interrupts whichever thread is in `run`, as it runs its next line of Python."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ident: int | None = None
        self._sent = False

    @property
    def is_running(self) -> bool:
        """Whether a thread is in `run`."""
        return self._ident is not None

    def run(self, action: Callable[[], Result]) -> Result:
        """Do what may be interrupted; one thread at a time.

        Raises:
            JobInterrupted: If it was.
        """
        self._sent = False
        self._ident = threading.get_ident()
        try:
            return action()
        finally:
            self._leave()

    def interrupt(self) -> None:
        """Interrupt what runs, if anything does; any other thread may call it, any number of times."""
        with self._lock:
            if self._ident is not None:
                self._sent = True
                _raise_in(self._ident, JobInterrupted)

    def _leave(self) -> None:
        """Have nothing sent from now on, and let arrive what is on its way.

        It is not called back: the interpreter would look for it before every call and jump, in all threads and for
        ever after, and the loops of the whole program be slower by that; under a profiler it stands still.
        """
        while True:
            try:
                with self._lock:
                    self._ident = None
                if self._sent:
                    for _ in range(_LINES_UNTIL_IT_ARRIVES):
                        pass
                return
            except JobInterrupted:  # it has just arrived
                continue


def _raise_in(ident: int, kind: type[BaseException]) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), ctypes.py_object(kind))
