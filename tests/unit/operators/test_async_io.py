from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.base.errors import JobExecutionError, TypeMismatchError
from millstream.common.async_functions import (
    AsyncFunction,
    AsyncRetryStrategy,
    BatchAsyncFunction,
    RetryPredicate,
    empty_result_predicate,
)
from millstream.operators import async_io
from millstream.operators.async_io import AsyncWaitSpec
from millstream.operators.async_loop import DaemonThreadPool, EventLoopThread
from millstream.operators.base import EpochTime, OperatorContext, OperatorReport, RestoreScope
from millstream.operators.user_code import attached_element
from millstream.spi.batch import ACTIVE, IDLE, Rows, Watermark
from millstream.testing.recorder import Record, Recorder
from millstream.types.typeinfo import Types

LONG_MS = 60_000


class Told(Recorder):
    """Tells again and again what was emitted: (value, timestamp) of records, plain watermarks and statuses."""

    @property
    def items(self):
        return [each.timestamp_ms if isinstance(each, Watermark) else each for each in self.elements]

    @property
    def values(self):
        return [item.value for item in self.items if isinstance(item, Record)]


class Running:
    """An operator between open and close; fails the test if its thread does not end."""

    def __init__(self, function, **options):
        spec = AsyncWaitSpec(
            function,
            ordered=options.pop("ordered", False),
            timeout_ms=options.pop("timeout_ms", LONG_MS),
            capacity=options.pop("capacity", 100),
            **options,
        )
        self.operator, self.output = spec.build(), Told()
        self.operator.setup(OperatorContext("job", "op", "id", 0, 1, 128, 0, EpochTime()), self.output)

    def __enter__(self):
        self.operator.open()
        self.thread = self.operator._loop._thread
        return self

    def __exit__(self, *exc):
        self.operator.close()
        assert not self.thread.is_alive()

    def feed(self, *items):
        """Process records (each a batch of its own), (record, timestamp) and watermarks (as `W(5)`)."""
        for item in items:
            if isinstance(item, W):
                self.operator.process_watermark(item.at)
            elif isinstance(item, tuple):
                self.operator.process(Rows([item[0]], [item[1]]))
            else:
                self.operator.process(Rows([item]))
        return self

    def end_epoch(self):
        self.operator.end_epoch(OperatorReport(), checkpoint=False)
        return self.output.items


class W:
    def __init__(self, at):
        self.at = at


def run(function, values, **options):
    with Running(function, **options) as running:
        running.operator.process(Rows(list(values)))
        running.end_epoch()
        return running.output.values


class Call(AsyncFunction):
    """A plain coroutine function as an AsyncFunction."""

    def __init__(self, call, on_timeout=None):
        self.call, self.on_timeout = call, on_timeout

    async def async_invoke(self, value):
        return await self.call(value)

    def timeout(self, value):
        return super().timeout(value) if self.on_timeout is None else self.on_timeout(value)


class LastFirst(AsyncFunction):
    """Each call waits for the call of the next number; the call of `last` ends at once."""

    def __init__(self, last):
        self.last = last

    def open(self, runtime_context):
        self.ended = {number: asyncio.Event() for number in range(self.last + 1)}

    async def async_invoke(self, value):
        if value < self.last:
            await self.ended[value + 1].wait()
        self.ended[value].set()
        return [value]


# Order


def test_ordered_results_keep_the_order_of_the_input_though_calls_end_in_reverse():
    assert run(LastFirst(9), range(10), ordered=True) == list(range(10))


def test_unordered_results_come_as_calls_end():
    assert run(LastFirst(9), range(10), ordered=False) == list(range(9, -1, -1))


@pytest.mark.parametrize("ordered", [True, False])
def test_calls_behind_a_watermark_go_on_and_their_results_wait(ordered):
    #   calls     0 ────────────────►   0 ends only after 2 has ended,
    #   input     0 │ W5 │ 1 │ W7 │ 2   which is two watermarks behind it
    with Running(LastFirst(2), ordered=ordered) as running:
        running.feed((0, 1), W(5), (1, 6), W(7), (2, 8))
        assert running.end_epoch() == [(0, 1), 5, (1, 6), 7, (2, 8)]


