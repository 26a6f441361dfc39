"""Gives up checkpoints that take too long (`execution.checkpointing.timeout`)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

from millstream.base.clock import Clock
from millstream.base.errors import CheckpointStorageError
from millstream.config.options_checkpointing import CHECKPOINT_TIMEOUT

__all__ = ["within"]

Result = TypeVar("Result")


def within(clock: Clock, deadline: float, write: Callable[[], Result]) -> Result:
    """Return what writing to the store, or looking into it, gives.

    What is given up may be written late; no manifest lists it, so it is removed like all that nobody refers to.

    Args:
        clock: Measures.
        deadline: When to give up, in the clock's monotonic seconds.
        write: Writes one file, or looks for some.

    Raises:
        CheckpointStorageError: If it is not done at the deadline, or fails.
    """
    if deadline == math.inf:
        return write()
    try:
        return clock.within(deadline - clock.monotonic(), write)
    except TimeoutError as error:
        raise CheckpointStorageError(
            f"a checkpoint was not written in time: {error}",
            hint=f"Set {CHECKPOINT_TIMEOUT.key} to more, or use storage that is faster.",
        ) from error
