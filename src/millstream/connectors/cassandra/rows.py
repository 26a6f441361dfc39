"""Records as the values of a statement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from millstream.base.errors import TypeMismatchError, shorten
from millstream.base.time import Instant
from millstream.types.row import Row

__all__ = ["ByName", "ByPosition", "convert"]


class ByPosition:
    """Takes the values of records in their order, as Flink does; those of dicts by name.

    Args:
        names: Of the parameters, as the cluster calls them.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)

    def values(self, record: Any) -> Sequence[Any]:
        """Return the values of a record.

        Raises:
            TypeMismatchError: If it has more or fewer.
        """
        if isinstance(record, Row):
            values: Sequence[Any] = record._values
        elif isinstance(record, (tuple, list)):
            values = record
        elif isinstance(record, dict):
            return _pick(self._names, record, record.__getitem__)
        else:
            raise _misfit(record, self._names, f"It is a {type(record).__name__}, which has no order.")
        if len(values) != len(self._names):
            raise _misfit(record, self._names, f"It has {len(values)} values.")
        return values


class ByName:
    """Takes the values of records by the names of columns; those of tuples and of rows without names in their order.

    Args:
        fields: The columns that are written.
    """

    def __init__(self, fields: Sequence[str]) -> None:
        self._fields = tuple(fields)
        self._pickers: dict[tuple[str, ...], Callable[[Any], Sequence[Any]]] = {}

    def values(self, record: Any) -> Sequence[Any]:
        """Return the values of a record.

        Raises:
            TypeMismatchError: If a field is missing.
        """
        if isinstance(record, Row):
            names = record._fields
            if names is not None and names != self._fields:
                return self._picker(names, record)(record._values)
            values: Sequence[Any] = record._values
        elif isinstance(record, (tuple, list)):
            values = record
        elif isinstance(record, dict):
            return _pick(self._fields, record, record.__getitem__)
        else:
            return _pick(self._fields, record, lambda name: getattr(record, name))
        if len(values) != len(self._fields):
            raise _misfit(record, self._fields, f"It has {len(values)} values.")
        return values

    def _picker(self, names: tuple[str, ...], record: Row) -> Callable[[Any], Sequence[Any]]:
        pick = self._pickers.get(names)
        if pick is None:
            missing = [name for name in self._fields if name not in names]
            if missing:
                raise _misfit(record, self._fields, f"It has no {', '.join(missing)}.")
            positions = [names.index(name) for name in self._fields]
            pick = itemgetter(*positions) if len(positions) > 1 else lambda row: (row[positions[0]],)
            self._pickers[names] = pick
        return pick


def convert(value: Any) -> Any:
    """Return what the driver takes in the place of a value of ours.

    >>> convert(Instant.of_epoch_milli(5)), convert(Row(1, Row("a")))
    (5, (1, ('a',)))
    """
    if isinstance(value, Instant):
        return value.to_epoch_milli()
    if isinstance(value, Row):
        return tuple(map(convert, value._values))
    if isinstance(value, list):
        return list(map(convert, value))
    if isinstance(value, dict):
        return {convert(key): convert(each) for key, each in value.items()}
    return value


def _pick(names: tuple[str, ...], record: Any, get: Callable[[str], Any]) -> list[Any]:
    try:
        return [get(name) for name in names]
    except (KeyError, AttributeError) as error:
        raise _misfit(record, names, f"It has no {error.args[0] if error.args else error}.") from None


def _misfit(record: Any, names: tuple[str, ...], why: str) -> TypeMismatchError:
    return TypeMismatchError(
        f"a Cassandra sink was given {shorten(record)}, of which {', '.join(names)} are wanted",
        detail=why,
        hint="Give it rows, tuples or dicts with these fields.",
    )
