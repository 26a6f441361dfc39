"""Harnesses for one function, without a program around it; Flink's `ProcessFunctionTestHarnesses`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from millstream.base.errors import ConfigurationError, TypeMismatchError
from millstream.base.time import Time
from millstream.common.async_functions import AsyncFunction
from millstream.common.co_functions import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
)
from millstream.common.functions import (
    FilterFunction,
    FlatMapFunction,
    Function,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
    ReduceFunction,
)
from millstream.common.state import MapStateDescriptor
from millstream.datastream.async_data_stream import AsyncDataStream
from millstream.testing.harness import OperatorHarness, OperatorSnapshot

__all__ = ["harness_of"]

KeyBy = Callable[[Any], Any]
Program = Callable[..., Any]
_ASYNC_TIMEOUT_MS = 60_000
_ASYNC_CAPACITY = 100


def harness_of(
    function: Function,
    *,
    key_by: KeyBy | Sequence[KeyBy] | None = None,
    broadcast_state: Sequence[MapStateDescriptor] = (),
    parallelism: int = 1,
    max_parallelism: int = 128,
    processing_time: int = 0,
    restore: OperatorSnapshot | None = None,
    options: Mapping[str, Any] | None = None,
) -> OperatorHarness:
    """Run one function in the operator that a stream would give it.

    Args:
        function: A map, flat map, filter, reduce, (co-, broadcast-)process or asynchronous function. Of a broadcast
            process function input 0 is the stream, and input 1 the broadcast one.
        key_by: Gives a record's key; one for each input that is keyed.
        broadcast_state: Describes a broadcast process function's state.
        parallelism: As of `OperatorHarness`, like all that follow.
        max_parallelism: Number of key groups.
        processing_time: What the clock shows at first.
        restore: What the operator begins from.
        options: Options by key.

    Raises:
        TypeMismatchError: If it is no such function.
        ConfigurationError: If it wants keys and has no `key_by`, or less than it has inputs.

    Example:
        >>> class Double(MapFunction):
        ...     def map(self, value):
        ...         return 2 * value
        >>> harness = harness_of(Double())
        >>> harness.push(21)
        >>> harness.take()
        [42]
    """
    keys = [key_by] if callable(key_by) else list(key_by or ())
    for kind, inputs, build in _PROGRAMS:
        if isinstance(function, kind):
            return OperatorHarness(
                build(function, keys, list(broadcast_state)),
                inputs=inputs,
                parallelism=parallelism,
                max_parallelism=max_parallelism,
                processing_time=processing_time,
                restore=restore,
                options=options,
            )
    raise TypeMismatchError(
        f"a harness was asked for of a {type(function).__name__}",
        hint="Build the operator around it: OperatorHarness(lambda stream: stream.key_by(...).window(...)...).",
    )


def _one(method: str) -> Callable[[Any, list[KeyBy], Any], Program]:
    """Return what applies a method of a stream, keyed if there is a key."""

    def build(function: Any, keys: list[KeyBy], _: Any) -> Program:
        return lambda stream: getattr(_keyed(stream, keys, 0), method)(function)

    return build


def _one_keyed(method: str) -> Callable[[Any, list[KeyBy], Any], Program]:
    def build(function: Any, keys: list[KeyBy], _: Any) -> Program:
        _need_keys(function, keys, 1)
        return lambda stream: getattr(stream.key_by(keys[0]), method)(function)

    return build


def _two(method: str) -> Callable[[Any, list[KeyBy], Any], Program]:
    """Return what applies a method of two connected streams, keyed if there are keys."""

    def build(function: Any, keys: list[KeyBy], _: Any) -> Program:
        if keys or isinstance(function, KeyedCoProcessFunction):
            _need_keys(function, keys, 2)
        return lambda left, right: getattr(_keyed(left, keys, 0).connect(_keyed(right, keys, 1)), method)(
            function
        )

    return build


def _broadcast(function: Any, keys: list[KeyBy], states: list[MapStateDescriptor]) -> Program:
    if isinstance(function, KeyedBroadcastProcessFunction):
        _need_keys(function, keys, 1)
    if not states:
        raise ConfigurationError(
            f"a harness of a {type(function).__name__} was given no broadcast_state",
            hint="broadcast_state=[MapStateDescriptor(...)], as given to broadcast(...).",
        )
    return lambda stream, rules: _keyed(stream, keys, 0).connect(rules.broadcast(*states)).process(function)


def _async(function: Any, keys: list[KeyBy], _: Any) -> Program:
    timeout = Time.milliseconds(_ASYNC_TIMEOUT_MS)
    return lambda stream: AsyncDataStream.ordered_wait(stream, function, timeout, _ASYNC_CAPACITY)


def _keyed(stream: Any, keys: list[KeyBy], index: int) -> Any:
    return stream.key_by(keys[index]) if keys else stream


def _need_keys(function: Function, keys: list[KeyBy], count: int) -> None:
    if len(keys) != count:
        raise ConfigurationError(
            f"a harness of a {type(function).__name__} was given {len(keys)} key selectors, and needs {count}",
            hint="key_by=lambda record: record[0], or a list with one for each input.",
        )


_PROGRAMS: list[tuple[type | tuple[type, ...], int, Callable[[Any, list[KeyBy], Any], Program]]] = [
    (MapFunction, 1, _one("map")),
    (FlatMapFunction, 1, _one("flat_map")),
    (FilterFunction, 1, _one("filter")),
    (ReduceFunction, 1, _one_keyed("reduce")),
    (KeyedProcessFunction, 1, _one_keyed("process")),
    (ProcessFunction, 1, _one("process")),
    (CoMapFunction, 2, _two("map")),
    (CoFlatMapFunction, 2, _two("flat_map")),
    ((CoProcessFunction, KeyedCoProcessFunction), 2, _two("process")),
    ((BroadcastProcessFunction, KeyedBroadcastProcessFunction), 2, _broadcast),
    (AsyncFunction, 1, _async),
]
"""Classes of functions, how many inputs they have, and the program around one."""
