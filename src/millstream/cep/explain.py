"""Patterns as text: their states, and what leads from one to the next."""

from __future__ import annotations

from typing import Any

from millstream.cep.compiling import compile_pattern
from millstream.cep.pattern import Pattern
from millstream.operators.patterns.explain import explain

__all__ = ["explain_pattern"]


def explain_pattern(pattern: Pattern[Any]) -> str:
    """Return the states and transitions of a pattern as text.

    Raises:
        MalformedPatternError: If the pattern makes no sense.
    """
    return explain(compile_pattern(pattern))
