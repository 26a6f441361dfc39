"""Waiting on the main thread: a signal is heard, also one that did not wake the thread that sleeps."""

from __future__ import annotations

import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import pytest

from millstream.base.signals import next_of, result_of, wait_for
from millstream.runtime.control.console import JobOutput

_GIVE_UP_S = 60.0


class Heard(BaseException):
    """Raised by the handler."""


class Waiting:
    """Something to wait for, of each kind; it comes too late if the signal is not heard."""

    def __init__(self, kind: str) -> None:
        event: threading.Event = threading.Event()
        items: queue.SimpleQueue[int] = queue.SimpleQueue()
        future: Future[int] = Future()
        output = JobOutput({1: "numbers"})
        waits: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
            "event": (lambda: wait_for(event), event.set),
            "event, for a time": (lambda: wait_for(event, 2 * _GIVE_UP_S), event.set),
            "queue": (lambda: next_of(items), lambda: items.put(1)),
            "future": (lambda: result_of(future), lambda: future.set_result(1)),
            "collected records": (lambda: list(output.read("numbers")), output.end),
        }
        self.wait, self.end = waits[kind]


KINDS = ["event", "event, for a time", "queue", "future", "collected records"]


@contextmanager
def handling() -> Iterator[None]:
    def handler(number: int, frame: object) -> None:
        raise Heard

    before = signal.signal(signal.SIGUSR1, handler)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGUSR1, before)


def wait_with(waiting: Waiting, send: Callable[[], None]) -> None:
    """Wait on this thread while another one sends the signal, and ends the wait if that was not heard."""
    heard, given_up = threading.Event(), threading.Event()

    def act() -> None:
        time.sleep(0.3)  # so that the other one sleeps by then; sooner proves less, and fails nothing
        send()
        if not heard.wait(_GIVE_UP_S):
            given_up.set()
            waiting.end()

    thread = threading.Thread(target=act)
    try:
        with pytest.raises(Heard):
            thread.start()
            waiting.wait()
    finally:
        heard.set()
        thread.join()
    assert not given_up.is_set(), "the handler ran only when something else ended the wait"


@pytest.mark.parametrize("kind", KINDS)
def test_a_signal_ends_a_wait(kind: str) -> None:
    main = threading.get_ident()
    with handling():
        wait_with(Waiting(kind), lambda: signal.pthread_kill(main, signal.SIGUSR1))


@pytest.mark.parametrize("kind", KINDS)
def test_a_signal_that_does_not_wake_the_main_thread_is_heard(kind: str) -> None:
    """As when it comes just before the thread falls asleep: it is noted, and no system call is interrupted."""

    def send() -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)

    with handling():
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
        wait_with(Waiting(kind), send)


def test_what_is_there_is_returned_and_an_error_is_raised() -> None:
    event = threading.Event()
    assert not wait_for(event, 0)
    event.set()
    assert wait_for(event) and wait_for(event, 0)
    items: queue.SimpleQueue[int | None] = queue.SimpleQueue()
    for item in (None, 2):
        items.put(item)
    assert [next_of(items), next_of(items)] == [None, 2]
    failed: Future[int] = Future()
    failed.set_exception(TimeoutError("its own"))
    with pytest.raises(TimeoutError, match="its own"):
        result_of(failed)
