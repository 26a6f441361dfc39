"""SQL types beyond those of files: NULL, intervals, MULTISET, structured types, VARIANT, BITMAP, RAW.

`DataTypes` is the one of PyFlink's Table API: all of `datatypes.DataTypes`, and these.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from millstream.base.errors import ConfigurationError
from millstream.types import datatypes
from millstream.types.datatypes import DataType, RowField

__all__ = [
    "BitmapType",
    "DataTypes",
    "DayTimeIntervalType",
    "ListViewType",
    "MapViewType",
    "MultisetType",
    "NullType",
    "RawType",
    "Resolution",
    "StructuredType",
    "VariantType",
    "YearMonthIntervalType",
]


class NullType(DataType):
    """The type of a bare NULL; every type takes its only value."""

    name = "NULL"

    def _fits(self, value: Any) -> bool:
        return False


class YearMonthIntervalType(DataType):
    """A number of months; in Python an int.

    Attributes:
        resolution: `YEAR`, `YEAR TO MONTH` or `MONTH`; values are months with each of them.
        precision: Digits of the years.
    """

    name = "INTERVAL"
    python_types = (int,)
    RESOLUTIONS: ClassVar[tuple[str, ...]] = ("YEAR", "YEAR TO MONTH", "MONTH")

    def __init__(self, resolution: str = "MONTH", precision: int = 2, nullable: bool = True) -> None:
        super().__init__(nullable)
        _check_resolution(resolution, self.RESOLUTIONS)
        self.resolution = resolution
        self.precision = precision

    def _arguments(self) -> str:
        if self.resolution == "MONTH":
            return " MONTH"
        return self.resolution.replace("YEAR", f" YEAR({self.precision})", 1)


class DayTimeIntervalType(DataType):
    """A span of time; in Python a `timedelta`, in literals milliseconds.

    Attributes:
        resolution: `DAY`, `DAY TO HOUR`, ..., `SECOND`; values are milliseconds with each of them.
        day_precision: Digits of the days.
        fractional_precision: Digits behind the second.
    """

    name = "INTERVAL"
    python_types = (datetime.timedelta, int)
    RESOLUTIONS: ClassVar[tuple[str, ...]] = (
        "DAY",
        "DAY TO HOUR",
        "DAY TO MINUTE",
        "DAY TO SECOND",
        "HOUR",
        "HOUR TO MINUTE",
        "HOUR TO SECOND",
        "MINUTE",
        "MINUTE TO SECOND",
        "SECOND",
    )

    def __init__(
        self,
        resolution: str = "SECOND",
        day_precision: int = 2,
        fractional_precision: int = 3,
        nullable: bool = True,
    ) -> None:
        super().__init__(nullable)
        _check_resolution(resolution, self.RESOLUTIONS)
        self.resolution = resolution
        self.day_precision = day_precision
        self.fractional_precision = fractional_precision

    def _arguments(self) -> str:
        text = self.resolution.replace("DAY", f"DAY({self.day_precision})", 1)
        return f" {text.replace('SECOND', f'SECOND({self.fractional_precision})')}"


class MultisetType(DataType):
    """Elements of one type with how often each is there; in Python a dict of element to count."""

    name = "MULTISET"

    def __init__(self, element_type: DataType, nullable: bool = True) -> None:
        super().__init__(nullable)
        self.element_type = element_type

    def _fits(self, value: Any) -> bool:
        return isinstance(value, Mapping)

    def _arguments(self) -> str:
        return f"<{self.element_type}>"


class StructuredType(datatypes.RowType):
    """A row of named fields with a class's name.

    Attributes:
        class_name: Full name of the class.
    """

    name = "STRUCTURED"

    def __init__(self, class_name: str, fields: Sequence[RowField] = (), nullable: bool = True) -> None:
        super().__init__(fields, nullable)
        self.class_name = class_name

    def _arguments(self) -> str:
        return f"<'{self.class_name}', {', '.join(map(repr, self.fields))}>"


class VariantType(DataType):
    """A JSON-like value whose type shows when it is read; in columns its JSON text."""

    name = "VARIANT"

    def _fits(self, value: Any) -> bool:
        return True


class BitmapType(DataType):
    """A set of integers of 32 bits; in Python and in columns the bytes of a Roaring bitmap."""

    name = "BITMAP"
    python_types = (bytes,)


class RawType(DataType):
    """Any Python value, pickled in columns; nothing but user functions can look inside."""

    name = "RAW"

    def _fits(self, value: Any) -> bool:
        return True


class ListViewType(DataType):
    """A list in an accumulator that state keeps element by element."""

    name = "LISTVIEW"

    def __init__(self, element_type: DataType, nullable: bool = True) -> None:
        super().__init__(nullable)
        self.element_type = element_type

    def _arguments(self) -> str:
        return f"<{self.element_type}>"


class MapViewType(DataType):
    """A map in an accumulator that state keeps entry by entry."""

    name = "MAPVIEW"

    def __init__(self, key_type: DataType, value_type: DataType, nullable: bool = True) -> None:
        super().__init__(nullable)
        self.key_type = key_type
        self.value_type = value_type

    def _arguments(self) -> str:
        return f"<{self.key_type}, {self.value_type}>"


class Resolution:
    """One unit of an interval type, with the digits it has."""

    def __init__(self, unit: str, precision: int | None = None) -> None:
        self.unit = unit
        self.precision = precision


class DataTypes(datatypes.DataTypes):
    """Makes types by their SQL names.

    >>> DataTypes.INTERVAL(DataTypes.DAY(), DataTypes.SECOND(3))
    INTERVAL DAY(2) TO SECOND(3)
    """

    @staticmethod
    def NULL() -> NullType:
        """The type of NULL."""
        return NullType()

    @staticmethod
    def MULTISET(element_type: DataType, nullable: bool = True) -> MultisetType:
        """Elements with how often each is there."""
        return MultisetType(element_type, nullable)

    @staticmethod
    def LIST_VIEW(element_type: DataType) -> ListViewType:
        """A list in an accumulator that state keeps element by element."""
        return ListViewType(element_type)

    @staticmethod
    def MAP_VIEW(key_type: DataType, value_type: DataType) -> MapViewType:
        """A map in an accumulator that state keeps entry by entry."""
        return MapViewType(key_type, value_type)

    @staticmethod
    def YEAR(precision: int = 2) -> Resolution:
        """The unit year of an interval."""
        return Resolution("YEAR", precision)

    @staticmethod
    def MONTH() -> Resolution:
        """The unit month of an interval."""
        return Resolution("MONTH")

    @staticmethod
    def DAY(precision: int = 2) -> Resolution:
        """The unit day of an interval."""
        return Resolution("DAY", precision)

    @staticmethod
    def HOUR() -> Resolution:
        """The unit hour of an interval."""
        return Resolution("HOUR")

    @staticmethod
    def MINUTE() -> Resolution:
        """The unit minute of an interval."""
        return Resolution("MINUTE")

    @staticmethod
    def SECOND(precision: int = 6) -> Resolution:
        """The unit second of an interval."""
        return Resolution("SECOND", precision)

    @staticmethod
    def INTERVAL(upper_resolution: Resolution, lower_resolution: Resolution | None = None) -> DataType:
        """A span of months or of time, in units from the first to the second.

        Raises:
            ConfigurationError: If there is no such interval.
        """
        units = [each.unit for each in (upper_resolution, lower_resolution) if each is not None]
        text = " TO ".join(units)
        if units[0] in ("YEAR", "MONTH"):
            return YearMonthIntervalType(text, upper_resolution.precision or 2)
        days = upper_resolution.precision if upper_resolution.unit == "DAY" else None
        last = lower_resolution or upper_resolution
        fraction = last.precision if last.unit == "SECOND" else None
        return DayTimeIntervalType(text, days or 2, 6 if fraction is None else fraction)

    @staticmethod
    def STRUCTURED(class_name: str, fields: Sequence[RowField], nullable: bool = True) -> StructuredType:
        """A row with a class's name."""
        return StructuredType(class_name, fields, nullable)

    @staticmethod
    def VARIANT(nullable: bool = True) -> VariantType:
        """A value that says its type when it is read."""
        return VariantType(nullable)

    @staticmethod
    def BITMAP(nullable: bool = True) -> BitmapType:
        """A set of integers."""
        return BitmapType(nullable)

    @staticmethod
    def RAW(nullable: bool = True) -> RawType:
        """Any Python value."""
        return RawType(nullable)


def _check_resolution(resolution: str, allowed: tuple[str, ...]) -> None:
    if resolution not in allowed:
        raise ConfigurationError(
            f"type INTERVAL {resolution} does not exist", detail=f"There are {', '.join(allowed)}."
        )
