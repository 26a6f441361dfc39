"""Keyed streams (PyFlink's `KeyedStream`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic

from millstream.base.errors import JobDefinitionError, TypeMismatchError
from millstream.base.type_variables import KEY, R, T
from millstream.common.functions import (
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
    ReduceFunction,
)
from millstream.datastream.streams.data_stream import DataStream
from millstream.datastream.streams.windowed_stream import WindowedStream
from millstream.operators.functions_adapter import as_keyed_process, as_reduce
from millstream.operators.partitioners import Partitioning
from millstream.operators.process import KeyedProcessSpec
from millstream.operators.reduce import Aggregation, ReduceSpec, RollingAggregate
from millstream.operators.windowing.assigner import WindowAssigner
from millstream.operators.windowing.count_assigners import count_windows
from millstream.types.row import Row
from millstream.types.typeinfo import TypeInformation

if TYPE_CHECKING:
    from millstream.common.batch_functions import KeyedBatchFunction
    from millstream.datastream.streams.interval_join import IntervalJoin
    from millstream.operators.columnar.aggregates import Aggregate

__all__ = ["KeyedStream"]


class KeyedStream(DataStream[T], Generic[T, KEY]):
    """A stream dealt by key; its operators have state for each key.

    Example:
        >>> from millstream.testing import OperatorHarness
        >>> def add(one, other):
        ...     return one[0], one[1] + other[1]
        >>> harness = OperatorHarness(lambda sales: sales.key_by(lambda sale: sale[0]).reduce(add))
        >>> harness.push(("tea", 3)); harness.push(("cake", 5)); harness.push(("tea", 3))
        >>> harness.take()
        [('tea', 3), ('cake', 5), ('tea', 6)]
    """

    class AccumulateType(Enum):
        """Kinds of rolling aggregates."""

        MIN = 1
        MAX = 2
        MIN_BY = 3
        MAX_BY = 4
        SUM = 5

    def __init__(
        self, stream: DataStream[T], key_selector: Callable[[T], KEY], key_type: TypeInformation | None
    ) -> None:
        super().__init__(stream._environment, stream._ports, stream._type_info)
        self._key_selector = key_selector
        self._key_type = key_type

    def map(
        self, func: MapFunction[T, R] | Callable[[T], R], output_type: TypeInformation | None = None
    ) -> DataStream[R]:
        """Make one record of each; a MapFunction may use keyed state."""
        if isinstance(func, MapFunction):
            return self._process("Map", as_keyed_process(func), output_type)
        return super().map(func, output_type)

    def flat_map(
        self,
        func: FlatMapFunction[T, R] | Callable[[T], Iterable[R] | None],
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]:
        """Make any number of records of each; a FlatMapFunction may use keyed state."""
        if isinstance(func, FlatMapFunction):
            return self._process("Flat Map", as_keyed_process(func), output_type)
        return super().flat_map(func, output_type)

    def filter(self, func: FilterFunction[T] | Callable[[T], Any]) -> DataStream[T]:
        """Keep the records that `func` is true for; a FilterFunction may use keyed state."""
        if isinstance(func, FilterFunction):
            return self._process("Filter", as_keyed_process(func), self._type_info)
        return super().filter(func)

    def process(  # type: ignore[override]
        self, func: KeyedProcessFunction[T, R, KEY], output_type: TypeInformation | None = None
    ) -> DataStream[R]:
        """Process each record with access to its key's state, time, timers and side outputs.

        Raises:
            TypeMismatchError: If `func` is not a KeyedProcessFunction.
        """
        if not isinstance(func, KeyedProcessFunction):
            raise TypeMismatchError(
                f"process was given a {type(func).__name__}, not a KeyedProcessFunction",
                hint="On a keyed stream, derive the function from KeyedProcessFunction.",
            )
        return self._process("KeyedProcess", func, output_type)

    def reduce(self, func: ReduceFunction[T] | Callable[[T, T], T]) -> DataStream[T]:
        """Combine the records of each key one by one; every record gives the result so far.

        Raises:
            TypeMismatchError: If `func` is neither a ReduceFunction nor a callable.
        """
        as_reduce(func)
        return self._transform("Keyed Reduce", ReduceSpec(func, self._key_selector), self._type_info)

    def aggregate(self, **aggregates: Aggregate) -> DataStream[Any]:
        """Compute aggregates of the records of each key, on whole columns; PyFlink has none.

        Each batch gives one row for each key in it: the key fields, and what the key's records have come to so far,
        with the timestamp of the key's last record. In batch mode each key gives one row, at the end.

        Args:
            aggregates: What is computed, by the name of the result: `total=sum_("price")`
                (`millstream.datastream.expressions`).

        Raises:
            ConfigurationError: If the stream is not keyed by names of fields, or pyarrow is not installed.
            TypeMismatchError: If an argument is no aggregate.
        """
        from millstream.datastream.streams.columns import aggregate_keys

        return aggregate_keys(self, aggregates)

    def process_batches(self, func: KeyedBatchFunction, *, timestamp: str | None = None) -> DataStream[Any]:
        """Process the rows of each batch with keyed state, one call for each key group; PyFlink has none.

        Args:
            func: The function.
            timestamp: As for `map_batches`.

        Raises:
            ConfigurationError: If the stream is not keyed by names of fields, or pyarrow is not installed.
            TypeMismatchError: If it is not a KeyedBatchFunction.
        """
        from millstream.datastream.streams.columns import process_batches

        return process_batches(self, func, timestamp)

    def sum(self, position_to_sum: int | str = 0) -> DataStream[T]:
        """Add up a field of the records of each key; other fields stay those of the first record."""
        return self._aggregate(Aggregation.SUM, position_to_sum)

    def min(self, position_to_min: int | str = 0) -> DataStream[T]:
        """Keep the least value of a field for each key; other fields stay those of the first record."""
        return self._aggregate(Aggregation.MIN, position_to_min)

    def max(self, position_to_max: int | str = 0) -> DataStream[T]:
        """Keep the greatest value of a field for each key; other fields stay those of the first record."""
        return self._aggregate(Aggregation.MAX, position_to_max)

    def min_by(self, position_to_min_by: int | str = 0) -> DataStream[T]:
        """Keep the record with the least value of a field for each key, the earlier one on ties."""
        return self._aggregate(Aggregation.MIN_BY, position_to_min_by)

    def max_by(self, position_to_max_by: int | str = 0) -> DataStream[T]:
        """Keep the record with the greatest value of a field for each key, the earlier one on ties."""
        return self._aggregate(Aggregation.MAX_BY, position_to_max_by)

    def window(self, window_assigner: WindowAssigner) -> WindowedStream[T, KEY]:
        """Cut each key's records into windows."""
        return WindowedStream(self, window_assigner)

    def count_window(self, size: int, slide: int = 0) -> WindowedStream[T, KEY]:
        """Cut each key's records into windows of `size` records, a new one every `slide`; full ones fire.

        Args:
            size: Records in a window.
            slide: Records from start to start; 0 for windows side by side.

        Raises:
            ConfigurationError: If a number is not positive.
        """
        return WindowedStream(self, count_windows(size, slide))

    def interval_join(self, other_stream: KeyedStream[R, KEY]) -> IntervalJoin[T, R]:
        """Join with another keyed stream by time: `a.interval_join(b).between(lower, upper).process(f)`.

        Raises:
            TypeMismatchError: If it is no keyed stream.
            JobDefinitionError: If it belongs to another environment.
        """
        from millstream.datastream.streams.interval_join import IntervalJoin

        return IntervalJoin(self, other_stream)

    def execute_and_collect(self, job_execution_name: str | None = None, limit: int | None = None) -> Any:
        """Run the program and bring this stream's records here, each as `Row(f0=key, f1=record)`, as PyFlink does.

        Args:
            job_execution_name: Name of the job.
            limit: Stop after so many records.

        Returns:
            An iterator over the rows as they come, to be closed; with a limit, a list.
        """
        ports = tuple(replace(port, partitioning=None) for port in self._ports)
        selector = self._key_selector
        rows = DataStream(self._environment, ports, self._type_info).map(
            lambda value: Row(f0=selector(value), f1=value)
        )
        if len(ports) == 1:  # in the order in which the records come
            rows._transformation.be_as_parallel_as(ports[0].source)
        return rows.execute_and_collect(job_execution_name, limit)

    def _repartition(self, partitioning: Partitioning) -> DataStream:
        raise JobDefinitionError(
            f"a keyed stream was to be dealt by {type(partitioning).__name__.lower()}",
            detail="Its records are where their keys belong; PyFlink does not override that either.",
            hint="Call it on the stream before key_by(...), or behind the keyed operator.",
        )

    def _process(
        self, name: str, func: KeyedProcessFunction, output_type: TypeInformation | None
    ) -> DataStream:
        return self._transform(name, KeyedProcessSpec(func, self._key_selector, output_type), output_type)

    def _aggregate(self, aggregation: Aggregation, position: int | str) -> DataStream[T]:
        function = RollingAggregate(aggregation, position)
        return self._transform("Keyed Aggregation", ReduceSpec(function, self._key_selector), self._type_info)
