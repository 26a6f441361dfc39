"""Types of records (PyFlink's `pyflink.common.typeinfo`).

A declared type is checked where the value is produced, a whole batch at once: a batch of `INT` costs one pass
over the types of the values and a `min`/`max`, a batch of rows is turned into columns, each checked likewise.

**None.** Strings, big numbers, dates and times take None anywhere. Numbers, booleans and characters take it
only where Flink's types are nullable: in fields of a `ROW`, in `BASIC_ARRAY` and `OBJECT_ARRAY`, and as the
value of a `MAP`. Rows, tuples, arrays, lists and maps are None only inside those.

**What is adapted.** `conform` turns a batch into what PyFlink gives back after a round trip through the type:
tuples declared as rows become `Row`, rows without names get the type's (`f0`, `f1`, … if it has none), named
rows are brought into its order, and integers declared as FLOAT or DOUBLE become floats.
"""

from __future__ import annotations

import datetime
import decimal
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from numbers import Integral, Real
from operator import itemgetter
from types import NoneType
from typing import Any, Final

from millstream.common.errors import ConfigurationError
from millstream.common.time import Instant
from millstream.common.types import Row, RowKind

__all__ = [
    "BasicArrayTypeInfo",
    "BasicTypeInfo",
    "DateTypeInfo",
    "ExternalTypeInfo",
    "InstantTypeInfo",
    "ListTypeInfo",
    "MapTypeInfo",
    "ObjectArrayTypeInfo",
    "PickledBytesTypeInfo",
    "PrimitiveArrayTypeInfo",
    "RowTypeInfo",
    "SqlTimeTypeInfo",
    "TimeTypeInfo",
    "TimestampTypeInfo",
    "TupleTypeInfo",
    "TypeInformation",
    "Types",
]


