"""SQL types (PyFlink's `pyflink.table.types`), as far as file formats need them.

A type is a small immutable value. It can read its text form (`parse`, `parse_column`) and check a Python
value (`check`); it does not convert values silently.
"""

from __future__ import annotations

import copy
import datetime
import decimal
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

from millstream.base.errors import ConfigurationError, TypeMismatchError, shorten
from millstream.base.time import Instant

__all__ = [
    "ArrayType",
    "AtomicType",
    "BigIntType",
    "BinaryType",
    "BooleanType",
    "CharType",
    "DataType",
    "DataTypes",
    "DateType",
    "DecimalType",
    "DoubleType",
    "FloatType",
    "FractionalType",
    "IntType",
    "IntegralType",
    "LocalZonedTimestampType",
    "MapType",
    "NumericType",
    "RowField",
    "RowType",
    "SmallIntType",
    "TimeType",
    "TimestampType",
    "TinyIntType",
    "VarBinaryType",
    "VarCharType",
]


class _Nullability(int):
    """Whether a type has None among its values: true or false, and callable."""

    _type: DataType

    def of(self, data_type: DataType) -> _Nullability:
        """Take the type that it is said of; returns itself."""
        self._type = data_type
        return self

    def __call__(self) -> Any:
        changed = copy.copy(self._type)
        changed.nullable = True
        return changed

    def __repr__(self) -> str:
        return repr(bool(self))

    __str__ = __repr__


class DataType:
    """A SQL type.

    Attributes:
        nullable: Whether None is among its values.
        conversion_class: The Java class that Flink would hand values over as; kept only.
    """

    name: ClassVar[str] = ""
    python_types: ClassVar[tuple[type, ...]] = ()

    def __init__(self, nullable: bool = True) -> None:
        self.nullable = nullable
        self.conversion_class: str | None = None

    @property
    def nullable(self) -> Any:
        """Whether None is among its values; called, the same type with None (PyFlink's `nullable()`)."""
        return _Nullability(self.__dict__["nullable"]).of(self)

    @nullable.setter
    def nullable(self, allowed: bool) -> None:
        self.__dict__["nullable"] = bool(allowed)

    def not_null(self) -> Self:
        """Return the same type without None."""
        changed = copy.copy(self)
        changed.nullable = False
        return changed

    @classmethod
    def type_name(cls) -> str:
        """Return the class's name without `Type`, in capitals."""
        return cls.__name__[:-4].upper()

    def need_conversion(self) -> bool:
        """Return whether PyFlink's internal values differ from Python's."""
        return False

    def to_sql_type(self, obj: Any) -> Any:
        """Return a Python value as PyFlink's internal one: days, microseconds."""
        return obj

    def from_sql_type(self, obj: Any) -> Any:
        """Return PyFlink's internal value as Python's."""
        return obj

    def bridged_to(self, conversion_cls: str) -> Self:
        """Return the same type with a Java class noted; without effect on values, as none of them goes to Java."""
        bridged = copy.copy(self)
        bridged.conversion_class = conversion_cls
        return bridged

    def parse(self, text: str) -> Any:
        """Read one value from its text form.

        Raises:
            ValueError: If `text` is no such value.
        """
        raise ValueError(f"{self} has no text form")

    def parse_column(self, texts: Sequence[str]) -> list[Any]:
        """Read many values; faster than one by one. An empty text is None, except for strings.

        Raises:
            ValueError: If one of them is no such value; which one, a loop over `parse` tells.
        """
        parse = self.parse
        return [parse(text) if text else None for text in texts]

    def check(self, value: Any) -> None:
        """Check that a Python value belongs to the type.

        Raises:
            TypeMismatchError: If it does not.
        """
        if value is None:
            if not self.nullable:
                raise TypeMismatchError(f"value None does not fit type {self}")
        elif not self._fits(value):
            raise TypeMismatchError(
                f"value {shorten(value)} of type {type(value).__name__} does not fit type {self}"
            )

    def _fits(self, value: Any) -> bool:
        return isinstance(value, self.python_types)

    def _arguments(self) -> str:
        return ""

    def __str__(self) -> str:
        return f"{self.name}{self._arguments()}{'' if self.nullable else ' NOT NULL'}"

    def __repr__(self) -> str:
        return str(self)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(str(self))