def test_unordered_records_between_two_watermarks_change_places_and_keep_their_timestamps():
    with Running(LastFirst(2)) as running:
        running.feed((0, 1), (1, 3), (2, 2), W(5))
        assert running.end_epoch() == [(2, 2), (1, 3), (0, 1), 5]


def test_a_change_of_status_keeps_its_place():
    with Running(LastFirst(1)) as running:
        running.feed(0)
        running.operator.process_status(IDLE)
        running.operator.process_status(ACTIVE)
        running.feed(1)
        assert running.end_epoch() == [(0, None), IDLE, ACTIVE, (1, None)]


def test_a_watermark_without_records_before_it_is_handed_on_at_once():
    with Running(LastFirst(0)) as running:
        running.feed(W(5), W(6))
        assert running.output.items == [5, 6]


def test_each_result_has_the_timestamp_of_its_record():
    async def repeat(value):
        return [value] * value

    with Running(Call(repeat), ordered=True) as running:
        running.operator.process(Rows([2, 0, 1], [10, 20, 30]))
        running.feed(1, (1, 40))
        assert running.end_epoch() == [(2, 10), (2, 10), (1, 30), (1, None), (1, 40)]


@settings(max_examples=40, deadline=None)
@given(
    items=st.lists(st.one_of(st.integers(0, 5), st.just("watermark")), max_size=40),
    cuts=st.sets(st.integers(0, 40)),
    capacity=st.integers(1, 8),
    ordered=st.booleans(),
)
def test_any_input_gives_each_result_once_between_its_watermarks(items, cuts, capacity, ordered):
    async def call(value):
        number, turns = value
        for _ in range(turns):
            await asyncio.sleep(0)
        return [number] * (turns % 3)

    segments, watermark = [[]], 0
    with Running(Call(call), ordered=ordered, capacity=capacity) as running:
        for number, item in enumerate(items):
            if item == "watermark":
                watermark += 1
                running.feed(W(watermark))
                segments.append([])
            else:
                running.feed(((number, item), number))
                segments[-1] += [(number, number)] * (item % 3)
            if number in cuts:
                running.end_epoch()
        emitted = running.end_epoch()
    seen = [[]]
    for item in emitted:
        if isinstance(item, int):
            assert item == len(seen)
            seen.append([])
        else:
            seen[-1].append(item)
    if ordered:
        assert seen == segments
    else:
        assert [Counter(each) for each in seen] == [Counter(each) for each in segments]


# Capacity and epochs


@pytest.mark.parametrize("ordered", [True, False])
def test_calls_fill_the_capacity_and_never_exceed_it(ordered):
    capacity, most, running_now = 20, 0, 0
    full = None

    async def call(value):
        nonlocal most, running_now, full
        full = full or asyncio.Barrier(capacity)
        running_now += 1
        most = max(most, running_now)
        await asyncio.sleep(0)  # all that may begin have begun when the first goes on
        await full.wait()  # passes only when as many calls as the capacity are in flight
        running_now -= 1
        return [value]

    assert sorted(run(Call(call), range(100), capacity=capacity, ordered=ordered)) == list(range(100))
    assert most == capacity


def test_the_end_of_an_epoch_waits_for_every_call():
    release = None

    async def call(value):
        nonlocal release
        release = release or asyncio.Event()
        if value == 0:
            await asyncio.sleep(0.005)
            release.set()
        await release.wait()
        return [value]

    with Running(Call(call), ordered=True) as running:
        for _ in range(2):
            running.operator.process(Rows([1, 2, 0]))
            running.end_epoch()
            assert not running.operator._calls._running
    assert running.output.values == [1, 2, 0, 1, 2, 0]


