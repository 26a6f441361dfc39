"""Types without parts, and the root of all types; `types/typeinfo.py` is where they are used from."""

from __future__ import annotations

import datetime
import decimal
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from numbers import Integral, Real
from types import NoneType
from typing import Any, Final

from millstream.base.errors import TypeMismatchError
from millstream.base.time import Instant
from millstream.types.java_text import double_text, float_text, time_text, timestamp_text

__all__ = [
    "BasicType",
    "BasicTypeInfo",
    "DateTypeInfo",
    "InstantTypeInfo",
    "LocalTimeTypeInfo",
    "PickledBytesTypeInfo",
    "SqlTimeTypeInfo",
    "TimeTypeInfo",
    "TimestampTypeInfo",
    "TypeInformation",
]


class TypeInformation(ABC):
    """What values a stream, state or field holds; immutable and picklable.

    Attributes:
        takes_none: Whether None fits wherever the type is used.

    Example:
        >>> from millstream.common import TypeInformation, Types
        >>> person: TypeInformation = Types.ROW_NAMED(["name", "age"], [Types.STRING(), Types.INT()])
        >>> person.describe()
        'ROW<name STRING, age INT>'
    """

    takes_none: bool = False

    @abstractmethod
    def describe(self) -> str:
        """Return the type as users read it, such as `ROW<name STRING, age INT>`."""

    @abstractmethod
    def _misfit(self, values: Sequence[Any]) -> int | None:
        """Return the index of the first value that does not fit; no value is None."""

    @abstractmethod
    def _identity(self) -> object:
        """Return what makes two types of the same class equal."""

    def find_mismatch(self, values: Sequence[Any], *, nullable: bool = False) -> int | None:
        """Return the index of the first value that does not fit, None if all fit.

        Args:
            values: A batch.
            nullable: Whether None fits although the type by itself does not take it (fields of rows).
        """
        if NoneType not in map(type, values):
            return self._misfit(values)
        if not (nullable or self.takes_none):
            first = next(position for position, value in enumerate(values) if value is None)
            before = self._misfit(values[:first])
            return first if before is None else before
        positions = [position for position, value in enumerate(values) if value is not None]
        wrong = self._misfit([values[position] for position in positions])
        return None if wrong is None else positions[wrong]

    def adapts(self) -> bool:
        """Return whether `conform` may change values of this type."""
        return False

    def conform(self, values: list[Any]) -> list[Any]:
        """Return fitting values as PyFlink gives them back; the list itself if nothing changes.

        Args:
            values: A batch in which `find_mismatch` found nothing.
        """
        return values

    def to_text(self, value: Any) -> str:
        """Return a value as Java's Flink writes it: tuples `(a,1)`, None `null`, lists `[a, b]`, rows `+I[a, b]`."""
        return "null" if value is None else str(value)

    def to_printed(self, value: Any) -> str:
        """Return a record as PyFlink's `print()` does; only rows differ from `to_text`."""
        return self.to_text(value)

    def need_conversion(self) -> bool:
        """Return whether PyFlink writes another value to the wire than the one that functions see."""
        return False

    def to_internal_type(self, obj: Any) -> Any:
        """Return what PyFlink writes to the wire for a value; here nothing is converted between processes."""
        return obj

    def from_internal_type(self, obj: Any) -> Any:
        """Return the value of what `to_internal_type` gave."""
        return obj

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash((type(self), self._identity()))

    def __repr__(self) -> str:
        """Return the type as PyFlink writes it, such as `RowTypeInfo(name: String, age: Integer)`."""
        return type(self).__name__


def _find(values: Iterable[Any], fits: Callable[[Any], bool]) -> int | None:
    return next((position for position, value in enumerate(values) if not fits(value)), None)


