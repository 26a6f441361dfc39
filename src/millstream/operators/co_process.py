"""Two streams, one function: `map`, `flat_map` and `process` of connected streams.

The records of both inputs come in the order of the channel merger: by watermark, and where watermarks are
equal the first input before the second. Watermarks are the minimum over both inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from millstream.common.co_functions import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
)
from millstream.common.functions import RuntimeContext
from millstream.operators.base import BatchHandler, Operator, OperatorSpec
from millstream.operators.calls import Emission, Process, call_each, emit_produced
from millstream.operators.functions_adapter import open_function
from millstream.operators.keyed_function import KeyedFunctionOperator
from millstream.operators.runtime_context import OperatorRuntimeContext
from millstream.operators.timer_service import NoTimers, ProcessContext
from millstream.spi.batch import Rows
from millstream.types.typeinfo import TypeInformation

__all__ = ["CoProcessSpec", "KeyedCoProcessSpec", "as_co_process"]


@dataclass(frozen=True)
class CoProcessSpec(OperatorSpec):
    """Declares a function of two streams of which at least one has no keys."""

    function: CoProcessFunction
    output_type: TypeInformation | None = None

    def build(self) -> Operator:
        """Make the running half."""
        return CoProcessOperator(self.function, self.output_type)


@dataclass(frozen=True)
class KeyedCoProcessSpec(OperatorSpec):
    """Declares a function of two keyed streams; state and timers of a key are shared by both.

    Attributes:
        function: The function.
        key_selector1: Gives the key of a record of the first stream.
        key_selector2: Gives the key of a record of the second stream.
        output_type: Type to check results against; None leaves them unchecked.
    """

    function: KeyedCoProcessFunction | CoProcessFunction
    key_selector1: Callable[[Any], Any]
    key_selector2: Callable[[Any], Any]
    output_type: TypeInformation | None = None
    is_keyed = True

    def build(self) -> Operator:
        """Make the running half."""
        return KeyedCoProcessOperator(self)


class CoProcessOperator(Operator):
    """Runs a function of two streams without keys."""

    def __init__(self, function: CoProcessFunction, output_type: TypeInformation | None) -> None:
        self._function = function
        self._output_type = output_type

    def open(self) -> None:
        """Open the function."""
        self._context = ProcessContext(NoTimers(self))
        open_function(self._function, OperatorRuntimeContext(self.context))

    def batch_handlers(self) -> list[BatchHandler]:
        """Return the handlers of the first and the second stream."""
        return [self.process, self.process_second]

    def process(self, batch: Rows) -> None:
        """Call the function for each record of the first stream."""
        values, timestamps = batch.values, batch.timestamps
        self._call(self._function.process_element1, values, timestamps)

    def process_second(self, batch: Rows) -> None:
        """Call the function for each record of the second stream."""
        values, timestamps = batch.values, batch.timestamps
        self._call(self._function.process_element2, values, timestamps)

    def _call(self, process: Process, values: list[Any], timestamps: list[int] | None) -> None:
        emission = Emission(self, self._output_type)
        produced = call_each(process, self._context, values, timestamps, emission)
        emit_produced(self, produced, self._output_type)

    def close(self) -> None:
        """Close the function."""
        self._function.close()


class KeyedCoProcessOperator(KeyedFunctionOperator):
    """Runs a function of two keyed streams."""

    def __init__(self, spec: KeyedCoProcessSpec) -> None:
        super().__init__(spec.function, spec.output_type)
        self._key_selector1 = spec.key_selector1
        self._key_selector2 = spec.key_selector2

    def batch_handlers(self) -> list[BatchHandler]:
        """Return the handlers of the first and the second stream."""
        return [self.process, self.process_second]

    def process(self, batch: Rows) -> None:
        """Call the function for each record of the first stream under its key."""
        values, timestamps = batch.values, batch.timestamps
        self._call_keyed(self._function.process_element1, self._key_selector1, values, timestamps)

    def process_second(self, batch: Rows) -> None:
        """Call the function for each record of the second stream under its key."""
        values, timestamps = batch.values, batch.timestamps
        self._call_keyed(self._function.process_element2, self._key_selector2, values, timestamps)


def as_co_process(function: CoMapFunction | CoFlatMapFunction) -> CoProcessFunction:
    """Return a function of two streams as a process function, so that it has keyed state on keyed streams."""
    return _CoMap(function) if isinstance(function, CoMapFunction) else _CoFlatMap(function)


class _Adapter(CoProcessFunction):
    def __init__(self, function: Any) -> None:
        self._function = function

    def open(self, runtime_context: RuntimeContext) -> None:
        open_function(self._function, runtime_context)

    def close(self) -> None:
        self._function.close()


class _CoMap(_Adapter):
    def process_element1(self, value: Any, ctx: CoProcessFunction.Context) -> Iterable[Any] | None:
        result = self._function.map1(value)
        return None if result is None else (result,)

    def process_element2(self, value: Any, ctx: CoProcessFunction.Context) -> Iterable[Any] | None:
        result = self._function.map2(value)
        return None if result is None else (result,)


class _CoFlatMap(_Adapter):
    def process_element1(self, value: Any, ctx: CoProcessFunction.Context) -> Iterable[Any] | None:
        produced: Iterable[Any] | None = self._function.flat_map1(value)
        return produced

    def process_element2(self, value: Any, ctx: CoProcessFunction.Context) -> Iterable[Any] | None:
        produced: Iterable[Any] | None = self._function.flat_map2(value)
        return produced
