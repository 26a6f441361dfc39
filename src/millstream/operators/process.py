"""Process functions: any logic for each record; on keyed streams with state and timers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from millstream.common.functions import KeyedProcessFunction, ProcessFunction
from millstream.operators.base import Operator, OperatorSpec
from millstream.operators.calls import Emission, call_each, emit_produced
from millstream.operators.functions_adapter import open_function
from millstream.operators.keyed_function import KeyedFunctionOperator
from millstream.operators.runtime_context import OperatorRuntimeContext
from millstream.operators.timer_service import NoTimers, ProcessContext
from millstream.spi.batch import Rows
from millstream.types.typeinfo import TypeInformation

__all__ = ["KeyedProcessSpec", "ProcessSpec"]


@dataclass(frozen=True)
class ProcessSpec(OperatorSpec):
    """Declares a ProcessFunction on a stream without keys."""

    function: ProcessFunction
    output_type: TypeInformation | None = None

    def build(self) -> Operator:
        """Make the running half."""
        return ProcessOperator(self.function, self.output_type)


@dataclass(frozen=True)
class KeyedProcessSpec(OperatorSpec):
    """Declares a KeyedProcessFunction."""

    function: KeyedProcessFunction
    key_selector: Callable[[Any], Any]
    output_type: TypeInformation | None = None
    is_keyed = True

    @property
    def acts_on_time(self) -> bool:  # type: ignore[override]
        """Whether the function has anything to do when a timer fires."""
        return getattr(self.function.on_timer, "__func__", None) is not KeyedProcessFunction.on_timer

    def build(self) -> Operator:
        """Make the running half."""
        return KeyedProcessOperator(self.function, self.key_selector, self.output_type)


class ProcessOperator(Operator):
    """Runs a ProcessFunction."""

    def __init__(self, function: ProcessFunction, output_type: TypeInformation | None) -> None:
        self._function = function
        self._output_type = output_type

    def open(self) -> None:
        """Open the function."""
        self._context = ProcessContext(NoTimers(self))
        open_function(self._function, OperatorRuntimeContext(self.context))

    def process(self, batch: Rows) -> None:
        """Call the function for each record."""
        values, timestamps = batch.values, batch.timestamps
        emission = Emission(self, self._output_type)
        produced = call_each(self._function.process_element, self._context, values, timestamps, emission)
        emit_produced(self, produced, self._output_type)

    def close(self) -> None:
        """Close the function."""
        self._function.close()


class KeyedProcessOperator(KeyedFunctionOperator):
    """Runs a KeyedProcessFunction."""

    def __init__(
        self,
        function: KeyedProcessFunction,
        key_selector: Callable[[Any], Any],
        output_type: TypeInformation | None,
    ) -> None:
        super().__init__(function, output_type)
        self._key_selector = key_selector

    def process(self, batch: Rows) -> None:
        """Call the function for each record under its key."""
        values, timestamps = batch.values, batch.timestamps
        self._call_keyed(self._function.process_element, self._key_selector, values, timestamps)
