"""Keyed streams cut into windows (PyFlink's `WindowedStream`), and what they share with those without keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from millstream.base.errors import ConfigurationError, TypeMismatchError
from millstream.base.missing import explain_missing
from millstream.base.type_variables import KEY, R, S, T
from millstream.common.functions import (
    AggregateFunction,
    Function,
    ProcessWindowFunction,
    ReduceFunction,
    WindowFunction,
)
from millstream.common.output_tag import OutputTag
from millstream.datastream.streams.missing import OF_WINDOWS, TO_RESULTS
from millstream.operators.reduce import Aggregation, RollingAggregate
from millstream.operators.windowing.assigner import WindowAssigner, check_assigner
from millstream.operators.windowing.evictors import Evictor, check_evictor
from millstream.operators.windowing.spec import (
    AggregateWindow,
    ApplyWindow,
    ProcessWindow,
    ReduceWindow,
    WindowFunctionSpec,
    WindowSpec,
    check_mergeable,
)
from millstream.operators.windowing.trigger import Trigger, check_trigger
from millstream.types.typeinfo import TypeInformation

if TYPE_CHECKING:
    from millstream.datastream.streams.data_stream import DataStream
    from millstream.datastream.streams.keyed_stream import KeyedStream
    from millstream.operators.columnar.aggregates import Aggregate

__all__ = ["BaseWindowedStream", "WindowedStream"]

Windowed = TypeVar("Windowed", bound="BaseWindowedStream[Any, Any]")


class BaseWindowedStream(Generic[T, KEY]):
    """Records of a keyed stream in windows, whatever window functions they are given to.

    The setters change the stream and return it, as in Flink.

    Args:
        keyed_stream: The stream.
        window_assigner: Says which windows a record belongs to.

    Raises:
        TypeMismatchError: If it is not a WindowAssigner.
    """

    _kind = "Window"
    _window_function_kinds: tuple[type[Function], ...] = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._keyed_stream!r}, {type(self._window_assigner).__name__})"

    if not TYPE_CHECKING:  # to checkers, what is not there is not there

        def __getattr__(self, name: str) -> Any:
            from millstream.datastream.streams.data_stream import DataStream

            before = "reduce(...), aggregate(...), apply(...) or process(...)"
            return explain_missing(
                self,
                name,
                what="the windowed stream",
                hints=OF_WINDOWS,
                elsewhere=[(DataStream, TO_RESULTS.format(before=before))],
            )

    def __init__(self, keyed_stream: KeyedStream[T, KEY], window_assigner: WindowAssigner) -> None:
        check_assigner("window()", window_assigner)
        self._keyed_stream = keyed_stream
        self._window_assigner = window_assigner
        self._allowed_lateness_ms = 0
        self._late_tag: OutputTag | None = None
        self._trigger: Trigger | None = None
        self._evictor: Evictor | None = None

    def get_execution_environment(self) -> Any:
        """Return the environment the stream belongs to."""
        return self._keyed_stream.get_execution_environment()

    def get_input_type(self) -> Any:
        """Return the type of the stream's records."""
        return self._keyed_stream.get_type()

    def trigger(self: Windowed, trigger: Trigger) -> Windowed:
        """Set when windows fire; without it, the assigner's default trigger says so.

        Raises:
            TypeMismatchError: If it is not a Trigger, or cannot be used with windows that merge.
        """
        check_trigger("trigger()", trigger)
        check_mergeable(self._window_assigner, trigger)
        self._trigger = trigger
        return self

    def evictor(self: Windowed, evictor: Evictor) -> Windowed:
        """Set which records are taken out of windows that fire (Java Flink's); windows then keep all records.

        Raises:
            TypeMismatchError: If it is not an Evictor.
        """
        check_evictor("evictor()", evictor)
        self._evictor = evictor
        return self

    def allowed_lateness(self: Windowed, time_ms: int) -> Windowed:
        """Keep event-time windows for `time_ms` after their end: records that come till then reach them.

        Raises:
            ConfigurationError: If the time is negative.
        """
        if time_ms < 0:
            raise ConfigurationError(f"the allowed lateness of a window is {time_ms} ms")
        self._allowed_lateness_ms = time_ms
        return self

    def side_output_late_data(self: Windowed, output_tag: OutputTag) -> Windowed:
        """Send records that are too late for their windows to a side output; otherwise they are dropped.

        Raises:
            TypeMismatchError: If it is not an OutputTag.
        """
        if not isinstance(output_tag, OutputTag):
            raise TypeMismatchError(
                f"side_output_late_data was given a {type(output_tag).__name__}, not an OutputTag"
            )
        self._late_tag = output_tag
        return self

    def sum(self, position_to_sum: int | str = 0) -> DataStream[T]:
        """Add up a field of each window's records; other fields are those of the first (Java Flink's)."""
        return self._reduce_by(Aggregation.SUM, position_to_sum)

    def min(self, position_to_min: int | str = 0) -> DataStream[T]:
        """Give each window's least value of a field; other fields are those of the first (Java Flink's)."""
        return self._reduce_by(Aggregation.MIN, position_to_min)

    def max(self, position_to_max: int | str = 0) -> DataStream[T]:
        """Give each window's greatest value of a field; other fields are those of the first (Java Flink's)."""
        return self._reduce_by(Aggregation.MAX, position_to_max)

    def min_by(self, position_to_min_by: int | str = 0) -> DataStream[T]:
        """Give each window's record with the least value of a field, the earlier on ties (Java Flink's)."""
        return self._reduce_by(Aggregation.MIN_BY, position_to_min_by)

    def max_by(self, position_to_max_by: int | str = 0) -> DataStream[T]:
        """Give each window's record with the greatest value of a field, the earlier on ties (Java Flink's)."""
        return self._reduce_by(Aggregation.MAX_BY, position_to_max_by)

    def _reduce_by(self, aggregation: Aggregation, position: int | str) -> DataStream:
        function = ReduceWindow(RollingAggregate(aggregation, position))
        return self._apply_spec(function, self.get_input_type(), aggregation.value)

    def _reduce(
        self,
        reduce_function: ReduceFunction | Callable[[Any, Any], Any],
        window_function: Any,
        output_type: TypeInformation | None,
    ) -> DataStream:
        if not isinstance(reduce_function, ReduceFunction) and not callable(reduce_function):
            raise _wrong_function("reduce_function", reduce_function, "a ReduceFunction or a callable")
        self._check_window_function(window_function)
        if window_function is None and output_type is None:
            output_type = self.get_input_type()
        names = _names(reduce_function, window_function)
        return self._apply_spec(ReduceWindow(reduce_function, window_function), output_type, names)

    def _aggregate(
        self,
        aggregate_function: AggregateFunction | None,
        window_function: Any,
        output_type: TypeInformation | None,
    ) -> DataStream:
        if aggregate_function is None:
            raise TypeMismatchError(
                "aggregate was given nothing to compute",
                hint="Give it an AggregateFunction, or aggregates by expression: aggregate(n=count()).",
            )
        if not isinstance(aggregate_function, AggregateFunction):
            raise _wrong_function("aggregate_function", aggregate_function, "an AggregateFunction")
        self._check_window_function(window_function)
        names = _names(aggregate_function, window_function)
        return self._apply_spec(AggregateWindow(aggregate_function, window_function), output_type, names)

    def _aggregate_columns(
        self, function: Any, aggregates: dict[str, Aggregate], *, of_each_key: bool
    ) -> DataStream:
        if function is not None:
            raise TypeMismatchError(
                "aggregate was given a function and aggregates by expression",
                detail="It takes one or the other.",
            )
        from millstream.datastream.streams.columns import aggregate_windows

        return aggregate_windows(self, aggregates, of_each_key=of_each_key)

    def _call(
        self,
        argument: str,
        function: Any,
        spec: type[ApplyWindow] | type[ProcessWindow],
        output_type: TypeInformation | None,
    ) -> DataStream:
        """Give all records of each window to a function."""
        wanted = self._window_function_kinds[0 if spec is ApplyWindow else 1]
        if not isinstance(function, wanted):
            raise _wrong_function(argument, function, f"a {wanted.__name__}")
        declared: Any = function
        return self._apply_spec(spec(declared), output_type, _names(function))

    def _check_window_function(self, function: object) -> None:
        if function is not None and not isinstance(function, self._window_function_kinds):
            wanted = " or a ".join(kind.__name__ for kind in self._window_function_kinds)
            raise _wrong_function("window_function", function, f"a {wanted}")

    def _apply_spec(
        self, function: WindowFunctionSpec, output_type: TypeInformation | None, names: str
    ) -> DataStream:
        assigner = self._window_assigner
        trigger = self._trigger or assigner.get_default_trigger(self.get_execution_environment())
        spec = WindowSpec(
            key_selector=self._keyed_stream._key_selector,
            assigner=assigner,
            function=function,
            allowed_lateness_ms=self._allowed_lateness_ms,
            late_tag_id=None if self._late_tag is None else self._late_tag.tag_id,
            output_type=output_type,
            trigger=trigger,
            evictor=self._evictor,
        )
        stream = self._keyed_stream._transform(type(assigner).__name__, spec, output_type)
        return stream.set_description(f"{self._kind}({assigner!r}, {type(trigger).__name__}, {names})")


