"""Records made by a function of their index."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream.base.errors import ConfigurationError
from millstream.connectors.index_splits import IndexEnumerator, IndexReader, cut, strides
from millstream.operators.user_code import apply_to_each
from millstream.spi.source import Boundedness, Source, SourceReader, SplitEnumerator

__all__ = ["DataGeneratorSource", "RateLimiterStrategy"]


class RateLimiterStrategy:
    """How fast records are made."""

    def __init__(self, records_per_second: float | None) -> None:
        """Limit the rate over all subtasks; None for no limit.

        Raises:
            ConfigurationError: If the rate is not positive.
        """
        if records_per_second is not None and not records_per_second > 0:
            raise ConfigurationError(f"rate of {records_per_second} records per second is not positive")
        self.records_per_second = records_per_second

    @staticmethod
    def per_second(records_per_second: float) -> RateLimiterStrategy:
        """Limit the rate over all subtasks; after a stall at most one second is made up for."""
        return RateLimiterStrategy(records_per_second)

    @staticmethod
    def no_op() -> RateLimiterStrategy:
        """Make records as fast as they are taken."""
        return RateLimiterStrategy(None)


class DataGeneratorSource(Source):
    """`generator_function(index)` for every index from 0 to `count - 1`, or for ever.

    The function must give the same value for the same index: after a failure it is called again.
    """

    def __init__(
        self,
        generator_function: Any,
        count: int | None = None,
        rate_limiter_strategy: RateLimiterStrategy | None = None,
        type_info: Any = None,
    ) -> None:
        """Declare the source.

        Args:
            generator_function: A callable of the index, or an object with a method `map`.
            count: Number of records; None for no end.
            rate_limiter_strategy: How fast; as fast as possible if None.
            type_info: Type of the records; nothing depends on it here.

        Raises:
            ConfigurationError: If the function is none, or the count negative.
        """
        if not callable(generator_function) and not callable(getattr(generator_function, "map", None)):
            raise ConfigurationError(
                f"generator function {generator_function!r} is neither callable nor has a method map"
            )
        if count is not None and count < 0:
            raise ConfigurationError(f"count of a data generator is {count}, must not be negative")
        self._function = generator_function
        self._count = count
        self._rate = rate_limiter_strategy or RateLimiterStrategy.no_op()
        self.type_info = type_info

    def get_boundedness(self) -> Boundedness:
        """Return whether there is a count."""
        return Boundedness.CONTINUOUS_UNBOUNDED if self._count is None else Boundedness.BOUNDED

    def build_enumerator(self, parallelism: int, restored: Any | None) -> SplitEnumerator:
        """Share out the indices."""
        splits = strides(parallelism) if self._count is None else cut(0, self._count, parallelism)
        return IndexEnumerator(splits, parallelism, restored, per_second=self._rate.records_per_second)

    def build_reader(self, subtask_index: int, parallelism: int) -> SourceReader:
        """Make the reader of one subtask."""
        method = getattr(self._function, "map", None)
        function: Callable[[int], Any] = method if callable(method) else self._function
        return IndexReader(lambda indices: apply_to_each(function, list(indices)))
