"""Records made by a function of their index."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from millstream.base.errors import ConfigurationError, TypeMismatchError
from millstream.connectors.index_splits import (
    BATCH_ROWS,
    IndexEnumerator,
    IndexReader,
    cut,
    number_array,
    strides,
)
from millstream.operators.columnar.forms import BatchForm, annotated_form, as_record_batch, in_form, name_of
from millstream.operators.user_code import apply_to_each, attach_element
from millstream.spi.batch import Batch, Columns, Rows
from millstream.spi.source import Boundedness, Source, SourceReader, SplitEnumerator
from millstream.types.basic import TypeInformation

__all__ = ["DataGeneratorSource", "RateLimiterStrategy"]


class RateLimiterStrategy:
    """How fast records are made.

    Example:
        >>> from millstream.datastream.connectors.datagen import RateLimiterStrategy
        >>> slow, fast = RateLimiterStrategy.per_second(100), RateLimiterStrategy.no_op()
    """

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

    One whose parameter is annotated with a form of a batch gets up to 50,000 indices at once, as column "index" of a
    batch in that form, and returns a batch in any form with a row for each::

        def reading(batch: dict[str, numpy.ndarray]):
            index = batch["index"]
            return {"sensor": index % 100, "celsius": 20 + index % 7 * 0.5}

    Example:
        >>> from millstream.common import Types
        >>> from millstream.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
        >>> orders = DataGeneratorSource(
        ...     lambda index: (f"shop-{index % 3}", 100 * index),
        ...     count=1_000,
        ...     rate_limiter_strategy=RateLimiterStrategy.per_second(100),
        ...     type_info=Types.TUPLE([Types.STRING(), Types.LONG()]),
        ... )  # env.from_source(orders, WatermarkStrategy.no_watermarks(), "orders")
    """

    def __init__(
        self,
        generator_function: Any,
        count: int | None = None,
        rate_limiter_strategy: RateLimiterStrategy | None = None,
        type_info: TypeInformation | None = None,
    ) -> None:
        """Declare the source.

        Args:
            generator_function: A callable of the index, or an object with a method `map`; of a batch of indices, if
                its parameter is annotated with pyarrow.RecordBatch, pyarrow.Table, pandas.DataFrame, polars.DataFrame
                or dict[str, numpy.ndarray].
            count: Number of records; None for no end.
            rate_limiter_strategy: How fast; as fast as possible if None.
            type_info: Type of the records, which is that of the stream; they are not checked.

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
        self._form = annotated_form(_function_of(generator_function))
        self._count = count
        self._rate = rate_limiter_strategy or RateLimiterStrategy.no_op()
        self.type_info = type_info

    def get_boundedness(self) -> Boundedness:
        """Return whether there is a count."""
        return Boundedness.CONTINUOUS_UNBOUNDED if self._count is None else Boundedness.BOUNDED

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type that that was declared."""
        return self.type_info

    def build_enumerator(self, parallelism: int, restored: Any | None) -> SplitEnumerator:
        """Share out the indices."""
        splits = strides(parallelism) if self._count is None else cut(0, self._count, parallelism)
        return IndexEnumerator(splits, parallelism, restored, per_second=self._rate.records_per_second)

    def build_reader(self, subtask_index: int, parallelism: int) -> SourceReader:
        """Make the reader of one subtask."""
        function = _function_of(self._function)
        if self._form is not None:
            return IndexReader(_BatchGenerator(function, self._form), BATCH_ROWS)
        return IndexReader(lambda indices: Rows(apply_to_each(function, list(indices))))


def _function_of(generator: Any) -> Callable[[Any], Any]:
    method = getattr(generator, "map", None)
    function: Callable[[Any], Any] = method if callable(method) else generator
    return function


@dataclass(frozen=True)
class _BatchGenerator:
    """Makes the records of indices by a function that takes a batch of them.

    Attributes:
        function: The function.
        form: The form in which it wants them.
    """

    function: Callable[[Any], Any]
    form: BatchForm

    def __call__(self, indices: range) -> Batch:
        import pyarrow as pa  # only functions that name a form of a batch need it

        batch = pa.RecordBatch.from_arrays([number_array(indices)], ["index"])
        name = name_of(self.function)
        try:
            made = as_record_batch(name, self.function(in_form(batch, self.form)))
        except Exception as error:
            attach_element(error, indices)
            raise
        if made.num_rows != len(indices):
            raise TypeMismatchError(
                f"{name} returned {made.num_rows} rows for the {len(indices)} indices from {indices[0]} on",
                detail="It returns one row for each index: after a failure it is asked for some of them again.",
                hint="To leave some out or to add some, put filter_batches or map_batches behind the source.",
            )
        return Columns(made)
