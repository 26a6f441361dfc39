"""What all SQL types have."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, ClassVar, Self

from millstream.base.errors import TypeMismatchError, shorten

__all__ = ["AtomicType", "DataType"]


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
