"""Rows (PyFlink's `pyflink.common.types`).

A row is a tuple of values and a schema, which all rows with the same names and kind share::

    Row(name="Ada", age=36)    ──►  _values  ("Ada", 36)
                                    _schema  {"name": 0, "age": 1}, fields, kind INSERT

So a row costs little more than its tuple to make, pickle and copy: copies share the values, a pickle holds a schema
once, and a field's name is found in one dict. Setting a field makes a new tuple. Names are attributes by properties
that `Row` gets when it first sees a name (`RowSchema`): a class with `__getattr__` would be read half as fast.
"""

from __future__ import annotations

import copyreg
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any

__all__ = [
    "NoSuchFieldError",
    "Row",
    "RowKind",
    "RowSchema",
    "copy_row",
    "copy_rows",
    "replace_field",
    "row_maker",
    "rows_of",
    "unpack_rows",
]

_MOST_SCHEMAS = 10_000
_MOST_ATTRIBUTES = 10_000


class RowKind(Enum):
    """What a row does to a changelog.

    Example:
        >>> from millstream.common import Row, RowKind
        >>> row = Row("ann", 15)
        >>> row.set_row_kind(RowKind.UPDATE_AFTER)
        >>> row.get_row_kind(), str(RowKind.UPDATE_AFTER)
        (<RowKind.UPDATE_AFTER: 2>, '+U')
    """

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    def __str__(self) -> str:
        return ("+I", "-U", "+U", "-D")[self.value]


_INSERT = RowKind.INSERT


class NoSuchFieldError(AttributeError, KeyError, ValueError):
    """A row has no field of a name; PyFlink raises one of the three, by the way that the field is asked for."""

    __str__ = Exception.__str__  # KeyError's would quote the message


class RowSchema(dict[Any, int]):
    """What rows share: the position of each name, the names in order, the kind. Never changed; equal if the same.

    Attributes:
        fields: The names, None if there are none.
        kind: What the rows do to a changelog.
        in_order: Picks a row's values in the order of the sorted names; None if they are in it, or have no names.
        make: Makes a row of its arguments.
    """

    __slots__ = ("_kinds", "fields", "in_order", "kind", "make")

    def __init__(
        self, fields: tuple[str, ...] | None, kind: RowKind, kinds: dict[int, RowSchema] | None = None
    ) -> None:
        super().__init__()
        for position, name in enumerate(fields or ()):
            self.setdefault(name, position)
        self.fields = fields
        self.kind = kind
        positions = [self[name] for name in sorted(self, key=str)]
        self.in_order = None if positions == sorted(positions) else itemgetter(*positions)
        self.make = _maker(self)
        self._kinds = {} if kinds is None else kinds
        self._kinds[kind.value] = self

    __eq__ = object.__eq__
    __hash__ = object.__hash__  # type: ignore[assignment]

    def of_kind(self, kind: RowKind) -> RowSchema:
        """Return the schema with the same names and that kind."""
        found = self._kinds.get(kind._value_)
        return RowSchema(self.fields, kind, self._kinds) if found is None else found

    def __missing__(self, name: Any) -> int:
        raise NoSuchFieldError(f"no field {name!r}; fields: {list(self.fields or ())}")

    def no_value(self, name: Any) -> NoSuchFieldError:
        """Return the error of a row with fewer values than names."""
        return NoSuchFieldError(f"field {name!r} has no value; fields: {list(self.fields or ())}")

    def __call__(self, *values: Any) -> Row:
        """Make a row, as copies of one do."""
        return self.make(*values)

    def __reduce__(self) -> tuple[Any, ...]:
        return row_maker, ((self.fields,) if self.kind is _INSERT else (self.fields, self.kind))


class _Schemas(dict[tuple[str, ...] | None, RowSchema]):
    """Schemas of rows of kind INSERT, by their names; those of names that are new are made."""

    def __missing__(self, fields: tuple[str, ...] | None) -> RowSchema:
        if len(self) >= _MOST_SCHEMAS:
            self.clear()
            self[None] = _UNNAMED
        for name in fields or ():
            if name not in _attributes and isinstance(name, str) and not name.startswith("__"):
                _give_property(name)
        return self.setdefault(fields, RowSchema(fields, _INSERT))


