"""Sources as a function that runs (Java's `SourceFunction`); in PyFlink such functions only wrap Java classes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import Any

from millstream.base.errors import NotSupportedError
from millstream.common.functions import Function
from millstream.types.basic import TypeInformation

__all__ = ["ParallelSourceFunction", "SourceContext", "SourceFunction"]


class SourceContext(ABC):
    """What a source function emits into; for the thread that `run` is called on.

    Once the source is cancelled its methods raise `SystemExit`, which ends a `run` that does not look at `cancel`.

    Example:
        >>> from millstream.datastream.functions import SourceFunction
        >>> from millstream.testing import MiniCluster
        >>> class Readings(SourceFunction):
        ...     def run(self, ctx):
        ...         for time, degrees in (1_000, 20), (2_000, 21):
        ...             ctx.collect_with_timestamp(degrees, time)
        ...             ctx.emit_watermark(time)
        ...     def cancel(self):
        ...         pass
        >>> with MiniCluster() as cluster:
        ...     cluster.collect(cluster.environment().add_source(Readings()))
        [20, 21]
    """

    @abstractmethod
    def collect(self, value: Any) -> None:
        """Emit a record without a timestamp; waits while too many were not processed yet."""

    @abstractmethod
    def collect_with_timestamp(self, value: Any, timestamp: int) -> None:
        """Emit a record with its event time in epoch milliseconds; waits as `collect` does."""

    @abstractmethod
    def emit_watermark(self, timestamp: int) -> None:
        """Promise that no record with this event time, in epoch milliseconds, or an earlier one will follow."""

    @abstractmethod
    def mark_as_temporarily_idle(self) -> None:
        """Have nobody wait for this source's watermarks until it emits the next record."""

    @abstractmethod
    def get_checkpoint_lock(self) -> AbstractContextManager[Any]:
        """Return the lock under which a CheckpointedFunction emits a record and notes that it did::

        with ctx.get_checkpoint_lock():
            ctx.collect(value)
            self.offset += 1
        """


class SourceFunction(Function):
    """Emits records as long as its `run` runs; derive from it, and give it to `add_source`.

    One instance runs, on a thread of its own in the slot. Java's class of that name, which PyFlink wraps, is named by
    a string or a Java object; that is not supported.

    Raises:
        NotSupportedError: If the class of a Java function is given.

    Example:
        >>> from millstream.datastream.functions import SourceFunction
        >>> from millstream.testing import MiniCluster
        >>> class Ticks(SourceFunction):
        ...     def run(self, ctx):
        ...         self.running, number = True, 0
        ...         while self.running and number < 3:
        ...             ctx.collect_with_timestamp(f"tick {number}", 1_000 * number)
        ...             number += 1
        ...     def cancel(self):
        ...         self.running = False
        >>> with MiniCluster() as cluster:
        ...     cluster.collect(cluster.environment().add_source(Ticks()))
        ['tick 0', 'tick 1', 'tick 2']
    """

    def __init__(self, source_func: Any = None) -> None:
        if source_func is not None:
            raise NotSupportedError(
                f"a source function written in Java was given: {source_func!r}",
                hint="Derive from SourceFunction, or use from_source(...) with a Source.",
            )

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type that all records have, which is the type of the stream; None, by default, if there is none.

        Records are not checked against it; the type that `add_source` is given they are.
        """
        return None

    def run(self, ctx: SourceContext) -> None:
        """Emit records; the source ends when this returns. Called after `open`, once in each attempt."""
        raise NotImplementedError(f"{type(self).__name__} does not override run(ctx)")

    def cancel(self) -> None:
        """Make `run` return soon; called on another thread, also after `run` has returned."""


class ParallelSourceFunction(SourceFunction):
    """A source function of which every subtask runs an instance of its own.

    Example:
        >>> from millstream.datastream.functions import ParallelSourceFunction
        >>> from millstream.testing import MiniCluster
        >>> class Part(ParallelSourceFunction):
        ...     def open(self, runtime_context):
        ...         self.index = runtime_context.get_index_of_this_subtask()
        ...     def run(self, ctx):
        ...         for number in range(self.index, 6, 2):
        ...             ctx.collect(number)
        ...     def cancel(self):
        ...         pass
        >>> with MiniCluster(parallelism=2) as cluster:
        ...     sorted(cluster.collect(cluster.environment().add_source(Part())))
        [0, 1, 2, 3, 4, 5]
    """
