"""Rows (PyFlink's `pyflink.common.types`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any

__all__ = ["Row", "RowKind"]


class RowKind(Enum):
    """What a row does to a changelog."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    def __str__(self) -> str:
        return ("+I", "-U", "+U", "-D")[self.value]


class Row:
    """A record of fields, by position or by name.

    >>> person = Row(name="Ada", age=36)
    >>> person.name, person["age"], person[0]
    ('Ada', 36, 'Ada')
    >>> Person = Row("name", "age")
    >>> Person("Alan", 41)
    Row(name='Alan', age=41)
    >>> Row(1, "x")
    <Row(1, 'x')>
    """

    __slots__ = ("_fields", "_row_kind", "_values")

    _fields: tuple[str, ...] | None
    _values: list[Any]
    _row_kind: RowKind

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise ValueError("a Row takes positional or named fields, not both")
        _set_fields(self, tuple(kwargs) if kwargs else None)
        _set_values(self, list(kwargs.values()) if kwargs else list(args))
        _set_kind(self, RowKind.INSERT)

    @classmethod
    def of(cls, fields: tuple[str, ...] | None, values: list[Any], kind: RowKind = RowKind.INSERT) -> Row:
        """Make a row without checks; it keeps `values` itself."""
        row = _new(cls)
        _set_fields(row, fields)
        _set_values(row, values)
        _set_kind(row, kind)
        return row

    def __call__(self, *args: Any) -> Row:
        """Make a row whose fields are named by this row's values."""
        if len(args) != len(self._values):
            raise TypeError(f"this Row class has {len(self._values)} fields, {len(args)} values were given")
        return Row.of(tuple(map(str, self._values)), list(args))

    def as_dict(self, recursive: bool = False) -> dict[str, Any]:
        """Return the fields by name; `recursive` converts rows inside as well."""
        if self._fields is None:
            raise TypeError("a Row without field names has no dict")
        if not recursive:
            return dict(zip(self._fields, self._values, strict=True))
        return {name: _plain(value) for name, value in zip(self._fields, self._values, strict=True)}

    def get_row_kind(self) -> RowKind:
        """Return what the row does to a changelog."""
        return self._row_kind

    def set_row_kind(self, row_kind: RowKind) -> None:
        """Set what the row does to a changelog."""
        self._row_kind = row_kind

    @staticmethod
    def of_kind(row_kind: RowKind, *args: Any, **kwargs: Any) -> Row:
        """Make a row of that kind, from values or from named values."""
        row = Row(*args, **kwargs)
        _set_kind(row, row_kind)
        return row

    def set_field_names(self, field_names: Iterable[str]) -> None:
        """Name the fields."""
        self._fields = tuple(field_names)

    def get_fields_by_names(self, names: Iterable[str]) -> list[Any]:
        """Return the values of the named fields."""
        return [self[name] for name in names]

    def _position(self, name: str) -> int:
        if self._fields is None or name not in self._fields:
            raise KeyError(f"no field {name!r}; fields: {list(self._fields or ())}")
        return self._fields.index(name)

    def __getitem__(self, item: int | str | slice) -> Any:
        return self._values[self._position(item) if isinstance(item, str) else item]

    def __setitem__(self, item: int | str, value: Any) -> None:
        self._values[self._position(item) if isinstance(item, str) else item] = value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in Row.__slots__:
            raise AttributeError(name)
        try:
            return self._values[self._position(name)]
        except KeyError as error:
            raise AttributeError(error.args[0]) from None

    def __setattr__(self, name: str, value: Any) -> None:
        if name in Row.__slots__:
            object.__setattr__(self, name, value)
        else:
            self._values[self._position(name)] = value

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __contains__(self, item: object) -> bool:
        return item in self._values

    def __hash__(self) -> int:
        return hash(tuple(self._values))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Row)
            and self._values == other._values
            and self._fields == other._fields
            and self._row_kind is other._row_kind
        )

    def __repr__(self) -> str:
        if self._fields is None:
            return f"<Row({', '.join(map(repr, self._values))})>"
        pairs = zip(self._fields, self._values, strict=True)
        return f"Row({', '.join(f'{name}={value!r}' for name, value in pairs)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _row, (self._fields, self._values, self._row_kind.value)


# Row's own __setattr__ serves users' fields; making rows is hot and goes to the slots directly.
_new = object.__new__
_set_fields = Row.__dict__["_fields"].__set__
_set_values = Row.__dict__["_values"].__set__
_set_kind = Row.__dict__["_row_kind"].__set__


def _row(fields: tuple[str, ...] | None, values: list[Any], kind: int) -> Row:
    return Row.of(fields, values, RowKind(kind))


def _plain(value: Any) -> Any:
    if isinstance(value, Row):
        return value.as_dict(recursive=True)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value