class AtomicType(DataType):
    """A type without parts."""


class VarCharType(AtomicType):
    """Text of at most `length` characters."""

    name = "VARCHAR"
    python_types = (str,)
    MAX_LENGTH: ClassVar[int] = 2**31 - 1

    def __init__(self, length: int = MAX_LENGTH, nullable: bool = True) -> None:
        super().__init__(nullable)
        self.length = length

    def parse(self, text: str) -> str:
        """Return the text itself, also if it is empty."""
        if len(text) > self.length:
            raise ValueError(f"text of {len(text)} characters is longer than {self.length}")
        return text

    def parse_column(self, texts: Sequence[str]) -> list[Any]:
        """Return the texts themselves."""
        return list(texts) if self.length == self.MAX_LENGTH else [self.parse(text) for text in texts]

    def _fits(self, value: Any) -> bool:
        return isinstance(value, str) and len(value) <= self.length

    def __str__(self) -> str:
        if self.length == self.MAX_LENGTH:
            return "STRING" if self.nullable else "STRING NOT NULL"
        return super().__str__()

    def _arguments(self) -> str:
        return f"({self.length})"


class CharType(VarCharType):
    """Text of `length` characters; shorter text is left as it is."""

    name = "CHAR"

    def __init__(self, length: int = 1, nullable: bool = True) -> None:
        super().__init__(length, nullable)


class BooleanType(AtomicType):
    """True or False; in text `true` or `false`, in any case."""

    name = "BOOLEAN"
    python_types = (bool,)

    def parse(self, text: str) -> bool:
        """Read `true` or `false`."""
        word = text.strip().lower()
        if word not in ("true", "false"):
            raise ValueError("expected true or false")
        return word == "true"


class NumericType(AtomicType):
    """A number."""


class IntegralType(NumericType):
    """A signed integer of a number of bits; values outside its range do not fit."""

    python_types = (int,)
    bits: ClassVar[int] = 64

    def parse(self, text: str) -> int:
        """Read decimal digits with an optional sign; surrounding blanks are ignored."""
        value = int(_plain_number(text))
        if not self._fits(value):
            raise ValueError(f"outside the range of {self.name}")
        return value

    def parse_column(self, texts: Sequence[str]) -> list[Any]:
        """Read many integers; the range is checked once, on the smallest and the largest."""
        if "_" in "".join(texts):
            raise ValueError("a number has no underscore")
        values = [int(text) if text else None for text in texts]
        limit = 1 << (self.bits - 1)
        present = values if "" not in texts else [value for value in values if value is not None]
        if present and not (-limit <= min(present) and max(present) < limit):  # type: ignore[type-var,operator]
            raise ValueError(f"outside the range of {self.name}")
        return values

    def _fits(self, value: Any) -> bool:
        limit = 1 << (self.bits - 1)
        return isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit


class TinyIntType(IntegralType):
    """Integer of 8 bits."""

    name = "TINYINT"
    bits = 8


class SmallIntType(IntegralType):
    """Integer of 16 bits."""

    name = "SMALLINT"
    bits = 16


class IntType(IntegralType):
    """Integer of 32 bits."""

    name = "INT"
    bits = 32


class BigIntType(IntegralType):
    """Integer of 64 bits."""

    name = "BIGINT"
    bits = 64


class FractionalType(NumericType):
    """A number with digits behind the point."""


class DoubleType(FractionalType):
    """Floating-point number of 64 bits."""

    name = "DOUBLE"
    python_types = (float, int)

    def parse(self, text: str) -> float:
        """Read a decimal or scientific number, `nan` or `inf`."""
        return float(_plain_number(text))

    def parse_column(self, texts: Sequence[str]) -> list[Any]:
        """Read many numbers."""
        if "_" in "".join(texts):
            raise ValueError("a number has no underscore")
        return [float(text) if text else None for text in texts]

    def _fits(self, value: Any) -> bool:
        return isinstance(value, (float, int)) and not isinstance(value, bool)


class FloatType(DoubleType):
    """Floating-point number of 32 bits; in Python it keeps the precision of a float."""

    name = "FLOAT"


