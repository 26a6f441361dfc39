"""What user functions may ask about the subtask they run in."""

from __future__ import annotations

from typing import Any

from millstream.base.errors import StateAccessError
from millstream.common.accumulators import (
    Accumulator,
    DoubleCounter,
    Histogram,
    IntCounter,
    LongCounter,
)
from millstream.common.distributed_cache import DistributedCache
from millstream.common.functions import RuntimeContext
from millstream.common.state import StateDescriptor
from millstream.metrics.groups import MetricGroup
from millstream.operators.base import OperatorContext
from millstream.state.kinds import check_descriptor
from millstream.state.operator_state import OperatorStateBackend
from millstream.state.store import KeyedStateGetters

__all__ = ["OperatorRuntimeContext", "operator_state_of"]


def operator_state_of(context: OperatorContext) -> OperatorStateBackend:
    """Return the operator state of an operator.

    Raises:
        StateAccessError: If the operator was given none.
    """
    if context.operator_state is None:
        raise StateAccessError("operator state was asked for where there is none").at(
            context.name, context.subtask_index
        )
    return context.operator_state


class OperatorRuntimeContext(KeyedStateGetters, RuntimeContext):
    """The RuntimeContext of one operator in one subtask.

    Attributes:
        operator_context: What the operator itself knows.
    """

    def __init__(self, context: OperatorContext) -> None:
        self.operator_context = context
        self._context = context

    def _state(self, descriptor: Any, wanted: type[StateDescriptor], getter: str) -> Any:
        context = self._context
        check_descriptor(descriptor, wanted, getter, context.name)
        if context.keyed_state is None:
            raise StateAccessError(
                f'state "{descriptor.name}" was asked for on a stream that is not keyed',
                hint="Call key_by(...) before this operator.",
            ).at(context.name, context.subtask_index)
        return context.keyed_state.get_state(descriptor)

    def get_task_name(self) -> str:
        """Return the operator's name."""
        return self._context.name

    def get_number_of_parallel_subtasks(self) -> int:
        """Return the operator's parallelism."""
        return self._context.parallelism

    def get_max_number_of_parallel_subtasks(self) -> int:
        """Return the number of key groups."""
        return self._context.max_parallelism

    def get_index_of_this_subtask(self) -> int:
        """Return the subtask's index, from 0."""
        return self._context.subtask_index

    def get_attempt_number(self) -> int:
        """Return the attempt's number, from 0."""
        return self._context.attempt

    def get_task_name_with_subtasks(self) -> str:
        """Return the operator's name with `(index+1/parallelism)`."""
        context = self._context
        return f"{context.name} ({context.subtask_index + 1}/{context.parallelism})"

    def get_job_parameter(self, key: str, default_value: str) -> str:
        """Return a global job parameter."""
        return self._context.job_parameters.get(key, default_value)

    def get_metrics_group(self) -> MetricGroup:
        """Return the operator's metric group."""
        return self._context.metrics

    def add_accumulator(self, name: str, accumulator: Accumulator[Any, Any]) -> None:
        """Register an accumulator."""
        self._context.accumulators.add(name, accumulator)

    def get_accumulator(self, name: str) -> Accumulator[Any, Any] | None:
        """Return an accumulator of this operator."""
        return self._context.accumulators.get(name)

    def get_int_counter(self, name: str) -> IntCounter:
        """Return the IntCounter of that name."""
        return self._context.accumulators.obtain(name, IntCounter)

    def get_long_counter(self, name: str) -> LongCounter:
        """Return the LongCounter of that name."""
        return self._context.accumulators.obtain(name, LongCounter)

    def get_double_counter(self, name: str) -> DoubleCounter:
        """Return the DoubleCounter of that name."""
        return self._context.accumulators.obtain(name, DoubleCounter)

    def get_histogram(self, name: str) -> Histogram:
        """Return the Histogram of that name."""
        return self._context.accumulators.obtain(name, Histogram)

    def get_distributed_cache(self) -> DistributedCache:
        """Return the files of `register_cached_file`."""
        return DistributedCache(self._context.cached_files)