def test_results_are_handed_on_while_other_calls_are_in_flight():
    seen_by_output = threading.Event()

    async def call(value):
        if value == 1:
            assert await asyncio.to_thread(seen_by_output.wait, 10)
        return [value]

    with Running(Call(call)) as running:
        emit = running.output.emit

        def emit_and_tell(batch):
            emit(batch)
            seen_by_output.set()

        running.output.emit = emit_and_tell
        running.operator.process(Rows([0, 1]))
        running.end_epoch()
        assert running.output.values == [0, 1]


def test_one_loop_and_one_thread_serve_all_epochs():
    seen = set()

    async def call(value):
        seen.add((asyncio.get_running_loop(), threading.get_ident()))
        return [value]

    with Running(Call(call)) as running:
        for number in range(3):
            running.feed(number)
            running.end_epoch()
    assert len(seen) == 1


# Failures


@pytest.mark.parametrize("ordered", [True, False])
def test_an_exception_fails_with_its_element_and_the_other_calls_are_cancelled(ordered):
    cancelled = []

    async def call(value):
        if value == 1:
            await asyncio.sleep(0)
            raise KeyError("one")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(value)
            raise

    with Running(Call(call), ordered=ordered) as running, pytest.raises(KeyError, match="one") as failure:
        running.operator.process(Rows([0, 1, 2]))
        running.end_epoch()
    assert attached_element(failure.value) == "1"
    assert sorted(cancelled) == [0, 2]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (None, "The result of AsyncFunction cannot be none"),
        (7, "The result of AsyncFunction should be of list type"),
    ],
)
def test_results_that_are_no_iterable_are_refused_in_flinks_words(given, told):
    async def call(value):
        return given

    with pytest.raises(TypeMismatchError, match="asynchronous call gave") as refused:
        run(Call(call), [1])
    assert told in str(refused.value)


def test_any_iterable_of_results_is_taken():
    async def call(value):
        return (value + step for step in (0, 10))

    assert run(Call(call), [1, 2], ordered=True) == [1, 11, 2, 12]


@pytest.mark.parametrize("raised", [asyncio.CancelledError, SystemExit, KeyboardInterrupt])
def test_what_would_end_the_loop_is_an_error_of_the_call(raised):
    async def call(value):
        raise raised

    with pytest.raises(RuntimeError, match=f"{raised.__name__} was raised inside") as failure:
        run(Call(call), [1])
    assert attached_element(failure.value) == "1"


def test_a_result_that_does_not_fit_the_declared_type_is_refused():
    async def call(value):
        return [value]

    with pytest.raises(TypeMismatchError):
        run(Call(call), ["text"], output_type=Types.INT())


def test_a_loop_that_user_code_ended_is_an_error_not_a_hang(monkeypatch):
    monkeypatch.setattr(async_io, "_CHECK_S", 0.01)

    async def end():
        raise SystemExit(3)

    async def call(value):
        task = asyncio.create_task(end())
        await asyncio.Event().wait()
        return [task]

    with pytest.raises(RuntimeError, match="has ended") as failure:
        run(Call(call), [1])
    assert isinstance(failure.value.__cause__, SystemExit)


def test_a_loop_that_is_blocked_is_told_with_the_place(monkeypatch, caplog):
    monkeypatch.setattr(async_io, "_CHECK_S", 0.002)

    async def blocks_the_loop(value):
        time.sleep(0.05)
        return [value]

    assert run(Call(blocks_the_loop), [1]) == [1]
    assert "has been blocked" in caplog.text
    assert "blocks_the_loop" in caplog.text


# Cancelling


@pytest.mark.parametrize("ordered", [True, False])
def test_a_call_that_never_ends_is_not_waited_for_when_the_job_is_cancelled(ordered, monkeypatch):
    monkeypatch.setattr(async_io, "_CHECK_S", 0.005)
    began, cancelled = threading.Event(), []

    async def call(value):
        if value == 0:
            return [value]
        while not running.output.values:
            await asyncio.sleep(0.001)
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(value)
            raise

    with Running(Call(call), ordered=ordered, timeout_ms=0) as running:
        running.operator.context.time.is_cancelled = began.is_set
        running.operator.process(Rows([0, 1]))
        with pytest.raises(JobExecutionError, match="the job was cancelled"):
            running.end_epoch()
        assert running.output.values == [0]
    assert cancelled == [1]


