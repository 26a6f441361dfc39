from __future__ import annotations

import asyncio
import functools
import threading
from datetime import timedelta

import pytest

from millstream.base.errors import ConfigurationError, JobExecutionError, TypeMismatchError
from millstream.base.time import Time
from millstream.common import Duration, Types
from millstream.common.watermark_strategy import TimestampAssigner, WatermarkStrategy
from millstream.datastream import (
    AsyncDataStream,
    AsyncFunction,
    AsyncRetryStrategy,
    BatchAsyncFunction,
    ProcessFunction,
    async_retry_predicates,
)
from millstream.datastream.async_retry_strategies import (
    NO_RETRY_STRATEGY,
    ExponentialBackoffDelayRetryStrategy,
    FixedDelayRetryStrategy,
)

MINUTE = Time.minutes(1)


class Square(AsyncFunction[int, int]):
    async def async_invoke(self, value):
        for _ in range(value % 5):
            await asyncio.sleep(0)
        return [value * value]


class SquareBatch(BatchAsyncFunction[int, int]):
    async def async_invoke_batch(self, values):
        await asyncio.sleep(0)
        return [[value * value] for value in values]


class Stamp(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value


class WithTimestamp(ProcessFunction):
    def process_element(self, value, ctx):
        yield value, ctx.timestamp()


def async_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("async-")]


WAYS = {
    "unordered": lambda stream: AsyncDataStream.unordered_wait(stream, Square(), MINUTE, 7),
    "ordered": lambda stream: AsyncDataStream.ordered_wait(stream, Square(), MINUTE),
    "unordered batched": lambda stream: AsyncDataStream.unordered_wait_batched(
        stream, SquareBatch(), Duration.of_minutes(1), 4, capacity=8
    ),
    "ordered batched": lambda stream: AsyncDataStream.ordered_wait_batched(
        stream, SquareBatch(), timedelta(minutes=1), batch_size=4, max_delay=Time.milliseconds(1)
    ),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("epoch", [3, 1000])
def test_results_do_not_depend_on_parallelism_and_epochs(new_environment, way, parallelism, epoch):
    environment = new_environment("local", parallelism, {"millstream.epoch.fixed-records": epoch})
    stream = environment.from_collection(list(range(50))).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Stamp())
    )
    results = list(WAYS[way](stream).process(WithTimestamp()).execute_and_collect())
    expected = [(value * value, value) for value in range(50)]
    assert sorted(results) == expected
    if way.startswith("ordered") and parallelism == 1:
        assert results == expected
    assert async_threads() == []


@pytest.mark.parametrize("chaining", ["true", "false"])
def test_one_asynchronous_operator_may_follow_another(new_environment, chaining):
    environment = new_environment("local", 2, {"pipeline.operator-chaining.enabled": chaining})
    stream = environment.from_collection([1, 2, 3])
    for _ in range(2):
        stream = AsyncDataStream.unordered_wait(stream, Square(), MINUTE)
    assert sorted(stream.execute_and_collect()) == [1, 16, 81]


def test_a_keyed_stream_is_dealt_by_key(new_environment):
    class Where(AsyncFunction):
        def open(self, runtime_context):
            self.subtask = runtime_context.get_index_of_this_subtask()

        async def async_invoke(self, value):
            return [(value, self.subtask)]

    stream = new_environment("local", 4).from_collection([1, 2, 3, 4] * 5).key_by(lambda value: value)
    found = set(AsyncDataStream.unordered_wait(stream, Where(), MINUTE).execute_and_collect())
    assert len(found) == 4


def test_a_failing_call_fails_the_job_with_operator_element_and_the_users_traceback(new_environment):
    class Fails(AsyncFunction):
        async def async_invoke(self, value):
            if value == 3:
                raise LookupError("no such customer")
            await asyncio.Event().wait()

    stream = new_environment().from_collection([1, 2, 3])
    with pytest.raises(JobExecutionError) as failure:
        list(AsyncDataStream.unordered_wait(stream, Fails(), MINUTE).execute_and_collect())
    told = str(failure.value.__cause__)
    assert 'in operator "async wait operator", subtask 0' in told
    assert "Element: 3" in told
    assert "LookupError: no such customer" in told
    assert "raise LookupError" in told
    assert "async_calls.py" not in told
    assert async_threads() == []


def test_a_timeout_fails_the_job_unless_it_gives_results(new_environment):
    class Slow(AsyncFunction):
        async def async_invoke(self, value):
            await asyncio.Event().wait()

    class SlowWithDefault(Slow):
        def timeout(self, value):
            return ["default"]

    environment = new_environment()
    quick = Time.milliseconds(5)
    stream = environment.from_collection([1])
    with pytest.raises(JobExecutionError) as failure:
        list(AsyncDataStream.ordered_wait(stream, Slow(), quick).execute_and_collect())
    assert "TimeoutError: the asynchronous call for 1 did not end" in str(failure.value.__cause__)
    stream = environment.from_collection([1])
    results = AsyncDataStream.ordered_wait(stream, SlowWithDefault(), quick).execute_and_collect()
    assert list(results) == ["default"]


@pytest.mark.parametrize(
    "strategy",
    [
        AsyncRetryStrategy.fixed_delay(
            2,
            1,
            None,
            functools.partial(async_retry_predicates.exception_type_predicate, expected_error_type=OSError),
        ),
        AsyncRetryStrategy.exponential_backoff(
            2, 1, 2, 2.0, None, async_retry_predicates.has_exception_predicate
        ),
    ],
)
@pytest.mark.parametrize(
    "way", [AsyncDataStream.unordered_wait_with_retry, AsyncDataStream.ordered_wait_with_retry]
)
def test_calls_are_tried_again(new_environment, way, strategy):
    class Flaky(AsyncFunction):
        def open(self, runtime_context):
            self.seen = {}

        async def async_invoke(self, value):
            self.seen[value] = self.seen.get(value, 0) + 1
            if self.seen[value] < 3:
                raise ConnectionError
            return [(value, self.seen[value])]

    stream = new_environment().from_collection([1, 2])
    stream = way(stream, Flaky(), MINUTE, strategy, 5, Types.TUPLE([Types.INT(), Types.INT()]))
    assert sorted(stream.execute_and_collect()) == [(1, 3), (2, 3)]


