"""Aggregates as a program declares them: what is computed of which field."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from millstream.base.errors import ConfigurationError, TypeMismatchError, shorten

__all__ = ["Aggregate", "AggregateKind"]


class AggregateKind(Enum):
    """What is computed; the value is the function's name."""

    COUNT = "count"
    SUM = "sum"
    MIN = "min"
    MAX = "max"
    MEAN = "mean"
    FIRST = "first"
    LAST = "last"
    QUANTILE = "quantile"


@dataclass(frozen=True)
class Aggregate:
    """Declares one aggregate; `millstream.datastream.expressions` makes them.

    Attributes:
        kind: What is computed.
        field: Name of the field; None counts records.
        quantile: Which quantile, between 0 and 1.
        accuracy: Relative error of a quantile.

    Raises:
        TypeMismatchError: If the field is not a name.
        ConfigurationError: If a number is out of its range.

    Example:
        >>> from millstream.common import Row
        >>> from millstream.datastream.expressions import count, mean
        >>> from millstream.testing import MiniCluster
        >>> mean("delay").field
        'delay'
        >>> with MiniCluster() as cluster:
        ...     delays = [Row(carrier="UA", delay=2), Row(carrier="UA", delay=40)]
        ...     flights = cluster.environment().from_collection(delays).key_by("carrier")
        ...     cluster.collect(flights.aggregate(flights=count(), average=mean("delay")))[-1]
        Row(carrier='UA', flights=2, average=21.0)
    """

    kind: AggregateKind
    field: str | None = None
    quantile: float = 0.5
    accuracy: float = 0.01

    def __post_init__(self) -> None:
        missing = self.field is None and self.kind is not AggregateKind.COUNT
        if missing or not isinstance(self.field, (str, type(None))):
            raise TypeMismatchError(
                f"{self.kind.value} was given {shorten(self.field)} as a field",
                detail="A field is given by its name.",
            )
        if not (isinstance(self.quantile, (int, float)) and 0 <= self.quantile <= 1):
            raise ConfigurationError(
                f"quantile {shorten(self.quantile)} was asked for", detail="It is a number from 0 to 1."
            )
        if not (isinstance(self.accuracy, (int, float)) and 0.0001 <= self.accuracy < 1):
            raise ConfigurationError(
                f"a quantile with a relative error of {shorten(self.accuracy)} was asked for",
                detail="It is a number from 0.0001 to 1.",
            )

    def __str__(self) -> str:
        if self.kind is AggregateKind.QUANTILE:
            return f"quantile({self.field}, {self.quantile:g}, {self.accuracy:g})"
        return f"{self.kind.value}({self.field or ''})"