class Row:
    """A record of fields, by position or by name.

    Setting a field copies the row's values: of wide rows, rather make new ones than set field after field.

    >>> from millstream.common import Row
    >>> person = Row(name="Ada", age=36)
    >>> person.name, person["age"], person[0]
    ('Ada', 36, 'Ada')
    >>> Person = Row("name", "age")
    >>> Person("Alan", 41)
    Row(name='Alan', age=41)
    >>> Row(1, "x")
    <Row(1, 'x')>
    """

    __slots__ = ("_schema", "_values")

    _schema: RowSchema
    _values: tuple[Any, ...]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if kwargs:
            if args:
                raise ValueError("a Row takes positional or named fields, not both")
            self._schema = _schemas[tuple(kwargs)]
            self._values = tuple(kwargs.values())
        else:
            self._schema = _UNNAMED
            self._values = args

    def __init_subclass__(cls, **kwargs: Any) -> None:
        # Pickles and copies of a row are its fields: an attribute beside them would be lost silently.
        super().__init_subclass__(**kwargs)
        if "__setattr__" not in vars(cls):
            cls.__setattr__ = _set_known  # type: ignore[assignment, method-assign]

    @classmethod
    def of(cls, fields: tuple[str, ...] | None, values: Iterable[Any], kind: RowKind = _INSERT) -> Row:
        """Make a row without checks."""
        row = _new(cls)
        row._schema = _schema_of(fields, kind)
        row._values = tuple(values)
        return row

    def __call__(self, *args: Any) -> Row:
        """Make a row whose fields are named by this row's values, and whose kind is this row's.

        Raises:
            ValueError: If there are more values than names.
        """
        names = self._values
        if len(args) > len(names):
            raise ValueError(f"this Row class has {len(names)} fields, {len(args)} values were given: {args}")
        try:
            schema = _schemas.get(names)
        except TypeError:  # a list among them
            schema = None
        if schema is None:
            schema = _schemas[tuple(map(str, names))]
        kind = self._schema.kind
        row = _new(Row)
        row._schema = schema if kind is _INSERT else schema.of_kind(kind)
        row._values = args
        return row

    def as_dict(self, recursive: bool = False) -> dict[str, Any]:
        """Return the fields by name; `recursive` converts rows inside as well."""
        if self._schema.fields is None:
            raise TypeError("a Row without field names has no dict")
        values = map(_plain, self._values) if recursive else self._values
        return dict(zip(self._schema.fields, values, strict=False))

    def get_row_kind(self) -> RowKind:
        """Return what the row does to a changelog."""
        return self._schema.kind

    def set_row_kind(self, row_kind: RowKind) -> None:
        """Set what the row does to a changelog."""
        self._schema = self._schema.of_kind(row_kind)

    _row_kind = property(get_row_kind, set_row_kind)

    @staticmethod
    def of_kind(row_kind: RowKind, *args: Any, **kwargs: Any) -> Row:
        """Make a row of that kind, from values or from named values."""
        row = Row(*args, **kwargs)
        row.set_row_kind(row_kind)
        return row

    def set_field_names(self, field_names: Iterable[str]) -> None:
        """Name the fields."""
        self._schema = _schema_of(tuple(field_names), self._schema.kind)

    @property
    def _fields(self) -> tuple[str, ...] | None:
        return self._schema.fields

    def get_fields_by_names(self, names: Iterable[str]) -> list[Any]:
        """Return the values of the named fields; all values if the fields have no names."""
        return list(self._values) if self._schema.fields is None else [self[name] for name in names]

    def __getitem__(self, item: int | str | slice) -> Any:
        if type(item) is int:
            return self._values[item]
        if isinstance(item, str):
            try:
                return self._values[self._schema[item]]
            except IndexError:
                raise self._schema.no_value(item) from None
        values = self._values[item]
        return list(values) if isinstance(item, slice) else values

    def __setitem__(self, item: int | str | slice, value: Any) -> None:
        values = list(self._values)
        if type(item) is not int and isinstance(item, str):
            position = self._schema[item]
            if position >= len(values):
                raise self._schema.no_value(item)
            values[position] = value
        else:
            values[item] = value
        self._values = tuple(values)

    if TYPE_CHECKING:  # names of fields are properties of the class

        def __getattr__(self, name: str) -> Any: ...

        def __setattr__(self, name: str, value: Any) -> None: ...

    def __dir__(self) -> list[str]:
        others = _attributes.difference(self._schema)
        return sorted(name for name in {*super().__dir__(), *map(str, self._schema)} if name not in others)

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __contains__(self, item: object) -> bool:
        return item in (self._values if self._schema.fields is None else self._schema.fields)

    def __hash__(self) -> int:
        in_order = self._schema.in_order  # for rows with the same names in another order are equal
        if in_order is None or len(self._values) < len(self._schema):
            return hash(self._values)
        return hash(in_order(self._values))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Row):
            return False
        mine, its = self._schema, other._schema
        if mine is its or mine.fields == its.fields:
            return mine.kind is its.kind and self._values == other._values
        if mine.kind is not its.kind or mine.fields is None or its.fields is None:
            return False
        return mine.keys() == its.keys() and self.as_dict() == other.as_dict()

    def __repr__(self) -> str:
        if self._schema.fields is None:
            return f"<Row({', '.join(map(repr, self._values))})>"
        pairs = zip(self._schema.fields, self._values, strict=False)
        return f"Row({', '.join(f'{name}={value!r}' for name, value in pairs)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return self._schema, self._values