class DecimalType(FractionalType):
    """Decimal number of `precision` digits, `scale` of them behind the point."""

    name = "DECIMAL"
    python_types = (decimal.Decimal,)

    def __init__(self, precision: int = 10, scale: int = 0, nullable: bool = True) -> None:
        super().__init__(nullable)
        if not 1 <= precision <= 38 or not 0 <= scale <= precision:
            raise ConfigurationError(
                f"type DECIMAL({precision}, {scale}) does not exist",
                detail="The precision is from 1 to 38, the scale from 0 to the precision.",
            )
        self.precision = precision
        self.scale = scale
        self._unit = decimal.Decimal(1).scaleb(-scale)
        self._context = decimal.Context(prec=precision, rounding=decimal.ROUND_HALF_UP)

    def parse(self, text: str) -> decimal.Decimal:
        """Read a decimal number, rounded half up to the scale."""
        try:
            value = decimal.Decimal(_plain_number(text).strip()).quantize(self._unit, context=self._context)
        except decimal.InvalidOperation as error:
            raise ValueError(f"no {self.name} of {self.precision} digits") from error
        if not value.is_finite():
            raise ValueError(f"a {self.name} is finite")
        return value if value else value.copy_abs()

    def rounded(self, value: decimal.Decimal) -> decimal.Decimal:
        """Return a number rounded half up to the scale, as Flink stores it.

        Raises:
            TypeMismatchError: If it has more digits before the point than the type.
        """
        try:
            return value.quantize(self._unit, context=self._context)
        except decimal.InvalidOperation as error:
            raise TypeMismatchError(f"value {shorten(value)} does not fit type {self}") from error

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DecimalType) and str(self) == str(other)

    __hash__ = DataType.__hash__

    def _arguments(self) -> str:
        return f"({self.precision}, {self.scale})"


class DateType(AtomicType):
    """A day; in text `2013-01-31`."""

    name = "DATE"
    EPOCH_ORDINAL: ClassVar[int] = datetime.date(1970, 1, 1).toordinal()

    def parse(self, text: str) -> datetime.date:
        """Read an ISO date."""
        return datetime.date.fromisoformat(text.strip())

    def _fits(self, value: Any) -> bool:
        return isinstance(value, datetime.date) and not isinstance(value, datetime.datetime)

    def need_conversion(self) -> bool:
        """Return True: it is days since 1970."""
        return True

    def to_sql_type(self, d: Any) -> Any:
        """Return days since 1970."""
        return None if d is None else d.toordinal() - self.EPOCH_ORDINAL

    def from_sql_type(self, v: Any) -> Any:
        """Return the day of a number of days since 1970."""
        return None if v is None else datetime.date.fromordinal(v + self.EPOCH_ORDINAL)


class TimeType(AtomicType):
    """A time of day without zone; in text `05:15:00`."""

    name = "TIME"
    python_types = (datetime.time,)
    EPOCH_ORDINAL: ClassVar[int] = 0

    def __init__(self, precision: int = 0, nullable: bool = True) -> None:
        super().__init__(nullable)
        self.precision = precision

    def parse(self, text: str) -> datetime.time:
        """Read an ISO time."""
        value = datetime.time.fromisoformat(text.strip())
        if value.tzinfo is not None:
            raise ValueError("a TIME has no zone")
        return value

    def _arguments(self) -> str:
        return f"({self.precision})"

    def need_conversion(self) -> bool:
        """Return True: it is microseconds of a day."""
        return True

    def to_sql_type(self, t: Any) -> Any:
        """Return microseconds since midnight, of UTC if the time has a zone."""
        if t is None:
            return None
        offset = t.utcoffset() or datetime.timedelta()
        whole = ((t.hour * 60 + t.minute) * 60 + t.second) * 10**6 + t.microsecond
        return whole - offset // datetime.timedelta(microseconds=1)

    def from_sql_type(self, t: Any) -> Any:
        """Return the time of a number of microseconds since midnight."""
        return None if t is None else (datetime.datetime.min + datetime.timedelta(microseconds=t)).time()


