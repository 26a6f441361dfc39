"""Keyed streams cut into windows (PyFlink's `WindowedStream`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from millstream.common.errors import ConfigurationError, NotSupportedError, TypeMismatchError
from millstream.common.functions import (
    AggregateFunction,
    ProcessWindowFunction,
    ReduceFunction,
    WindowFunction,
)
from millstream.common.output_tag import OutputTag
from millstream.common.typeinfo import TypeInformation
from millstream.operators.windowing.assigners import WindowAssigner
from millstream.operators.windowing.spec import (
    AggregateWindow,
    ApplyWindow,
    ProcessWindow,
    ReduceWindow,
    WindowFunctionSpec,
    WindowSpec,
    check_supported,
)
from millstream.operators.windowing.triggers import EventTimeTrigger, Trigger

if TYPE_CHECKING:
    from millstream.datastream.streams.data_stream import DataStream
    from millstream.datastream.streams.keyed_stream import KeyedStream

__all__ = ["WindowedStream"]


class WindowedStream:
    """Records of a keyed stream in windows; `KeyedStream.window` makes it.

    Args:
        keyed_stream: The stream.
        window_assigner: Says which windows a record belongs to.

    Raises:
        NotSupportedError: If such windows are not supported yet.
    """

    def __init__(self, keyed_stream: KeyedStream, window_assigner: WindowAssigner) -> None:
        check_supported(window_assigner)
        self._keyed_stream = keyed_stream
        self._window_assigner = window_assigner
        self._allowed_lateness_ms = 0
        self._late_tag: OutputTag | None = None

    def get_execution_environment(self) -> Any:
        """Return the environment the stream belongs to."""
        return self._keyed_stream.get_execution_environment()

    def get_input_type(self) -> Any:
        """Return the type of the stream's records."""
        return self._keyed_stream.get_type()

    def trigger(self, trigger: Trigger) -> WindowedStream:
        """Set when windows fire.

        Raises:
            NotSupportedError: If it is not an `EventTimeTrigger`.
        """
        if type(trigger) is not EventTimeTrigger:
            raise NotSupportedError(
                f"the trigger {type(trigger).__name__} is not supported yet",
                detail="Windows fire when the watermark reaches their end, and again for each late record.",
                hint="Leave trigger(...) out, or use EventTimeTrigger.",
            )
        return self

    def allowed_lateness(self, time_ms: int) -> WindowedStream:
        """Keep windows for `time_ms` after their end: records that come till then fire them again.

        Raises:
            ConfigurationError: If the time is negative.
        """
        if time_ms < 0:
            raise ConfigurationError(f"the allowed lateness of a window is {time_ms} ms")
        self._allowed_lateness_ms = time_ms
        return self

    def side_output_late_data(self, output_tag: OutputTag) -> WindowedStream:
        """Send records that are too late for their windows to a side output; otherwise they are dropped."""
        self._late_tag = output_tag
        return self

    def reduce(
        self,
        reduce_function: ReduceFunction | Callable[[Any, Any], Any],
        window_function: WindowFunction | ProcessWindowFunction | None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Reduce the records of each window to one, as they arrive.

        Sliding windows reduce by slices and combine those in order of time, so the function has to be
        associative.

        Args:
            reduce_function: Combines two records into one of the same type.
            window_function: Makes results of the one record.
            output_type: Type of the results.

        Raises:
            TypeMismatchError: If a function is not of these kinds.
        """
        if not isinstance(reduce_function, ReduceFunction) and not callable(reduce_function):
            raise _wrong_function("reduce_function", reduce_function, "a ReduceFunction or a callable")
        _check_window_function(window_function)
        if window_function is None and output_type is None:
            output_type = self.get_input_type()
        return self._apply_spec(ReduceWindow(reduce_function, window_function), output_type)

    def aggregate(
        self,
        aggregate_function: AggregateFunction,
        window_function: WindowFunction | ProcessWindowFunction | None = None,
        accumulator_type: TypeInformation | None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Fold the records of each window into an accumulator, as they arrive.

        Sliding windows fold by slices if the function's `merge` is written.

        Args:
            aggregate_function: Folds.
            window_function: Makes results of the one result.
            accumulator_type: Accepted for compatibility; accumulators are kept as they are.
            output_type: Type of the results.

        Raises:
            TypeMismatchError: If a function is not of these kinds.
        """
        if not isinstance(aggregate_function, AggregateFunction):
            raise _wrong_function("aggregate_function", aggregate_function, "an AggregateFunction")
        _check_window_function(window_function)
        return self._apply_spec(AggregateWindow(aggregate_function, window_function), output_type)

    def apply(
        self, window_function: WindowFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Make results of all records of each window; they are kept until it is cleaned up.

        Raises:
            TypeMismatchError: If it is no WindowFunction.
        """
        if not isinstance(window_function, WindowFunction):
            raise _wrong_function("window_function", window_function, "a WindowFunction")
        return self._apply_spec(ApplyWindow(window_function), output_type)

    def process(
        self, process_window_function: ProcessWindowFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Make results of all records of each window, with access to time, state and side outputs.

        Raises:
            TypeMismatchError: If it is no ProcessWindowFunction.
        """
        if not isinstance(process_window_function, ProcessWindowFunction):
            raise _wrong_function(
                "process_window_function", process_window_function, "a ProcessWindowFunction"
            )
        return self._apply_spec(ProcessWindow(process_window_function), output_type)

    def _apply_spec(self, function: WindowFunctionSpec, output_type: TypeInformation | None) -> DataStream:
        spec = WindowSpec(
            key_selector=self._keyed_stream._key_selector,
            assigner=self._window_assigner,
            function=function,
            allowed_lateness_ms=self._allowed_lateness_ms,
            late_tag_id=None if self._late_tag is None else self._late_tag.tag_id,
            output_type=output_type,
        )
        return self._keyed_stream._transform(type(self._window_assigner).__name__, spec, output_type)


def _check_window_function(function: object) -> None:
    if function is not None and not isinstance(function, WindowFunction | ProcessWindowFunction):
        raise _wrong_function("window_function", function, "a WindowFunction or a ProcessWindowFunction")


def _wrong_function(argument: str, seen: object, expected: str) -> TypeMismatchError:
    return TypeMismatchError(f"{argument} is a {type(seen).__name__}", detail=f"It has to be {expected}.")