class TypeInformation(ABC):
    """What values a stream, state or field holds; immutable and picklable.

    Attributes:
        takes_none: Whether None fits wherever the type is used.
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
        """Return a value as Flink prints it: tuples `(a,1)`, None `null`, lists `[a, b]`, maps `{a=1}`."""
        return "null" if value is None else str(value)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash((type(self), self._identity()))

    def __repr__(self) -> str:
        return self.describe()


def _find(values: Iterable[Any], fits: Callable[[Any], bool]) -> int | None:
    return next((position for position, value in enumerate(values) if not fits(value)), None)


def _is_integer(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


class BasicTypeInfo(TypeInformation):
    """A type without parts.

    Attributes:
        name: As in `Types`.
    """

    name: str

    def __init__(self, name: str, *, takes_none: bool) -> None:
        self.name = name
        self.takes_none = takes_none

    def describe(self) -> str:
        """Return the name."""
        return self.name

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
        raise NotImplementedError


class _ClassTypeInfo(BasicTypeInfo):
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


class InstantTypeInfo(_ClassTypeInfo):
    """Points in time, `Instant`."""

    def __init__(self) -> None:
        super().__init__("INSTANT", Instant, takes_none=True)


class DateTypeInfo(_ClassTypeInfo):
    """Days, `datetime.date`."""

    def __init__(self) -> None:
        super().__init__("SQL_DATE", datetime.date, takes_none=True)


class TimeTypeInfo(_ClassTypeInfo):
    """Times of day, `datetime.time`."""

    def __init__(self) -> None:
        super().__init__("SQL_TIME", datetime.time, takes_none=True)


class TimestampTypeInfo(_ClassTypeInfo):
    """Days with time, `datetime.datetime`."""

    def __init__(self) -> None:
        super().__init__("SQL_TIMESTAMP", datetime.datetime, takes_none=True)


class SqlTimeTypeInfo:
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


class _IntegerTypeInfo(BasicTypeInfo):
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


class _FloatTypeInfo(BasicTypeInfo):
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


class _CharTypeInfo(BasicTypeInfo):
    """Strings of length 1."""

    def _misfit(self, values: Sequence[Any]) -> int | None:
        return _find(values, lambda value: isinstance(value, str) and len(value) == 1)


_STRING: Final = _ClassTypeInfo("STRING", str, takes_none=True)
_BOOLEAN: Final = _BooleanTypeInfo()
_BYTE: Final = _IntegerTypeInfo("BYTE", 8)
_SHORT: Final = _IntegerTypeInfo("SHORT", 16)
_INT: Final = _IntegerTypeInfo("INT", 32)
_LONG: Final = _IntegerTypeInfo("LONG", 64)
_FLOAT: Final = _FloatTypeInfo("FLOAT", takes_none=False)
_DOUBLE: Final = _FloatTypeInfo("DOUBLE", takes_none=False)
_CHAR: Final = _CharTypeInfo("CHAR", takes_none=False)
_BIG_INT: Final = _IntegerTypeInfo("BIG_INT", None)
_BIG_DEC: Final = _ClassTypeInfo("BIG_DEC", decimal.Decimal, takes_none=True)
_INSTANT: Final = InstantTypeInfo()


class PickledBytesTypeInfo(TypeInformation):
    """Any value that pickles: nothing is checked."""

    takes_none = True

    def describe(self) -> str:
        """Return the name."""
        return "PICKLED_BYTE_ARRAY"

    def find_mismatch(self, values: Sequence[Any], *, nullable: bool = False) -> int | None:
        """Return None: everything fits."""
        return None

    def _misfit(self, values: Sequence[Any]) -> int | None:
        return None

    def _identity(self) -> object:
        return None


def _transpose(rows: Sequence[Sequence[Any]]) -> list[Sequence[Any]]:
    # zip(*rows) makes an iterator for each row, which costs about twice as much.
    return [list(map(itemgetter(position), rows)) for position in range(len(rows[0]))]


class _FieldsTypeInfo(TypeInformation):
    """Values with a fixed number of fields."""

    _word: str
    _nullable_fields: bool

    def __init__(self, field_types: Sequence[TypeInformation]) -> None:
        self._field_types = _checked(self._word, field_types)

    def get_field_types(self) -> list[TypeInformation]:
        """Return the types of the fields, in order."""
        return list(self._field_types)

    def describe(self) -> str:
        """Return the word and the fields' types."""
        return f"{self._word}<{', '.join(kind.describe() for kind in self._field_types)}>"

    def _identity(self) -> object:
        return self._field_types

    def _has_shape(self, value: Any) -> bool:
        raise NotImplementedError

    def _columns(self, values: Sequence[Any]) -> list[Sequence[Any]]:
        return list(zip(*values, strict=True))

    def _uniform_columns(self, values: Sequence[Any]) -> list[Sequence[Any]] | None:
        """Return the fields of all values if all have the same, fitting shape, else None; the fast way."""
        raise NotImplementedError

    def _misfit(self, values: Sequence[Any]) -> int | None:
        shaped = None
        columns = self._uniform_columns(values)
        if columns is None:
            shaped = _find(values, self._has_shape)
            columns = self._columns(values[:shaped])
        wrong = [
            position
            for kind, column in zip(self._field_types, columns, strict=False)
            if (position := kind.find_mismatch(column, nullable=self._nullable_fields)) is not None
        ]
        return min(wrong, default=shaped)

    def adapts(self) -> bool:
        """Return whether a field may change."""
        return any(kind.adapts() for kind in self._field_types)

    def _texts(self, value: Any) -> str:
        pairs = zip(self._field_types, value, strict=True)
        return ",".join(kind.to_text(field) for kind, field in pairs)

    def _conform_columns(self, values: list[Any]) -> list[Sequence[Any]] | None:
        """Return the fields of each value, adapted; None if no field changed."""
        columns = self._uniform_columns(values) or self._columns(values)
        changed = False
        for position, kind in enumerate(self._field_types):
            if kind.adapts():
                before = list(columns[position])
                after = kind.conform(before)
                if after is not before:
                    columns[position] = tuple(after)
                    changed = True
        return list(zip(*columns, strict=True)) if changed else None


def _checked(word: str, field_types: Sequence[TypeInformation]) -> tuple[TypeInformation, ...]:
    for position, kind in enumerate(field_types):
        if not isinstance(kind, TypeInformation):
            raise ConfigurationError(
                f"{word} was given {kind!r} as the type of field {position}",
                hint="Give it a type, with brackets: Types.INT().",
            )
    return tuple(field_types)