# Timeouts


def test_a_call_that_takes_too_long_is_cancelled_and_fails_by_default():
    cancelled = threading.Event()

    async def call(value):
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    with pytest.raises(TimeoutError, match="'slow' did not end within") as failure:
        run(Call(call), ["slow"], timeout_ms=5)
    assert attached_element(failure.value) == "'slow'"
    assert cancelled.is_set()


def test_a_timeout_may_give_results_in_place_of_the_call():
    async def call(value):
        if value == "slow":
            await asyncio.Event().wait()
        return [value]

    function = Call(call, on_timeout=lambda value: [value, "instead"])
    assert run(function, ["a", "slow", "b"], timeout_ms=5, ordered=True) == ["a", "slow", "instead", "b"]


def test_a_call_that_does_not_obey_cancellation_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(async_io, "_CANCEL_S", 0.01)

    async def call(value):
        while True:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(3600)

    assert run(Call(call, on_timeout=lambda value: ["gave up"]), [1], timeout_ms=5) == ["gave up"]


def test_a_call_is_cancelled_when_its_time_is_over():
    gone = None

    async def call(value):
        nonlocal gone
        gone = gone or asyncio.Event()
        if value == "slow":
            try:
                await asyncio.Event().wait()
            finally:
                gone.set()
        await gone.wait()
        return [value]

    function = Call(call, on_timeout=lambda value: ["late", value])
    assert run(function, ["slow", "next"], timeout_ms=50, capacity=1, ordered=True) == [
        "late",
        "slow",
        "next",
    ]


def test_a_result_that_comes_after_the_timeout_is_dropped():
    async def call(value):
        if value == "slow":
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            return ["too late"]
        for _ in range(5):
            await asyncio.sleep(0)
        return [value]

    function = Call(call, on_timeout=lambda value: ["in time"])
    assert run(function, ["slow", "next"], timeout_ms=20, capacity=1) == ["in time", "next"]


def test_a_timed_out_call_gives_its_place_to_another():
    async def call(value):
        if value < 3:
            await asyncio.Event().wait()
        return [value]

    function = Call(call, on_timeout=lambda value: [-value])
    assert run(function, range(5), timeout_ms=5, capacity=1, ordered=True) == [0, -1, -2, 3, 4]


def test_the_timeout_covers_all_attempts():
    calls = 0

    async def call(value):
        nonlocal calls
        calls += 1
        raise OSError

    strategy = AsyncRetryStrategy.fixed_delay(10**9, 1, None, lambda error: True)
    function = Call(call, on_timeout=lambda value: ["late"])
    assert run(function, [1], timeout_ms=20, strategy=strategy) == ["late"]
    assert calls > 1


def test_a_timeout_during_the_pause_ends_the_attempts():
    calls = 0

    async def call(value):
        nonlocal calls
        calls += 1
        raise OSError

    strategy = AsyncRetryStrategy.fixed_delay(5, 3_600_000, None, lambda error: True)
    assert run(Call(call, on_timeout=lambda value: []), [1], timeout_ms=5, strategy=strategy) == []
    assert calls == 1


# Retry


class Flaky(AsyncFunction):
    """Raises or gives nothing so many times for each element, then gives the number of attempts."""

    def __init__(self, failures, error=OSError):
        self.failures, self.error = failures, error
        self.attempts = Counter()

    async def async_invoke(self, value):
        self.attempts[value] += 1
        if self.attempts[value] <= self.failures:
            if self.error is None:
                return []
            raise self.error
        return [(value, self.attempts[value])]


def retry(max_attempts, result=None, exception=None):
    return AsyncRetryStrategy.fixed_delay(max_attempts, 1, result, exception)


def test_an_exception_that_the_predicate_names_is_tried_again():
    strategy = retry(3, exception=lambda error: isinstance(error, OSError))
    assert run(Flaky(2), ["a", "b"], ordered=True, strategy=strategy) == [("a", 3), ("b", 3)]


