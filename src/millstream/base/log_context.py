"""What a thread works for, so that what it logs can be found again: job, attempt."""

from __future__ import annotations

from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

__all__ = ["LOG_CONTEXT", "add_to_log_context"]

LOG_CONTEXT: ContextVar[MappingProxyType[str, Any]] = ContextVar(
    "millstream_log_context", default=MappingProxyType({})
)
"""Fields of all that this thread logs."""


def add_to_log_context(**fields: Any) -> None:
    """Have fields added to all that this thread logs from now on."""
    LOG_CONTEXT.set(MappingProxyType({**LOG_CONTEXT.get(), **fields}))
