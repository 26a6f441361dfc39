"""Patterns whose state may grow without bound."""

from __future__ import annotations

from collections.abc import Iterator

from millstream.operators.patterns.parts import Contiguity, Forbidden, Part, PatternSpec

__all__ = ["GrowingStateWarning", "growing_parts"]


class GrowingStateWarning(UserWarning):
    """A pattern may collect events, or partial matches, without end.

    Example:
        >>> import warnings
        >>> from millstream.cep import CEP, GrowingStateWarning, Pattern
        >>> from millstream.datastream import StreamExecutionEnvironment
        >>> numbers = StreamExecutionEnvironment.get_execution_environment().from_collection([1, 2, 3])
        >>> endless = Pattern.begin("any").one_or_more().next("end").where(lambda n: n == 0)
        >>> with warnings.catch_warnings(record=True) as seen:
        ...     warnings.simplefilter("always")
        ...     matches = CEP.pattern(numbers, endless).select(lambda match: match["any"])
        >>> [warning.category.__name__ for warning in seen]
        ['GrowingStateWarning']
    """


def growing_parts(spec: PatternSpec) -> Iterator[str]:
    """Yield what of a pattern may grow without bound, and what bounds it, in words; nothing if it has a bound.

    With a bound on the time of the whole match there is nothing to tell of. Else a part that loops may take events
    without end, and a part that lets others pass may be waited for without end, by more and more partial matches.
    """
    if spec.within_ms is None:
        yield from _growing(spec.steps, is_first=True)


def _growing(steps: tuple[Part | Forbidden, ...], *, is_first: bool) -> Iterator[str]:
    for step in steps:
        if isinstance(step, Forbidden):
            continue
        what = f"the group {step.describe()}" if step.is_group else f'part "{step.name}"'
        if step.quantity.loops and step.until is None:
            yield f"{what} of a pattern loops without within(...) or until(...): state may grow without bound"
        elif _waits(step, is_first=is_first):
            yield (
                f"{what} of a pattern is waited for without within(...): a partial match that nothing completes stays "
                "for ever, so their number may grow without bound"
            )
        yield from _growing(step.steps, is_first=is_first)
        is_first = False


def _waits(step: Part, *, is_first: bool) -> bool:
    """Return whether a partial match may wait for an event of a part without end."""
    quantity = step.quantity
    several = step.until is None and (quantity.most is None or quantity.most > 1)
    if several and quantity.inner is not Contiguity.STRICT and quantity.gap_ms is None:
        return True
    return not is_first and step.contiguity is not Contiguity.STRICT and step.gap_ms is None
