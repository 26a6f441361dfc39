"""PATTERN of MATCH_RECOGNIZE: from the tree of a text to parts, with what Flink refuses refused."""

from __future__ import annotations

from typing import Any

from millstream.table.errors import ValidationError, did_you_mean
from millstream.table.plan.matching import MatchPart
from millstream.table.sql import ast

__all__ = ["bind_pattern", "bind_skip"]


def bind_pattern(clause: ast.MatchRecognize) -> tuple[MatchPart, ...]:
    """Return the parts of a pattern, in order.

    Raises:
        ValidationError: If it is none that can be searched for; says where.
    """
    at = clause.pattern_at or clause.at
    parts = tuple(_parts(clause.pattern, at))
    seen: set[str] = set()
    for part in parts:
        if part.variable in seen:
            raise ValidationError(
                f'pattern variable "{part.variable}" comes twice',
                at=at,
                detail="Pattern variables must be unique.",
                hint=f"Give the second one a name of its own, with the same condition in DEFINE, "
                f'such as "{part.variable}2".',
            )
        seen.add(part.variable)
    if all(part.least == 0 for part in parts):
        raise ValidationError(
            f"the pattern ({' '.join(part.text for part in parts)}) can match no row at all",
            at=at,
            detail="Patterns that can produce empty matches are not supported.",
            hint="Let one variable be not optional.",
        )
    last = parts[-1]
    if last.greedy and last.least != last.most and (last.least, last.most) != (0, 1):
        raise ValidationError(
            f'the pattern ends with the greedy quantifier of "{last.text}"',
            at=at,
            detail="Greedy quantifiers are not allowed as the last element of a pattern: only a row that does not "
            "fit would end it.",
            hint=f'End with another variable, one defined as NOT the condition of "{last.variable}", or with the '
            f'reluctant "{last.text}?".',
        )
    return parts


def _parts(pattern: Any, at: ast.Position | None) -> list[MatchPart]:
    kind = pattern[0]
    if kind == "variable":
        return [MatchPart(pattern[1])]
    if kind == "sequence":
        return [part for each in pattern[1] for part in _parts(each, at)]
    if kind == "quantified":
        _, inner, least, most, greedy = pattern
        return [_quantified(inner, least, most, greedy, at)]
    if kind == "alternation":
        raise ValidationError(
            "the pattern has alternatives (|)",
            at=at,
            detail="Branching patterns are not supported.",
            hint="Write a query for each alternative and unite them with UNION ALL, or let one variable's condition "
            "be true of both.",
        )
    raise ValidationError(
        "the pattern has PERMUTE",
        at=at,
        detail="PERMUTE patterns are not supported.",
        hint="Write a query for each order and unite them with UNION ALL.",
    )


def _quantified(inner: Any, least: int, most: int | None, greedy: bool, at: ast.Position | None) -> MatchPart:
    if inner[0] != "variable":
        raise ValidationError(
            "a group of the pattern has a quantifier",
            at=at,
            detail="Group patterns are not supported: only single variables can be repeated.",
            hint="Write the group out as often as it occurs, or search with millstream.cep, which has groups.",
        )
    part = MatchPart(inner[1], least, most, greedy)
    if most is not None and (most < least or most == 0):
        raise ValidationError(
            f'the quantifier of "{part.text}" allows no row',
            at=at,
            detail="The upper bound is at least 1, and not below the lower one.",
        )
    if (least, most) == (0, 1) and not greedy:
        raise ValidationError(
            f'"{part.text}" is a reluctant optional variable',
            at=at,
            detail="Reluctant optional variables are not supported.",
            hint=f'Write "{part.variable}?".',
        )
    return part


def bind_skip(clause: ast.MatchRecognize, parts: tuple[MatchPart, ...]) -> tuple[str, str]:
    """Return where to go on after a match; without AFTER MATCH it is the next row, as in Flink.

    Raises:
        ValidationError: If it is at a variable that is not in the pattern, or where the match began.
    """
    skip, variable = clause.after_match
    if not skip:
        return "TO NEXT ROW", ""
    if not variable:
        return skip, ""
    names = [part.variable for part in parts]
    if variable not in names:
        raise ValidationError(
            f'AFTER MATCH SKIP {skip} "{variable}": the pattern has no such variable',
            at=clause.at,
            detail=f"It has: {', '.join(names)}.",
            hint=did_you_mean(variable, names),
        )
    return skip, variable