class WindowedStream(BaseWindowedStream[T, KEY], Generic[T, KEY]):
    """Records of a keyed stream in windows; `KeyedStream.window` makes it.

    Example:
        >>> from millstream.common import Time
        >>> from millstream.datastream.window import TumblingEventTimeWindows
        >>> from millstream.testing import OperatorHarness
        >>> def most_per_minute(readings):
        ...     minutes = readings.key_by(lambda r: r[0]).window(TumblingEventTimeWindows.of(Time.minutes(1)))
        ...     return minutes.allowed_lateness(30_000).reduce(lambda one, other: max(one, other))
        >>> harness = OperatorHarness(most_per_minute)
        >>> harness.push(("door", 20), timestamp=1_000); harness.push(("door", 22), timestamp=50_000)
        >>> harness.push_watermark(60_000)
        >>> harness.push(("door", 25), timestamp=55_000)  # late, but allowed
        >>> harness.take()
        [('door', 22), ('door', 25)]
    """

    _window_function_kinds = (WindowFunction, ProcessWindowFunction)

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
        window_function: WindowFunction[T, R, KEY, Any] | ProcessWindowFunction[T, R, KEY, Any],
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]: ...

    def reduce(
        self,
        reduce_function: ReduceFunction[T] | Callable[[T, T], T],
        window_function: WindowFunction[T, R, KEY, Any] | ProcessWindowFunction[T, R, KEY, Any] | None = None,
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
        window_function: WindowFunction[S, R, KEY, Any] | ProcessWindowFunction[S, R, KEY, Any],
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

        Sliding windows fold by slices if the function's `merge` is written.

        Aggregates by expression, `aggregate(total=sum_("price"), n=count())`, are computed on whole columns: one row
        for each key and window with the key fields, `window_start` and `window_end`, epoch milliseconds (of count
        windows `window_id`), and the results. PyFlink has none.

        Args:
            aggregate_function: Folds.
            window_function: Makes results of the one result.
            accumulator_type: Accepted for compatibility; accumulators are kept as they are.
            output_type: Type of the results.
            aggregates: Instead of all these: what is computed, by the name of the result
                (`millstream.datastream.expressions`).

        Raises:
            TypeMismatchError: If a function is not of these kinds, or an argument no aggregate.
            ConfigurationError: If the stream is not keyed by names of fields, or pyarrow is not installed.
            NotSupportedError: If there are no such aggregates for these windows.
        """
        if aggregates:
            return self._aggregate_columns(aggregate_function, aggregates, of_each_key=True)
        return self._aggregate(aggregate_function, window_function, output_type)

    def apply(
        self, window_function: WindowFunction[T, R, KEY, Any], output_type: TypeInformation | None = None
    ) -> DataStream[R]:
        """Make results of all records of each window; they are kept until it is cleaned up.

        Raises:
            TypeMismatchError: If it is no WindowFunction.
        """
        return self._call("window_function", window_function, ApplyWindow, output_type)

    def process(
        self,
        process_window_function: ProcessWindowFunction[T, R, KEY, Any],
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]:
        """Make results of all records of each window, with access to time, state and side outputs.

        Raises:
            TypeMismatchError: If it is no ProcessWindowFunction.
        """
        return self._call("process_window_function", process_window_function, ProcessWindow, output_type)


def _names(*functions: object) -> str:
    return ", ".join(type(function).__name__ for function in functions if function is not None)


def _wrong_function(argument: str, seen: object, expected: str) -> TypeMismatchError:
    if isinstance(seen, type):
        return TypeMismatchError(
            f"{argument} is the class {seen.__name__}",
            detail=f"It has to be {expected}.",
            hint=f"Give it an instance: {seen.__name__}(...).",
        )
    return TypeMismatchError(f"{argument} is a {type(seen).__name__}", detail=f"It has to be {expected}.")