class RowTypeInfo(_FieldsTypeInfo):
    """Rows; fields may be None. Tuples and lists of as many fields are taken too.

    Raises:
        ConfigurationError: If a field type is none, or there are not as many names as types.
    """

    _word = "ROW"
    _nullable_fields = True

    def __init__(
        self, field_types: Sequence[TypeInformation], field_names: Sequence[str] | None = None
    ) -> None:
        super().__init__(field_types)
        self._named = field_names is not None
        names = [f"f{i}" for i in range(len(field_types))] if field_names is None else list(field_names)
        if len(names) != len(self._field_types):
            raise ConfigurationError(
                f"a ROW was given {len(names)} field names and {len(self._field_types)} types"
            )
        if len(set(names)) != len(names):
            raise ConfigurationError(f"a ROW has a field name twice: {names}")
        self._field_names = tuple(names)
        self._name_set = frozenset(names)

    def get_field_names(self) -> list[str]:
        """Return the names of the fields, `f0`, `f1`, … if they were given none."""
        return list(self._field_names)

    def get_field_index(self, field_name: str) -> int:
        """Return a field's position, -1 if there is none of that name."""
        return self._field_names.index(field_name) if field_name in self._name_set else -1

    def describe(self) -> str:
        """Return the fields' names, if they were given some, and types."""
        if not self._named:
            return super().describe()
        pairs = zip(self._field_names, self._field_types, strict=True)
        return f"ROW<{', '.join(f'{name} {kind.describe()}' for name, kind in pairs)}>"

    def _identity(self) -> object:
        return self._field_names, self._field_types

    def _has_shape(self, value: Any) -> bool:
        if not isinstance(value, (Row, tuple, list)) or len(value) != len(self._field_types):
            return False
        names = value._fields if isinstance(value, Row) else None
        return names is None or not self._named or names == self._field_names or set(names) == self._name_set

    def _uniform_columns(self, values: Sequence[Any]) -> list[Sequence[Any]] | None:
        if set(map(type, values)) != {Row}:
            return None
        names = {value._fields for value in values}
        fields = [value._values for value in values]
        if not names <= {None, self._field_names} or set(map(len, fields)) != {len(self._field_types)}:
            return None
        return _transpose(fields)

    def _columns(self, values: Sequence[Any]) -> list[Sequence[Any]]:
        return list(zip(*map(self._in_order, values), strict=True))

    def _in_order(self, value: Any) -> Sequence[Any]:
        if not isinstance(value, Row):
            fields: Sequence[Any] = value
            return fields
        names = value._fields
        if names is None or names == self._field_names or set(names) != self._name_set:
            return value._values
        return value.get_fields_by_names(self._field_names)

    def adapts(self) -> bool:
        """Return True: rows get names."""
        return True

    def to_text(self, value: Any) -> str:
        """Return the row's kind and fields, such as `+I[a,1]`."""
        if value is None:
            return super().to_text(value)
        kind = value.get_row_kind() if isinstance(value, Row) else RowKind.INSERT
        return f"{kind}[{self._texts(self._in_order(value))}]"

    def conform(self, values: list[Any]) -> list[Any]:
        """Return rows with the type's names, in its order."""
        names = self._field_names
        present = (
            [value for value in values if value is not None] if NoneType in map(type, values) else values
        )
        if not present:
            return values
        columns = self._conform_columns(present) if super().adapts() else None
        if columns is None and all(type(value) is Row and value._fields == names for value in present):
            return values
        parts: Iterable[Iterable[Any]] = columns if columns is not None else map(self._in_order, present)
        rows = [
            Row.of(names, list(part), value.get_row_kind())
            if isinstance(value, Row)
            else Row.of(names, list(part))
            for part, value in zip(parts, present, strict=True)
        ]
        return rows if present is values else _refill(values, rows)


def _refill(values: list[Any], present: list[Any]) -> list[Any]:
    """Put `present` back to where `values` are not None."""
    following = iter(present)
    return [None if value is None else next(following) for value in values]


class TupleTypeInfo(_FieldsTypeInfo):
    """Tuples; fields are None only where their type takes it. Subclasses of tuple are taken, rows are not."""

    _word = "TUPLE"
    _nullable_fields = False

    def _has_shape(self, value: Any) -> bool:
        return isinstance(value, tuple) and len(value) == len(self._field_types)

    def _uniform_columns(self, values: Sequence[Any]) -> list[Sequence[Any]] | None:
        if set(map(type, values)) != {tuple} or set(map(len, values)) != {len(self._field_types)}:
            return None
        return _transpose(values)

    def to_text(self, value: Any) -> str:
        """Return the fields in round brackets."""
        return super().to_text(value) if value is None else f"({self._texts(value)})"

    def conform(self, values: list[Any]) -> list[Any]:
        """Return tuples with adapted fields."""
        if not values or not self.adapts():
            return values
        present = [value for value in values if value is not None]
        columns = self._conform_columns(present) if present else None
        return values if columns is None else _refill(values, columns)