class TimestampType(AtomicType):
    """A day and time without zone; in text `2013-01-31 05:15:00` or with a `T` between."""

    name = "TIMESTAMP"
    python_types: ClassVar[tuple[type, ...]] = (datetime.datetime,)

    def __init__(self, precision: int = 6, nullable: bool = True) -> None:
        super().__init__(nullable)
        self.precision = precision

    def parse(self, text: str) -> datetime.datetime:
        """Read an ISO date and time."""
        value = datetime.datetime.fromisoformat(text.strip())
        if value.tzinfo is not None:
            raise ValueError("a TIMESTAMP has no zone")
        return value

    def _arguments(self) -> str:
        return f"({self.precision})"

    def need_conversion(self) -> bool:
        """Return True: it is microseconds since 1970."""
        return True

    def to_sql_type(self, dt: Any) -> Any:
        """Return microseconds since 1970; a time without zone is the machine's."""
        return None if dt is None else int(dt.replace(microsecond=0).timestamp()) * 10**6 + dt.microsecond

    def from_sql_type(self, ts: Any) -> Any:
        """Return the machine's local time of microseconds since 1970."""
        if ts is None:
            return None
        return datetime.datetime.fromtimestamp(ts // 10**6).replace(microsecond=ts % 10**6)


class LocalZonedTimestampType(TimestampType):
    """A moment, in Python a datetime: without zone it is in the machine's; in text as a timestamp, `Z` for UTC."""

    name = "TIMESTAMP_LTZ"
    EPOCH_ORDINAL: ClassVar[int] = 0
    python_types = (datetime.datetime, Instant)

    def parse(self, text: str) -> datetime.datetime:
        """Read an ISO date and time; with a zone it becomes the machine's."""
        value = datetime.datetime.fromisoformat(text.strip())
        return value if value.tzinfo is None else value.astimezone().replace(tzinfo=None)


class VarBinaryType(AtomicType):
    """Bytes, at most `length`; has no text form."""

    name = "VARBINARY"
    python_types = (bytes, bytearray)
    MAX_LENGTH: ClassVar[int] = 2**31 - 1

    def __init__(self, length: int = MAX_LENGTH, nullable: bool = True) -> None:
        super().__init__(nullable)
        self.length = length

    def _fits(self, value: Any) -> bool:
        return isinstance(value, (bytes, bytearray)) and len(value) <= self.length

    def _arguments(self) -> str:
        return f"({self.length})"


class BinaryType(VarBinaryType):
    """Bytes, `length` of them; fewer are left as they are."""

    name = "BINARY"

    def __init__(self, length: int = 1, nullable: bool = True) -> None:
        super().__init__(length, nullable)


class MapType(DataType):
    """A dict with keys of one type and values of one type."""

    name = "MAP"

    def __init__(self, key_type: DataType, value_type: DataType, nullable: bool = True) -> None:
        super().__init__(nullable)
        self.key_type = key_type
        self.value_type = value_type

    def check(self, value: Any) -> None:
        """Check a dict, each of its keys and each of its values."""
        super().check(value)
        for key, item in (value or {}).items():
            self.key_type.check(key)
            self.value_type.check(item)

    def _fits(self, value: Any) -> bool:
        return isinstance(value, Mapping)

    def need_conversion(self) -> bool:
        """Return whether keys or values need it."""
        return self.key_type.need_conversion() or self.value_type.need_conversion()

    def to_sql_type(self, obj: Any) -> Any:
        """Return the dict with internal keys and values."""
        keys, values = self.key_type.to_sql_type, self.value_type.to_sql_type
        return obj and {keys(key): values(value) for key, value in obj.items()}

    def from_sql_type(self, obj: Any) -> Any:
        """Return the dict with Python's keys and values."""
        keys, values = self.key_type.from_sql_type, self.value_type.from_sql_type
        return obj and {keys(key): values(value) for key, value in obj.items()}

    def _arguments(self) -> str:
        return f"<{self.key_type}, {self.value_type}>"


class ArrayType(DataType):
    """A list of values of one type; its text form depends on the format."""

    name = "ARRAY"

    def __init__(self, element_type: DataType, nullable: bool = True) -> None:
        super().__init__(nullable)
        self.element_type = element_type

    def check(self, value: Any) -> None:
        """Check a list or tuple and each of its elements."""
        super().check(value)
        for element in value or ():
            self.element_type.check(element)

    def _fits(self, value: Any) -> bool:
        return isinstance(value, (list, tuple))

    def need_conversion(self) -> bool:
        """Return whether elements need it."""
        return self.element_type.need_conversion()

    def to_sql_type(self, obj: Any) -> Any:
        """Return the list with internal elements."""
        return obj and [self.element_type.to_sql_type(each) for each in obj]

    def from_sql_type(self, obj: Any) -> Any:
        """Return the list with Python's elements."""
        return obj and [self.element_type.from_sql_type(each) for each in obj]

    def _arguments(self) -> str:
        return f"<{self.element_type}>"


class RowField:
    """A named field of a row type."""

    def __init__(self, name: str, data_type: DataType, description: str | None = None) -> None:
        self.name = name
        self.data_type = data_type
        self.description = description

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RowField) and (self.name, self.data_type) == (other.name, other.data_type)

    def __hash__(self) -> int:
        return hash((self.name, self.data_type))

    def __repr__(self) -> str:
        return f"{self.name} {self.data_type}"

    __str__ = __repr__

    def need_conversion(self) -> bool:
        """Return whether its values need it."""
        return self.data_type.need_conversion()

    def to_sql_type(self, obj: Any) -> Any:
        """Return a value as PyFlink's internal one."""
        return self.data_type.to_sql_type(obj)

    def from_sql_type(self, obj: Any) -> Any:
        """Return PyFlink's internal value as Python's."""
        return self.data_type.from_sql_type(obj)