# What pickle and copy ask about rows: a call of the schema with the values, told without a call of Python.
copyreg.pickle(Row, attrgetter("_schema", "_values"))


def _maker(schema: RowSchema) -> Callable[..., Row]:
    def make(*values: Any) -> Row:
        row = _new(Row)
        row._schema = schema
        row._values = values
        return row

    return make


_new = object.__new__
_UNNAMED = RowSchema(None, _INSERT)
_schemas = _Schemas({None: _UNNAMED})
_attributes: set[str] = set()


def row_maker(fields: tuple[str, ...] | None, kind: RowKind = _INSERT) -> Callable[..., Row]:
    """Return a function that makes rows with those names of that kind from its arguments; pickled rows call it.

    >>> make = row_maker(("name", "age"))
    >>> make("Ada", 36)
    Row(name='Ada', age=36)
    """
    return _schema_of(fields, kind).make


def copy_row(row: Row, values: tuple[Any, ...]) -> Row:
    """Return a row with the names and the kind of another, and its own values."""
    made = _new(Row)
    made._schema = row._schema
    made._values = values
    return made


def replace_field(row: Row, item: int | str, value: Any) -> Row:
    """Return a row with another value of one field."""
    made = copy_row(row, row._values)
    made[item] = value
    return made


def copy_rows(rows: Iterable[Row]) -> list[Row]:
    """Return rows with the same names, kinds and values."""
    copies: list[Row] = []
    append = copies.append
    for row in rows:
        made = _new(Row)
        made._schema = row._schema
        made._values = row._values
        append(made)
    return copies


def rows_of(
    fields: tuple[str, ...] | None, tuples: Iterable[tuple[Any, ...]], kind: RowKind = _INSERT
) -> list[Row]:
    """Make a row of each tuple, faster than one by one: of columns by `rows_of(fields, zip(*columns))`.

    >>> rows_of(("name", "age"), [("Ada", 36), ("Alan", 41)])
    [Row(name='Ada', age=36), Row(name='Alan', age=41)]
    """
    schema, new, cls = _schema_of(fields, kind), _new, Row
    rows: list[Row] = []
    append = rows.append
    for values in tuples:
        row = new(cls)
        row._schema = schema
        row._values = values
        append(row)
    return rows


def unpack_rows(
    values: Sequence[Any],
) -> tuple[tuple[str, ...] | None, list[tuple[Any, ...]], RowKind] | None:
    """Return what `rows_of` makes rows like these of: names, tuples, kind; None if not all are rows of the same."""
    if not values or type(values[0]) is not Row or set(map(type, values)) != {Row}:
        return None
    schema = values[0]._schema
    tuples = [row._values for row in values if row._schema is schema]
    return (schema.fields, tuples, schema.kind) if len(tuples) == len(values) else None


def _schema_of(fields: tuple[str, ...] | None, kind: RowKind) -> RowSchema:
    schema = _schemas[fields]
    return schema if kind is _INSERT else schema.of_kind(kind)


def _give_property(name: str) -> None:
    if any(name in vars(base) for base in Row.__mro__):
        return  # methods come before fields
    if len(_attributes) < _MOST_ATTRIBUTES:
        setattr(Row, name, _property(name))
        _attributes.add(name)
    else:  # names that are data: all others are looked up
        Row.__getattr__ = _find_field  # type: ignore[method-assign]
        Row.__setattr__ = _set_known  # type: ignore[assignment, method-assign]


def _property(name: str) -> property:
    def get(row: Row) -> Any:
        try:
            return row._values[row._schema[name]]
        except IndexError:
            raise row._schema.no_value(name) from None

    def put(row: Row, value: Any) -> None:
        values = list(row._values)
        try:
            values[row._schema[name]] = value
        except IndexError:
            raise row._schema.no_value(name) from None
        row._values = tuple(values)

    return property(get, put)


def _find_field(row: Row, name: str) -> Any:
    if name.startswith("__") or name in Row.__slots__:
        raise AttributeError(name)
    return row[name]


def _set_known(row: Row, name: str, value: Any) -> None:
    """Set a field, or a slot or property of its class, and nothing else."""
    if hasattr(getattr(type(row), name, None), "__set__"):
        object.__setattr__(row, name, value)
    else:
        row[name] = value


def _plain(value: Any) -> Any:
    if isinstance(value, Row):
        return value.as_dict(recursive=True)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value
