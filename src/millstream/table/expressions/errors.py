"""Errors of values that an expression cannot be computed for."""

from __future__ import annotations

from millstream.base.errors import MillstreamError

__all__ = ["EvaluationError"]


class EvaluationError(MillstreamError, ArithmeticError):
    """An expression has no result for a row: a division by zero, a text that is no number."""

    code = "SQL_EVALUATION"
    domain = "user"
