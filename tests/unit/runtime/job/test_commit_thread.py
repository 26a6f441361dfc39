"""Calls to committers: in order, on one thread, in the context of who asks; in simulations late, but on no thread."""

from __future__ import annotations

import gc
import threading
from contextvars import ContextVar
from types import SimpleNamespace

import pytest

from millstream.base.crash_points import set_crash_hook
from millstream.runtime.job.commit_thread import CommitThread, LateCalls, find_commit_calls

WHERE = ContextVar("where", default="nowhere")


@pytest.fixture
def calls():
    calls = CommitThread()
    yield calls
    calls.end()


def test_calls_are_made_one_after_the_other_on_one_thread(calls):
    gate, made = threading.Event(), []

    def wait():
        gate.wait()
        made.append((1, threading.get_ident()))

    first = calls.begin(wait, beside=True)
    second = calls.begin(lambda: made.append((2, threading.get_ident())))
    assert not calls.wait(second, 0)
    gate.set()
    assert calls.wait(second, None)
    assert first.done()
    assert [number for number, _ in made] == [1, 2]
    (thread,) = {ident for _, ident in made}
    assert thread != threading.get_ident()


def test_a_call_has_the_context_of_who_asked(calls):
    token = WHERE.set("job 7")
    asked = calls.begin(WHERE.get)
    WHERE.reset(token)
    assert asked.result() == "job 7"
    assert calls.begin(WHERE.get).result() == "nowhere"


@pytest.mark.parametrize("raised", [ValueError("away"), SystemExit(3), KeyboardInterrupt()])
def test_what_a_call_raises_is_for_who_waits_and_the_next_is_made(calls, raised):
    def fail():
        raise raised

    failed = calls.begin(fail)
    assert calls.begin(lambda: 5).result() == 5
    assert failed.exception() is raised


def test_who_looks_may_wait_for_a_moment(calls):
    gate = threading.Event()
    call = calls.begin(lambda: gate.wait(60), beside=True)
    calls.look(call, 0.001)
    assert not call.done()
    gate.set()
    calls.look(call, 60)
    assert call.done()


def test_a_call_that_has_not_begun_can_be_taken_back(calls):
    gate, made = threading.Event(), []
    calls.begin(gate.wait)
    taken = calls.begin(lambda: made.append("taken back"))
    last = calls.begin(lambda: made.append("last"))
    assert taken.cancel()
    gate.set()
    last.result()
    assert made == ["last"]


def thread_of(calls):
    return calls.begin(threading.current_thread).result()


def test_the_thread_ends_with_who_needs_it_and_never_holds_up_the_process():
    calls = CommitThread()
    thread = thread_of(calls)
    assert thread.daemon
    calls.end()
    thread.join(10)
    assert not thread.is_alive()
    forgotten = CommitThread()
    thread = thread_of(forgotten)
    del forgotten
    gc.collect()
    thread.join(10)
    assert not thread.is_alive()


def test_in_a_simulation_a_call_beside_the_job_is_made_some_looks_later():
    lags, made = [2, 0], []
    calls = LateCalls(lambda: lags.pop(0))
    first = calls.begin(lambda: made.append((1, threading.get_ident())), beside=True)
    calls.look(first, 60)
    calls.look(first, 60)
    assert not first.done()
    calls.look(first, 60)
    assert first.done()
    assert calls.begin(lambda: made.append((2, threading.get_ident())), beside=True).done()
    assert made == [(1, threading.get_ident()), (2, threading.get_ident())]


@pytest.mark.parametrize(
    "hurry", [lambda calls, late: calls.wait(late, None), lambda calls, _: calls.begin(int)]
)
def test_in_a_simulation_nothing_overtakes_a_late_call(hurry):
    calls = LateCalls(lambda: 100)
    late = calls.begin(lambda: "made", beside=True)
    assert not late.done()
    hurry(calls, late)
    assert late.result(0) == "made"


def test_who_is_told_of_places_has_no_thread():
    assert isinstance(find_commit_calls(), CommitThread)
    before = set_crash_hook(
        SimpleNamespace(reach=lambda *_: None, around=lambda _name, _detail, action: action())
    )
    try:
        calls = find_commit_calls()
    finally:
        set_crash_hook(before)
    assert isinstance(calls, LateCalls)
    assert calls.begin(threading.get_ident, beside=True).result(0) == threading.get_ident()
