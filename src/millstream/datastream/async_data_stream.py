"""Asynchronous I/O on streams (PyFlink's `pyflink.datastream.async_data_stream`)."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from millstream.base.errors import ConfigurationError, TypeMismatchError
from millstream.base.time import Duration, Time, to_milliseconds
from millstream.base.type_variables import R, S
from millstream.common.async_functions import (
    NO_RETRY_STRATEGY,
    AsyncFunction,
    AsyncRetryPredicate,
    AsyncRetryStrategy,
    BatchAsyncFunction,
    NoRetryStrategy,
)
from millstream.common.functions import Function, KeySelector
from millstream.datastream.streams.data_stream import DataStream, transform
from millstream.operators.functions_adapter import as_key_selector
from millstream.operators.lookup import LookupFunction, pair
from millstream.spi.lookup import AsyncLookup, LookupCache
from millstream.types.typeinfo import TypeInformation

__all__ = ["AsyncDataStream"]

_NAME = "async wait operator"

Length = Time | Duration | timedelta


class AsyncDataStream:
    """Makes asynchronous calls for the records of a stream.

    Ordered results come in the order of the input; unordered ones as calls end, but never past a watermark.

    Example:
        >>> import asyncio
        >>> from millstream.common import Time
        >>> from millstream.datastream import AsyncDataStream, AsyncFunction
        >>> from millstream.testing import MiniCluster
        >>> class LookUp(AsyncFunction):
        ...     async def async_invoke(self, value):
        ...         await asyncio.sleep(0)  # a request to a service
        ...         return [f"customer {value}"]
        >>> with MiniCluster() as cluster:
        ...     ids = cluster.environment().from_collection([7, 3])
        ...     cluster.collect(AsyncDataStream.ordered_wait(ids, LookUp(), Time.seconds(5), capacity=10))
        ['customer 7', 'customer 3']
    """

    @staticmethod
    def unordered_wait(
        data_stream: DataStream[S],
        async_function: AsyncFunction[S, R],
        timeout: Time,
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]:
        """Make a call for each record; results come as calls end.

        Args:
            data_stream: The input.
            async_function: Makes the call.
            timeout: How long a call may take; zero for any time.
            capacity: How many elements may be in flight in one subtask.
            output_type: Type of the results, checked.

        Raises:
            TypeMismatchError: If an argument is not of its class, or the call is not declared `async def`.
            ConfigurationError: If a number does not fit.
        """
        return AsyncDataStream.unordered_wait_with_retry(
            data_stream, async_function, timeout, NO_RETRY_STRATEGY, capacity, output_type
        )

    @staticmethod
    def unordered_wait_with_retry(
        data_stream: DataStream[S],
        async_function: AsyncFunction[S, R],
        timeout: Time,
        async_retry_strategy: AsyncRetryStrategy[Any],
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]:
        """Make a call for each record, again where the strategy asks for it; results come as calls end.

        Args:
            data_stream: The input.
            async_function: Makes the call.
            timeout: How long all attempts for one record may take, with the pauses between them.
            async_retry_strategy: Decides on further attempts.
            capacity: How many elements may be in flight in one subtask.
            output_type: Type of the results, checked.

        Raises:
            TypeMismatchError: If an argument is not of its class, or the call is not declared `async def`.
            ConfigurationError: If a number does not fit, or there is no timeout.
        """
        _check_function(async_function, AsyncFunction, "async_invoke")
        return _wait(
            data_stream, async_function, timeout, async_retry_strategy, capacity, output_type, ordered=False
        )

    @staticmethod
    def ordered_wait(
        data_stream: DataStream[S],
        async_function: AsyncFunction[S, R],
        timeout: Time,
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]:
        """Make a call for each record; results come in the order of the input.

        Arguments and errors are those of `unordered_wait`.
        """
        return AsyncDataStream.ordered_wait_with_retry(
            data_stream, async_function, timeout, NO_RETRY_STRATEGY, capacity, output_type
        )

    @staticmethod
    def ordered_wait_with_retry(
        data_stream: DataStream[S],
        async_function: AsyncFunction[S, R],
        timeout: Time,
        async_retry_strategy: AsyncRetryStrategy[Any],
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]:
        """Make a call for each record, again where the strategy asks for it; results in the order of the input.

        Arguments and errors are those of `unordered_wait_with_retry`.
        """
        _check_function(async_function, AsyncFunction, "async_invoke")
        return _wait(
            data_stream, async_function, timeout, async_retry_strategy, capacity, output_type, ordered=True
        )

    @staticmethod
    def unordered_wait_batched(
        data_stream: DataStream[S],
        async_function: BatchAsyncFunction[S, R],
        timeout: Length,
        batch_size: int,
        max_delay: Length | None = None,
        capacity: int = 1000,
        output_type: TypeInformation | None = None,
        async_retry_strategy: AsyncRetryStrategy[Any] = NO_RETRY_STRATEGY,
    ) -> DataStream[R]:
        """Make one call for up to `batch_size` records; results come as calls end. Flink has no such operator.

        Args:
            data_stream: The input.
            async_function: Makes the call.
            timeout: How long a call may take with all its attempts; zero for any time.
            batch_size: How many records a call takes; fewer at the end of an epoch.
            max_delay: A batch goes when its first record has waited so long; by default it waits until it is
                full or the epoch ends.
            capacity: How many records may be in flight in one subtask.
            output_type: Type of the results, checked.
            async_retry_strategy: Decides on further attempts for whole batches.

        Raises:
            TypeMismatchError: If an argument is not of its class, or the call is not declared `async def`.
            ConfigurationError: If a number does not fit.
        """
        return _wait_batched(
            data_stream,
            async_function,
            timeout,
            async_retry_strategy,
            capacity,
            output_type,
            batch_size=batch_size,
            max_delay=max_delay,
            ordered=False,
        )

    @staticmethod
    def ordered_wait_batched(
        data_stream: DataStream[S],
        async_function: BatchAsyncFunction[S, R],
        timeout: Length,
        batch_size: int,
        max_delay: Length | None = None,
        capacity: int = 1000,
        output_type: TypeInformation | None = None,
        async_retry_strategy: AsyncRetryStrategy[Any] = NO_RETRY_STRATEGY,
    ) -> DataStream[R]:
        """Make one call for up to `batch_size` records; results come in the order of the input.

        Arguments and errors are those of `unordered_wait_batched`.
        """
        return _wait_batched(
            data_stream,
            async_function,
            timeout,
            async_retry_strategy,
            capacity,
            output_type,
            batch_size=batch_size,
            max_delay=max_delay,
            ordered=True,
        )

    @staticmethod
    def unordered_lookup(
        data_stream: DataStream[S],
        lookup: AsyncLookup,
        key_selector: KeySelector[S, Any] | Callable[[S], Any],
        timeout: Length,
        join: Callable[[S, Any], R] = pair,
        *,
        batch_size: int = 100,
        max_delay: Length | None = None,
        capacity: int = 1000,
        cache: LookupCache | None = None,
        output_type: TypeInformation | None = None,
        async_retry_strategy: AsyncRetryStrategy[Any] = NO_RETRY_STRATEGY,
    ) -> DataStream[R]:
        """Find the row of another system for each record; results come as calls end. Flink has it in SQL only.

        Args:
            data_stream: The input.
            lookup: Finds rows by key.
            key_selector: Gives a record's key.
            timeout: How long a call may take with all its attempts; zero for any time.
            join: Makes the result of a record and its row, which is None if there is none; by default a pair.
            batch_size: How many records a call serves; it asks for each of their keys once.
            max_delay: A call goes when its first record has waited so long; by default it waits until there are
                enough, or the epoch ends.
            capacity: How many records may be in flight in one subtask.
            cache: What each subtask keeps of what it found; by default nothing. After `key_by` with the same key no
                two subtasks keep the same.
            output_type: Type of the results, checked.
            async_retry_strategy: Decides on further attempts.

        Raises:
            TypeMismatchError: If an argument is not of its class, or `lookup` is not declared `async def`.
            ConfigurationError: If a number does not fit.
        """
        function = _lookup_function(lookup, key_selector, join, cache)
        return AsyncDataStream.unordered_wait_batched(
            data_stream, function, timeout, batch_size, max_delay, capacity, output_type, async_retry_strategy
        )

    @staticmethod
    def ordered_lookup(
        data_stream: DataStream[S],
        lookup: AsyncLookup,
        key_selector: KeySelector[S, Any] | Callable[[S], Any],
        timeout: Length,
        join: Callable[[S, Any], R] = pair,
        *,
        batch_size: int = 100,
        max_delay: Length | None = None,
        capacity: int = 1000,
        cache: LookupCache | None = None,
        output_type: TypeInformation | None = None,
        async_retry_strategy: AsyncRetryStrategy[Any] = NO_RETRY_STRATEGY,
    ) -> DataStream[R]:
        """Find the row of another system for each record; results come in the order of the input.

        Arguments and errors are those of `unordered_lookup`.
        """
        function = _lookup_function(lookup, key_selector, join, cache)
        return AsyncDataStream.ordered_wait_batched(
            data_stream, function, timeout, batch_size, max_delay, capacity, output_type, async_retry_strategy
        )


def _lookup_function(
    lookup: AsyncLookup,
    key_selector: KeySelector[Any, Any] | Callable[[Any], Any],
    join: Callable[[Any, Any], Any],
    cache: LookupCache | None,
) -> LookupFunction:
    if not isinstance(lookup, AsyncLookup):
        raise TypeMismatchError(f"a {type(lookup).__name__} was given, not an AsyncLookup")
    for method in ("open", "lookup", "close"):
        _check_async(lookup, method)
    if cache is not None and not isinstance(cache, LookupCache):
        raise TypeMismatchError(f"a {type(cache).__name__} was given as cache, not a LookupCache")
    return LookupFunction(lookup, as_key_selector(key_selector), join, cache)


def _wait_batched(
    data_stream: DataStream,
    function: BatchAsyncFunction[Any, Any],
    timeout: Length,
    strategy: AsyncRetryStrategy[Any],
    capacity: int,
    output_type: TypeInformation | None,
    *,
    batch_size: int,
    max_delay: Length | None,
    ordered: bool,
) -> DataStream:
    _check_function(function, BatchAsyncFunction, "async_invoke_batch")
    _check_count("batch_size", batch_size)
    if capacity < batch_size:
        raise ConfigurationError(
            f"capacity {capacity} is less than batch_size {batch_size}",
            hint="The capacity counts records; give room to several batches.",
        )
    max_delay_ms = None if max_delay is None else _milliseconds("max_delay", max_delay)
    return _wait(
        data_stream,
        function,
        timeout,
        strategy,
        capacity,
        output_type,
        ordered=ordered,
        batch_size=batch_size,
        max_delay_ms=max_delay_ms,
    )


def _wait(
    data_stream: DataStream,
    function: AsyncFunction[Any, Any] | BatchAsyncFunction[Any, Any],
    timeout: Length,
    strategy: AsyncRetryStrategy[Any],
    capacity: int,
    output_type: TypeInformation | None,
    *,
    ordered: bool,
    batch_size: int | None = None,
    max_delay_ms: int | None = None,
) -> DataStream:
    if not isinstance(data_stream, DataStream):
        raise TypeMismatchError(f"a {type(data_stream).__name__} was given, not a DataStream")
    timeout_ms = _milliseconds("timeout", timeout)
    _check_count("capacity", capacity)
    _check_strategy(strategy, timeout_ms)
    from millstream.operators.async_io import AsyncWaitSpec  # asyncio is large

    spec = AsyncWaitSpec(
        function, ordered, timeout_ms, capacity, strategy, output_type, batch_size, max_delay_ms
    )
    return transform(_NAME, spec, [data_stream], output_type)


def _check_function(function: object, kind: type[Function], method: str) -> None:
    if not isinstance(function, kind):
        raise TypeMismatchError(f"a {type(function).__name__} was given, not a {kind.__name__}")
    _check_async(function, method)


def _check_async(function: object, method: str) -> None:
    if not inspect.iscoroutinefunction(getattr(function, method)):
        raise TypeMismatchError(
            f"method {method} of {type(function).__name__} is not declared with async def",
            hint=f"Write: async def {method}(self, ...): ... return [...]",
        )


def _check_strategy(strategy: object, timeout_ms: int) -> None:
    if not isinstance(strategy, AsyncRetryStrategy):
        raise TypeMismatchError(f"a {type(strategy).__name__} was given, not an AsyncRetryStrategy")
    if not isinstance(strategy.get_retry_predicate(), AsyncRetryPredicate):
        raise TypeMismatchError(
            f"get_retry_predicate of {type(strategy).__name__} gave no AsyncRetryPredicate",
            hint="Return RetryPredicate(None, None) to ask for no further attempt.",
        )
    if timeout_ms == 0 and not isinstance(strategy, NoRetryStrategy):
        raise ConfigurationError(
            "a retry strategy was given without a timeout",
            hint="Give a timeout greater than zero; it covers all attempts.",
        )


def _check_count(name: str, count: object) -> None:
    if not isinstance(count, int) or count < 1:
        raise ConfigurationError(f"{name} is {count!r}", detail="It must be a number of at least 1.")


def _milliseconds(name: str, length: object) -> int:
    if not isinstance(length, (Time, Duration, timedelta)):
        raise TypeMismatchError(f"{name} is {length!r}", hint="Give it a length of time: Time.seconds(10).")
    milliseconds = to_milliseconds(length)
    if milliseconds < 0:
        raise ConfigurationError(f"{name} is {milliseconds} ms", detail="It must not be negative.")
    return milliseconds
