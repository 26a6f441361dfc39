"""Values of columns as the driver has them, made values of Python and of millstream."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from millstream.base.errors import MalformedRecordError, shorten
from millstream.base.time import Instant
from millstream.connectors.cassandra.cluster import load_driver
from millstream.types.row import Row, rows_of

__all__ = ["RowReader", "shown_type"]

Convert = Callable[[Any], Any]

_EPOCH = datetime.datetime(1970, 1, 1)
_MILLISECOND = datetime.timedelta(milliseconds=1)


class RowReader:
    """Makes rows of what the driver gives.

    Args:
        names: Of the columns.
        types: The driver's types of them.
        where: What is read, for messages.
    """

    def __init__(self, names: Sequence[str], types: Sequence[Any], where: str) -> None:
        self.names = tuple(names)
        self._where = where
        found = [(place, _converter(kind)) for place, kind in enumerate(types)]
        self._converters = [(place, convert) for place, convert in found if convert is not None]

    @staticmethod
    def of(prepared: Any, where: str) -> RowReader:
        """Make the one of a prepared statement."""
        columns = prepared.result_metadata or ()
        return RowReader([each[2] for each in columns], [each[3] for each in columns], where)

    def rows(self, found: Sequence[Sequence[Any]]) -> list[Row]:
        """Return rows.

        Raises:
            MalformedRecordError: If Python has no such value: a date behind the year 9999.
        """
        if not self._converters:
            return rows_of(self.names, map(tuple, found))
        columns: list[Iterable[Any]] = list(zip(*found, strict=True))
        for place, convert in self._converters:
            if found:
                columns[place] = self._converted(place, columns[place], convert)
        return rows_of(self.names, zip(*columns, strict=True))

    def _converted(self, place: int, values: Iterable[Any], convert: Convert) -> list[Any]:
        made = []
        for value in values:
            try:
                made.append(None if value is None else convert(value))
            except (ValueError, OverflowError) as error:
                raise MalformedRecordError(
                    f"column {self.names[place]!r} of {self._where} holds {shorten(value)}, "
                    "which Python has no value for",
                    detail=str(error),
                    hint="Leave the column out of the query, or convert it there: CAST(... AS text).",
                ) from error
        return made


def shown_type(kind: Any) -> str:
    """Return one of the driver's types as CQL has it."""
    return str(kind.cql_parameterized_type())


def _converter(kind: Any) -> Convert | None:
    """Return what makes a value of a type what records hold; None if it is that already."""
    types = load_driver("cassandra.cqltypes")
    if issubclass(kind, types.UserType):
        return _of_user_type(kind)
    if issubclass(kind, types.TupleType):
        parts = [_converter(each) or _as_it_is for each in kind.subtypes]
        return lambda value: tuple(_each(parts, value))
    if issubclass(kind, types.FrozenType):
        return _converter(kind.subtypes[0])
    if issubclass(kind, types.ListType):
        return _of_list(_converter(kind.subtypes[0]))
    if issubclass(kind, types.VectorType):
        return _of_list(_converter(kind.subtype))
    if issubclass(kind, types.SetType):
        part = _converter(kind.subtypes[0]) or _as_it_is
        return lambda value: {_hashable(part(each)) for each in value}
    if issubclass(kind, types.MapType):
        key, item = (_converter(each) or _as_it_is for each in kind.subtypes)
        return lambda value: {_hashable(key(name)): _or_none(item, each) for name, each in value.items()}
    return _SIMPLE.get(kind.typename)


def _of_list(part: Convert | None) -> Convert:
    if part is None:
        return list
    return lambda value: [_or_none(part, each) for each in value]


def _of_user_type(kind: Any) -> Convert:
    names = tuple(kind.fieldnames)
    parts = [_converter(each) or _as_it_is for each in kind.subtypes]

    def convert(value: Any) -> Any:
        # A class that a program registered with its cluster stays what it is.
        return Row.of(names, _each(parts, value)) if isinstance(value, tuple) else value

    return convert


def _each(parts: Sequence[Convert], values: Iterable[Any]) -> list[Any]:
    return [_or_none(part, value) for part, value in zip(parts, values, strict=False)]


def _or_none(convert: Convert, value: Any) -> Any:
    return None if value is None else convert(value)


def _as_it_is(value: Any) -> Any:
    return value


def _hashable(value: Any) -> Any:
    """Return what can be in a set, or be the key of a dict."""
    if isinstance(value, (list, tuple)):
        return tuple(map(_hashable, value))
    if isinstance(value, set):
        return frozenset(value)
    if isinstance(value, Row):
        return Row.of(value._fields, map(_hashable, value._values))
    if isinstance(value, dict):
        return tuple((key, _hashable(each)) for key, each in value.items())
    return value


def _instant(value: datetime.datetime) -> Instant:
    return Instant.of_epoch_milli((value - _EPOCH) // _MILLISECOND)


_SIMPLE: dict[str, Convert] = {
    "timestamp": _instant,
    "date": lambda value: value.date(),
    "time": lambda value: value.time(),
}