class _SequenceTypeInfo(TypeInformation):
    """Lists of one type of element."""

    _word: str
    _nullable_elements = False
    _containers: tuple[type, ...] = (list, tuple)

    def __init__(self, element_type: TypeInformation) -> None:
        (self._element_type,) = _checked(self._word, [element_type])

    def describe(self) -> str:
        """Return the word and the elements' type."""
        return f"{self._word}<{self._element_type.describe()}>"

    def _identity(self) -> object:
        return self._element_type

    def _accepts(self, value: Any) -> bool:
        # Arrays of numpy and of the array module are sequences of numbers as well.
        return isinstance(value, self._containers) or hasattr(value, "tolist")

    def _misfit(self, values: Sequence[Any]) -> int | None:
        shaped = _find(values, self._accepts)
        sound = values[:shaped]
        flat = list(chain.from_iterable(sound))
        wrong = self._element_type.find_mismatch(flat, nullable=self._nullable_elements)
        return shaped if wrong is None else _owner(sound, wrong)

    def adapts(self) -> bool:
        """Return whether elements may change."""
        return self._element_type.adapts()

    def to_text(self, value: Any) -> str:
        """Return the elements in square brackets."""
        if value is None:
            return super().to_text(value)
        return f"[{', '.join(map(self._element_type.to_text, value))}]"

    def conform(self, values: list[Any]) -> list[Any]:
        """Return lists with adapted elements."""
        if not self.adapts():
            return values
        return [self._element_type.conform(value) if isinstance(value, list) else value for value in values]


def _owner(containers: Sequence[Any], position: int) -> int:
    """Return which container holds the element at `position` of all elements in a row."""
    for number, container in enumerate(containers):
        position -= len(container)
        if position < 0:
            return number
    raise IndexError(position)


class PrimitiveArrayTypeInfo(_SequenceTypeInfo):
    """Arrays whose elements are never None; of BYTE it takes `bytes` too."""

    _word = "PRIMITIVE_ARRAY"

    def _misfit(self, values: Sequence[Any]) -> int | None:
        if self._element_type != _BYTE:
            return super()._misfit(values)
        fits = super()._misfit
        return _find(values, lambda value: isinstance(value, (bytes, bytearray)) or fits([value]) is None)


class BasicArrayTypeInfo(_SequenceTypeInfo):
    """Arrays of basic values, which may be None."""

    _word = "BASIC_ARRAY"
    _nullable_elements = True


class ObjectArrayTypeInfo(_SequenceTypeInfo):
    """Arrays of any type; elements may be None."""

    _word = "OBJECT_ARRAY"
    _nullable_elements = True


class ListTypeInfo(_SequenceTypeInfo):
    """Lists."""

    _word = "LIST"


class MapTypeInfo(TypeInformation):
    """Dicts; values may be None."""

    def __init__(self, key_type_info: TypeInformation, value_type_info: TypeInformation) -> None:
        self._key_type, self._value_type = _checked("MAP", [key_type_info, value_type_info])

    def describe(self) -> str:
        """Return the types of keys and values."""
        return f"MAP<{self._key_type.describe()}, {self._value_type.describe()}>"

    def _identity(self) -> object:
        return self._key_type, self._value_type

    def _misfit(self, values: Sequence[Any]) -> int | None:
        return _find(values, self._fits)

    def _fits(self, value: Any) -> bool:
        return (
            isinstance(value, dict)
            and self._key_type.find_mismatch(list(value)) is None
            and self._value_type.find_mismatch(list(value.values()), nullable=True) is None
        )

    def adapts(self) -> bool:
        """Return whether values may change."""
        return self._value_type.adapts()

    def to_text(self, value: Any) -> str:
        """Return the pairs in curly brackets."""
        if value is None:
            return super().to_text(value)
        key, item = self._key_type.to_text, self._value_type.to_text
        return "{" + ", ".join(f"{key(k)}={item(v)}" for k, v in value.items()) + "}"

    def conform(self, values: list[Any]) -> list[Any]:
        """Return dicts with adapted values."""
        if not self.adapts():
            return values
        conform = self._value_type.conform
        return [
            None if value is None else dict(zip(value, conform(list(value.values())), strict=True))
            for value in values
        ]


