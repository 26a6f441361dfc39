"""Functions for asynchronous I/O and what decides whether a call is tried again (PyFlink's `AsyncFunction`).

A call that gave a result or raised is judged by the strategy's predicate; if that asks for another attempt and
the strategy allows one, it follows after a pause::

    call 1 ── raised ── predicate: again ── can_retry(1) ── pause get_backoff_time_millis(1) ── call 2 ── …
    └───────────────────────── all of it within the element's one timeout ─────────────────────────┘
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import Any, Generic

from millstream.base.errors import ConfigurationError, shorten
from millstream.base.time import Duration, Time
from millstream.base.type_variables import IN, OUT, V
from millstream.common.functions import Function

__all__ = [
    "NO_RETRY_STRATEGY",
    "AsyncFunction",
    "AsyncFunctionDescriptor",
    "AsyncRetryPredicate",
    "AsyncRetryStrategy",
    "BatchAsyncFunction",
    "ExponentialBackoffDelayRetryStrategy",
    "FixedDelayRetryStrategy",
    "NoRetryStrategy",
    "RetryPredicate",
    "empty_result_predicate",
    "exception_type_predicate",
    "has_exception_predicate",
]


class AsyncFunction(Function, Generic[IN, OUT]):
    """One asynchronous call for each element, many at a time.

    `async_invoke` and `timeout` run on the event loop of the subtask's operator, one loop for the attempt: what
    blocks there blocks every call (`await asyncio.to_thread(...)` for libraries that block). `open` and `close`
    run on the subtask's thread; declared `async def` they run on the event loop instead, where clients bound to
    a loop are to be made.

    Example:
        >>> import asyncio
        >>> from millstream.common import Time
        >>> from millstream.datastream import AsyncDataStream, AsyncFunction
        >>> from millstream.testing import MiniCluster
        >>> class Price(AsyncFunction):
        ...     async def open(self, runtime_context):
        ...         self.prices = {"tea": 3, "cake": 5}  # in its place: a client of a service
        ...     async def async_invoke(self, value):
        ...         await asyncio.sleep(0)
        ...         return [(value, self.prices[value])]
        >>> with MiniCluster() as cluster:
        ...     things = cluster.environment().from_collection(["cake", "tea"])
        ...     sorted(cluster.collect(AsyncDataStream.unordered_wait(things, Price(), Time.seconds(5))))
        [('cake', 5), ('tea', 3)]
    """

    @abstractmethod
    async def async_invoke(self, value: IN) -> Iterable[OUT]:
        """Make the call for one element.

        Args:
            value: The element.

        Returns:
            The elements to emit, an empty list for none; None is an error. What it raises fails the job unless
            the retry strategy asks for another attempt.
        """

    def timeout(self, value: IN) -> Iterable[OUT]:
        """Return what to emit for an element whose call, attempts and pauses included, took too long.

        Called on the event loop, at most once for an element; the call has been cancelled.

        Raises:
            TimeoutError: Always, unless overridden; fails the job.
        """
        raise TimeoutError(f"the asynchronous call for {shorten(value)} did not end within its timeout")


class BatchAsyncFunction(Function, Generic[IN, OUT]):
    """One asynchronous call for several elements: for services that take many requests at once.

    How elements are put together depends on how they arrive; results must not depend on it. Threads are those of
    `AsyncFunction`.

    Example:
        >>> from datetime import timedelta
        >>> from millstream.common import Time
        >>> from millstream.datastream import AsyncDataStream, BatchAsyncFunction
        >>> from millstream.testing import MiniCluster
        >>> class Score(BatchAsyncFunction):
        ...     async def async_invoke_batch(self, values):
        ...         return [[len(value)] for value in values]  # one request for all of them
        >>> with MiniCluster() as cluster:
        ...     texts = cluster.environment().from_collection(["a", "bb", "ccc"])
        ...     scores = AsyncDataStream.ordered_wait_batched(texts, Score(), Time.seconds(5), batch_size=2)
        ...     cluster.collect(scores)
        [1, 2, 3]
    """

    @abstractmethod
    async def async_invoke_batch(self, values: Sequence[IN]) -> Sequence[Iterable[OUT]]:
        """Make the call for up to `batch_size` elements.

        Args:
            values: The elements, in order of arrival; at least one.

        Returns:
            For each element, in the same order, the elements to emit.
        """

    def timeout_batch(self, values: Sequence[IN]) -> Sequence[Iterable[OUT]]:
        """Return what to emit for each element of a call that took too long.

        Raises:
            TimeoutError: Always, unless overridden; fails the job.
        """
        raise TimeoutError(
            f"the asynchronous call for {len(values)} elements did not end within its timeout; "
            f"the first was {shorten(values[0])}"
        )


class AsyncRetryPredicate(ABC, Generic[V]):
    """Tells which results and exceptions ask for another attempt.

    Example:
        >>> from millstream.datastream import AsyncRetryPredicate
        >>> class Unfinished(AsyncRetryPredicate):
        ...     def result_predicate(self):
        ...         return lambda results: not results
        ...     def exception_predicate(self):
        ...         return lambda error: isinstance(error, ConnectionError)
        >>> Unfinished().result_predicate()([]), Unfinished().exception_predicate()(KeyError("id"))
        (True, False)
    """

    @abstractmethod
    def result_predicate(self) -> Callable[[Any], bool] | None:
        """Return what judges the list of results of a call; None if every result will do."""

    @abstractmethod
    def exception_predicate(self) -> Callable[[Exception], bool] | None:
        """Return what judges the exception of a call; None if every exception is final."""


class AsyncRetryStrategy(ABC, Generic[V]):
    """Decides whether and when a call is tried again.

    One object serves all elements of a subtask, so what it returns may depend on the number of attempts only.

    Example:
        >>> from millstream.datastream import AsyncRetryStrategy
        >>> strategy = AsyncRetryStrategy.fixed_delay(3, 100, None, lambda error: isinstance(error, OSError))
        >>> [strategy.can_retry(attempts) for attempts in (1, 2, 3, 4)]
        [True, True, True, False]
    """

    @abstractmethod
    def can_retry(self, current_attempts: int) -> bool:
        """Return whether another attempt may follow, after so many (1 after the first)."""

    @abstractmethod
    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """Return the pause before the next attempt in milliseconds, after so many attempts."""

    @abstractmethod
    def get_retry_predicate(self) -> AsyncRetryPredicate[V]:
        """Return what tells which results and exceptions ask for another attempt."""

    @staticmethod
    def no_restart() -> AsyncRetryStrategy[Any]:
        """Return the strategy that never tries again."""
        return NO_RETRY_STRATEGY

    @staticmethod
    def fixed_delay(
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: Callable[[Any], bool] | None,
        exception_predicate: Callable[[Exception], bool] | None,
    ) -> AsyncRetryStrategy[Any]:
        """Return a strategy that tries again up to `max_attempts` times, always after the same pause.

        Raises:
            ConfigurationError: If a number is not positive.
        """
        return FixedDelayRetryStrategy(
            max_attempts, backoff_time_millis, result_predicate, exception_predicate
        )

    @staticmethod
    def exponential_backoff(
        max_attempts: int,
        initial_delay: int,
        max_retry_delay: int,
        multiplier: float,
        result_predicate: Callable[[Any], bool] | None,
        exception_predicate: Callable[[Exception], bool] | None,
    ) -> AsyncRetryStrategy[Any]:
        """Return a strategy that tries again up to `max_attempts` times, after pauses that grow.

        Args:
            max_attempts: How often it may try again.
            initial_delay: The first pause, in milliseconds.
            max_retry_delay: The longest pause, in milliseconds.
            multiplier: How much longer each pause is than the one before.
            result_predicate: Judges results.
            exception_predicate: Judges exceptions.

        Raises:
            ConfigurationError: If a number is not positive.
        """
        return ExponentialBackoffDelayRetryStrategy(
            max_attempts, initial_delay, max_retry_delay, multiplier, result_predicate, exception_predicate
        )


class RetryPredicate(AsyncRetryPredicate[V]):
    """Two callables, either of which may be None."""

    def __init__(
        self,
        result_predicate: Callable[[Any], bool] | None,
        exception_predicate: Callable[[Exception], bool] | None,
    ) -> None:
        self._result_predicate = result_predicate
        self._exception_predicate = exception_predicate

    def result_predicate(self) -> Callable[[Any], bool] | None:
        """Return what judges results."""
        return self._result_predicate

    def exception_predicate(self) -> Callable[[Exception], bool] | None:
        """Return what judges exceptions."""
        return self._exception_predicate


class NoRetryStrategy(AsyncRetryStrategy[V]):
    """Never tries again."""

    def can_retry(self, current_attempts: int) -> bool:
        """Return False."""
        return False

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """Return -1: there is no next attempt."""
        return -1

    def get_retry_predicate(self) -> AsyncRetryPredicate[V]:
        """Return a predicate that asks for nothing."""
        return RetryPredicate(None, None)


class FixedDelayRetryStrategy(AsyncRetryStrategy[V]):
    """Tries again after the same pause each time.

    `max_attempts` counts what follows the first attempt, as in Flink: 3 allows four calls.
    """

    def __init__(
        self,
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: Callable[[Any], bool] | None,
        exception_predicate: Callable[[Exception], bool] | None,
    ) -> None:
        _check_positive(max_attempts=max_attempts, backoff_time_millis=backoff_time_millis)
        self._max_attempts = max_attempts
        self._backoff_time_millis = backoff_time_millis
        self._predicate: AsyncRetryPredicate[V] = RetryPredicate(result_predicate, exception_predicate)

    def can_retry(self, current_attempts: int) -> bool:
        """Return whether there were at most `max_attempts` attempts."""
        return current_attempts <= self._max_attempts

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """Return the pause in milliseconds."""
        return self._backoff_time_millis

    def get_retry_predicate(self) -> AsyncRetryPredicate[V]:
        """Return what judges results and exceptions."""
        return self._predicate


class ExponentialBackoffDelayRetryStrategy(AsyncRetryStrategy[V]):
    """Tries again after pauses that grow by a factor, up to a longest one.

    In Flink the last pause is kept in the strategy, which all elements share, so elements that are tried again at
    the same time lengthen each other's pauses; here the pause depends on the element's own attempts only.

    >>> strategy = ExponentialBackoffDelayRetryStrategy(5, 100, 350, 2.0, None, None)
    >>> [strategy.get_backoff_time_millis(attempts) for attempts in (1, 2, 3, 4)]
    [100, 200, 350, 350]
    """

    def __init__(
        self,
        max_attempts: int,
        initial_delay: int,
        max_retry_delay: int,
        multiplier: float,
        result_predicate: Callable[[Any], bool] | None,
        exception_predicate: Callable[[Exception], bool] | None,
    ) -> None:
        _check_positive(
            max_attempts=max_attempts,
            initial_delay=initial_delay,
            max_retry_delay=max_retry_delay,
            multiplier=multiplier,
        )
        self._max_attempts = max_attempts
        self._initial_delay = initial_delay
        self._max_retry_delay = max_retry_delay
        self._multiplier = multiplier
        self._predicate: AsyncRetryPredicate[V] = RetryPredicate(result_predicate, exception_predicate)

    def can_retry(self, current_attempts: int) -> bool:
        """Return whether there were at most `max_attempts` attempts."""
        return current_attempts <= self._max_attempts

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """Return the pause after so many attempts, in milliseconds."""
        pause_ms = self._initial_delay
        for _ in range(current_attempts - 1):
            grown_ms = int(min(pause_ms * self._multiplier, self._max_retry_delay))
            if grown_ms == pause_ms:
                break
            pause_ms = grown_ms
        return pause_ms

    def get_retry_predicate(self) -> AsyncRetryPredicate[V]:
        """Return what judges results and exceptions."""
        return self._predicate


def _check_positive(**numbers: float) -> None:
    for name, number in numbers.items():
        if not number > 0:
            raise ConfigurationError(
                f"{name} of a retry strategy is {number!r}", detail="It must be greater than zero."
            )


NO_RETRY_STRATEGY: AsyncRetryStrategy[Any] = NoRetryStrategy()
"""The strategy of calls without retry."""


def empty_result_predicate(result: Any) -> bool:
    """Ask for another attempt when there was no result."""
    return result is None or len(result) == 0


def has_exception_predicate(error: Exception | None) -> bool:
    """Ask for another attempt after any exception."""
    return error is not None


def exception_type_predicate(error: Exception, expected_error_type: type[BaseException]) -> bool:
    """Ask for another attempt after an exception of a type; to be used with `functools.partial`."""
    return isinstance(error, expected_error_type)


class AsyncFunctionDescriptor:
    """What a program declares of an asynchronous operator.

    Args:
        async_function: An AsyncFunction.
        timeout: For one element with all its attempts; zero for none.
        capacity: How many elements may be in flight in one subtask.
        async_retry_strategy: Decides on further attempts.
        output_mode: Whether results keep the order of the input.

    Example:
        >>> from millstream.datastream.async_retry_strategies import NoRetryStrategy
        >>> from millstream.datastream.functions import AsyncFunctionDescriptor
        >>> from millstream.common import Time
        >>> from millstream.datastream import AsyncFunction
        >>> class Echo(AsyncFunction):
        ...     async def async_invoke(self, value):
        ...         return [value]
        >>> ordered = AsyncFunctionDescriptor.OutputMode.ORDERED
        >>> declared = AsyncFunctionDescriptor(Echo(), Time.seconds(5), 100, NoRetryStrategy(), ordered)
        >>> declared.capacity, declared.output_mode.name
        (100, 'ORDERED')
    """

    class OutputMode(Enum):
        """Whether results keep the order of the input."""

        ORDERED = 0
        UNORDERED = 1

    def __init__(
        self,
        async_function: Any,
        timeout: Time | Duration,
        capacity: int,
        async_retry_strategy: AsyncRetryStrategy[Any],
        output_mode: AsyncFunctionDescriptor.OutputMode,
    ) -> None:
        self.async_function = async_function
        self.timeout = timeout
        self.capacity = capacity
        self.async_retry_strategy = async_retry_strategy
        self.output_mode = output_mode
