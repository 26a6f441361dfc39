"""Where to go on after a match (Flink's `AfterMatchSkipStrategy`)."""

from __future__ import annotations

from dataclasses import replace

from millstream.base.errors import ConfigurationError
from millstream.cep.errors import MalformedPatternError
from millstream.operators.patterns.parts import Skip, SkipTo

__all__ = ["AfterMatchSkipStrategy"]


class AfterMatchSkipStrategy:
    """Says which other matches a match rules out; made by its static methods.

    A match is handed over once no partial match is left that began before it, for that one could rule it out.

    Example:
        >>> from millstream.cep import CEP, AfterMatchSkipStrategy, Pattern
        >>> from millstream.testing import OperatorHarness
        >>> def matches(skip):
        ...     pattern = Pattern.begin("n", skip).times(2).consecutive()
        ...     harness = OperatorHarness(
        ...         lambda ns: CEP.pattern(ns.key_by(lambda n: 0), pattern).select(lambda match: match["n"])
        ...     )
        ...     for number in 1, 2, 3:
        ...         harness.push(number, timestamp=number)
        ...     harness.push_watermark(3)
        ...     return harness.take()
        >>> matches(AfterMatchSkipStrategy.no_skip())
        [[1, 2], [2, 3]]
        >>> matches(AfterMatchSkipStrategy.skip_past_last_event())
        [[1, 2]]
    """

    def __init__(self, skip: Skip) -> None:
        self._skip = skip

    @staticmethod
    def no_skip() -> AfterMatchSkipStrategy:
        """Every match counts; the default."""
        return AfterMatchSkipStrategy(Skip())

    @staticmethod
    def skip_to_next() -> AfterMatchSkipStrategy:
        """Rule out matches that begin with the same event."""
        return AfterMatchSkipStrategy(Skip(SkipTo.NEXT))

    @staticmethod
    def skip_past_last_event() -> AfterMatchSkipStrategy:
        """Rule out matches that begin up to the last event of the match."""
        return AfterMatchSkipStrategy(Skip(SkipTo.PAST_LAST))

    @staticmethod
    def skip_to_first(pattern_name: str) -> AfterMatchSkipStrategy:
        """Rule out matches that begin before the first event of a part.

        Raises:
            ConfigurationError: If the name is empty.
        """
        return AfterMatchSkipStrategy(Skip(SkipTo.FIRST, _check_name("skip_to_first", pattern_name)))

    @staticmethod
    def skip_to_last(pattern_name: str) -> AfterMatchSkipStrategy:
        """Rule out matches that begin before the last event of a part.

        Raises:
            ConfigurationError: If the name is empty.
        """
        return AfterMatchSkipStrategy(Skip(SkipTo.LAST, _check_name("skip_to_last", pattern_name)))

    def throw_exception_on_miss(self) -> AfterMatchSkipStrategy:
        """Fail the job at a match that has no event of the part, or begins with it; otherwise such rule out nothing.

        Raises:
            MalformedPatternError: If it does not skip to a part.
        """
        if not self._skip.name:
            raise MalformedPatternError(
                f'throw_exception_on_miss() does not apply to "{self._skip.to.value}"',
                hint="It is for skip_to_first(...) and skip_to_last(...).",
            )
        return AfterMatchSkipStrategy(replace(self._skip, strict=True))

    def __repr__(self) -> str:
        return f"AfterMatchSkipStrategy({self._skip.describe()})"


def _check_name(method: str, name: object) -> str:
    if not isinstance(name, str) or not name:
        raise ConfigurationError(
            f"{method} was given {name!r} as the name of a part", hint="Give it a part's name."
        )
    return name
