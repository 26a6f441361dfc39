"""Matches of a pattern in a stream (Flink's `PatternStream`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, Self, overload

from millstream.base.errors import JobDefinitionError, TypeMismatchError, shorten
from millstream.base.type_variables import OUT, R, T
from millstream.cep.functions import (
    EventComparator,
    PatternFlatSelectFunction,
    PatternFlatTimeoutFunction,
    PatternProcessFunction,
    PatternSelectFunction,
    PatternTimeoutFunction,
    SelectingFunction,
    TimedOutPartialMatchHandler,
    TimedOutSelectingFunction,
)
from millstream.common.functions import Function
from millstream.common.output_tag import OutputTag
from millstream.datastream import DataStream, KeyedStream
from millstream.datastream.streams.data_stream import transform
from millstream.operators.patterns.explain import explain
from millstream.operators.patterns.operator import PatternMatchSpec
from millstream.operators.patterns.parts import PatternSpec
from millstream.types.typeinfo import TypeInformation

__all__ = ["PatternStream"]

Select = PatternSelectFunction[Any, Any] | Callable[[dict[str, list[Any]]], Any]
Timeout = PatternTimeoutFunction[Any, Any] | Callable[[dict[str, list[Any]], int], Any]
FlatSelect = PatternFlatSelectFunction[Any, Any] | Callable[[dict[str, list[Any]]], Iterable[Any] | None]
FlatTimeout = (
    PatternFlatTimeoutFunction[Any, Any] | Callable[[dict[str, list[Any]], int], Iterable[Any] | None]
)


class PatternStream(Generic[T]):
    """A stream and a pattern to find in it; `CEP.pattern` makes it.

    Args:
        stream: The stream, keyed or not.
        pattern: The pattern; None if there is none to begin with.
        comparator: Orders events of the same time.
        control: The stream of patterns, if they are replaced.

    Example:
        >>> from millstream.cep import CEP, Pattern
        >>> from millstream.datastream import StreamExecutionEnvironment
        >>> numbers = StreamExecutionEnvironment.get_execution_environment().from_collection([1, 2, 3])
        >>> two = Pattern.begin("one").where(lambda n: n == 1).next("two").where(lambda n: n == 2)
        >>> found = CEP.pattern(numbers, two).in_processing_time()
        >>> pairs = found.select(lambda match: (match["one"][0], match["two"][0]))
        >>> print(found.explain_pattern())
        one next two
        <BLANKLINE>
        [start]
          ──► one: any event, one
        [one]
          ──► two: the very next event, two
        [two]  (a match ends here)
    """

    def __init__(
        self,
        stream: DataStream[T],
        pattern: PatternSpec | None,
        comparator: EventComparator[T] | Callable[[T, T], int] | None = None,
        control: DataStream[PatternSpec] | None = None,
    ) -> None:
        self._stream = stream
        self._pattern = pattern
        self._compare = _as_compare(comparator)
        self._control = control
        self._event_time = True
        self._late: OutputTag | None = None

    def __repr__(self) -> str:
        pattern = "patterns of a stream" if self._pattern is None else self._pattern.describe()
        return f"PatternStream({self._stream!r}, {pattern})"

    def explain_pattern(self) -> str:
        """Return the states and transitions of the pattern as text.

        Raises:
            JobDefinitionError: If patterns come as a stream, and there is none to begin with.
        """
        if self._pattern is None:
            raise JobDefinitionError(
                "there is no pattern yet to explain",
                hint="Call explain_pattern(pattern) with one of the stream's.",
            )
        return explain(self._pattern)

    def in_processing_time(self) -> Self:
        """Take events as they come; no event is late then."""
        self._event_time = False
        return self

    def in_event_time(self) -> Self:
        """Take events in order of their timestamps; the default."""
        self._event_time = True
        return self

    def side_output_late_data(self, late_data_output_tag: OutputTag) -> Self:
        """Send events that come behind the watermark to a side output; otherwise they are dropped and counted.

        Raises:
            TypeMismatchError: If it is not an OutputTag.
        """
        self._late = _check_tag("side_output_late_data", late_data_output_tag)
        return self

    def process(
        self,
        pattern_process_function: PatternProcessFunction[T, OUT],
        output_type: TypeInformation | None = None,
    ) -> DataStream[OUT]:
        """Call a function for each match, and for each partial match whose time is up if it handles these.

        Args:
            pattern_process_function: Gets the matches; those of a key in order of time. If it is a
                TimedOutPartialMatchHandler too, it gets the partial ones as well.
            output_type: Type of the results.

        Raises:
            TypeMismatchError: If the function is not a PatternProcessFunction.
        """
        if not isinstance(pattern_process_function, PatternProcessFunction):
            raise TypeMismatchError(
                f"process was given {shorten(pattern_process_function)}, not a PatternProcessFunction",
                hint="select(...) and flat_select(...) take callables.",
            )
        stream = self._stream
        spec = PatternMatchSpec(
            pattern_process_function,
            self._pattern,
            stream._key_selector if isinstance(stream, KeyedStream) else _one_key,
            self._event_time,
            self._compare,
            None if self._late is None else self._late.tag_id,
            isinstance(pattern_process_function, TimedOutPartialMatchHandler),
            self._control is not None,
            output_type,
        )
        name = "CEP" if isinstance(stream, KeyedStream) else "Global CEP"
        keyed = stream if isinstance(stream, KeyedStream) else stream.key_by(_one_key)
        inputs = [keyed] if self._control is None else [self._control.broadcast(), keyed]
        found = transform(name, spec, inputs, output_type)
        return found if isinstance(stream, KeyedStream) else found.force_non_parallel()

    @overload
    def select(
        self,
        pattern_select_function: PatternSelectFunction[T, R] | Callable[[dict[str, list[T]]], R],
        /,
        *,
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]: ...

    @overload
    def select(
        self,
        timed_out_partial_matches_tag: OutputTag,
        pattern_timeout_function: Timeout,
        pattern_select_function: PatternSelectFunction[T, R] | Callable[[dict[str, list[T]]], R],
        /,
        *,
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]: ...

    def select(self, *functions: Any, output_type: TypeInformation | None = None) -> DataStream[Any]:
        """Make one result of each match.

        `select(function)`, or `select(tag, timeout_function, function)`: then one result of each partial match whose
        time is up goes to a side output. Functions may be callables.

        Args:
            functions: The function; or the tag, what is called with a partial match and when its time was up, and the
                function.
            output_type: Type of the results.

        Raises:
            TypeMismatchError: If an argument is of another kind.
        """
        function = _selecting("select", functions, PatternSelectFunction, PatternTimeoutFunction, flat=False)
        return self.process(function, output_type)

    @overload
    def flat_select(
        self,
        pattern_flat_select_function: PatternFlatSelectFunction[T, R]
        | Callable[[dict[str, list[T]]], Iterable[R] | None],
        /,
        *,
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]: ...

    @overload
    def flat_select(
        self,
        timed_out_partial_matches_tag: OutputTag,
        pattern_flat_timeout_function: FlatTimeout,
        pattern_flat_select_function: PatternFlatSelectFunction[T, R]
        | Callable[[dict[str, list[T]]], Iterable[R] | None],
        /,
        *,
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]: ...

    def flat_select(self, *functions: Any, output_type: TypeInformation | None = None) -> DataStream[Any]:
        """Make any number of results of each match; as `select`, but functions yield their results.

        Args:
            functions: The function; or the tag, what is called with a partial match and when its time was up, and the
                function.
            output_type: Type of the results.

        Raises:
            TypeMismatchError: If an argument is of another kind.
        """
        kinds = PatternFlatSelectFunction, PatternFlatTimeoutFunction
        return self.process(_selecting("flat_select", functions, *kinds, flat=True), output_type)


def _one_key(record: Any) -> int:
    return 0


def _selecting(
    method: str, functions: tuple[Any, ...], kind: type[Function], timeout: type[Function], *, flat: bool
) -> PatternProcessFunction[Any, Any]:
    if len(functions) == 1:
        (function,) = functions
        return SelectingFunction(function, _method(method, function, kind, method), flat=flat)
    if len(functions) != 3:
        raise TypeMismatchError(
            f"{method} was given {len(functions)} functions",
            hint=f"Call {method}(function), or {method}(tag, timeout_function, function).",
        )
    tag, timed_out, function = functions
    return TimedOutSelectingFunction(
        function,
        _method(method, function, kind, method),
        timed_out,
        _method(method, timed_out, timeout, "timeout"),
        _check_tag(method, tag),
        flat=flat,
    )


def _method(caller: str, function: Any, kind: type[Function], method: str) -> Callable[..., Any]:
    if isinstance(function, kind):
        bound: Callable[..., Any] = getattr(function, method)
        return bound
    if callable(function) and not isinstance(function, (Function, type)):
        plain: Callable[..., Any] = function
        return plain
    raise TypeMismatchError(f"{caller} was given {shorten(function)}, not a {kind.__name__} or a callable")


def _check_tag(method: str, tag: object) -> OutputTag:
    if not isinstance(tag, OutputTag):
        raise TypeMismatchError(f"{method} was given {shorten(tag)}, not an OutputTag")
    return tag


def _as_compare(comparator: object) -> Callable[[Any, Any], int] | None:
    if comparator is None:
        return None
    if isinstance(comparator, EventComparator):
        return comparator.compare
    if callable(comparator):
        return comparator
    raise TypeMismatchError(
        f"pattern was given {shorten(comparator)}, not an EventComparator or a callable of two events"
    )
