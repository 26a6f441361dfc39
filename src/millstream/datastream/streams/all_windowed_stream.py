"""Streams without keys cut into windows (PyFlink's `AllWindowedStream`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, overload

from millstream.base.type_variables import R, S, T
from millstream.common.functions import (
    AggregateFunction,
    AllWindowFunction,
    ProcessAllWindowFunction,
    ReduceFunction,
)
from millstream.datastream.streams.keyed_stream import KeyedStream
from millstream.datastream.streams.windowed_stream import BaseWindowedStream
from millstream.operators.partitioners import Global
from millstream.operators.windowing.assigner import WindowAssigner
from millstream.operators.windowing.spec import ApplyWindow, ProcessWindow, WindowFunctionSpec
from millstream.types.typeinfo import TypeInformation

if TYPE_CHECKING:
    from millstream.datastream.streams.data_stream import DataStream
    from millstream.operators.columnar.aggregates import Aggregate

__all__ = ["AllWindowedStream"]


class AllWindowedStream(BaseWindowedStream[T, int], Generic[T]):
    """All records of a stream in windows, whatever their keys; `DataStream.window_all` makes it.

    One subtask gets all records: the operator's parallelism is 1.

    Args:
        data_stream: The stream.
        window_assigner: Says which windows a record belongs to.

    Raises:
        TypeMismatchError: If it is not a WindowAssigner.

    Example:
        >>> from millstream.datastream.window import TumblingEventTimeWindows
        >>> from millstream.common import Time
        >>> from millstream.testing import OperatorHarness
        >>> windows = TumblingEventTimeWindows.of(Time.seconds(10))
        >>> harness = OperatorHarness(lambda numbers: numbers.window_all(windows).reduce(max))
        >>> for number, time in (3, 1_000), (8, 2_000), (5, 12_000):
        ...     harness.push(number, timestamp=time)
        >>> harness.push_watermark(10_000)
        >>> harness.take()
        [8]
    """

    _kind = "AllWindow"
    _window_function_kinds = (AllWindowFunction, ProcessAllWindowFunction)

    def __init__(self, data_stream: DataStream[T], window_assigner: WindowAssigner) -> None:
        keyed = KeyedStream(data_stream._partition(Global()), _no_key, None)
        super().__init__(keyed, window_assigner)

    @overload
    def reduce(
        self,
        reduce_function: ReduceFunction[T] | Callable[[T, T], T],
        window_function: None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream[T]: ...

    @overload
    def reduce(
        self,
        reduce_function: ReduceFunction[T] | Callable[[T, T], T],
        window_function: AllWindowFunction[T, R, Any] | ProcessAllWindowFunction[T, R, Any],
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]: ...

    def reduce(
        self,
        reduce_function: ReduceFunction[T] | Callable[[T, T], T],
        window_function: AllWindowFunction[T, R, Any] | ProcessAllWindowFunction[T, R, Any] | None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream[T] | DataStream[R]:
        """Reduce the records of each window to one, as they arrive.

        Args:
            reduce_function: Combines two records into one of the same type; has to be associative.
            window_function: Makes results of the one record.
            output_type: Type of the results.

        Raises:
            TypeMismatchError: If a function is not of these kinds.
        """
        return self._reduce(reduce_function, window_function, output_type)

    @overload
    def aggregate(
        self,
        aggregate_function: AggregateFunction[T, Any, R],
        window_function: None = None,
        accumulator_type: TypeInformation | None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]: ...

    @overload
    def aggregate(
        self,
        aggregate_function: AggregateFunction[T, Any, S],
        window_function: AllWindowFunction[S, R, Any] | ProcessAllWindowFunction[S, R, Any],
        accumulator_type: TypeInformation | None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]: ...

    @overload
    def aggregate(self, **aggregates: Aggregate) -> DataStream[Any]: ...

    def aggregate(
        self,
        aggregate_function: Any = None,
        window_function: Any = None,
        accumulator_type: Any = None,
        output_type: Any = None,
        **aggregates: Any,
    ) -> DataStream[Any]:
        """Fold the records of each window into an accumulator, as they arrive.

        Aggregates by expression, `aggregate(total=sum_("price"), n=count())`, are computed on whole columns: one row
        for each window with `window_start` and `window_end`, epoch milliseconds (of count windows `window_id`), and the
        results. PyFlink has none.

        Args:
            aggregate_function: Folds.
            window_function: Makes results of the one result.
            accumulator_type: Accepted for compatibility; accumulators are kept as they are.
            output_type: Type of the results.
            aggregates: Instead of all these: what is computed, by the name of the result
                (`millstream.datastream.expressions`).

        Raises:
            TypeMismatchError: If a function is not of these kinds, or an argument no aggregate.
            ConfigurationError: If pyarrow is not installed.
            NotSupportedError: If there are no such aggregates for these windows.
        """
        if aggregates:
            stream = self._aggregate_columns(aggregate_function, aggregates, of_each_key=False)
            return stream.force_non_parallel()
        return self._aggregate(aggregate_function, window_function, output_type)

    def apply(
        self, window_function: AllWindowFunction[T, R, Any], output_type: TypeInformation | None = None
    ) -> DataStream[R]:
        """Make results of all records of each window; they are kept until it is cleaned up.

        Raises:
            TypeMismatchError: If it is no AllWindowFunction.
        """
        return self._call("window_function", window_function, ApplyWindow, output_type)

    def process(
        self,
        process_window_function: ProcessAllWindowFunction[T, R, Any],
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]:
        """Make results of all records of each window, with access to state and side outputs.

        Raises:
            TypeMismatchError: If it is no ProcessAllWindowFunction.
        """
        return self._call("process_window_function", process_window_function, ProcessWindow, output_type)

    def _apply_spec(
        self, function: WindowFunctionSpec, output_type: TypeInformation | None, names: str
    ) -> DataStream:
        return super()._apply_spec(function, output_type, names).force_non_parallel()


def _no_key(value: Any) -> int:
    """Give all records the same key."""
    return 0