def test_max_attempts_counts_the_attempts_after_the_first():
    function = Flaky(4)
    strategy = retry(3, exception=lambda error: True)
    with pytest.raises(OSError):
        run(function, ["a"], strategy=strategy)
    assert function.attempts["a"] == 4
    assert run(Flaky(3), ["a"], strategy=strategy) == [("a", 4)]


def test_other_exceptions_are_final():
    function = Flaky(1, ValueError)
    with pytest.raises(ValueError):
        run(function, ["a"], strategy=retry(3, exception=lambda error: isinstance(error, OSError)))
    assert function.attempts["a"] == 1


def test_results_that_the_predicate_names_are_tried_again_and_the_last_ones_taken():
    assert run(Flaky(2, None), ["a"], strategy=retry(5, result=empty_result_predicate)) == [("a", 3)]
    assert run(Flaky(9, None), ["a"], strategy=retry(5, result=empty_result_predicate)) == []


def test_a_strategy_of_the_users_own_is_asked_with_the_number_of_attempts():
    class Own(AsyncRetryStrategy):
        asked = []

        def can_retry(self, current_attempts):
            self.asked.append(("can", current_attempts))
            return current_attempts < 3

        def get_backoff_time_millis(self, current_attempts):
            self.asked.append(("pause", current_attempts))
            return 0

        def get_retry_predicate(self):
            return RetryPredicate(None, lambda error: True)

    assert run(Flaky(2), ["a"], strategy=Own()) == [("a", 3)]
    assert Own.asked == [("can", 1), ("pause", 1), ("can", 2), ("pause", 2)]


def test_predicates_are_given_a_list_whatever_iterable_the_call_gave():
    async def call(value):
        return (each for each in [value])

    assert run(Call(call), ["a"], strategy=retry(1, result=empty_result_predicate)) == ["a"]


def test_an_error_in_a_predicate_fails():
    with pytest.raises(ZeroDivisionError):
        run(Flaky(1), ["a"], strategy=retry(3, exception=lambda error: 1 / 0))


# Life of function and loop


def test_open_and_close_run_on_the_subtasks_thread_unless_they_are_declared_async():
    class Plain(AsyncFunction):
        seen = []

        def open(self, runtime_context):
            self.seen.append((runtime_context.get_task_name(), threading.current_thread()))

        async def async_invoke(self, value):
            return [value]

        def close(self):
            self.seen.append(threading.current_thread())

    class OnLoop(AsyncFunction):
        seen = []

        async def open(self, runtime_context):
            self.seen.append(asyncio.get_running_loop())

        async def async_invoke(self, value):
            self.seen.append(asyncio.get_running_loop())
            return [value]

        async def close(self):
            self.seen.append(asyncio.get_running_loop())

    assert run(Plain(), [1]) == run(OnLoop(), [1]) == [1]
    assert Plain.seen == [("op", threading.current_thread()), threading.current_thread()]
    assert len(OnLoop.seen) == 3
    assert len(set(OnLoop.seen)) == 1


def test_an_error_in_open_or_close_is_raised_and_the_thread_ends():
    class Broken(AsyncFunction):
        def __init__(self, where):
            self.where = where

        async def open(self, runtime_context):
            if self.where == "open":
                raise KeyError("open")

        async def async_invoke(self, value):
            return [value]

        def close(self):
            if self.where == "close":
                raise KeyError("close")

    opening = Running(Broken("open"))
    with pytest.raises(KeyError, match="open"):
        opening.operator.open()
    thread = opening.operator._loop._thread
    opening.operator.close()
    assert not thread.is_alive()

    closing = Running(Broken("close")).__enter__()
    with pytest.raises(KeyError, match="close"):
        closing.operator.close()
    assert not closing.thread.is_alive()


