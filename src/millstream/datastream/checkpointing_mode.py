"""What checkpoints guarantee (PyFlink's `pyflink.datastream.checkpointing_mode`)."""

from __future__ import annotations

from enum import Enum

__all__ = ["CheckpointingMode"]


class CheckpointingMode(Enum):
    """How often a record may count in state after a restart; epochs are aligned, so it is once in either mode."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
