"""Where committers are called: on a thread of their own, so that the job goes on while they publish.

Everything that is asked of the committers of an attempt is done there, one call after the other, from the first to the
last: connections of some databases belong to one thread. ::

    job master   begin(publish) ─► epoch ─► epoch ─► looks: done? ─► …   begin(remove)
                       │                                 ▲                    │
    commit thread      └─────────── publish ─────────────┘                    └─ remove

Simulations (`base.crash_points`) are the same whenever they are run, so nothing goes on beside them: `LateCalls` makes
a call some looks later, or when somebody waits for it.
"""

from __future__ import annotations

import queue
import threading
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextvars import Context, copy_context
from typing import Any, Protocol, TypeVar

from millstream.base.crash_points import commit_lag, has_crash_hook

__all__ = ["CommitCalls", "CommitThread", "LateCalls", "find_commit_calls"]

Result = TypeVar("Result")

_Call = tuple[Future[Any], Context, Callable[[], Any]]


class CommitCalls(Protocol):
    """Makes calls one after the other, in the order in which they are asked for; the job master's thread asks."""

    def begin(self, call: Callable[[], Result], *, beside: bool = False) -> Future[Result]:
        """Have a call made behind those before it.

        Args:
            call: What is called; not at all, if its future is cancelled before it is its turn.
            beside: Whether the job goes on meanwhile.
        """

    def look(self, call: Future[Any], seconds: float) -> None:
        """Learn that the job has looked for what goes on beside it, and waits a moment for it."""

    def wait(self, call: Future[Any], seconds: float | None) -> bool:
        """Wait for a call, for some time or for as long as it takes; return whether it has ended."""

    def end(self) -> None:
        """Learn that nothing more will be asked for."""


class CommitThread:
    """Makes calls on a thread, each in the context of who asked for it.

    The thread is there from the first call on, and ends with `end`, or with this object. It is a daemon: what it has
    not published when the process ends is published by whoever goes on with the job.
    """

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[_Call | None] | None = None

    def begin(self, call: Callable[[], Result], *, beside: bool = False) -> Future[Result]:
        """Have a call made behind those before it."""
        if self._calls is None:
            self._calls = queue.SimpleQueue()
            threading.Thread(target=_work, args=(self._calls,), name="millstream-commit", daemon=True).start()
            weakref.finalize(self, self._calls.put, None)
        done: Future[Result] = Future()
        self._calls.put((done, copy_context(), call))
        return done

    def look(self, call: Future[Any], seconds: float) -> None:
        """Wait for a moment, if at all: the thread goes on by itself."""
        if seconds:
            wait([call], seconds)

    def wait(self, call: Future[Any], seconds: float | None) -> bool:
        """Wait for a call."""
        return bool(wait([call], seconds).done)

    def end(self) -> None:
        """Have the thread end behind what it was asked for."""
        calls, self._calls = self._calls, None
        if calls is not None:
            calls.put(None)


def _work(calls: queue.SimpleQueue[_Call | None]) -> None:
    while (asked := calls.get()) is not None:
        done, context, call = asked
        context.run(_make, done, call)
        del asked, done, context, call  # while it waits it holds nothing


class LateCalls:
    """Makes calls on the thread that asks; those beside the job some looks later, or when somebody waits.

    Args:
        lag: Says how many looks later the next one is made.
    """

    def __init__(self, lag: Callable[[], int]) -> None:
        self._lag = lag
        self._looks = 0
        self._late: deque[tuple[Future[Any], Callable[[], Any]]] = deque()

    def begin(self, call: Callable[[], Result], *, beside: bool = False) -> Future[Result]:
        """Make a call behind those before it, or take note of one that is made later."""
        done: Future[Result] = Future()
        self._late.append((done, call))
        self._looks = self._lag() if beside else 0
        if not self._looks:
            self._make_all()
        return done

    def look(self, call: Future[Any], seconds: float) -> None:
        """Make what is late, if it is time."""
        self._looks -= 1
        if self._looks < 0:
            self._make_all()

    def wait(self, call: Future[Any], seconds: float | None) -> bool:
        """Make what is late."""
        self._make_all()
        return True

    def end(self) -> None:
        """Nothing to do: there is no thread."""

    def _make_all(self) -> None:
        while self._late:
            _make(*self._late.popleft())


def _make(done: Future[Any], call: Callable[[], Any]) -> None:
    if not done.set_running_or_notify_cancel():
        return
    try:
        done.set_result(call())
    except BaseException as error:  # noqa: BLE001 - raised again where the result is waited for
        done.set_exception(error)


def find_commit_calls() -> CommitCalls:
    """Return a new `CommitThread`, or what a simulation has in its place."""
    return LateCalls(commit_lag) if has_crash_hook() else CommitThread()
