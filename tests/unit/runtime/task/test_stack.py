from __future__ import annotations

import contextvars
import decimal
import threading

import pytest

from millstream.runtime.task.stack import WorkStack

VARIABLE = contextvars.ContextVar("variable", default="unset")


def test_work_that_is_left_goes_on_where_it_was():
    stack, done = WorkStack(), []

    def deep(number):
        done.append(number)
        if number == 3:
            stack.leave()
        if number < 6:
            deep(number + 1)

    stack.run(lambda: deep(0))
    assert (done, stack.is_suspended) == ([0, 1, 2, 3], True)
    stack.run()
    assert (done, stack.is_suspended) == ([0, 1, 2, 3, 4, 5, 6], False)


def test_what_work_raises_is_raised_in_whoever_runs_it_also_after_it_was_left():
    stack = WorkStack()

    def work():
        stack.leave()
        raise KeyError("late")

    stack.run(work)
    with pytest.raises(KeyError, match="late"):
        stack.run()
    assert not stack.is_suspended
    stack.run(lambda: None)


def test_dropped_work_runs_its_finally_blocks_and_nothing_else():
    stack, seen = WorkStack(), []

    def work():
        try:
            stack.leave()
            seen.append("went on")
        finally:
            seen.append("finally")

    stack.run(work)
    stack.drop()
    assert seen == ["finally"]
    assert not stack.is_suspended
    stack.drop()


def test_context_variables_and_the_thread_are_the_same_in_all_work():
    stack, seen = WorkStack(), []

    def first():
        VARIABLE.set("set by the first")
        decimal.getcontext().prec = 7
        seen.append(threading.get_ident())

    with decimal.localcontext():  # what is set here is this test's alone
        stack.run(first)
        stack.run(lambda: seen.extend([VARIABLE.get(), decimal.getcontext().prec, threading.get_ident()]))
    me = threading.get_ident()
    assert seen == [me, "set by the first", 7, me]