def test_an_async_close_that_hangs_is_given_up_and_the_thread_ends(monkeypatch):
    monkeypatch.setattr(async_io, "_CLOSE_S", 0.01)

    class Hangs(AsyncFunction):
        async def async_invoke(self, value):
            return [value]

        async def close(self):
            await asyncio.Event().wait()

    running = Running(Hangs()).__enter__()
    with pytest.raises(TimeoutError):
        running.operator.close()
    assert not running.thread.is_alive()


def test_an_aborted_operator_ends_its_calls_and_its_thread():
    cancelled = threading.Event()
    begun = threading.Event()

    async def call(value):
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    with Running(Call(call)) as running:
        running.feed(1)
        assert begun.wait(10)
        running.operator.abort()
        assert cancelled.wait(10)
    assert running.output.items == []


def test_tasks_that_the_function_leaves_behind_are_cancelled():
    ended = threading.Event()

    async def background():
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    tasks = []

    async def call(value):
        tasks.append(asyncio.create_task(background()))
        return [value]

    assert run(Call(call), [1]) == [1]
    assert ended.is_set()


def test_a_blocked_call_in_a_thread_holds_up_neither_close_nor_the_process():
    release, workers = threading.Event(), []

    def block():
        workers.append(threading.current_thread())
        release.wait(30)

    async def call(value):
        await asyncio.to_thread(block)
        return [value]

    with Running(Call(call, on_timeout=lambda value: ["late"]), timeout_ms=20) as running:
        running.feed(1)
        running.end_epoch()
    assert running.output.values == ["late"]
    assert [worker.daemon for worker in workers] == [True]
    assert workers[0].is_alive()
    release.set()
    workers[0].join(10)
    assert not workers[0].is_alive()


def test_blocking_calls_in_threads_run_as_many_at_a_time_as_the_capacity():
    together = threading.Barrier(20)

    async def call(value):
        await asyncio.to_thread(together.wait, 10)
        return [value]

    assert sorted(run(Call(call), range(40), capacity=20)) == list(range(40))


def test_a_thread_pool_uses_free_threads_again_and_cancels_what_waits():
    pool = DaemonThreadPool(1, "test")
    first = pool.submit(threading.current_thread)
    assert first.result(10) is pool.submit(threading.current_thread).result(10)
    assert isinstance(pool.submit(lambda: 1 / 0).exception(10), ZeroDivisionError)
    begun, release = threading.Event(), threading.Event()
    pool.submit(lambda: (begun.set(), release.wait(30)))
    assert begun.wait(10)
    waiting = pool.submit(int)
    pool.shutdown()
    assert waiting.cancelled()
    with pytest.raises(RuntimeError, match="after shutdown"):
        pool.submit(int)
    release.set()
    first.result().join(10)
    assert not first.result().is_alive()


def test_a_loop_that_is_blocked_for_good_is_told_when_it_cannot_be_ended(caplog):
    loop, release = EventLoopThread("blocked", 1), threading.Event()
    loop.start()
    loop.call_soon(lambda: release.wait(30))
    assert loop.stop(0.01) is False
    assert "could not be ended" in caplog.text
    release.set()
    loop._thread.join(10)
    assert not loop.is_alive
    assert loop.stop(0.01) is True
    with pytest.raises(RuntimeError, match="has ended"):
        loop.call_soon(int)


# Batches


class Batches(BatchAsyncFunction):
    def __init__(self):
        self.sizes = []

    async def async_invoke_batch(self, values):
        self.sizes.append(len(values))
        return [[value, value] if value % 2 else [] for value in values]


@pytest.mark.parametrize("ordered", [True, False])
def test_a_batch_is_one_call_and_the_rest_goes_as_the_epoch_ends(ordered):
    function = Batches()
    with Running(function, ordered=ordered, batch_size=4) as running:
        running.operator.process(Rows(list(range(6)), list(range(6))))
        running.feed(W(5))
        running.operator.process(Rows([6, 7, 8], [6, 7, 8]))
        running.end_epoch()
        running.feed((9, 9), (10, 10))
        items = running.end_epoch()
    assert function.sizes == [4, 4, 1, 2]
    assert items == [(1, 1), (1, 1), (3, 3), (3, 3), (5, 5), (5, 5), 5, (7, 7), (7, 7), (9, 9), (9, 9)]


