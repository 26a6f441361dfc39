"""What user functions may ask about the subtask they run in."""

from __future__ import annotations

from typing import Any

from millstream.common.errors import StateAccessError
from millstream.common.functions import RuntimeContext
from millstream.common.state import ValueState, ValueStateDescriptor
from millstream.operators.base import OperatorContext

__all__ = ["OperatorRuntimeContext"]


class OperatorRuntimeContext(RuntimeContext):
    """The RuntimeContext of one operator in one subtask."""

    def __init__(self, context: OperatorContext) -> None:
        self._context = context

    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        """Return the value state of that name."""
        keyed_state = self._context.keyed_state
        if keyed_state is None:
            raise StateAccessError(
                f'state "{state_descriptor.name}" was asked for on a stream that is not keyed',
                hint="Call key_by(...) before this operator.",
            ).at(self._context.name, self._context.subtask_index)
        return keyed_state.get_state(state_descriptor)

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
