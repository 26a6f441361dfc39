"""From what a program built to what the automaton takes, with all checks that need the whole pattern."""

from __future__ import annotations

import warnings
from typing import Any

import cloudpickle

from millstream.base.errors import NotSerializableError
from millstream.cep.errors import GrowingStateWarning, MalformedPatternError
from millstream.cep.pattern import Pattern
from millstream.operators.patterns.growth import growing_parts
from millstream.operators.patterns.parts import (
    ANYTHING,
    Condition,
    Forbidden,
    Part,
    PatternSpec,
    Quantity,
    SkipTo,
)

__all__ = ["compile_pattern", "warn_of_growth"]


def compile_pattern(pattern: Pattern[Any]) -> PatternSpec:
    """Return a pattern as data.

    Raises:
        MalformedPatternError: If it makes no sense.
        NotSerializableError: If a condition cannot be pickled.
    """
    spec = PatternSpec(_steps(pattern), _shortest(pattern), pattern.get_after_match_skip_strategy()._skip)
    _check_names(spec)
    _check_ends(spec)
    _check_times(spec)
    _check_skip(spec)
    for part in spec.parts():
        _check_pickles(part.name, part.condition)
        if isinstance(part, Part) and part.until is not None:
            _check_pickles(part.name or "of a group", part.until)
    return spec


def _steps(pattern: Pattern[Any]) -> tuple[Part | Forbidden, ...]:
    return tuple(_step(part) for part in pattern._chain())


def _step(part: Pattern[Any]) -> Part | Forbidden:
    condition = part._condition or Condition(ANYTHING.test)
    if part._forbidden:
        return Forbidden(part._name, condition, part._at_once, part._gap_ms)
    least, most = part._times or (1, 1)
    return Part(
        part._name,
        condition,
        part._contiguity,
        Quantity(least, most, part._optional, part._greedy, part._inner, part._times_gap_ms),
        part._until,
        part._gap_ms,
        () if part._group is None else _steps(part._group),
    )


def _shortest(pattern: Pattern[Any]) -> int | None:
    """Return the least of the bounds between first and last event, of groups too."""
    bounds = [part._within_ms for part in pattern._chain()]
    bounds += [_shortest(part._group) for part in pattern._chain() if part._group is not None]
    return min((bound for bound in bounds if bound is not None), default=None)


def _check_names(spec: PatternSpec) -> None:
    seen: set[str] = set()
    for part in spec.parts():
        if part.name and part.name in seen:
            raise MalformedPatternError(
                f'two parts of a pattern are named "{part.name}"',
                detail="Matches have their events by name.",
                hint="Give each part a name of its own.",
            )
        seen.add(part.name)


def _check_ends(spec: PatternSpec) -> None:
    last = spec.steps[-1]
    if isinstance(last, Forbidden) and not last.at_once and spec.within_ms is None and last.gap_ms is None:
        raise MalformedPatternError(
            f'a pattern ends with not_followed_by("{last.name}") and has no within(...)',
            detail="Without a time it never is certain that nothing follows.",
            hint="Call within(...), or append another part.",
        )
    for part in spec.parts():
        if isinstance(part, Part) and part.is_group and isinstance(part.steps[-1], Forbidden):
            raise MalformedPatternError(
                f'a group ends with a part that must not be there: "{part.steps[-1].name}"',
                detail="It would have to be told until when.",
                hint="Put it behind the group, or another part of the group behind it.",
            )


def _check_times(spec: PatternSpec) -> None:
    if spec.within_ms is None:
        return
    for part in spec.parts():
        gaps = [part.gap_ms, part.quantity.gap_ms if isinstance(part, Part) else None]
        for gap_ms in gaps:
            if gap_ms is not None and gap_ms > spec.within_ms:
                raise MalformedPatternError(
                    f'the events of part "{part.name}" may be {gap_ms} ms behind the ones before',
                    detail=f"The whole match is within {spec.within_ms} ms.",
                    hint="Let the bound between two events be the smaller one.",
                )


def _check_skip(spec: PatternSpec) -> None:
    if spec.skip.to not in (SkipTo.FIRST, SkipTo.LAST):
        return
    names = [part.name for part in spec.parts() if isinstance(part, Part) and part.name]
    if spec.skip.name not in names:
        raise MalformedPatternError(
            f'matches are to skip to "{spec.skip.name}", and the pattern has no such part',
            detail="It has " + ", ".join(f'"{name}"' for name in names) + ".",
        )


def _check_pickles(name: str, condition: Condition) -> None:
    try:
        cloudpickle.dumps(condition)
    except Exception as error:  # an object may refuse in any way
        raise NotSerializableError(
            f'a condition of part "{name}" cannot be pickled: {error}',
            detail="Conditions are sent to the slots in which they run.",
            hint="Make what cannot be sent, such as a connection, in open(...) of a RichIterativeCondition.",
        ) from error


def warn_of_growth(spec: PatternSpec) -> None:
    """Warn of parts that may collect events without end, or be waited for without end."""
    for told in growing_parts(spec):
        warnings.warn(told, GrowingStateWarning, stacklevel=3)
