"""Numbers."""

from __future__ import annotations

import decimal
from collections.abc import Sequence
from typing import Any, ClassVar

from millstream.base.errors import ConfigurationError, TypeMismatchError, shorten
from millstream.types.datatypes.base import AtomicType, DataType

__all__ = [
    "BigIntType",
    "DecimalType",
    "DoubleType",
    "FloatType",
    "FractionalType",
    "IntType",
    "IntegralType",
    "NumericType",
    "SmallIntType",
    "TinyIntType",
]


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


def _plain_number(text: str) -> str:
    if "_" in text:
        raise ValueError("a number has no underscore")
    return text
