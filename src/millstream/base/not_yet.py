"""Attributes of Flink's classes and modules that are not there yet."""

from __future__ import annotations

from millstream.base.errors import NotSupportedError

__all__ = ["NotYetAttributeError"]


class NotYetAttributeError(NotSupportedError, AttributeError):
    """An attribute of a class or module that is declared only; `hasattr` tells that it is not there."""
