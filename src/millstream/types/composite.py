"""Types with parts: rows, tuples, arrays, lists, maps; `types/typeinfo.py` is where they are used from."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from itertools import chain
from operator import itemgetter
from types import NoneType
from typing import Any

from millstream.base.errors import ConfigurationError
from millstream.types.basic import _BYTE, TypeInformation, _find
from millstream.types.row import Row, RowKind, RowSchema, rows_of

__all__ = [
    "BasicArrayTypeInfo",
    "ExternalTypeInfo",
    "ListTypeInfo",
    "MapTypeInfo",
    "ObjectArrayTypeInfo",
    "PrimitiveArrayTypeInfo",
    "RowTypeInfo",
    "TupleTypeInfo",
]


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

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self._field_types))})"

    def _identity(self) -> object:
        return self._field_types

    @abstractmethod
    def _has_shape(self, value: Any) -> bool:
        """Return whether a value is of the kind, with as many fields."""

    def _columns(self, values: Sequence[Any]) -> list[Sequence[Any]]:
        return list(zip(*values, strict=True))

    @abstractmethod
    def _uniform_columns(self, values: Sequence[Any]) -> list[Sequence[Any]] | None:
        """Return the fields of all values if all have the same, fitting shape, else None; the fast way."""

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

    def _texts(self, value: Any) -> Iterable[str]:
        pairs = zip(self._field_types, value, strict=True)
        return [kind.to_text(field) for kind, field in pairs]

    def need_conversion(self) -> bool:
        """Return True."""
        return True

    def to_internal_type(self, obj: Any) -> Any:
        """Return the fields for the wire."""
        if obj is None:
            return None
        pairs = zip(self._field_types, obj, strict=True)
        return tuple(kind.to_internal_type(field) for kind, field in pairs)

    def from_internal_type(self, obj: Any) -> Any:
        """Return the fields of what came over the wire; tuples and lists are values already."""
        if obj is None or isinstance(obj, (tuple, list)):
            return obj
        pairs = zip(self._field_types, obj, strict=True)
        return tuple(kind.from_internal_type(field) for kind, field in pairs)

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
    """Rows; fields may be None. Tuples and lists of as many fields are taken too, dicts and objects by name.

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

    def __repr__(self) -> str:
        if not self._named:
            return super().__repr__()
        pairs = zip(self._field_names, self._field_types, strict=True)
        return f"RowTypeInfo({', '.join(f'{name}: {kind!r}' for name, kind in pairs)})"

    def _identity(self) -> object:
        return self._field_names, self._field_types

    def _has_shape(self, value: Any) -> bool:
        if not isinstance(value, (Row, tuple, list)):
            return self._has_names(value)
        if len(value) != len(self._field_types):
            return False
        names = value._fields if isinstance(value, Row) else None
        return names is None or not self._named or names == self._field_names or set(names) == self._name_set

    def _uniform_columns(self, values: Sequence[Any]) -> list[Sequence[Any]] | None:
        if set(map(type, values)) != {Row}:
            return None
        schemas = {value._schema for value in values}
        fields = [value._values for value in values]
        named = {schema.fields for schema in schemas} <= {None, self._field_names}
        if not named or set(map(len, fields)) != {len(self._field_types)}:
            return None
        return _transpose(fields)

    def _columns(self, values: Sequence[Any]) -> list[Sequence[Any]]:
        return list(zip(*map(self._in_order, values), strict=True))

    def _has_names(self, value: Any) -> bool:
        """Return whether a dict has a field of that name, or an object all of them as attributes."""
        if isinstance(value, dict):
            return not self._name_set.isdisjoint(value)
        return hasattr(value, "__dict__") and all(hasattr(value, name) for name in self._field_names)

    def _in_order(self, value: Any) -> Sequence[Any]:
        if isinstance(value, dict):
            return [value.get(name) for name in self._field_names]
        if not isinstance(value, Row):
            if isinstance(value, (tuple, list)):
                return value
            return [getattr(value, name) for name in self._field_names]
        names = value._fields
        if names is None or names == self._field_names or set(names) != self._name_set:
            return value._values
        return value.get_fields_by_names(self._field_names)

    def adapts(self) -> bool:
        """Return True: rows get names."""
        return True

    def to_text(self, value: Any) -> str:
        """Return the row's kind and fields, such as `+I[a, 1]`."""
        if value is None:
            return super().to_text(value)
        return f"{_kind_of(value)}[{', '.join(self._texts(self._in_order(value)))}]"

    def to_printed(self, value: Any) -> str:
        """Return the row's kind and `str()` of each field, such as `+I[a,None]`."""
        if value is None:
            return super().to_printed(value)
        return f"{_kind_of(value)}[{','.join(map(str, self._in_order(value)))}]"

    def to_internal_type(self, obj: Any) -> Any:
        """Return the row's kind as a number, then its fields, for the wire."""
        if obj is None:
            return None
        return (_kind_of(obj).value, *super().to_internal_type(self._in_order(obj)))

    def conform(self, values: list[Any]) -> list[Any]:
        """Return rows with the type's names, in its order."""
        names = self._field_names
        present = (
            [value for value in values if value is not None] if NoneType in map(type, values) else values
        )
        if not present:
            return values
        columns = self._conform_columns(present) if super().adapts() else None
        schemas = _schemas_of(present)
        if columns is None and schemas is not None and {schema.fields for schema in schemas} == {names}:
            return values
        kinds = {schema.kind for schema in schemas} if schemas is not None else set(map(_kind_of, present))
        parts: Iterable[Sequence[Any]] = columns if columns is not None else map(self._in_order, present)
        if len(kinds) == 1:
            rows = rows_of(names, map(tuple, parts), kinds.pop())
        else:
            rows = [Row.of(names, part, _kind_of(value)) for part, value in zip(parts, present, strict=True)]
        return rows if present is values else _refill(values, rows)


