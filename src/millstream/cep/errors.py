"""What is wrong with a pattern, or may go wrong."""

from __future__ import annotations

from millstream.base.errors import JobDefinitionError
from millstream.operators.patterns.growth import GrowingStateWarning

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
