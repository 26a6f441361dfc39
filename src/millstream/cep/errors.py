"""What is wrong with a pattern, or may go wrong."""

from __future__ import annotations

from millstream.base.errors import JobDefinitionError

__all__ = ["GrowingStateWarning", "MalformedPatternError"]


class MalformedPatternError(JobDefinitionError):
    """A pattern says something that makes no sense (Flink's `MalformedPatternException`).

    Example:
        >>> from millstream.cep import MalformedPatternError, Pattern
        >>> try:
        ...     Pattern.begin("first").until(lambda number: number > 3)
        ... except MalformedPatternError as error:
        ...     print(error)
        [MALFORMED_PATTERN] until was called on part "first", which does not loop
        Hint: Call one_or_more() or times_or_more(n) first.
    """

    code = "MALFORMED_PATTERN"


class GrowingStateWarning(UserWarning):
    """A pattern may collect events without end.

    Example:
        >>> import warnings
        >>> from millstream.cep import CEP, GrowingStateWarning, Pattern
        >>> from millstream.datastream import StreamExecutionEnvironment
        >>> numbers = StreamExecutionEnvironment.get_execution_environment().from_collection([1, 2, 3])
        >>> endless = Pattern.begin("any").one_or_more().followed_by("end").where(lambda n: n == 0)
        >>> with warnings.catch_warnings(record=True) as seen:
        ...     warnings.simplefilter("always")
        ...     matches = CEP.pattern(numbers, endless).select(lambda match: match["any"])
        >>> [warning.category.__name__ for warning in seen]
        ['GrowingStateWarning']
    """
