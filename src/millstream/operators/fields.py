"""Fields of records by name: of rows, dicts, named tuples, other objects, and tuples whose names are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import Any

from millstream.base.errors import TypeMismatchError, shorten
from millstream.operators.user_code import attach_element
from millstream.types.row import Row

__all__ = ["FieldReader", "FieldSelector"]


class FieldReader:
    """Reads one field of records.

    Args:
        name: The field's name.
        names: Names of the fields of plain tuples and lists, in order; None if they have none.
    """

    def __init__(self, name: str, names: Sequence[str] | None = None) -> None:
        self.name = name
        self._place = names.index(name) if names is not None and name in names else None

    def __call__(self, record: Any) -> Any:
        """Return the field of one record.

        Raises:
            TypeMismatchError: If it has no such field.
        """
        return self.values([record])[0]

    def values(self, records: Sequence[Any]) -> list[Any]:
        """Return the field of each record.

        Raises:
            TypeMismatchError: If one has no such field; the record is noted on it.
        """
        kinds = set(map(type, records))
        try:
            if len(kinds) == 1:
                return list(map(self._getter(kinds.pop()), records))
            return [self._getter(type(record))(record) for record in records]
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise self._missing(records) from error

    def _getter(self, kind: type) -> Callable[[Any], Any]:
        if issubclass(kind, Row) and self._place is not None:
            return self._of_row
        if issubclass(kind, (Row, Mapping)):
            return itemgetter(self.name)
        if issubclass(kind, (tuple, list)) and not hasattr(kind, "_fields"):
            if self._place is None:
                raise KeyError(self.name)
            return itemgetter(self._place)
        return attrgetter(self.name)

    def _of_row(self, row: Row) -> Any:
        assert self._place is not None, "a row without names, and no names for its places"
        return row[self._place] if row._fields is None else row[self.name]

    def _missing(self, records: Sequence[Any]) -> TypeMismatchError:
        for record in records:
            try:
                self._getter(type(record))(record)
            except (AttributeError, IndexError, KeyError, TypeError, ValueError):
                break
        error = TypeMismatchError(
            f"a record of type {type(record).__name__} has no field {self.name!r}: {shorten(record)}",
            detail="Rows, dicts, named tuples and objects have fields by name; tuples where a stream is declared so.",
            hint="Make rows before it, or declare the type: map(f, Types.ROW_NAMED([...], [...])).",
        )
        attach_element(error, record)
        return error


class FieldSelector:
    """Gives a record's key by names of fields: the value of one field, a tuple of several.

    Args:
        fields: The names; at least one.
        names: As for `FieldReader`.

    Attributes:
        fields: The names.
    """

    def __init__(self, fields: Sequence[str], names: Sequence[str] | None = None) -> None:
        self.fields = tuple(fields)
        self.readers = [FieldReader(field, names) for field in fields]

    def __call__(self, record: Any) -> Any:
        """Return a record's key.

        Raises:
            TypeMismatchError: If it lacks one of the fields.
        """
        if len(self.readers) == 1:
            return self.readers[0](record)
        return tuple([read(record) for read in self.readers])
