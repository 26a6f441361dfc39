"""What stands for operators that are not there yet."""

from __future__ import annotations

from millstream.base.errors import NotSupportedError
from millstream.operators.base import Operator, OperatorSpec

__all__ = ["build_pending"]


def build_pending(spec: OperatorSpec) -> Operator:
    """Raise an error: the operator is not there yet.

    Raises:
        NotSupportedError: Always.
    """
    raise NotSupportedError(f"{type(spec).__name__.removesuffix('Spec')} of SQL is not there yet")
