"""A stream and a broadcast one: rules that change over time, applied to records, with or without keys.

The broadcast stream is the operator's input 0, the data stream input 1. The channel merger goes on with the
channel whose watermark is lowest, and with the lower input where they are equal; so within an epoch::

    no watermarks, or equal ones   every broadcast record of the epoch, then the data
    rules W10, data W5             the data up to its next watermark, before any more rules

Every subtask sees all broadcast records, in this order, so their states stay equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from millstream.base.errors import StateAccessError
from millstream.common.co_functions import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from millstream.common.state import (
    BroadcastState,
    MapStateDescriptor,
    ReadOnlyBroadcastState,
    StateDescriptor,
)
from millstream.operators.base import BatchHandler, Operator, OperatorSpec
from millstream.operators.calls import Emission, call_each, emit_produced
from millstream.operators.functions_adapter import open_function
from millstream.operators.inlined.view_reads import ReadView
from millstream.operators.keyed_function import KeyedFunctionOperator
from millstream.operators.runtime_context import OperatorRuntimeContext
from millstream.operators.timer_service import KeyedContext, KeyedTimers, NoTimers, ProcessContext
from millstream.spi.batch import Rows
from millstream.state.keyed import NO_KEY, KeyedStateBackend
from millstream.state.keys import original_key
from millstream.types.typeinfo import TypeInformation

__all__ = ["BroadcastProcessSpec", "KeyedBroadcastProcessSpec", "KeyedStateFunction"]

KeyedStateFunction = Callable[[Any, Any], None]
"""What `apply_to_keyed_state` calls with a key and its state."""


@dataclass(frozen=True)
class BroadcastProcessSpec(OperatorSpec):
    """Declares a function of a broadcast stream (input 0) and a stream without keys (input 1).

    Attributes:
        function: The function.
        descriptors: The broadcast states that it may use.
        output_type: Type to check results against; None leaves them unchecked.
    """

    function: BroadcastProcessFunction
    descriptors: tuple[MapStateDescriptor, ...]
    output_type: TypeInformation | None = None

    @property
    def keeps_state(self) -> bool:
        """Broadcast state is state."""
        return True

    def build(self) -> Operator:
        """Make the running half."""
        return BroadcastProcessOperator(self)


@dataclass(frozen=True)
class KeyedBroadcastProcessSpec(OperatorSpec):
    """Declares a function of a broadcast stream (input 0) and a keyed stream (input 1).

    Attributes:
        function: The function.
        descriptors: The broadcast states that it may use.
        key_selector: Gives the key of a record of the keyed stream.
        output_type: Type to check results against; None leaves them unchecked.
    """

    function: KeyedBroadcastProcessFunction
    descriptors: tuple[MapStateDescriptor, ...]
    key_selector: Callable[[Any], Any]
    output_type: TypeInformation | None = None
    is_keyed = True

    def build(self) -> Operator:
        """Make the running half."""
        return KeyedBroadcastProcessOperator(self)


class _States:
    """The broadcast states of one operator, to write and to read.

    Attributes:
        views: Those to read, by name.
        reads: The same, for loops that have a function's body in them.
    """

    def __init__(self, operator: Operator, descriptors: Sequence[MapStateDescriptor]) -> None:
        store = operator.context.operator_state
        assert store is not None, "an operator without operator state"
        self._states = {each.name: store.get_broadcast_state(each) for each in descriptors}
        entries = {name: store.broadcast_entries(name) for name in self._states}
        self.views = {name: _ReadOnly(name, held) for name, held in entries.items()}
        self.reads = {name: ReadView(self.views[name], held) for name, held in entries.items()}

    def writable(self, descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        try:
            return self._states[descriptor.name]
        except KeyError:
            raise self.missing(descriptor) from None

    def missing(self, descriptor: MapStateDescriptor) -> StateAccessError:
        """Return the error of asking for a state that is not there."""
        return StateAccessError(
            f'broadcast state "{descriptor.name}" was asked for, which the stream was not broadcast with',
            detail="It was broadcast with " + ", ".join(f'"{name}"' for name in self._states) + ".",
            hint="Give its descriptor to broadcast(...).",
        )


class _ReadOnly(ReadOnlyBroadcastState[Any, Any]):
    """A view of a broadcast state that refuses to be written through; functions look into it at every record."""

    __slots__ = ("_mapping", "_name")

    def __init__(self, name: str, mapping: dict[Any, Any]) -> None:
        self._name = name
        self._mapping = mapping

    def get(self, key: Any) -> Any:
        return self._mapping.get(key)

    def contains(self, key: Any) -> bool:
        return key in self._mapping

    def items(self) -> Any:
        return list(self._mapping.items())

    def keys(self) -> Any:
        return list(self._mapping)

    def values(self) -> Any:
        return list(self._mapping.values())

    def is_empty(self) -> bool:
        return not self._mapping

    def _refuse(self, *arguments: Any) -> None:
        raise StateAccessError(
            f'broadcast state "{self._name}" was written while a record that is not broadcast was processed',
            detail="Only broadcast records reach every subtask, so only they may change broadcast state.",
            hint="Write it in process_broadcast_element(...).",
        )

    put = _refuse
    put_all = _refuse
    remove = _refuse
    clear = _refuse
    __setitem__ = _refuse
    __delitem__ = _refuse


class _BroadcastContext(
    ProcessContext, BroadcastProcessFunction.Context, KeyedBroadcastProcessFunction.Context
):
    """What a broadcast record comes with."""

    def __init__(
        self, operator: Operator, states: _States, keyed_state: KeyedStateBackend | None = None
    ) -> None:
        super().__init__(NoTimers(operator))
        self._states = states
        self._keyed_state = keyed_state

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        return self._states.writable(state_descriptor)

    def current_processing_time(self) -> int:
        return self.timers.current_processing_time()

    def current_watermark(self) -> int:
        return self.timers.current_watermark()

    def apply_to_keyed_state(self, state_descriptor: StateDescriptor, function: KeyedStateFunction) -> None:
        backend = self._keyed_state
        if backend is None:
            raise StateAccessError(
                f"keyed state {state_descriptor.name!r} was asked for where the other stream is not keyed",
                hint="Call key_by(...) before connect(...).",
            )
        state = backend.get_state(state_descriptor)
        try:
            for key in _keys_of(backend, state_descriptor.name):
                backend.set_current_key(key)
                if backend.touched is not None:
                    backend.touched.add(key)
                function(original_key(key), state)
        finally:
            backend.set_current_key(NO_KEY)


def _keys_of(backend: KeyedStateBackend, name: str) -> list[Any]:
    groups = backend.snapshot().groups.values()
    return [key for states in groups for namespace, key, _ in states.get(name, ()) if namespace is None]


class _ReadOnlyContext(ProcessContext, BroadcastProcessFunction.ReadOnlyContext):
    """What a record of a stream without keys comes with."""

    def __init__(self, operator: Operator, states: _States) -> None:
        super().__init__(NoTimers(operator))
        self._states = states
        self._views = states.views

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState[Any, Any]:
        try:
            return self._views[state_descriptor.name]
        except KeyError:
            raise self._states.missing(state_descriptor) from None

    def current_processing_time(self) -> int:
        return self.timers.current_processing_time()

    def current_watermark(self) -> int:
        return self.timers.current_watermark()


class _KeyedReadOnlyContext(KeyedContext, KeyedBroadcastProcessFunction.OnTimerContext):
    """What a record or timer of a key comes with."""

    def __init__(self, timers: KeyedTimers, state: KeyedStateBackend, states: _States) -> None:
        super().__init__(timers, state)
        self._states = states
        self._views = states.views

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState[Any, Any]:
        try:
            return self._views[state_descriptor.name]
        except KeyError:
            raise self._states.missing(state_descriptor) from None

    def current_processing_time(self) -> int:
        return self.timers.current_processing_time()

    def current_watermark(self) -> int:
        return self.timers.current_watermark()


class BroadcastProcessOperator(Operator):
    """Runs a BroadcastProcessFunction."""

    def __init__(self, spec: BroadcastProcessSpec) -> None:
        self._function = spec.function
        self._descriptors = spec.descriptors
        self._output_type = spec.output_type

    def open(self) -> None:
        """Open the function."""
        states = _States(self, self._descriptors)
        self._read_only = _ReadOnlyContext(self, states)
        self._writable = _BroadcastContext(self, states)
        open_function(self._function, OperatorRuntimeContext(self.context))

    def batch_handlers(self) -> list[BatchHandler]:
        """Return the handlers of the broadcast stream and the other one."""
        return [self.process_broadcast, self.process]

    def process(self, batch: Rows) -> None:
        """Call the function for each record that is not broadcast."""
        values, timestamps = batch.values, batch.timestamps
        emission = Emission(self, self._output_type)
        produced = call_each(self._function.process_element, self._read_only, values, timestamps, emission)
        emit_produced(self, produced, self._output_type)

    def process_broadcast(self, batch: Rows) -> None:
        """Call the function for each broadcast record."""
        values, timestamps = batch.values, batch.timestamps
        process = self._function.process_broadcast_element
        emission = Emission(self, self._output_type)
        produced = call_each(process, self._writable, values, timestamps, emission)
        emit_produced(self, produced, self._output_type)

    def close(self) -> None:
        """Close the function."""
        self._function.close()


class KeyedBroadcastProcessOperator(KeyedFunctionOperator):
    """Runs a KeyedBroadcastProcessFunction."""

    def __init__(self, spec: KeyedBroadcastProcessSpec) -> None:
        super().__init__(spec.function, spec.output_type)
        self._descriptors = spec.descriptors
        self._key_selector = spec.key_selector

    def _build_context(self, timers: KeyedTimers, state: KeyedStateBackend) -> KeyedContext:
        states = _States(self, self._descriptors)
        self._writable = _BroadcastContext(self, states, state)
        self._views = states.reads
        return _KeyedReadOnlyContext(timers, state, states)

    def batch_handlers(self) -> list[BatchHandler]:
        """Return the handlers of the broadcast stream and the keyed one."""
        return [self.process_broadcast, self.process]

    def process(self, batch: Rows) -> None:
        """Call the function for each record of the keyed stream under its key."""
        values, timestamps = batch.values, batch.timestamps
        self._call_keyed(self._function.process_element, self._key_selector, values, timestamps)

    def process_broadcast(self, batch: Rows) -> None:
        """Call the function for each broadcast record; there is no current key."""
        values, timestamps = batch.values, batch.timestamps
        process = self._function.process_broadcast_element
        emission = Emission(self, self._output_type)
        produced = call_each(process, self._writable, values, timestamps, emission)
        emit_produced(self, produced, self._output_type)
