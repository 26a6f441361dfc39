"""What is wrong with a pattern, or may go wrong."""

from __future__ import annotations

from millstream.base.errors import JobDefinitionError

__all__ = ["GrowingStateWarning", "MalformedPatternError"]


class MalformedPatternError(JobDefinitionError):
    """A pattern says something that makes no sense (Flink's `MalformedPatternException`)."""

    code = "MALFORMED_PATTERN"


class GrowingStateWarning(UserWarning):
    """A pattern may collect events without end."""