def test_a_result_that_does_not_fit_the_declared_type_fails_the_job(new_environment):
    stream = new_environment().from_collection([1])
    stream = AsyncDataStream.ordered_wait(stream, Square(), MINUTE, output_type=Types.STRING())
    with pytest.raises(JobExecutionError) as failure:
        list(stream.execute_and_collect())
    assert isinstance(failure.value.__cause__, TypeMismatchError)


def test_a_cancelled_job_ends_its_threads(new_environment):
    records = AsyncDataStream.ordered_wait(
        new_environment("local", 1, {"millstream.epoch.fixed-records": 1}).from_collection(list(range(500))),
        Square(),
        MINUTE,
    ).execute_and_collect()
    next(records)
    threads = async_threads()
    assert threads
    records.close()
    for thread in threads:
        thread.join(10)
    assert not any(thread.is_alive() for thread in threads)


class NotAsync(AsyncFunction):
    def async_invoke(self, value):
        return [value]


class Generator(AsyncFunction):
    async def async_invoke(self, value):
        yield value


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda s: AsyncDataStream.ordered_wait([], Square(), MINUTE), TypeMismatchError, "DataStream"),
        (lambda s: AsyncDataStream.ordered_wait(s, NotAsync(), MINUTE), TypeMismatchError, "async def"),
        (lambda s: AsyncDataStream.ordered_wait(s, Generator(), MINUTE), TypeMismatchError, "async def"),
        (lambda s: AsyncDataStream.ordered_wait(s, Square, MINUTE), TypeMismatchError, "AsyncFunction"),
        (lambda s: AsyncDataStream.ordered_wait(s, SquareBatch(), MINUTE), TypeMismatchError, "Async"),
        (lambda s: AsyncDataStream.ordered_wait(s, Square(), 5), TypeMismatchError, "timeout is 5"),
        (lambda s: AsyncDataStream.ordered_wait(s, Square(), Time(-1)), ConfigurationError, "-1 ms"),
        (lambda s: AsyncDataStream.ordered_wait(s, Square(), MINUTE, 0), ConfigurationError, "capacity is 0"),
        (lambda s: AsyncDataStream.ordered_wait(s, Square(), MINUTE, 1, int), TypeMismatchError, "int"),
        (
            lambda s: AsyncDataStream.ordered_wait_with_retry(s, Square(), MINUTE, None),
            TypeMismatchError,
            "AsyncRetryStrategy",
        ),
        (
            lambda s: AsyncDataStream.unordered_wait_with_retry(
                s, Square(), Time(0), AsyncRetryStrategy.fixed_delay(1, 1, None, None)
            ),
            ConfigurationError,
            "without a timeout",
        ),
        (
            lambda s: AsyncDataStream.ordered_wait_batched(s, Square(), MINUTE, 2),
            TypeMismatchError,
            "BatchAsyncFunction",
        ),
        (
            lambda s: AsyncDataStream.ordered_wait_batched(s, SquareBatch(), MINUTE, 0),
            ConfigurationError,
            "batch_size is 0",
        ),
        (
            lambda s: AsyncDataStream.ordered_wait_batched(s, SquareBatch(), MINUTE, 9, capacity=8),
            ConfigurationError,
            "capacity 8 is less",
        ),
    ],
)
def test_what_does_not_fit_is_refused_where_it_is_declared(new_environment, call, error, message):
    stream = new_environment().from_collection([1])
    with pytest.raises(error, match=message):
        call(stream)


def test_no_timeout_is_allowed_without_retry(new_environment):
    stream = AsyncDataStream.ordered_wait(new_environment().from_collection([3]), Square(), Time(0))
    assert list(stream.execute_and_collect()) == [9]


def test_pauses_grow_for_each_element_by_itself():
    strategy = ExponentialBackoffDelayRetryStrategy(10, 100, 1000, 1.5, None, None)
    pauses = [100, 150, 225, 337, 505, 757, 1000, 1000]
    assert [strategy.get_backoff_time_millis(attempts) for attempts in range(1, 9)] == pauses
    assert strategy.get_backoff_time_millis(2) == 150


@pytest.mark.parametrize(("attempts", "pause"), [(0, 1), (1, 0), (-1, 1)])
def test_a_strategys_numbers_are_positive(attempts, pause):
    with pytest.raises(ConfigurationError, match="retry strategy"):
        FixedDelayRetryStrategy(attempts, pause, None, None)


def test_strategies_count_attempts_as_flink_does():
    assert [FixedDelayRetryStrategy(2, 1, None, None).can_retry(attempts) for attempts in (1, 2, 3)] == [
        True,
        True,
        False,
    ]
    assert AsyncRetryStrategy.no_restart() is NO_RETRY_STRATEGY
    assert not NO_RETRY_STRATEGY.can_retry(1)


def test_predicates_tell_what_their_names_say():
    assert async_retry_predicates.empty_result_predicate([])
    assert not async_retry_predicates.empty_result_predicate([0])
    assert async_retry_predicates.has_exception_predicate(ValueError())
    assert async_retry_predicates.exception_type_predicate(KeyError(), LookupError)
    assert not async_retry_predicates.exception_type_predicate(KeyError(), OSError)
