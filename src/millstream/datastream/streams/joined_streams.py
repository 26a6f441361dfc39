"""Joins of two streams in windows (Java Flink's `JoinedStreams` and `CoGroupedStreams`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Generic, overload

from millstream.base.type_variables import T1, T2, R
from millstream.common.co_functions import CoGroupFunction, FlatJoinFunction, JoinFunction
from millstream.common.functions import KeySelector, WindowFunction
from millstream.datastream.streams.data_stream import DataStream, check_stream, transform
from millstream.datastream.streams.keyed_stream import KeyedStream
from millstream.datastream.streams.settings import Port, check_type
from millstream.operators.functions_adapter import as_key_selector
from millstream.operators.keys import typed_selector
from millstream.operators.partitioners import KeyGroups
from millstream.operators.window_join import TAGGED_KEY, TagSpec, co_group_windows, join_windows
from millstream.operators.windowing.assigner import WindowAssigner, check_assigner
from millstream.operators.windowing.evictors import Evictor, check_evictor
from millstream.operators.windowing.trigger import Trigger, check_trigger
from millstream.types.typeinfo import TypeInformation

__all__ = ["CoGroupedStreams", "JoinedStreams"]


class _Pair(ABC, Generic[T1, T2]):
    """Two streams to be brought together by key and window.

    Raises:
        TypeMismatchError: If an argument is no stream.
        JobDefinitionError: If they belong to different environments.
    """

    operation: str

    def __init__(self, stream1: DataStream[T1], stream2: DataStream[T2]) -> None:
        check_stream(self.operation, stream2, stream1._environment)
        self._streams = stream1, stream2

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._streams[0]!r}, {self._streams[1]!r})"

    def where(
        self,
        key_selector: KeySelector[T1, Any] | Callable[[T1], Any],
        key_type: TypeInformation | None = None,
    ) -> _Where[T1, T2]:
        """Set the key of the first stream's records.

        Raises:
            TypeMismatchError: If it is neither a KeySelector nor a callable.
        """
        check_type(key_type)
        return _Where(self, as_key_selector(key_selector), key_type)

    @abstractmethod
    def window_function(self, function: Any) -> WindowFunction:
        """Return what makes results of a window."""

    def tagged(self, selectors: tuple[Callable[[Any], Any], Callable[[Any], Any]]) -> DataStream:
        """Return both streams as one, of `(key, side, record)`."""
        first, *others = [
            _tag(stream, port, TagSpec(side, selector))
            for side, (stream, selector) in enumerate(zip(self._streams, selectors, strict=True))
            for port in stream._ports
        ]
        return first.union(*others)


def _tag(stream: DataStream, port: Port, spec: TagSpec) -> DataStream:
    """Tag what one output gives, beside it: chained, if nothing forbids."""
    if isinstance(port.partitioning, KeyGroups):  # the windows are dealt by a key of their own
        port = replace(port, partitioning=None)
    result = transform("Tag", spec, [DataStream(stream._environment, (port,))])
    result._transformation.be_as_parallel_as(port.source)
    return result


class JoinedStreams(_Pair[T1, T2]):
    """Two streams, of which every pair with the same key in the same window is joined.

    `DataStream.join` makes it; go on with `where`, `equal_to`, `window` and `apply`.
    """

    operation = "join"

    def window_function(
        self, function: JoinFunction | FlatJoinFunction | Callable[[Any, Any], Any]
    ) -> WindowFunction:
        """Return what joins the sides of a window."""
        return join_windows(function)


class CoGroupedStreams(_Pair[T1, T2]):
    """Two streams, of which all records with the same key in the same window are grouped, also if one has none.

    `DataStream.co_group` makes it; go on with `where`, `equal_to`, `window` and `apply`.
    """

    operation = "co_group"

    def window_function(
        self, function: CoGroupFunction | Callable[[Iterable[Any], Iterable[Any]], Iterable[Any] | None]
    ) -> WindowFunction:
        """Return what groups the sides of a window."""
        return co_group_windows(function)


class _Where(Generic[T1, T2]):
    """A pair of streams, and the key of the first."""

    def __init__(
        self, pair: _Pair[T1, T2], selector: Callable[[Any], Any], key_type: TypeInformation | None
    ) -> None:
        self._pair = pair
        self._selector = selector
        self._key_type = key_type

    def equal_to(self, key_selector: KeySelector[T2, Any] | Callable[[T2], Any]) -> _EqualTo[T1, T2]:
        """Set the key of the second stream's records.

        Raises:
            TypeMismatchError: If it is neither a KeySelector nor a callable.
        """
        return _EqualTo(self._pair, (self._selector, as_key_selector(key_selector)), self._key_type)


class _EqualTo(Generic[T1, T2]):
    """A pair of streams, and the keys of both."""

    def __init__(
        self,
        pair: _Pair[T1, T2],
        selectors: tuple[Callable[[Any], Any], Callable[[Any], Any]],
        key_type: TypeInformation | None,
    ) -> None:
        self._pair = pair
        self._selectors = selectors
        self._key_type = key_type

    def window(self, window_assigner: WindowAssigner) -> _WithWindow[T1, T2]:
        """Set the windows, of any kind that keyed streams take.

        Raises:
            TypeMismatchError: If it is not a WindowAssigner.
        """
        check_assigner("window()", window_assigner)
        return _WithWindow(self._pair, self._selectors, self._key_type, window_assigner)


class _WithWindow(Generic[T1, T2]):
    """A pair of streams with keys and windows.

    Custom triggers and evictors see `(key, side, record)`, side 0 for the first stream and 1 for the second.
    """

    def __init__(
        self,
        pair: _Pair[T1, T2],
        selectors: tuple[Callable[[Any], Any], Callable[[Any], Any]],
        key_type: TypeInformation | None,
        window_assigner: WindowAssigner,
    ) -> None:
        self._pair = pair
        self._selectors = selectors
        self._key_type = key_type
        self._window_assigner = window_assigner
        self._trigger: Trigger | None = None
        self._evictor: Evictor | None = None
        self._allowed_lateness_ms: int | None = None

    def trigger(self, trigger: Trigger) -> _WithWindow[T1, T2]:
        """Set when windows fire; without it, the assigner's default trigger says so.

        Raises:
            TypeMismatchError: If it is not a Trigger.
        """
        check_trigger("trigger()", trigger)
        self._trigger = trigger
        return self

    def evictor(self, evictor: Evictor) -> _WithWindow[T1, T2]:
        """Set which records are taken out of windows that fire.

        Raises:
            TypeMismatchError: If it is not an Evictor.
        """
        check_evictor("evictor()", evictor)
        self._evictor = evictor
        return self

    def allowed_lateness(self, time_ms: int) -> _WithWindow[T1, T2]:
        """Keep windows for so long after their end; each late record fires its window again, as a whole."""
        self._allowed_lateness_ms = time_ms
        return self

    @overload
    def apply(
        self,
        function: JoinFunction[T1, T2, R] | FlatJoinFunction[T1, T2, R] | CoGroupFunction[T1, T2, R],
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]: ...

    @overload
    def apply(
        self, function: Callable[[Any, Any], Any], output_type: TypeInformation | None = None
    ) -> DataStream[Any]: ...

    def apply(self, function: Any, output_type: TypeInformation | None = None) -> DataStream[Any]:
        """Make results of each window; they have the window's greatest timestamp.

        Args:
            function: For a join a JoinFunction, a FlatJoinFunction, or a callable of two records that returns
                one; for a co-group a CoGroupFunction, or a callable of two lists that returns an iterable.
            output_type: Type of the results.

        Raises:
            TypeMismatchError: If the function is of another kind.
        """
        window_function = self._pair.window_function(function)
        tagged = self._pair.tagged(self._selectors)
        selector = typed_selector(TAGGED_KEY, self._key_type)
        by_key = tagged._partition(KeyGroups(selector, self._key_type))
        windowed = KeyedStream(by_key, selector, self._key_type).window(self._window_assigner)
        if self._trigger is not None:
            windowed = windowed.trigger(self._trigger)
        if self._evictor is not None:
            windowed = windowed.evictor(self._evictor)
        if self._allowed_lateness_ms is not None:
            windowed = windowed.allowed_lateness(self._allowed_lateness_ms)
        result = windowed.apply(window_function, output_type)
        return result.name(f"Window {'Join' if self._pair.operation == 'join' else 'CoGroup'}")
