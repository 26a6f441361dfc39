"""Interval joins of keyed streams (Java Flink's `KeyedStream.IntervalJoin`)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Generic, Self

from millstream.base.errors import TypeMismatchError
from millstream.base.time import Duration, Time, to_milliseconds
from millstream.base.type_variables import T1, T2, R
from millstream.common.co_functions import ProcessJoinFunction
from millstream.common.output_tag import OutputTag
from millstream.datastream.streams.connected_streams import check_key_types
from millstream.datastream.streams.data_stream import DataStream, check_stream, transform
from millstream.datastream.streams.keyed_stream import KeyedStream
from millstream.operators.interval_join import IntervalJoinSpec
from millstream.types.typeinfo import TypeInformation

__all__ = ["IntervalJoin", "IntervalJoined"]

Bound = Duration | Time | timedelta | int


class IntervalJoin(Generic[T1, T2]):
    """Two keyed streams to be joined by time; `KeyedStream.interval_join` makes it.

    Raises:
        TypeMismatchError: If an argument is no keyed stream, or the declared types of their keys differ.
        JobDefinitionError: If they belong to different environments.
    """

    def __init__(self, stream_one: KeyedStream[T1, Any], stream_two: KeyedStream[T2, Any]) -> None:
        check_stream("interval_join", stream_two, stream_one._environment)
        if not isinstance(stream_two, KeyedStream):
            raise TypeMismatchError(
                "interval_join was given a stream that is not keyed", hint="Call key_by(...) on both streams."
            )
        check_key_types("interval_join", stream_one, stream_two)
        self._streams = stream_one, stream_two
        self._event_time = True

    def __repr__(self) -> str:
        return f"IntervalJoin({self._streams[0]!r}, {self._streams[1]!r})"

    def in_event_time(self) -> Self:
        """Pair records by their timestamps; the default."""
        self._event_time = True
        return self

    def in_processing_time(self) -> Self:
        """Pair records by the processing times at which they arrive; no record is late then."""
        self._event_time = False
        return self

    def between(self, lower_bound: Bound, upper_bound: Bound) -> IntervalJoined[T1, T2]:
        """Set how far the time of a right record may be from that of a left one, both bounds inclusive.

        Args:
            lower_bound: Least difference of right and left time; may be negative. A number is milliseconds.
            upper_bound: Greatest difference.

        Raises:
            ConfigurationError: If the lower bound is above the upper one.
        """
        return IntervalJoined(
            *self._streams,
            to_milliseconds(lower_bound),
            to_milliseconds(upper_bound),
            event_time=self._event_time,
        )


class IntervalJoined(Generic[T1, T2]):
    """An interval join with its bounds; `IntervalJoin.between` makes it."""

    def __init__(
        self,
        stream_one: KeyedStream[T1, Any],
        stream_two: KeyedStream[T2, Any],
        lower_ms: int,
        upper_ms: int,
        *,
        event_time: bool,
    ) -> None:
        self._left = stream_one
        self._right = stream_two
        self._lower_ms = lower_ms
        self._upper_ms = upper_ms
        self._event_time = event_time
        self._lower_exclusive = self._upper_exclusive = False
        self._late_left: OutputTag | None = None
        self._late_right: OutputTag | None = None

    def lower_bound_exclusive(self) -> Self:
        """Leave out pairs that are exactly the lower bound apart."""
        self._lower_exclusive = True
        return self

    def upper_bound_exclusive(self) -> Self:
        """Leave out pairs that are exactly the upper bound apart."""
        self._upper_exclusive = True
        return self

    def side_output_left_late_data(self, output_tag: OutputTag) -> Self:
        """Send left records that come behind the watermark to a side output; otherwise they are dropped.

        Raises:
            TypeMismatchError: If it is not an OutputTag.
        """
        self._late_left = _check_tag(output_tag)
        return self

    def side_output_right_late_data(self, output_tag: OutputTag) -> Self:
        """Send right records that come behind the watermark to a side output; otherwise they are dropped.

        Raises:
            TypeMismatchError: If it is not an OutputTag.
        """
        self._late_right = _check_tag(output_tag)
        return self

    def process(
        self,
        process_join_function: ProcessJoinFunction[T1, T2, R],
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]:
        """Call a function for each pair, as soon as both records are there.

        Results have the later one of both times.

        Args:
            process_join_function: Gets the pairs; may use the state of their key.
            output_type: Type of the results.

        Raises:
            TypeMismatchError: If the function is not a ProcessJoinFunction.
            ConfigurationError: If no pair fits the bounds.
        """
        if not isinstance(process_join_function, ProcessJoinFunction):
            raise TypeMismatchError(
                f"process was given a {type(process_join_function).__name__}, not a ProcessJoinFunction"
            )
        spec = IntervalJoinSpec(
            process_join_function,
            self._left._key_selector,
            self._right._key_selector,
            lower_ms=self._lower_ms + self._lower_exclusive,
            upper_ms=self._upper_ms - self._upper_exclusive,
            event_time=self._event_time,
            late_left_tag_id=None if self._late_left is None else self._late_left.tag_id,
            late_right_tag_id=None if self._late_right is None else self._late_right.tag_id,
            output_type=output_type,
        )
        return transform("Interval Join", spec, [self._left, self._right], output_type)


def _check_tag(output_tag: OutputTag) -> OutputTag:
    if not isinstance(output_tag, OutputTag):
        raise TypeMismatchError(f"a side output of late data was named by {output_tag!r}, not an OutputTag")
    return output_tag
