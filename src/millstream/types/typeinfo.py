"""Types of records (PyFlink's `pyflink.common.typeinfo`).

A declared type is checked where the value is produced, a whole batch at once: a batch of `INT` costs one pass
over the types of the values and a `min`/`max`, a batch of rows is turned into columns, each checked likewise.

**None.** Strings, big numbers, dates and times take None anywhere. Numbers, booleans and characters take it
only where Flink's types are nullable: in fields of a `ROW`, in `BASIC_ARRAY` and `OBJECT_ARRAY`, and as the
value of a `MAP`. Rows, tuples, arrays, lists and maps are None only inside those.

**What is adapted.** `conform` turns a batch into what PyFlink gives back after a round trip through the type:
tuples, dicts and objects declared as rows become `Row`, rows without names get the type's (`f0`, `f1`, … if it
has none), named rows are brought into its order, and integers declared as FLOAT or DOUBLE become floats, those of
FLOAT of single precision.
"""

from __future__ import annotations

from collections.abc import Sequence

from millstream.types.basic import (
    _BIG_DEC,
    _BIG_INT,
    _BOOLEAN,
    _BYTE,
    _CHAR,
    _DOUBLE,
    _FLOAT,
    _INSTANT,
    _INT,
    _LONG,
    _SHORT,
    _STRING,
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    InstantTypeInfo,
    LocalTimeTypeInfo,
    PickledBytesTypeInfo,
    SqlTimeTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TypeInformation,
)
from millstream.types.composite import (
    BasicArrayTypeInfo,
    ExternalTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
)

__all__ = [
    "BasicArrayTypeInfo",
    "BasicType",
    "BasicTypeInfo",
    "DateTypeInfo",
    "ExternalTypeInfo",
    "InstantTypeInfo",
    "ListTypeInfo",
    "LocalTimeTypeInfo",
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


class Types:
    """Makes types.

    >>> from millstream.common import Types
    >>> Types.ROW_NAMED(["name", "age"], [Types.STRING(), Types.INT()])
    RowTypeInfo(name: String, age: Integer)
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
        """Floats of 32 bits: values are rounded to single precision where they pass a declared type."""
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
