"""Functions with state of their subtask: initialised before they are opened, asked at each checkpoint."""

from __future__ import annotations

from millstream.common.functions import (
    CheckpointedFunction,
    CheckpointListener,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    KeyedStateStore,
    RuntimeContext,
)
from millstream.common.state import OperatorStateStore
from millstream.operators.base import OperatorContext
from millstream.operators.runtime_context import OperatorRuntimeContext, operator_state_of
from millstream.state.store import NamespacedStore

__all__ = ["initialize_checkpointed"]


def initialize_checkpointed(function: object, runtime_context: RuntimeContext) -> None:
    """Initialise the state of a CheckpointedFunction and have it asked at checkpoints, tell a CheckpointListener.

    Nothing happens for other functions.

    Called by `open_function`, before the function's `open`.
    """
    if not isinstance(runtime_context, OperatorRuntimeContext):
        return
    context = runtime_context.operator_context
    if isinstance(function, CheckpointListener):
        operator_state_of(context).on_complete(function.notify_checkpoint_complete)
    if isinstance(function, CheckpointedFunction):
        function.initialize_state(_Initialization(context))
        operator_state_of(context).on_snapshot(
            lambda checkpoint_id, timestamp_ms: function.snapshot_state(
                _Snapshot(checkpoint_id, timestamp_ms)
            )
        )


class _Initialization(FunctionInitializationContext):
    def __init__(self, context: OperatorContext) -> None:
        self._context = context
        self._operator_state = operator_state_of(context)

    def is_restored(self) -> bool:
        return self._operator_state.restored_checkpoint_id is not None

    def get_restored_checkpoint_id(self) -> int | None:
        return self._operator_state.restored_checkpoint_id

    def get_operator_state_store(self) -> OperatorStateStore:
        return self._operator_state

    def get_keyed_state_store(self) -> KeyedStateStore:
        context = self._context
        return NamespacedStore(context.keyed_state, None, context.name, context.subtask_index)


class _Snapshot(FunctionSnapshotContext):
    def __init__(self, checkpoint_id: int, timestamp_ms: int) -> None:
        self._checkpoint_id = checkpoint_id
        self._timestamp_ms = timestamp_ms

    def get_checkpoint_id(self) -> int:
        return self._checkpoint_id

    def get_checkpoint_timestamp(self) -> int:
        return self._timestamp_ms
