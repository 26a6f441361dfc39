"""Streams with broadcast state (PyFlink's `BroadcastStream`, `BroadcastConnectedStream`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic

from millstream.base.errors import ConfigurationError, TypeMismatchError
from millstream.base.missing import explain_missing
from millstream.base.type_variables import T1, T2, R, T
from millstream.common.co_functions import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from millstream.common.state import MapStateDescriptor
from millstream.datastream.streams.data_stream import DataStream, check_stream, transform
from millstream.datastream.streams.keyed_stream import KeyedStream
from millstream.datastream.streams.missing import OF_CONNECTED, TO_RESULTS
from millstream.operators.broadcast_process import BroadcastProcessSpec, KeyedBroadcastProcessSpec
from millstream.types.typeinfo import RowTypeInfo, TypeInformation

__all__ = ["BroadcastConnectedStream", "BroadcastStream"]


class BroadcastStream(Generic[T]):
    """A stream whose records reach every subtask, to be kept in broadcast state.

    `DataStream.broadcast(descriptor, ...)` makes it; all that can be done with it is to connect a stream to it.

    Attributes:
        input_stream: The stream, dealt to all subtasks.
        broadcast_state_descriptors: The states that may be used.

    Raises:
        TypeMismatchError: If a descriptor is not a MapStateDescriptor.
        ConfigurationError: If two descriptors have the same name.

    Example:
        >>> from millstream.datastream import StreamExecutionEnvironment
        >>> from millstream.datastream.state import MapStateDescriptor
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> rules = env.from_collection([("limit", 100)]).broadcast(MapStateDescriptor("rules"))
        >>> [descriptor.get_name() for descriptor in rules.broadcast_state_descriptors]
        ['rules']
    """

    def __init__(
        self, input_stream: DataStream[T], broadcast_state_descriptors: list[MapStateDescriptor]
    ) -> None:
        names = set()
        for descriptor in broadcast_state_descriptors:
            if not isinstance(descriptor, MapStateDescriptor):
                raise TypeMismatchError(
                    f"broadcast was given a {type(descriptor).__name__}, not a MapStateDescriptor"
                )
            if descriptor.name in names:
                raise ConfigurationError(
                    f'broadcast was given two descriptors with the name "{descriptor.name}"'
                )
            names.add(descriptor.name)
        self.input_stream = input_stream
        self.broadcast_state_descriptors = broadcast_state_descriptors

    def __repr__(self) -> str:
        states = ", ".join(f'state "{descriptor.name}"' for descriptor in self.broadcast_state_descriptors)
        return f"BroadcastStream({self.input_stream!r}, {states})"


class BroadcastConnectedStream(Generic[T1, T2]):
    """A stream, keyed or not, connected to a broadcast one; `DataStream.connect` makes it.

    Within an epoch, records come by watermark, and broadcast records first where watermarks are equal.

    Attributes:
        non_broadcast_stream: The stream that is not broadcast.
        broadcast_stream: The broadcast one.
        broadcast_state_descriptors: The states that may be used.

    Raises:
        JobDefinitionError: If both belong to different environments.

    Example:
        >>> from millstream.common import Types
        >>> from millstream.datastream.functions import BroadcastProcessFunction
        >>> from millstream.datastream.state import MapStateDescriptor
        >>> from millstream.testing import OperatorHarness
        >>> limits = MapStateDescriptor("limits", Types.STRING(), Types.INT())
        >>> class AboveLimit(BroadcastProcessFunction):
        ...     def process_broadcast_element(self, value, ctx):
        ...         ctx.get_broadcast_state(limits).put("all", value)
        ...     def process_element(self, value, ctx):
        ...         if value > (ctx.get_broadcast_state(limits).get("all") or 0):
        ...             yield value
        >>> harness = OperatorHarness(
        ...     lambda amounts, changes: amounts.connect(changes.broadcast(limits)).process(AboveLimit()),
        ...     inputs=2,
        ... )
        >>> harness.push(100, input=1)
        >>> harness.push(70); harness.push(130)
        >>> harness.take()
        [130]
    """

    def __repr__(self) -> str:
        return f"BroadcastConnectedStream({self.non_broadcast_stream!r}, {self.broadcast_stream!r})"

    if not TYPE_CHECKING:  # to checkers, what is not there is not there

        def __getattr__(self, name: str) -> Any:
            way = TO_RESULTS.format(before="process(...)")
            return explain_missing(
                self,
                name,
                what="the pair of connected streams",
                hints=OF_CONNECTED,
                elsewhere=[(DataStream, way)],
            )

    def __init__(
        self,
        non_broadcast_stream: DataStream[T1],
        broadcast_stream: BroadcastStream[T2],
        broadcast_state_descriptors: list[MapStateDescriptor],
    ) -> None:
        check_stream("connect", broadcast_stream.input_stream, non_broadcast_stream._environment)
        self.non_broadcast_stream = non_broadcast_stream
        self.broadcast_stream = broadcast_stream
        self.broadcast_state_descriptors = broadcast_state_descriptors

    def process(
        self,
        func: BroadcastProcessFunction[T1, T2, R] | KeyedBroadcastProcessFunction[T1, T2, R, Any],
        output_type: TypeInformation | list[TypeInformation] | None = None,
    ) -> DataStream[R]:
        """Process each record of both.

        Args:
            func: A KeyedBroadcastProcessFunction if the stream that is not broadcast is keyed, else a
                BroadcastProcessFunction.
            output_type: Type of the results; a list of types stands for a row of them.

        Raises:
            TypeMismatchError: If `func` or the type is of another kind.
        """
        if isinstance(output_type, list):
            output_type = RowTypeInfo(output_type)
        data, rules = self.non_broadcast_stream, self.broadcast_stream.input_stream
        descriptors = tuple(self.broadcast_state_descriptors)
        # The broadcast stream is input 0: where watermarks are equal, its records come first.
        if isinstance(data, KeyedStream):
            if not isinstance(func, KeyedBroadcastProcessFunction):
                raise _wrong_function(func, "a KeyedBroadcastProcessFunction", "keyed")
            keyed = KeyedBroadcastProcessSpec(func, descriptors, data._key_selector, output_type)
            return transform("Keyed-Co-Process-Broadcast", keyed, [rules, data], output_type)
        if not isinstance(func, BroadcastProcessFunction):
            raise _wrong_function(func, "a BroadcastProcessFunction", "not keyed")
        spec = BroadcastProcessSpec(func, descriptors, output_type)
        return transform("Co-Process-Broadcast", spec, [rules, data], output_type)


def _wrong_function(func: object, expected: str, kind: str) -> TypeMismatchError:
    return TypeMismatchError(
        f"process was given a {type(func).__name__}, not {expected}",
        detail=f"The stream that is connected to the broadcast one is {kind}.",
    )
