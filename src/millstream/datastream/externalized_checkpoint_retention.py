"""What becomes of checkpoints (PyFlink's `pyflink.datastream.externalized_checkpoint_retention`)."""

from __future__ import annotations

from enum import Enum

__all__ = ["ExternalizedCheckpointRetention"]


class ExternalizedCheckpointRetention(Enum):
    """What becomes of the last checkpoint when a job is cancelled; that of a failed job stays in the first two."""

    DELETE_ON_CANCELLATION = 0
    RETAIN_ON_CANCELLATION = 1
    NO_EXTERNALIZED_CHECKPOINTS = 2
