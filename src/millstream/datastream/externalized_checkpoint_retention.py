"""What becomes of checkpoints (PyFlink's `pyflink.datastream.externalized_checkpoint_retention`)."""

from __future__ import annotations

from enum import Enum

__all__ = ["ExternalizedCheckpointRetention"]


class ExternalizedCheckpointRetention(Enum):
    """What becomes of the last checkpoint when a job is cancelled; that of a failed job stays in the first two.

    Example:
        >>> from millstream.datastream import ExternalizedCheckpointRetention, StreamExecutionEnvironment
        >>> config = StreamExecutionEnvironment.get_execution_environment().get_checkpoint_config()
        >>> retention = ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION
        >>> config.set_externalized_checkpoint_retention(retention).get_externalized_checkpoint_retention()
        <ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION: 1>
    """

    DELETE_ON_CANCELLATION = 0
    RETAIN_ON_CANCELLATION = 1
    NO_EXTERNALIZED_CHECKPOINTS = 2
