"""Members of `Expression` that make functions of numbers."""

from __future__ import annotations

from typing import Any, Self

from millstream.table.expressions.building import Built

__all__ = ["NumbersMembers"]


class NumbersMembers(Built):
    """Functions of numbers; what is no expression becomes a literal."""

    @property
    def exp(self) -> Self:
        """Return `EXP(self)`."""
        return self._call("EXP", "exp", self)

    @property
    def log10(self) -> Self:
        """Return `LOG10(self)`."""
        return self._call("LOG10", "log10", self)

    @property
    def log2(self) -> Self:
        """Return `LOG2(self)`."""
        return self._call("LOG2", "log2", self)

    @property
    def ln(self) -> Self:
        """Return `LN(self)`."""
        return self._call("LN", "ln", self)

    @property
    def cosh(self) -> Self:
        """Return `COSH(self)`."""
        return self._call("COSH", "cosh", self)

    @property
    def sinh(self) -> Self:
        """Return `SINH(self)`."""
        return self._call("SINH", "sinh", self)

    @property
    def sin(self) -> Self:
        """Return `SIN(self)`."""
        return self._call("SIN", "sin", self)

    @property
    def cos(self) -> Self:
        """Return `COS(self)`."""
        return self._call("COS", "cos", self)

    @property
    def tan(self) -> Self:
        """Return `TAN(self)`."""
        return self._call("TAN", "tan", self)

    @property
    def cot(self) -> Self:
        """Return `COT(self)`."""
        return self._call("COT", "cot", self)

    @property
    def asin(self) -> Self:
        """Return `ASIN(self)`."""
        return self._call("ASIN", "asin", self)

    @property
    def acos(self) -> Self:
        """Return `ACOS(self)`."""
        return self._call("ACOS", "acos", self)

    @property
    def atan(self) -> Self:
        """Return `ATAN(self)`."""
        return self._call("ATAN", "atan", self)

    @property
    def tanh(self) -> Self:
        """Return `TANH(self)`."""
        return self._call("TANH", "tanh", self)

    @property
    def degrees(self) -> Self:
        """Return `DEGREES(self)`."""
        return self._call("DEGREES", "degrees", self)

    @property
    def radians(self) -> Self:
        """Return `RADIANS(self)`."""
        return self._call("RADIANS", "radians", self)

    @property
    def sqrt(self) -> Self:
        """Return `SQRT(self)`."""
        return self._call("SQRT", "sqrt", self)

    @property
    def abs(self) -> Self:
        """Return `ABS(self)`."""
        return self._call("ABS", "abs", self)

    @property
    def sign(self) -> Self:
        """Return `SIGN(self)`."""
        return self._call("SIGN", "sign", self)

    @property
    def bin(self) -> Self:
        """Return `BIN(self)`."""
        return self._call("BIN", "bin", self)

    @property
    def hex(self) -> Self:
        """Return `HEX(self)`."""
        return self._call("HEX", "hex", self)

    @property
    def unhex(self) -> Self:
        """Return `UNHEX(self)`."""
        return self._call("UNHEX", "unhex", self)

    def round(self, places: Any) -> Self:
        """Return `ROUND(self, places)`."""
        return self._call("ROUND", "round", self, places)

    def truncate(self, n: Any = 0) -> Self:
        """Return `TRUNCATE(self, n)`."""
        return self._call("TRUNCATE", "truncate", self, n)

    def inet_aton(self) -> Self:
        """Return `INET_ATON(self)`."""
        return self._call("INET_ATON", "inetAton", self)

    def inet_ntoa(self) -> Self:
        """Return `INET_NTOA(self)`."""
        return self._call("INET_NTOA", "inetNtoa", self)