def _schemas_of(values: Sequence[Any]) -> set[RowSchema] | None:
    """Return what schemas rows have; None if not all are rows."""
    return {value._schema for value in values} if set(map(type, values)) == {Row} else None


def _kind_of(value: Any) -> RowKind:
    return value.get_row_kind() if isinstance(value, Row) else RowKind.INSERT


def _refill(values: list[Any], present: list[Any]) -> list[Any]:
    """Put `present` back to where `values` are not None."""
    following = iter(present)
    return [None if value is None else next(following) for value in values]


class TupleTypeInfo(_FieldsTypeInfo):
    """Tuples; fields are None only where their type takes it. Lists and rows of as many fields are taken too."""

    _word = "TUPLE"
    _nullable_fields = False

    def _has_shape(self, value: Any) -> bool:
        return isinstance(value, (tuple, list, Row)) and len(value) == len(self._field_types)

    def adapts(self) -> bool:
        """Return True: lists and rows become tuples."""
        return True

    def _uniform_columns(self, values: Sequence[Any]) -> list[Sequence[Any]] | None:
        if set(map(type, values)) != {tuple} or set(map(len, values)) != {len(self._field_types)}:
            return None
        return _transpose(values)

    def to_text(self, value: Any) -> str:
        """Return the fields in round brackets."""
        return super().to_text(value) if value is None else f"({','.join(self._texts(value))})"

    def conform(self, values: list[Any]) -> list[Any]:
        """Return tuples with adapted fields."""
        kinds = set(map(type, values)) - {NoneType}
        if kinds and super().adapts():
            columns = self._conform_columns([value for value in values if value is not None])
            if columns is not None:
                return _refill(values, columns)
        if all(issubclass(kind, tuple) for kind in kinds):
            return values
        return [tuple(value) if isinstance(value, (list, Row)) else value for value in values]


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

    def __repr__(self) -> str:
        return f"{type(self).__name__}<{self._element_type!r}>"

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

    def __repr__(self) -> str:
        return f"MapTypeInfo<{self._key_type!r}, {self._value_type!r}>"

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

    def __repr__(self) -> str:
        return f"ExternalTypeInfo<{self._type_info!r}>"

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

    def to_printed(self, value: Any) -> str:
        """Return a record as the type inside does."""
        return self._type_info.to_printed(value)

    def conform(self, values: list[Any]) -> list[Any]:
        """Return values of the type inside, adapted."""
        return self._type_info.conform(values)
