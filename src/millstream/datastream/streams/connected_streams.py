"""Two streams under one function (PyFlink's `ConnectedStreams`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic

from millstream.base.errors import TypeMismatchError
from millstream.base.missing import explain_missing
from millstream.base.type_variables import T1, T2, R
from millstream.common.co_functions import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
)
from millstream.common.functions import KeySelector
from millstream.datastream.streams.data_stream import DataStream, check_stream, transform
from millstream.datastream.streams.keyed_stream import KeyedStream
from millstream.datastream.streams.missing import OF_CONNECTED, TO_RESULTS
from millstream.operators.co_process import CoProcessSpec, KeyedCoProcessSpec, as_co_process
from millstream.types.typeinfo import TypeInformation

__all__ = ["ConnectedStreams", "check_key_types"]


class ConnectedStreams(Generic[T1, T2]):
    """Two streams, of any types, whose records go to one function; `DataStream.connect` makes it.

    If both are keyed, their records of one key meet in one subtask and share its state and timers. If only
    one is, it is dealt by key, but the function has no keyed state, as in Flink.

    Attributes:
        stream1: The first stream.
        stream2: The second stream.

    Raises:
        TypeMismatchError: If an argument is no stream, or both have keys of different declared types.
        JobDefinitionError: If they belong to different environments.

    Example:
        >>> from millstream.datastream.functions import KeyedCoProcessFunction
        >>> from millstream.datastream.state import ValueStateDescriptor
        >>> from millstream.testing import OperatorHarness
        >>> class Matched(KeyedCoProcessFunction):
        ...     def open(self, runtime_context):
        ...         self.order = runtime_context.get_state(ValueStateDescriptor("order"))
        ...     def process_element1(self, value, ctx):
        ...         self.order.update(value)
        ...     def process_element2(self, value, ctx):
        ...         yield self.order.value(), value
        >>> def matched(orders, paid):
        ...     both = orders.connect(paid).key_by(lambda order: order["id"], lambda payment: payment["id"])
        ...     return both.process(Matched())
        >>> harness = OperatorHarness(matched, inputs=2)
        >>> harness.push({"id": 7, "of": "tea"}); harness.push({"id": 7, "paid": 3}, input=1)
        >>> harness.take()
        [({'id': 7, 'of': 'tea'}, {'id': 7, 'paid': 3})]
    """

    def __repr__(self) -> str:
        return f"ConnectedStreams({self.stream1!r}, {self.stream2!r})"

    if not TYPE_CHECKING:  # to checkers, what is not there is not there

        def __getattr__(self, name: str) -> Any:
            way = TO_RESULTS.format(before="map(...), flat_map(...) or process(...)")
            return explain_missing(
                self,
                name,
                what="the pair of connected streams",
                hints=OF_CONNECTED,
                elsewhere=[(DataStream, way)],
            )

    def __init__(self, stream1: DataStream[T1], stream2: DataStream[T2]) -> None:
        check_stream("connect", stream2, stream1._environment)
        check_key_types("connect", stream1, stream2)
        self.stream1 = stream1
        self.stream2 = stream2

    def key_by(
        self,
        key_selector1: KeySelector[T1, R] | Callable[[T1], R],
        key_selector2: KeySelector[T2, R] | Callable[[T2], R],
        key_type: TypeInformation | None = None,
    ) -> ConnectedStreams[T1, T2]:
        """Deal both streams by key; replaces keys that they had.

        Args:
            key_selector1: Gives the key of a record of the first stream.
            key_selector2: Gives the key of a record of the second stream.
            key_type: Type of both keys.

        Raises:
            TypeMismatchError: If a selector is neither a KeySelector nor a callable.
        """
        return ConnectedStreams(
            self.stream1.key_by(key_selector1, key_type), self.stream2.key_by(key_selector2, key_type)
        )

    def map(
        self, func: CoMapFunction[T1, T2, R], output_type: TypeInformation | None = None
    ) -> DataStream[R]:
        """Make at most one record of each, by a method for each stream.

        Raises:
            TypeMismatchError: If `func` is not a CoMapFunction.
        """
        if not isinstance(func, CoMapFunction):
            raise TypeMismatchError(f"map was given a {type(func).__name__}, not a CoMapFunction")
        return self._process("Co-Map", as_co_process(func), output_type)

    def flat_map(
        self, func: CoFlatMapFunction[T1, T2, R], output_type: TypeInformation | None = None
    ) -> DataStream[R]:
        """Make any number of records of each, by a method for each stream.

        Raises:
            TypeMismatchError: If `func` is not a CoFlatMapFunction.
        """
        if not isinstance(func, CoFlatMapFunction):
            raise TypeMismatchError(f"flat_map was given a {type(func).__name__}, not a CoFlatMapFunction")
        return self._process("Co-Flat Map", as_co_process(func), output_type)

    def process(
        self,
        func: CoProcessFunction[T1, T2, R] | KeyedCoProcessFunction[T1, T2, R, Any],
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]:
        """Process each record, with access to time and side outputs; on keyed streams to state and timers.

        Raises:
            TypeMismatchError: If `func` is of another kind, or is a KeyedCoProcessFunction and not both streams
                are keyed.
        """
        if not isinstance(func, CoProcessFunction | KeyedCoProcessFunction):
            raise TypeMismatchError(
                f"process was given a {type(func).__name__}, not a CoProcessFunction or KeyedCoProcessFunction"
            )
        if isinstance(func, KeyedCoProcessFunction) and not self._is_keyed_stream():
            keyed = [isinstance(stream, KeyedStream) for stream in (self.stream1, self.stream2)]
            missing = "neither stream is" if not any(keyed) else f"stream {keyed.index(False) + 1} is not"
            raise TypeMismatchError(
                f"process was given the KeyedCoProcessFunction {type(func).__name__}, but {missing} keyed",
                detail="A KeyedCoProcessFunction needs two keyed streams.",
                hint="Call key_by(key_selector1, key_selector2) on the connected streams.",
            )
        return self._process(
            "Keyed Co-Process" if self._is_keyed_stream() else "Co-Process", func, output_type
        )

    def _process(
        self,
        name: str,
        func: CoProcessFunction | KeyedCoProcessFunction,
        output_type: TypeInformation | None,
    ) -> DataStream:
        first, second = self.stream1, self.stream2
        if isinstance(first, KeyedStream) and isinstance(second, KeyedStream):
            keyed = KeyedCoProcessSpec(func, first._key_selector, second._key_selector, output_type)
            return transform(name, keyed, [first, second], output_type)
        assert isinstance(func, CoProcessFunction)
        return transform(name, CoProcessSpec(func, output_type), [first, second], output_type)

    def _is_keyed_stream(self) -> bool:
        return isinstance(self.stream1, KeyedStream) and isinstance(self.stream2, KeyedStream)


def check_key_types(operation: str, stream1: DataStream, stream2: DataStream) -> None:
    """Check that two streams may meet by key.

    Raises:
        TypeMismatchError: If both are keyed, and the declared types of their keys differ.
    """
    if isinstance(stream1, KeyedStream) and isinstance(stream2, KeyedStream):
        type1, type2 = stream1._key_type, stream2._key_type
        if type1 is not None and type2 is not None and type1 != type2:
            raise TypeMismatchError(
                f"{operation} was called on streams with keys of {type1.describe()} and {type2.describe()}",
                detail="Keys of different types never meet.",
            )
