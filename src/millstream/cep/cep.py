"""Where programs begin (Flink's `CEP`)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from millstream.base.errors import TypeMismatchError, shorten
from millstream.base.type_variables import T
from millstream.cep.compiling import compile_pattern, warn_of_growth
from millstream.cep.functions import EventComparator
from millstream.cep.pattern import Pattern
from millstream.cep.pattern_stream import PatternStream
from millstream.datastream import DataStream
from millstream.datastream.streams.data_stream import check_stream
from millstream.operators.patterns.growth import growing_parts
from millstream.operators.patterns.parts import PatternSpec

__all__ = ["CEP"]

_log = logging.getLogger(__name__)


class CEP:
    """Makes pattern streams of streams and patterns.

    Example:
        >>> from millstream.cep import CEP, Pattern
        >>> from millstream.common import WatermarkStrategy
        >>> from millstream.testing import MiniCluster
        >>> pattern = (
        ...     Pattern.begin("small").where(lambda payment: payment["amount"] < 5)
        ...     .next("large").where(lambda payment: payment["amount"] > 500)
        ... )
        >>> strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("at")
        >>> with MiniCluster() as cluster:
        ...     amounts = enumerate((3, 900, 20))
        ...     payments = [{"card": 7, "amount": amount, "at": 1_000 * second} for second, amount in amounts]
        ...     stream = cluster.environment().from_collection(payments)
        ...     stream = stream.assign_timestamps_and_watermarks(strategy)
        ...     found = CEP.pattern(stream.key_by(lambda payment: payment["card"]), pattern)
        ...     cluster.collect(found.select(lambda match: match["large"][0]["amount"]))
        [900]
    """

    @staticmethod
    def pattern(
        input_stream: DataStream[T],
        pattern: Pattern[Any],
        comparator: EventComparator[T] | Callable[[T, T], int] | None = None,
    ) -> PatternStream[T]:
        """Look for a pattern in a stream: in a keyed one under each key, else in all of it, in one subtask.

        Args:
            input_stream: The stream.
            pattern: The pattern, as it is now.
            comparator: Orders events of the same time; None for the order in which they arrive.

        Raises:
            TypeMismatchError: If an argument is of another kind.
            MalformedPatternError: If the pattern makes no sense.
            NotSerializableError: If a condition cannot be pickled.
        """
        _check_input("pattern", input_stream)
        _check_pattern("pattern", pattern)
        spec = compile_pattern(pattern)
        warn_of_growth(spec)
        return PatternStream(input_stream, spec, comparator)

    @staticmethod
    def dynamic_patterns(
        input_stream: DataStream[T],
        control_stream: DataStream[Pattern[Any]],
        pattern: Pattern[Any] | None = None,
        comparator: EventComparator[T] | Callable[[T, T], int] | None = None,
    ) -> PatternStream[T]:
        """Look for a pattern that a stream of patterns replaces, without a restart; Flink has none.

        In event time a pattern counts for events from its record's timestamp on, else from when it comes. Partial
        matches of the one before end then; its matches that had to wait for these are handed over.

        Args:
            input_stream: The stream.
            control_stream: The patterns.
            pattern: The pattern to begin with; None for none.
            comparator: Orders events of the same time; None for the order in which they arrive.

        Raises:
            TypeMismatchError: If an argument is of another kind.
            JobDefinitionError: If the streams belong to different environments.
            MalformedPatternError: If the pattern makes no sense.
            NotSerializableError: If a condition cannot be pickled.
        """
        _check_input("dynamic_patterns", input_stream)
        check_stream("dynamic_patterns", control_stream, input_stream._environment)
        spec = None
        if pattern is not None:
            _check_pattern("dynamic_patterns", pattern)
            spec = compile_pattern(pattern)
            warn_of_growth(spec)
        control = control_stream.map(_compiled).name("Patterns")
        return PatternStream(input_stream, spec, comparator, control)


def _check_input(method: str, stream: object) -> None:
    if not isinstance(stream, DataStream):
        raise TypeMismatchError(f"{method} was given a {type(stream).__name__}, not a DataStream")


def _check_pattern(method: str, pattern: object) -> None:
    if not isinstance(pattern, Pattern):
        raise TypeMismatchError(
            f"{method} was given {shorten(pattern)} of type {type(pattern).__name__}, not a Pattern",
            hint='Make one: Pattern.begin("first").where(...).',
        )


def _compiled(pattern: Pattern[Any]) -> PatternSpec:
    if not isinstance(pattern, Pattern):
        raise TypeMismatchError(
            f"a stream of patterns has {shorten(pattern)} of type {type(pattern).__name__}",
            hint="Make Patterns of its records: control_stream.map(...).",
        )
    spec = compile_pattern(pattern)
    for told in growing_parts(spec):
        _log.warning(told, extra={"pattern": spec.describe()})
    return spec
