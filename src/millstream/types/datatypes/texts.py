"""Texts, bytes and truth values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from millstream.types.datatypes.base import AtomicType

__all__ = ["BinaryType", "BooleanType", "CharType", "VarBinaryType", "VarCharType"]


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
