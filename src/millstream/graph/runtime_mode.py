"""Whether a job runs in batch mode."""

from __future__ import annotations

from collections.abc import Sequence

from millstream.base.errors import JobDefinitionError
from millstream.config import options
from millstream.config.configuration import Configuration
from millstream.graph.transformation import Transformation

__all__ = ["is_batch"]


def is_batch(transformations: Sequence[Transformation], configuration: Configuration) -> bool:
    """Return whether a job's results are emitted once, by `execution.runtime-mode` and its sources.

    Raises:
        JobDefinitionError: If the mode is BATCH and a source is unbounded.
    """
    mode = configuration.get(options.RUNTIME_MODE).upper()
    if mode == "STREAMING":
        return False
    unbounded = [each.name for each in transformations if not each.inputs and not each.bounded]
    if unbounded and mode == "BATCH":
        raise JobDefinitionError(
            f'source "{unbounded[0]}" is unbounded, and execution.runtime-mode is BATCH',
            detail="Batch mode emits results at the end of the input, which never comes.",
            hint="Set execution.runtime-mode to STREAMING or AUTOMATIC, or bound the source.",
        )
    return not unbounded
