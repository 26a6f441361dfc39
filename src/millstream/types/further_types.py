"""SQL types beyond those of files: NULL, intervals, MULTISET, structured types, VARIANT, BITMAP, RAW.

`DataTypes` is the one of PyFlink's Table API: all of `datatypes.DataTypes`, and these.
"""

from __future__ import annotations

import datetime
import pickle
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, ClassVar

from millstream.base.errors import ConfigurationError
from millstream.types import datatypes
from millstream.types.datatypes import AtomicType, DataType, RowField

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
    "UserDefinedType",
    "VariantType",
    "YearMonthIntervalType",
    "ZonedTimestampType",
]


class NullType(AtomicType):
    """The type of a bare NULL; every type takes its only value."""

    name = "NULL"

    def _fits(self, value: Any) -> bool:
        return False


class YearMonthIntervalType(AtomicType):
    """A number of months; in Python an int.

    Attributes:
        resolution: `YEAR`, `YEAR TO MONTH` or `MONTH`; values are months with each of them.
        precision: Digits of the years.
    """

    name = "INTERVAL"
    python_types = (int,)
    RESOLUTIONS: ClassVar[tuple[str, ...]] = ("YEAR", "YEAR TO MONTH", "MONTH")
    DEFAULT_PRECISION: ClassVar[int] = 2
    resolution: str = "MONTH"
    precision: int = DEFAULT_PRECISION

    class YearMonthResolution:
        """The resolutions, by PyFlink's names."""

        YEAR = "YEAR"
        MONTH = "MONTH"
        YEAR_TO_MONTH = "YEAR TO MONTH"

    def __init__(
        self, resolution: Any = "MONTH", precision: int = DEFAULT_PRECISION, nullable: bool = True
    ) -> None:
        super().__init__(nullable)
        resolution = _resolution_text(resolution)
        _check_resolution(resolution, self.RESOLUTIONS)
        self.resolution = resolution
        self.precision = precision

    def _arguments(self) -> str:
        if self.resolution == "MONTH":
            return " MONTH"
        return self.resolution.replace("YEAR", f" YEAR({self.precision})", 1)


class DayTimeIntervalType(AtomicType):
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
    DEFAULT_DAY_PRECISION: ClassVar[int] = 2
    DEFAULT_FRACTIONAL_PRECISION: ClassVar[int] = 6
    resolution: str = "SECOND"
    day_precision: int = DEFAULT_DAY_PRECISION
    fractional_precision: int = 3

    class DayTimeResolution(Enum):
        """The resolutions, by PyFlink's names."""

        DAY = 0
        DAY_TO_HOUR = 1
        DAY_TO_MINUTE = 2
        DAY_TO_SECOND = 3
        HOUR = 4
        HOUR_TO_MINUTE = 5
        HOUR_TO_SECOND = 6
        MINUTE = 7
        MINUTE_TO_SECOND = 8
        SECOND = 9

    def __init__(
        self,
        resolution: Any = "SECOND",
        day_precision: int = DEFAULT_DAY_PRECISION,
        fractional_precision: int = 3,
        nullable: bool = True,
    ) -> None:
        super().__init__(nullable)
        resolution = _resolution_text(resolution)
        _check_resolution(resolution, self.RESOLUTIONS)
        self.resolution = resolution
        self.day_precision = day_precision
        self.fractional_precision = fractional_precision

    def need_conversion(self) -> bool:
        """Return True: it is microseconds."""
        return True

    def to_sql_type(self, timedelta: Any) -> Any:
        """Return a span's microseconds."""
        return None if timedelta is None else timedelta // datetime.timedelta(microseconds=1)

    def from_sql_type(self, ts: Any) -> Any:
        """Return the span of a number of microseconds."""
        return None if ts is None else datetime.timedelta(microseconds=ts)

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

    def need_conversion(self) -> bool:
        """Return whether elements need it."""
        return self.element_type.need_conversion()

    def to_sql_type(self, obj: Any) -> Any:
        """Return the elements as internal ones."""
        return obj and [self.element_type.to_sql_type(each) for each in obj]

    def from_sql_type(self, obj: Any) -> Any:
        """Return the elements as Python's."""
        return obj and [self.element_type.from_sql_type(each) for each in obj]

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

    def from_sql_type(self, obj: Any) -> Any:
        """Return the value of its pickled form."""
        return None if obj is None else pickle.loads(obj)

    def _fits(self, value: Any) -> bool:
        return True


class _ViewType(DataType):
    """A collection in an accumulator: no type of columns."""

    def to_sql_type(self, obj: Any) -> Any:
        """Refuse: views are of accumulators only.

        Raises:
            ConfigurationError: Always.
        """
        raise ConfigurationError(f"type {self} was used outside of an accumulator")

    def from_sql_type(self, obj: Any) -> Any:
        """Refuse: views are of accumulators only.

        Raises:
            ConfigurationError: Always.
        """
        raise ConfigurationError(f"type {self} was used outside of an accumulator")


class ListViewType(_ViewType):
    """A list in an accumulator that state keeps element by element."""

    name = "LISTVIEW"

    def __init__(self, element_type: DataType, nullable: bool = True) -> None:
        super().__init__(nullable)
        self.element_type = element_type

    def _arguments(self) -> str:
        return f"<{self.element_type}>"


