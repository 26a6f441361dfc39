"""Values for the `?` of a query, a row for each split (after Flink's Java package `connector.jdbc.split`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Self

from millstream.base.errors import ConfigurationError

__all__ = [
    "JdbcGenericParameterValuesProvider",
    "JdbcNumericBetweenParametersProvider",
    "JdbcParameterValuesProvider",
]


class JdbcParameterValuesProvider(ABC):
    """Says which values a query is executed with; each row of values is a split.

    Example:
        >>> from millstream.datastream.connectors.jdbc import JdbcParameterValuesProvider
        >>> class Months(JdbcParameterValuesProvider):
        ...     def get_parameter_values(self):
        ...         return [(f"2024-{month:02}",) for month in range(1, 4)]
        >>> Months().get_parameter_values()
        [('2024-01',), ('2024-02',), ('2024-03',)]
    """

    @abstractmethod
    def get_parameter_values(self) -> Sequence[Sequence[Any]]:
        """Return the rows of values. Called on the driver, when the job starts anew."""


class JdbcGenericParameterValuesProvider(JdbcParameterValuesProvider):
    """Gives the values that it is given.

    Args:
        parameters: A row of values for each split.

    Example:
        >>> from millstream.datastream.connectors.jdbc import JdbcGenericParameterValuesProvider
        >>> shops = JdbcGenericParameterValuesProvider([("Bonn",), ("Ulm",)])  # WHERE shop = ?
        >>> len(shops.get_parameter_values())
        2
    """

    def __init__(self, parameters: Sequence[Sequence[Any]]) -> None:
        self._parameters = tuple(map(tuple, parameters))

    def get_parameter_values(self) -> Sequence[Sequence[Any]]:
        """Return them."""
        return self._parameters


class JdbcNumericBetweenParametersProvider(JdbcParameterValuesProvider):
    """Cuts a range of whole numbers, for queries with `WHERE id BETWEEN ? AND ?`.

    Args:
        min_val: The first number.
        max_val: The last number.

    >>> from millstream.datastream.connectors.jdbc import JdbcNumericBetweenParametersProvider
    >>> JdbcNumericBetweenParametersProvider(1, 10).of_batch_size(4).get_parameter_values()
    [(1, 4), (5, 8), (9, 10)]
    >>> JdbcNumericBetweenParametersProvider(1, 10).of_batch_num(2).get_parameter_values()
    [(1, 5), (6, 10)]
    """

    def __init__(self, min_val: int, max_val: int) -> None:
        if min_val > max_val:
            raise ConfigurationError(f"there are no numbers from {min_val} to {max_val}")
        self._min = min_val
        self._max = max_val
        self._size: int | None = None

    def of_batch_size(self, batch_size: int) -> Self:
        """Have so many numbers in a split."""
        if batch_size < 1:
            raise ConfigurationError(f"batch size is {batch_size}, must be positive")
        self._size = batch_size
        return self

    def of_batch_num(self, batch_num: int) -> Self:
        """Have so many splits, of nearly the same size."""
        if batch_num < 1:
            raise ConfigurationError(f"number of batches is {batch_num}, must be positive")
        self._size = -(-(self._max - self._min + 1) // batch_num)
        return self

    def get_parameter_values(self) -> Sequence[Sequence[Any]]:
        """Return the first and the last number of each split.

        Raises:
            ConfigurationError: If it was not said how many there are.
        """
        if self._size is None:
            raise ConfigurationError(
                "it is not said how a range of numbers is cut",
                hint="Call of_batch_size(...) or of_batch_num(...).",
            )
        starts = range(self._min, self._max + 1, self._size)
        return [(start, min(start + self._size - 1, self._max)) for start in starts]