class RowType(DataType):
    """A row of named fields."""

    name = "ROW"

    def __init__(self, fields: Sequence[RowField] | None = None, nullable: bool = True) -> None:
        super().__init__(nullable)
        self.fields = list(fields or ())
        names = self.field_names()
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ConfigurationError(f"row type has two fields named {twice[0]!r}")

    def field_names(self) -> list[str]:
        """Return the names in order."""
        return [field.name for field in self.fields]

    def field_types(self) -> list[DataType]:
        """Return the types in order."""
        return [field.data_type for field in self.fields]

    def check(self, value: Any) -> None:
        """Check a row, tuple or list field by field."""
        super().check(value)
        for field, item in zip(self.fields, value or (), strict=False):
            field.data_type.check(item)

    @property
    def names(self) -> list[str]:
        """The names in order."""
        return self.field_names()

    def add(self, field: RowField | str, data_type: DataType | None = None) -> Self:
        """Append a field, or a name and its type; returns itself.

        Raises:
            ConfigurationError: If there is one of that name already, or the type is missing.
        """
        if isinstance(field, str):
            if data_type is None:
                raise ConfigurationError(f"field {field!r} was added without a type")
            field = RowField(field, data_type)
        if field.name in self.field_names():
            raise ConfigurationError(f"row type has two fields named {field.name!r}")
        self.fields.append(field)
        return self

    def __getitem__(self, key: str | int | slice) -> Any:
        if isinstance(key, str):
            found = next((each for each in self.fields if each.name == key), None)
            if found is None:
                raise KeyError(f"row type has no field {key!r}: it has {', '.join(self.field_names())}")
            return found
        return type(self)(self.fields[key]) if isinstance(key, slice) else self.fields[key]

    def need_conversion(self) -> bool:
        """Return True: it is a tuple."""
        return True

    def to_sql_type(self, obj: Any) -> Any:
        """Return the fields as a tuple of internal values."""
        if obj is None:
            return None
        values = [obj.get(name) for name in self.names] if isinstance(obj, dict) else list(obj)
        return tuple(each.to_sql_type(value) for each, value in zip(self.fields, values, strict=True))

    def from_sql_type(self, obj: Any) -> Any:
        """Return a tuple of internal values as Python's."""
        if obj is None:
            return None
        return tuple(each.from_sql_type(value) for each, value in zip(self.fields, obj, strict=True))

    def __iter__(self) -> Iterator[RowField]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def _fits(self, value: Any) -> bool:
        return hasattr(value, "__len__") and not isinstance(value, (str, bytes)) and len(value) == len(self)

    def _arguments(self) -> str:
        return f"<{', '.join(map(repr, self.fields))}>"


