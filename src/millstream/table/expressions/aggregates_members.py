"""Members of `Expression` that make functions of aggregates."""

from __future__ import annotations

from typing import Any, Self

from millstream.table.expressions.building import Built

__all__ = ["AggregatesMembers"]


class AggregatesMembers(Built):
    """Functions of aggregates; what is no expression becomes a literal."""

    @property
    def sum(self) -> Self:
        """Return `SUM(self)`."""
        return self._call("SUM", "sum", self)

    @property
    def sum0(self) -> Self:
        """Return `$SUM0(self)`."""
        return self._call("$SUM0", "sum0", self)

    @property
    def min(self) -> Self:
        """Return `MIN(self)`."""
        return self._call("MIN", "min", self)

    @property
    def max(self) -> Self:
        """Return `MAX(self)`."""
        return self._call("MAX", "max", self)

    @property
    def count(self) -> Self:
        """Return `COUNT(self)`."""
        return self._call("COUNT", "count", self)

    @property
    def avg(self) -> Self:
        """Return `AVG(self)`."""
        return self._call("AVG", "avg", self)

    @property
    def first_value(self) -> Self:
        """Return `FIRST_VALUE(self)`."""
        return self._call("FIRST_VALUE", "firstValue", self)

    @property
    def last_value(self) -> Self:
        """Return `LAST_VALUE(self)`."""
        return self._call("LAST_VALUE", "lastValue", self)

    def list_agg(self, separator: Any = None) -> Self:
        """Return `LISTAGG(self, separator)`."""
        return self._call("LISTAGG", "listAgg", self, separator)

    @property
    def stddev_pop(self) -> Self:
        """Return `STDDEV_POP(self)`."""
        return self._call("STDDEV_POP", "stddevPop", self)

    @property
    def stddev_samp(self) -> Self:
        """Return `STDDEV_SAMP(self)`."""
        return self._call("STDDEV_SAMP", "stddevSamp", self)

    @property
    def var_pop(self) -> Self:
        """Return `VAR_POP(self)`."""
        return self._call("VAR_POP", "varPop", self)

    @property
    def var_samp(self) -> Self:
        """Return `VAR_SAMP(self)`."""
        return self._call("VAR_SAMP", "varSamp", self)

    @property
    def collect(self) -> Self:
        """Return `COLLECT(self)`."""
        return self._call("COLLECT", "collect", self)

    @property
    def array_agg(self) -> Self:
        """Return `ARRAY_AGG(self)`."""
        return self._call("ARRAY_AGG", "arrayAgg", self)

    def percentile(self, percentage: Any, frequency: Any = None) -> Self:
        """Return `PERCENTILE(self, percentage, frequency)`."""
        return self._call("PERCENTILE", "percentile", self, percentage, frequency)

    def bitmap_and_agg(self) -> Self:
        """Return `BITMAP_AND_AGG(self)`."""
        return self._call("BITMAP_AND_AGG", "bitmapAndAgg", self)

    def bitmap_and_cardinality_agg(self) -> Self:
        """Return `BITMAP_AND_CARDINALITY_AGG(self)`."""
        return self._call("BITMAP_AND_CARDINALITY_AGG", "bitmapAndCardinalityAgg", self)

    def bitmap_build_agg(self) -> Self:
        """Return `BITMAP_BUILD_AGG(self)`."""
        return self._call("BITMAP_BUILD_AGG", "bitmapBuildAgg", self)

    def bitmap_build_cardinality_agg(self) -> Self:
        """Return `BITMAP_BUILD_CARDINALITY_AGG(self)`."""
        return self._call("BITMAP_BUILD_CARDINALITY_AGG", "bitmapBuildCardinalityAgg", self)

    def bitmap_or_agg(self) -> Self:
        """Return `BITMAP_OR_AGG(self)`."""
        return self._call("BITMAP_OR_AGG", "bitmapOrAgg", self)

    def bitmap_or_cardinality_agg(self) -> Self:
        """Return `BITMAP_OR_CARDINALITY_AGG(self)`."""
        return self._call("BITMAP_OR_CARDINALITY_AGG", "bitmapOrCardinalityAgg", self)

    def bitmap_xor_agg(self) -> Self:
        """Return `BITMAP_XOR_AGG(self)`."""
        return self._call("BITMAP_XOR_AGG", "bitmapXorAgg", self)

    def bitmap_xor_cardinality_agg(self) -> Self:
        """Return `BITMAP_XOR_CARDINALITY_AGG(self)`."""
        return self._call("BITMAP_XOR_CARDINALITY_AGG", "bitmapXorCardinalityAgg", self)