def _is_integer(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


class BasicType(Enum):
    """Types without parts; the value is Java's name."""

    STRING = "String"
    BYTE = "Byte"
    BOOLEAN = "Boolean"
    SHORT = "Short"
    INT = "Integer"
    LONG = "Long"
    FLOAT = "Float"
    DOUBLE = "Double"
    CHAR = "Char"
    BIG_INT = "BigInteger"
    BIG_DEC = "BigDecimal"
    INSTANT = "Instant"


_JAVA_NAMES: Final = {basic_type.name: basic_type.value for basic_type in BasicType}


class BasicTypeInfo(TypeInformation):
    """A type without parts.

    Args:
        basic_type: Which one.

    Attributes:
        name: As in `Types`.
    """

    name: str

    def __init__(self, basic_type: BasicType) -> None:
        if not isinstance(basic_type, BasicType):
            raise TypeMismatchError(
                f"a basic type is {basic_type!r}", hint="Use Types.STRING() and the like."
            )
        self._like = _BASIC_TYPES[basic_type]
        self._name(basic_type.name, takes_none=self._like.takes_none)

    def _name(self, name: str, *, takes_none: bool) -> None:
        self.name = name
        self.takes_none = takes_none

    def describe(self) -> str:
        """Return the name."""
        return self.name

    def __repr__(self) -> str:
        return _JAVA_NAMES.get(self.name) or super().__repr__()

    def _identity(self) -> object:
        return self.name

    # PyFlink's own factories, which some programs call in place of those in `Types`.
    @staticmethod
    def STRING_TYPE_INFO() -> TypeInformation:
        """Return `Types.STRING()`."""
        return _STRING

    @staticmethod
    def BOOLEAN_TYPE_INFO() -> TypeInformation:
        """Return `Types.BOOLEAN()`."""
        return _BOOLEAN

    @staticmethod
    def BYTE_TYPE_INFO() -> TypeInformation:
        """Return `Types.BYTE()`."""
        return _BYTE

    @staticmethod
    def SHORT_TYPE_INFO() -> TypeInformation:
        """Return `Types.SHORT()`."""
        return _SHORT

    @staticmethod
    def INT_TYPE_INFO() -> TypeInformation:
        """Return `Types.INT()`."""
        return _INT

    @staticmethod
    def LONG_TYPE_INFO() -> TypeInformation:
        """Return `Types.LONG()`."""
        return _LONG

    @staticmethod
    def FLOAT_TYPE_INFO() -> TypeInformation:
        """Return `Types.FLOAT()`."""
        return _FLOAT

    @staticmethod
    def DOUBLE_TYPE_INFO() -> TypeInformation:
        """Return `Types.DOUBLE()`."""
        return _DOUBLE

    @staticmethod
    def CHAR_TYPE_INFO() -> TypeInformation:
        """Return `Types.CHAR()`."""
        return _CHAR

    @staticmethod
    def BIG_INT_TYPE_INFO() -> TypeInformation:
        """Return `Types.BIG_INT()`."""
        return _BIG_INT

    @staticmethod
    def BIG_DEC_TYPE_INFO() -> TypeInformation:
        """Return `Types.BIG_DEC()`."""
        return _BIG_DEC

    @staticmethod
    def INSTANT_TYPE_INFO() -> TypeInformation:
        """Return `Types.INSTANT()`."""
        return _INSTANT

    def _misfit(self, values: Sequence[Any]) -> int | None:
        return self._like._misfit(values)

    def adapts(self) -> bool:
        """Return whether values may change."""
        return self._like.adapts()

    def conform(self, values: list[Any]) -> list[Any]:
        """Return values as the type's own."""
        return self._like.conform(values)

    def to_text(self, value: Any) -> str:
        """Return a value as Flink prints it."""
        return self._like.to_text(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BasicTypeInfo) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


class _OwnTypeInfo(BasicTypeInfo):
    """A type without parts that says itself what fits."""

    def __init__(self, name: str, *, takes_none: bool) -> None:
        self._name(name, takes_none=takes_none)

    def adapts(self) -> bool:
        """Return False: values stay as they are."""
        return False

    def conform(self, values: list[Any]) -> list[Any]:
        """Return the values themselves."""
        return values

    def to_text(self, value: Any) -> str:
        """Return `str(value)`, None as null."""
        return TypeInformation.to_text(self, value)


class _ClassTypeInfo(_OwnTypeInfo):
    """Values of a Python class."""

    def __init__(self, name: str, kind: type, *, takes_none: bool) -> None:
        super().__init__(name, takes_none=takes_none)
        self._kind = kind

    def _misfit(self, values: Sequence[Any]) -> int | None:
        kind = self._kind
        kinds = set(map(type, values))
        if all(issubclass(found, kind) for found in kinds):
            return None
        return _find(values, lambda value: isinstance(value, kind))


class _BooleanTypeInfo(_ClassTypeInfo):
    """True and False."""

    def __init__(self) -> None:
        super().__init__("BOOLEAN", bool, takes_none=False)

    def to_text(self, value: Any) -> str:
        """Return true, false or null."""
        return super().to_text(value).lower()


class _TimeTypeInfo(_ClassTypeInfo):
    """Days, times and instants: PyFlink writes them as integers."""

    EPOCH_ORDINAL = datetime.date(1970, 1, 1).toordinal()

    def need_conversion(self) -> bool:
        """Return True."""
        return True

    @abstractmethod
    def _to_integer(self, value: Any) -> int:
        """Return what PyFlink writes for a value."""

    @abstractmethod
    def _from_integer(self, number: int) -> Any:
        """Return the value that PyFlink wrote so."""


class InstantTypeInfo(_TimeTypeInfo):
    """Points in time, `Instant`; in microseconds since the epoch on the wire."""

    def __init__(self, basic_type: BasicType = BasicType.INSTANT) -> None:
        super().__init__("INSTANT", Instant, takes_none=True)

    def to_internal_type(self, obj: Any) -> Any:
        """Return the integer of a value, None for None."""
        return None if obj is None else self._to_integer(obj)

    def from_internal_type(self, obj: Any) -> Any:
        """Return the value of an integer, None for None."""
        return None if obj is None else self._from_integer(obj)

    def _to_integer(self, value: Any) -> int:
        return int(value.to_epoch_milli()) * 1000

    def _from_integer(self, number: int) -> Any:
        return Instant.of_epoch_milli(number // 1000)


class DateTypeInfo(_TimeTypeInfo):
    """Days, `datetime.date`; in days since the epoch on the wire."""

    def __init__(self) -> None:
        super().__init__("SQL_DATE", datetime.date, takes_none=True)

    def to_internal_type(self, d: Any) -> Any:
        """Return the integer of a value, None for None."""
        return None if d is None else self._to_integer(d)

    def from_internal_type(self, v: Any) -> Any:
        """Return the value of an integer, None for None."""
        return None if v is None else self._from_integer(v)

    def _to_integer(self, value: Any) -> int:
        return int(value.toordinal()) - self.EPOCH_ORDINAL

    def _from_integer(self, number: int) -> Any:
        return datetime.date.fromordinal(number + self.EPOCH_ORDINAL)


class TimeTypeInfo(_TimeTypeInfo):
    """Times of day, `datetime.time`; in microseconds since midnight on the wire, of UTC if there is a zone."""

    EPOCH_ORDINAL = 0

    def __init__(self) -> None:
        super().__init__("SQL_TIME", datetime.time, takes_none=True)

    def to_internal_type(self, t: Any) -> Any:
        """Return the integer of a value, None for None."""
        return None if t is None else self._to_integer(t)

    def from_internal_type(self, t: Any) -> Any:
        """Return the value of an integer, None for None."""
        return None if t is None else self._from_integer(t)

    def _to_integer(self, value: Any) -> int:
        since = datetime.timedelta(
            hours=value.hour, minutes=value.minute, seconds=value.second, microseconds=value.microsecond
        )
        return (since - (value.utcoffset() or datetime.timedelta())) // datetime.timedelta(microseconds=1)

    def to_text(self, value: Any) -> str:
        """Return a value as `java.sql.Time` does: `01:02:03`, without a fraction."""
        return super().to_text(value) if value is None else time_text(value)

    def _from_integer(self, number: int) -> Any:
        midnight = datetime.datetime(1970, 1, 1)
        return (midnight + datetime.timedelta(microseconds=number)).time()


class TimestampTypeInfo(_TimeTypeInfo):
    """Days with time, `datetime.datetime`; in microseconds since the epoch on the wire, in the local zone."""

    def __init__(self) -> None:
        super().__init__("SQL_TIMESTAMP", datetime.datetime, takes_none=True)

    def to_internal_type(self, dt: Any) -> Any:
        """Return the integer of a value, None for None."""
        return None if dt is None else self._to_integer(dt)

    def from_internal_type(self, ts: Any) -> Any:
        """Return the value of an integer, None for None."""
        return None if ts is None else self._from_integer(ts)

    def _to_integer(self, value: Any) -> int:
        whole: float = value.replace(microsecond=0).timestamp()
        return int(whole) * 1_000_000 + int(value.microsecond)

    def to_text(self, value: Any) -> str:
        """Return a value as `java.sql.Timestamp` does: `1999-12-31 23:00:00.0`."""
        return super().to_text(value) if value is None else timestamp_text(value)

    def _from_integer(self, number: int) -> Any:
        seconds, micros = divmod(number, 1_000_000)
        return datetime.datetime.fromtimestamp(seconds).replace(microsecond=micros)


class LocalTimeTypeInfo(_ClassTypeInfo):
    """Days, times of day, or both, under Java's names `LocalDate`, `LocalTime`, `LocalDateTime`."""

    class TimeType(Enum):
        """Which of them."""

        LOCAL_DATE = 0
        LOCAL_TIME = 1
        LOCAL_DATE_TIME = 2

    def __init__(self, time_type: LocalTimeTypeInfo.TimeType) -> None:
        kinds: dict[LocalTimeTypeInfo.TimeType, type] = {
            self.TimeType.LOCAL_DATE: datetime.date,
            self.TimeType.LOCAL_TIME: datetime.time,
            self.TimeType.LOCAL_DATE_TIME: datetime.datetime,
        }
        super().__init__(time_type.name, kinds[time_type], takes_none=True)

    def __repr__(self) -> str:
        return f"LocalTimeTypeInfo<{self.name}>"


class SqlTimeTypeInfo(TypeInformation):
    """Factories of SQL's types of time."""

    @staticmethod
    def DATE() -> TypeInformation:
        """Return `Types.SQL_DATE()`."""
        return DateTypeInfo()

    @staticmethod
    def TIME() -> TypeInformation:
        """Return `Types.SQL_TIME()`."""
        return TimeTypeInfo()

    @staticmethod
    def TIMESTAMP() -> TypeInformation:
        """Return `Types.SQL_TIMESTAMP()`."""
        return TimestampTypeInfo()


class _IntegerTypeInfo(_OwnTypeInfo):
    """Integers of so many bits, signed; any number of bits if None. Booleans are not integers."""

    def __init__(self, name: str, bits: int | None) -> None:
        super().__init__(name, takes_none=bits is None)
        self._low = None if bits is None else -(1 << (bits - 1))
        self._high = None if bits is None else (1 << (bits - 1)) - 1

    def _misfit(self, values: Sequence[Any]) -> int | None:
        if not values or (set(map(type, values)) == {int} and self._in_range(min(values), max(values))):
            return None
        return _find(values, lambda value: _is_integer(value) and self._in_range(value, value))

    def _in_range(self, low: Any, high: Any) -> bool:
        return self._low is None or (self._low <= low and high <= self._high)


class _FloatTypeInfo(_OwnTypeInfo):
    """Floats; integers are taken and become floats."""

    def _misfit(self, values: Sequence[Any]) -> int | None:
        if set(map(type, values)) <= {float}:
            return None
        return _find(values, lambda value: isinstance(value, Real) and not isinstance(value, bool))

    def adapts(self) -> bool:
        """Return True: integers become floats."""
        return True

    def conform(self, values: list[Any]) -> list[Any]:
        """Return floats."""
        if set(map(type, values)) <= {float, NoneType}:
            return values
        return [None if value is None else float(value) for value in values]

    def to_text(self, value: Any) -> str:
        """Return a value as Java does: `1.0E7`."""
        return super().to_text(value) if value is None else double_text(value)


class _SingleTypeInfo(_FloatTypeInfo):
    """Floats of 32 bits: values are rounded to single precision, as on their way through Flink."""

    def conform(self, values: list[Any]) -> list[Any]:
        """Return floats of single precision."""
        if NoneType not in map(type, values):
            return array("f", values).tolist()
        return [None if value is None else array("f", (value,))[0] for value in values]

    def to_text(self, value: Any) -> str:
        """Return a value as Java does, with the digits of single precision: `0.1`."""
        return super().to_text(value) if value is None else float_text(value)


class _CharTypeInfo(_OwnTypeInfo):
    """Strings of length 1."""

    def _misfit(self, values: Sequence[Any]) -> int | None:
        return _find(values, lambda value: isinstance(value, str) and len(value) == 1)


_STRING: Final = _ClassTypeInfo("STRING", str, takes_none=True)
_BOOLEAN: Final = _BooleanTypeInfo()
_BYTE: Final = _IntegerTypeInfo("BYTE", 8)
_SHORT: Final = _IntegerTypeInfo("SHORT", 16)
_INT: Final = _IntegerTypeInfo("INT", 32)
_LONG: Final = _IntegerTypeInfo("LONG", 64)
_FLOAT: Final = _SingleTypeInfo("FLOAT", takes_none=False)
_DOUBLE: Final = _FloatTypeInfo("DOUBLE", takes_none=False)
_CHAR: Final = _CharTypeInfo("CHAR", takes_none=False)
_BIG_INT: Final = _IntegerTypeInfo("BIG_INT", None)
_BIG_DEC: Final = _ClassTypeInfo("BIG_DEC", decimal.Decimal, takes_none=True)
_INSTANT: Final = InstantTypeInfo()
_BASIC_TYPES: Final[dict[BasicType, BasicTypeInfo]] = {
    BasicType.STRING: _STRING,
    BasicType.BYTE: _BYTE,
    BasicType.BOOLEAN: _BOOLEAN,
    BasicType.SHORT: _SHORT,
    BasicType.INT: _INT,
    BasicType.LONG: _LONG,
    BasicType.FLOAT: _FLOAT,
    BasicType.DOUBLE: _DOUBLE,
    BasicType.CHAR: _CHAR,
    BasicType.BIG_INT: _BIG_INT,
    BasicType.BIG_DEC: _BIG_DEC,
    BasicType.INSTANT: _INSTANT,
}


class PickledBytesTypeInfo(TypeInformation):
    """Any value that pickles: nothing is checked."""

    takes_none = True

    def describe(self) -> str:
        """Return the name."""
        return "PICKLED_BYTE_ARRAY"

    def __repr__(self) -> str:
        return "PickledByteArrayTypeInfo"

    def find_mismatch(self, values: Sequence[Any], *, nullable: bool = False) -> int | None:
        """Return None: everything fits."""
        return None

    def _misfit(self, values: Sequence[Any]) -> int | None:
        return None

    def _identity(self) -> object:
        return None