class DataTypes:
    """Makes types by their SQL names.

    >>> tags = DataTypes.ARRAY(DataTypes.STRING())
    >>> DataTypes.ROW([DataTypes.FIELD("id", DataTypes.INT()), DataTypes.FIELD("tags", tags)])
    ROW<id INT, tags ARRAY<STRING>>
    """

    @staticmethod
    def STRING(nullable: bool = True) -> VarCharType:
        """Text of any length."""
        return VarCharType(nullable=nullable)

    @staticmethod
    def VARCHAR(length: int, nullable: bool = True) -> VarCharType:
        """Text of at most `length` characters."""
        return VarCharType(length, nullable)

    @staticmethod
    def CHAR(length: int, nullable: bool = True) -> CharType:
        """Text of `length` characters."""
        return CharType(length, nullable)

    @staticmethod
    def BOOLEAN(nullable: bool = True) -> BooleanType:
        """True or False."""
        return BooleanType(nullable)

    @staticmethod
    def TINYINT(nullable: bool = True) -> TinyIntType:
        """Integer of 8 bits."""
        return TinyIntType(nullable)

    @staticmethod
    def SMALLINT(nullable: bool = True) -> SmallIntType:
        """Integer of 16 bits."""
        return SmallIntType(nullable)

    @staticmethod
    def INT(nullable: bool = True) -> IntType:
        """Integer of 32 bits."""
        return IntType(nullable)

    @staticmethod
    def BIGINT(nullable: bool = True) -> BigIntType:
        """Integer of 64 bits."""
        return BigIntType(nullable)

    @staticmethod
    def FLOAT(nullable: bool = True) -> FloatType:
        """Floating-point number of 32 bits."""
        return FloatType(nullable)

    @staticmethod
    def DOUBLE(nullable: bool = True) -> DoubleType:
        """Floating-point number of 64 bits."""
        return DoubleType(nullable)

    @staticmethod
    def DECIMAL(precision: int, scale: int, nullable: bool = True) -> DecimalType:
        """Decimal number of `precision` digits, `scale` of them behind the point."""
        return DecimalType(precision, scale, nullable)

    @staticmethod
    def DATE(nullable: bool = True) -> DateType:
        """A day."""
        return DateType(nullable)

    @staticmethod
    def TIME(precision: int = 0, nullable: bool = True) -> TimeType:
        """A time of day without zone."""
        return TimeType(precision, nullable)

    @staticmethod
    def TIMESTAMP(precision: int = 6, nullable: bool = True) -> TimestampType:
        """A day and time without zone."""
        return TimestampType(precision, nullable)

    @staticmethod
    def TIMESTAMP_LTZ(precision: int = 6, nullable: bool = True) -> LocalZonedTimestampType:
        """A moment."""
        return LocalZonedTimestampType(precision, nullable)

    @staticmethod
    def TIMESTAMP_WITH_LOCAL_TIME_ZONE(precision: int = 6, nullable: bool = True) -> LocalZonedTimestampType:
        """A moment; the long name of TIMESTAMP_LTZ."""
        return LocalZonedTimestampType(precision, nullable)

    @staticmethod
    def BINARY(length: int, nullable: bool = True) -> BinaryType:
        """Bytes, `length` of them."""
        return BinaryType(length, nullable)

    @staticmethod
    def VARBINARY(length: int, nullable: bool = True) -> VarBinaryType:
        """Bytes, at most `length`."""
        return VarBinaryType(length, nullable)

    @staticmethod
    def BYTES(nullable: bool = True) -> VarBinaryType:
        """Bytes of any number."""
        return VarBinaryType(nullable=nullable)

    @staticmethod
    def ARRAY(element_type: DataType, nullable: bool = True) -> ArrayType:
        """A list of values of one type."""
        return ArrayType(element_type, nullable)

    @staticmethod
    def MAP(key_type: DataType, value_type: DataType, nullable: bool = True) -> MapType:
        """A dict with keys of one type and values of one type."""
        return MapType(key_type, value_type, nullable)

    @staticmethod
    def ROW(row_fields: Sequence[RowField] = (), nullable: bool = True) -> RowType:
        """A row of named fields."""
        return RowType(row_fields, nullable)

    @staticmethod
    def FIELD(name: str, data_type: DataType, description: str | None = None) -> RowField:
        """A field of a row."""
        return RowField(name, data_type, description)


def _plain_number(text: str) -> str:
    if "_" in text:
        raise ValueError("a number has no underscore")
    return text