def test_capacity_counts_the_elements_of_batches():
    most = now = 0
    pair = None

    class Counting(BatchAsyncFunction):
        async def async_invoke_batch(self, values):
            nonlocal most, now, pair
            pair = pair or asyncio.Barrier(2)
            now += len(values)
            most = max(most, now)
            await pair.wait()
            now -= len(values)
            return [[value] for value in values]

    assert sorted(run(Counting(), range(40), batch_size=5, capacity=14)) == list(range(40))
    assert most == 10


@pytest.mark.parametrize(
    ("results", "message"),
    [([[1]], "results for 1 of 2 elements"), (None, "gave None"), ([[1], 2], "gave 2")],
)
def test_results_that_do_not_match_the_batch_are_refused(results, message):
    class Wrong(BatchAsyncFunction):
        async def async_invoke_batch(self, values):
            return results

    with pytest.raises(TypeMismatchError, match=message) as failure:
        run(Wrong(), [1, 2], batch_size=2)
    assert attached_element(failure.value) == "[1, 2]"


def test_a_batch_that_takes_too_long_gives_what_its_timeout_gives():
    class Slow(BatchAsyncFunction):
        async def async_invoke_batch(self, values):
            if 1 in values:
                await asyncio.Event().wait()
            return [[value] for value in values]

        def timeout_batch(self, values):
            return [[-value] for value in values]

    class SlowAndNoWord(Slow):
        timeout_batch = BatchAsyncFunction.timeout_batch

    options = {"batch_size": 2, "timeout_ms": 5, "ordered": True}
    assert run(Slow(), [1, 2, 3, 4], **options) == [-1, -2, 3, 4]
    with pytest.raises(TimeoutError, match="for 2 elements"):
        run(SlowAndNoWord(), [1, 2, 3, 4], **options)


def test_a_batch_is_tried_again_as_a_whole():
    class Flaky(BatchAsyncFunction):
        seen = []

        async def async_invoke_batch(self, values):
            self.seen.append(list(values))
            values.clear()  # the function's own list: the next attempt has a new one
            if len(self.seen) == 1:
                raise OSError
            return [[1], [2]]

    strategy = retry(1, exception=lambda error: True)
    assert run(Flaky(), ["a", "b"], batch_size=2, strategy=strategy, ordered=True) == [1, 2]
    assert Flaky.seen == [["a", "b"], ["a", "b"]]


def test_an_element_waits_no_longer_than_the_delay_for_its_batch():
    called = threading.Event()

    class Telling(BatchAsyncFunction):
        async def async_invoke_batch(self, values):
            called.set()
            return [[value] for value in values]

    with Running(Telling(), batch_size=10, max_delay_ms=2) as running:
        running.feed(1)
        assert called.wait(10), "the batch did not go before the epoch's end"
        running.feed(2)
        running.end_epoch()
        assert running.output.values == [1, 2]


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("rescaled", [True, False])
def test_watermarks_of_one_old_subtask_do_not_make_elements_of_another_one_late(ordered, rescaled):
    async def same(value):
        return [value]

    running = Running(Call(same), ordered=ordered)
    saved = [[("a", 8), 10, ("b", 12)], [("c", 6), 7]] if rescaled else [[("a", 8), 10, ("b", 12)]]
    for old, snapshot in enumerate(saved):
        scope = RestoreScope(old, 0, 1, lambda key: True, rescaled=rescaled)
        running.operator.restore_state(snapshot, scope)
    with running:
        items = running.end_epoch()
    seen_ms = -1
    for item in items:
        if isinstance(item, tuple):
            assert item[1] > seen_ms, f"{item} is late"
        else:
            seen_ms = item
    assert Counter(item for item in items if isinstance(item, tuple)) == Counter(
        item for snapshot in saved for item in snapshot if isinstance(item, tuple)
    )
    assert (10 in items) is not rescaled