class ExternalTypeInfo(TypeInformation):
    """A type that comes from elsewhere (the Table API); stands for the type inside."""

    def __init__(self, type_info: TypeInformation) -> None:
        (self._type_info,) = _checked("EXTERNAL", [type_info])
        self.takes_none = type_info.takes_none

    def describe(self) -> str:
        """Return the type inside."""
        return self._type_info.describe()

    def _identity(self) -> object:
        return self._type_info

    def _misfit(self, values: Sequence[Any]) -> int | None:
        return self._type_info._misfit(values)

    def adapts(self) -> bool:
        """Return whether values of the type inside may change."""
        return self._type_info.adapts()

    def to_text(self, value: Any) -> str:
        """Return a value as the type inside does."""
        return self._type_info.to_text(value)

    def conform(self, values: list[Any]) -> list[Any]:
        """Return values of the type inside, adapted."""
        return self._type_info.conform(values)


class Types:
    """Makes types.

    >>> Types.ROW_NAMED(["name", "age"], [Types.STRING(), Types.INT()])
    ROW<name STRING, age INT>
    >>> Types.INT().find_mismatch([1, 2**31, 3])
    1
    """

    @staticmethod
    def STRING() -> TypeInformation:
        """Strings."""
        return _STRING

    @staticmethod
    def BYTE() -> TypeInformation:
        """Integers of 8 bits, -128 to 127."""
        return _BYTE

    @staticmethod
    def BOOLEAN() -> TypeInformation:
        """True and False."""
        return _BOOLEAN

    @staticmethod
    def SHORT() -> TypeInformation:
        """Integers of 16 bits."""
        return _SHORT

    @staticmethod
    def INT() -> TypeInformation:
        """Integers of 32 bits."""
        return _INT

    @staticmethod
    def LONG() -> TypeInformation:
        """Integers of 64 bits."""
        return _LONG

    @staticmethod
    def FLOAT() -> TypeInformation:
        """Floats; kept in Python's 64 bits."""
        return _FLOAT

    @staticmethod
    def DOUBLE() -> TypeInformation:
        """Floats of 64 bits."""
        return _DOUBLE

    @staticmethod
    def CHAR() -> TypeInformation:
        """Strings of one character."""
        return _CHAR

    @staticmethod
    def BIG_INT() -> TypeInformation:
        """Integers of any size."""
        return _BIG_INT

    @staticmethod
    def BIG_DEC() -> TypeInformation:
        """`decimal.Decimal`."""
        return _BIG_DEC

    @staticmethod
    def INSTANT() -> TypeInformation:
        """`Instant`, a point in time."""
        return _INSTANT

    @staticmethod
    def SQL_DATE() -> TypeInformation:
        """`datetime.date`."""
        return DateTypeInfo()

    @staticmethod
    def SQL_TIME() -> TypeInformation:
        """`datetime.time`."""
        return TimeTypeInfo()

    @staticmethod
    def SQL_TIMESTAMP() -> TypeInformation:
        """`datetime.datetime`."""
        return TimestampTypeInfo()

    @staticmethod
    def PICKLED_BYTE_ARRAY() -> TypeInformation:
        """Anything that pickles."""
        return PickledBytesTypeInfo()

    @staticmethod
    def ROW(field_types: Sequence[TypeInformation]) -> RowTypeInfo:
        """Rows of fields without names."""
        return RowTypeInfo(field_types)

    @staticmethod
    def ROW_NAMED(field_names: Sequence[str], field_types: Sequence[TypeInformation]) -> RowTypeInfo:
        """Rows of fields with names."""
        return RowTypeInfo(field_types, field_names)

    @staticmethod
    def TUPLE(field_types: Sequence[TypeInformation]) -> TupleTypeInfo:
        """Tuples."""
        return TupleTypeInfo(field_types)

    @staticmethod
    def PRIMITIVE_ARRAY(element_type: TypeInformation) -> TypeInformation:
        """Arrays whose elements are never None."""
        return PrimitiveArrayTypeInfo(element_type)

    @staticmethod
    def BASIC_ARRAY(element_type: TypeInformation) -> TypeInformation:
        """Arrays of basic values or None."""
        return BasicArrayTypeInfo(element_type)

    @staticmethod
    def OBJECT_ARRAY(element_type: TypeInformation) -> TypeInformation:
        """Arrays of anything or None."""
        return ObjectArrayTypeInfo(element_type)

    @staticmethod
    def MAP(key_type_info: TypeInformation, value_type_info: TypeInformation) -> TypeInformation:
        """Dicts."""
        return MapTypeInfo(key_type_info, value_type_info)

    @staticmethod
    def LIST(element_type_info: TypeInformation) -> TypeInformation:
        """Lists."""
        return ListTypeInfo(element_type_info)
