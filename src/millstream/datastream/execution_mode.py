"""Execution modes (PyFlink's `pyflink.datastream.execution_mode`)."""

from __future__ import annotations

from enum import Enum

__all__ = ["RuntimeExecutionMode"]


class RuntimeExecutionMode(Enum):
    """When results are emitted: as they come, or once at the end of a bounded input."""

    STREAMING = 0
    BATCH = 1
    AUTOMATIC = 2
