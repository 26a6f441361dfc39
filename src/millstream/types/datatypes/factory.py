"""Types by their SQL names."""

from __future__ import annotations

from collections.abc import Sequence

from millstream.types.datatypes.base import DataType
from millstream.types.datatypes.composite import ArrayType, MapType, RowField, RowType
from millstream.types.datatypes.numbers import (
    BigIntType,
    DecimalType,
    DoubleType,
    FloatType,
    IntType,
    SmallIntType,
    TinyIntType,
)
from millstream.types.datatypes.texts import BinaryType, BooleanType, CharType, VarBinaryType, VarCharType
from millstream.types.datatypes.times import DateType, LocalZonedTimestampType, TimestampType, TimeType

__all__ = ["DataTypes"]


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
