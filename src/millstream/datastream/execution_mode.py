"""Execution modes (PyFlink's `pyflink.datastream.execution_mode`)."""

from __future__ import annotations

from enum import Enum

__all__ = ["RuntimeExecutionMode"]


class RuntimeExecutionMode(Enum):
    """When results are emitted: as they come, or once at the end of a bounded input.

    Example:
        >>> from millstream.datastream import RuntimeExecutionMode
        >>> from millstream.testing import MiniCluster
        >>> with MiniCluster() as cluster:
        ...     env = cluster.environment().set_runtime_mode(RuntimeExecutionMode.BATCH)
        ...     sales = env.from_collection([("tea", 3), ("tea", 4)])
        ...     cluster.collect(sales.key_by(lambda sale: sale[0]).sum(1))  # STREAMING has ('tea', 3) too
        [('tea', 7)]
    """

    STREAMING = 0
    BATCH = 1
    AUTOMATIC = 2
