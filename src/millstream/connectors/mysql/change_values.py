"""Rows of the log of changes, made into values that are equal to those of a table that is read."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from millstream.base.errors import MalformedRecordError, SourceError
from millstream.connectors.key_ranges import Key
from millstream.connectors.mysql.binlog import ANEW, Image
from millstream.connectors.mysql.column_types import ColumnType
from millstream.connectors.mysql.relation import Relation
from millstream.types.datatypes import DataType

__all__ = ["RowReader", "key_texts"]

_EMPTY_SET = "empty set"
_NULL = "null"
_DAY = datetime.timedelta(days=1)
_MIDNIGHT = datetime.datetime(2000, 1, 1)
_DECIMALS = 38

_NAMES = {
    1: "tinyint",
    2: "smallint",
    3: "int",
    4: "float",
    5: "double",
    7: "timestamp",
    8: "bigint",
    9: "mediumint",
    10: "date",
    11: "time",
    12: "datetime",
    13: "year",
    15: "varchar",
    16: "bit",
    17: "timestamp",
    18: "datetime",
    19: "time",
    245: "json",
    246: "decimal",
    247: "enum",
    248: "set",
    252: "text",
    254: "char",
}
_BYTES = {"char": "binary", "varchar": "varbinary", "text": "blob"}

_Convert = Callable[[Any], Any]


def _type_of(column: Any) -> ColumnType:
    """Return the type of a column of the log; of texts without lengths, which may grow."""
    name = _NAMES.get(column.type, f"type {column.type}")
    if name in _BYTES:
        return ColumnType(_BYTES[name] if column.character_set_name == "binary" else name)
    if name == "decimal":
        return ColumnType(name, bool(column.unsigned), column.precision, column.decimals)
    if name == "bit":
        return ColumnType(name, False, column.bits)
    return ColumnType(name, bool(column.unsigned) and name != "year", 0, getattr(column, "fsp", 0))


def _plain(kind: ColumnType) -> ColumnType:
    """Return a type of a table as the log has it."""
    keeps = kind.name in ("decimal", "bit")
    scale = 0 if kind.name in ("float", "double") else kind.scale
    return ColumnType(kind.name, kind.is_unsigned, kind.length if keeps else 0, scale)


class RowReader:
    """Makes rows of one table's changes.

    Args:
        relation: The table as it was found.
        columns: Its columns at the time of a change.

    Raises:
        SourceError: If a column is gone, or has another type.
    """

    def __init__(self, relation: Relation, columns: Sequence[Any]) -> None:
        there = {column.name: column for column in columns}
        self._relation = relation
        self._converters: list[_Convert | None] = []
        for name, kind, declared in zip(relation.columns, relation.kinds, relation.data_types, strict=True):
            column = there.get(name)
            if column is None or _type_of(column) != _plain(kind):
                now = "is gone" if column is None else f"is of type {_type_of(column).shown}"
                raise SourceError(
                    f"column {name!r} of {relation.name}, which was of type {kind.shown}, {now} "
                    "in the changes that follow",
                    hint=ANEW,
                )
            self._converters.append(_converter(kind, column, declared))

    def values(self, image: Image) -> list[Any]:
        """Return the values of a row.

        Raises:
            MalformedRecordError: If one does not fit its type; names the column.
        """
        relation = self._relation
        row: list[Any] = []
        for name, convert in zip(relation.columns, self._converters, strict=True):
            value = image.values[name]
            if value is None:
                reason = image.gaps.get(name, _NULL)
                if reason not in (_NULL, _EMPTY_SET):
                    raise self._misfit(name, reason)
                row.append("" if reason == _EMPTY_SET else None)
                continue
            try:
                row.append(value if convert is None else convert(value))
            except (ValueError, ArithmeticError) as error:
                raise self._misfit(name, str(error)) from error
        return row

    def _misfit(self, name: str, why: str) -> MalformedRecordError:
        relation = self._relation
        place = relation.columns.index(name)
        return MalformedRecordError(
            f"column {name!r} of {relation.name}, of type {relation.kinds[place].shown}: "
            f"a value in the changes does not fit {relation.data_types[place]}",
            detail=why,
        )


def _converter(kind: ColumnType, column: Any, declared: DataType) -> _Convert | None:
    """Return what makes a value of the library's, None if it is right as it is."""
    name = kind.name
    if name == "tinyint" and kind.length == 1 and not kind.is_unsigned:
        return bool
    if name == "bigint" and kind.is_unsigned:
        return Decimal
    if name == "decimal" and kind.length > _DECIMALS:
        return lambda value: format(value, "f")
    if name == "binary":
        return lambda value: value.ljust(kind.length, b"\0")  # zeros at the end are not logged
    if name == "bit":
        if kind.length == 1:
            return lambda value: int(value, 2) != 0
        return lambda value: int(value, 2).to_bytes((kind.length + 7) // 8, "big")
    if name == "set":
        return lambda value: ",".join(each for each in column.set_values if each in value)
    if name in ("char", "varchar", "text"):
        return _text
    return {"time": _time, "json": _json}.get(name)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("its character set is not known")
    return value


def _time(value: datetime.timedelta) -> datetime.time:
    if not datetime.timedelta(0) <= value < _DAY:
        raise ValueError(f"{value} is no time of a day")
    return (_MIDNIGHT + value).time()


def _json(value: Any) -> str:
    return json.dumps(_decoded(value), ensure_ascii=False)


def _decoded(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, dict):
        return {_decoded(key): _decoded(each) for key, each in value.items()}
    return [_decoded(each) for each in value] if isinstance(value, list) else value


_KEY_TEXTS: dict[str, _Convert] = {
    "decimal": lambda value: format(value, "f"),
    **dict.fromkeys(("datetime", "timestamp"), lambda value: value.isoformat(" ")),
}


def key_texts(relation: Relation, image: Image) -> Key:
    """Return the key of a row as text."""
    return tuple(_KEY_TEXTS.get(part.type, str)(image.values[part.column]) for part in relation.key)
