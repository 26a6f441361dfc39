"""Types of several values: maps, arrays, rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

from millstream.base.errors import ConfigurationError
from millstream.types.datatypes.base import DataType

__all__ = ["ArrayType", "MapType", "RowField", "RowType"]


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
