"""What checkpoints guarantee (PyFlink's `pyflink.datastream.checkpointing_mode`)."""

from __future__ import annotations

from enum import Enum

__all__ = ["CheckpointingMode"]


class CheckpointingMode(Enum):
    """How often a record may count in state after a restart; epochs are aligned, so it is once in either mode.

    Example:
        >>> from millstream.datastream import CheckpointingMode, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> env.enable_checkpointing(10_000, CheckpointingMode.AT_LEAST_ONCE).get_checkpointing_mode()
        <CheckpointingMode.AT_LEAST_ONCE: 1>
    """

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