class MapViewType(_ViewType):
    """A map in an accumulator that state keeps entry by entry."""

    name = "MAPVIEW"

    def __init__(self, key_type: DataType, value_type: DataType, nullable: bool = True) -> None:
        super().__init__(nullable)
        self.key_type = key_type
        self.value_type = value_type

    def _arguments(self) -> str:
        return f"<{self.key_type}, {self.value_type}>"


class ZonedTimestampType(AtomicType):
    """A day and time with an offset from UTC; columns have no form for it."""

    name = "TIMESTAMP WITH TIME ZONE"
    python_types = (datetime.datetime,)

    def __init__(self, precision: int = 6, nullable: bool = True) -> None:
        super().__init__(nullable)
        self.precision = precision

    def _arguments(self) -> str:
        return f"({self.precision})"

    def need_conversion(self) -> bool:
        """Return True: it is microseconds and an offset."""
        return True

    def to_sql_type(self, dt: Any) -> Any:
        """Return microseconds of the local time since 1970, and the offset in seconds."""
        if dt is None:
            return None
        moment = dt.astimezone() if dt.tzinfo is None else dt
        offset = int(moment.utcoffset().total_seconds())
        return (int(moment.replace(microsecond=0).timestamp()) + offset) * 10**6 + moment.microsecond, offset

    def from_sql_type(self, zoned_ts: Any) -> Any:
        """Return the time of microseconds of the local time and an offset in seconds."""
        if zoned_ts is None:
            return None
        local, offset = zoned_ts
        zone = datetime.timezone(datetime.timedelta(seconds=offset))
        moment = datetime.datetime(1970, 1, 1, tzinfo=zone) + datetime.timedelta(microseconds=local)
        return moment


class UserDefinedType(DataType):
    """A class of a program as a type: kept as the SQL type that it names."""

    name = "UDT"

    @classmethod
    def type_name(cls) -> str:
        """Return the class's name in lower case."""
        return cls.__name__.lower()

    @classmethod
    def sql_type(cls) -> DataType:
        """Return the type that values are kept as; a subclass says it."""
        raise NotImplementedError(f"{cls.__name__} does not say its sql_type")

    @classmethod
    def module(cls) -> str:
        """Return the module the class is found in; a subclass says it."""
        raise NotImplementedError(f"{cls.__name__} does not say its module")

    def need_conversion(self) -> bool:
        """Return True: `serialize` makes it."""
        return True

    def to_sql_type(self, obj: Any) -> Any:
        """Return a value as one of `sql_type`."""
        return None if obj is None else self.sql_type().to_sql_type(self.serialize(obj))

    def from_sql_type(self, obj: Any) -> Any:
        """Return a value of `sql_type` as one of the class."""
        return None if obj is None else self.deserialize(self.sql_type().from_sql_type(obj))

    def serialize(self, obj: Any) -> Any:
        """Return an object as a value of `sql_type`; a subclass says how."""
        raise NotImplementedError(f"{type(self).__name__} does not serialize")

    def deserialize(self, datum: Any) -> Any:
        """Return the object of a value of `sql_type`; a subclass says how."""
        raise NotImplementedError(f"{type(self).__name__} does not deserialize")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    __hash__ = DataType.__hash__


class Resolution:
    """One unit of an interval type, with the digits it has (-1: the usual)."""

    class IntervalUnit(Enum):
        """The units."""

        SECOND = 0
        MINUTE = 1
        HOUR = 2
        DAY = 3
        MONTH = 4
        YEAR = 5

    def __init__(self, unit: Any, precision: int = -1) -> None:
        self._unit = self.IntervalUnit[unit] if isinstance(unit, str) else unit
        self._precision = precision

    @property
    def unit(self) -> Any:
        """The unit."""
        return self._unit

    @property
    def precision(self) -> int:
        """The digits; -1 for the usual."""
        return self._precision

    def __str__(self) -> str:
        name: str = self._unit.name
        return name if self._precision < 0 else f"{name}({self._precision})"


class DataTypes(datatypes.DataTypes):
    """Makes types by their SQL names.

    >>> from millstream.table import DataTypes
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
        units = [each.unit.name for each in (upper_resolution, lower_resolution) if each is not None]
        text = " TO ".join(units)

        def digits(of: Resolution, unit: str, usual: int) -> int:
            return of.precision if of.unit.name == unit and of.precision >= 0 else usual

        if units[0] in ("YEAR", "MONTH"):
            return YearMonthIntervalType(text, digits(upper_resolution, "YEAR", 2))
        days = digits(upper_resolution, "DAY", 2)
        return DayTimeIntervalType(text, days, digits(lower_resolution or upper_resolution, "SECOND", 6))

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


def _resolution_text(resolution: Any) -> str:
    """Return a resolution's words, of a member of PyFlink's enums or of its text."""
    name: str = resolution.name if isinstance(resolution, Enum) else resolution
    return name.replace("_", " ")


def _check_resolution(resolution: str, allowed: tuple[str, ...]) -> None:
    if resolution not in allowed:
        raise ConfigurationError(
            f"type INTERVAL {resolution} does not exist", detail=f"There are {', '.join(allowed)}."
        )
