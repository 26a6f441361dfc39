"""A table that is written by itself, not by a statement: its columns are looked at before the job starts."""

from __future__ import annotations

import datetime
import decimal
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from millstream.base.errors import ConfigurationError, SinkError
from millstream.base.time import Instant
from millstream.connectors.jdbc.database import Column, Database, RowValues, Session, moment_of
from millstream.types.basic import BasicTypeInfo, TypeInformation
from millstream.types.composite import RowTypeInfo
from millstream.types.row import Row

__all__ = ["TableSettings", "TableTarget", "check_settings", "find_target"]


@dataclass(frozen=True)
class TableSettings:
    """What a program says about a table.

    Attributes:
        table: Its name, with its schema if need be.
        fields: The columns that are written; fields of the records have the same names.
        type_info: Types of the fields, None if they are not declared.
        keys: The columns by which rows are overwritten; none to append.
    """

    table: str
    fields: tuple[str, ...]
    type_info: RowTypeInfo | None
    keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class TableTarget:
    """A table as statements name it: everything is quoted.

    Attributes:
        table: The table.
        columns: The columns that are written.
        keys: Those by which rows are overwritten.
        required: Those that refuse NULL.
        documents: Positions of columns that hold JSON.
    """

    table: str
    columns: tuple[str, ...]
    keys: tuple[str, ...]
    required: tuple[str, ...]
    documents: tuple[int, ...]

    @property
    def others(self) -> tuple[str, ...]:
        """The columns that are no keys."""
        return tuple(name for name in self.columns if name not in self.keys)

    @property
    def key_positions(self) -> tuple[int, ...]:
        """Where the keys are in a row."""
        return tuple(map(self.columns.index, self.keys))

    def adapt(self, rows: list[RowValues]) -> list[RowValues]:
        """Return rows with texts where columns hold JSON; texts are taken for JSON as they are."""
        if not self.documents:
            return rows
        adapted = []
        for row in rows:
            values = list(row)
            for position in self.documents:
                value = values[position]
                if value is not None and not isinstance(value, str):
                    values[position] = json.dumps(value, ensure_ascii=False, default=_plain)
            adapted.append(tuple(values))
        return adapted


def find_target(database: Database, session: Session, settings: TableSettings) -> TableTarget:
    """Look at a table's columns, and return how it is written.

    Raises:
        SinkError: If it is not there, or if rows of these fields cannot be written; names the columns.
    """
    found = {column.name: column for column in database.columns(session, settings.table)}
    where = f"table {settings.table!r} of {database}"
    if not found:
        raise SinkError(
            f"{where} is not there, or has no columns",
            hint="Create it, or correct its name; another schema is written as schema.table.",
        )
    _check_columns(settings, found, where)
    _check_types(settings, found, where)
    if settings.keys:
        _check_keys(database, session, settings, where)
    quote = database.quote
    return TableTarget(
        database.quote_table(settings.table),
        tuple(map(quote, settings.fields)),
        tuple(map(quote, settings.keys)),
        tuple(quote(name) for name in (settings.keys or settings.fields) if not found[name].is_nullable),
        tuple(i for i, name in enumerate(settings.fields) if found[name].type in ("json", "jsonb")),
    )


def _check_columns(settings: TableSettings, found: dict[str, Column], where: str) -> None:
    missing = [name for name in settings.fields if name not in found]
    if missing:
        raise SinkError(
            f"{where} has no column {_names(missing)}",
            detail=f"Its columns are {_names(found)}.",
            hint="Fields have the names of columns, as the database writes them: add columns, or rename fields.",
        )
    generated = [name for name in settings.fields if found[name].is_generated]
    if generated:
        raise SinkError(
            f"{where} generates its column {_names(generated)}",
            hint="Leave the field out of what is written.",
        )
    empty = [
        column.name
        for column in found.values()
        if column.name not in settings.fields and not column.is_nullable and not column.is_filled
    ]
    if empty:
        raise SinkError(
            f"{where} needs a value for its column {_names(empty)}, which is not written",
            detail="It is NOT NULL and has no default.",
            hint="Write it, or give it a default.",
        )


def _check_keys(database: Database, session: Session, settings: TableSettings, where: str) -> None:
    unique = database.unique_keys(session, settings.table)
    keys = frozenset(settings.keys)
    if keys not in unique:
        raise SinkError(
            f"{where} has no primary key and no unique index on {_names(settings.keys)}",
            detail=f"Unique are: {'; '.join(_names(sorted(key)) for key in unique) or 'none'}.",
            hint="The database must hold the key unique: create the index, or name other key columns.",
        )
    written = frozenset(settings.fields)
    rivals = [key for key in unique if key != keys and key & written]
    if rivals and database.overwrites_by_any_key:
        raise SinkError(
            f"{where} has another unique key among what is written: {_names(sorted(rivals[0]))}",
            detail=f"{database.product} overwrites a row that has the same value of any unique key.",
            hint="Use JdbcSink.sink(...) with a statement of your own.",
        )


_FAMILIES = (
    ("number", re.compile(r"^(tiny|small|medium|big)?int|^numeric|^decimal|^real|^double|^float")),
    ("truth value", re.compile(r"^bool")),
    ("text", re.compile(r"^(var)?char|^character|^(tiny|medium|long)?text|^citext|^clob|^n(var)?char")),
    ("bytes", re.compile(r"^bytea|blob$|binary")),
    ("date", re.compile(r"^date$")),
    ("time", re.compile(r"^time( |\(|$)")),
    ("moment", re.compile(r"^timestamp|^datetime")),
)  # fmt: skip
_OF_DECLARED = {
    **dict.fromkeys(("STRING", "CHAR"), "text"),
    **dict.fromkeys(("BYTE", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "BIG_INT", "BIG_DEC"), "number"),
    "BOOLEAN": "truth value",
    "INSTANT": "moment",
}
_TAKEN_TOO = {("truth value", "number"), ("date", "moment"), ("moment", "date")}


def _check_types(settings: TableSettings, found: dict[str, Column], where: str) -> None:
    """Refuse what never fits; what may fit is left to the database."""
    if settings.type_info is None:
        return
    types = dict(zip(settings.type_info.get_field_names(), settings.type_info.get_field_types(), strict=True))
    wrong = []
    for name in settings.fields:
        given, wanted = _family_of(types[name]), _family(found[name].type)
        if given and wanted and given != wanted and (given, wanted) not in _TAKEN_TOO:
            wrong.append(f"{name} is {types[name].describe()}, the column is {found[name].type}")
    if wrong:
        raise SinkError(
            f"{where} has columns of other types: {'; '.join(wrong)}",
            hint="Declare the field as what the column holds, and convert the values with map(...) before the sink.",
        )


def _family_of(kind: TypeInformation) -> str | None:
    return _OF_DECLARED.get(kind.name) if isinstance(kind, BasicTypeInfo) else None


def _family(column_type: str) -> str | None:
    if column_type.endswith("[]") or column_type.lower().startswith("tinyint(1)"):
        return None
    return next((name for name, pattern in _FAMILIES if pattern.search(column_type.lower())), None)


def _names(names: Sequence[str] | dict[str, Any]) -> str:
    return ", ".join(map(repr, names))


def check_settings(settings: TableSettings) -> None:
    """See whether what a program says about a table makes sense.

    Raises:
        ConfigurationError: If not.
    """
    if not settings.fields:
        raise ConfigurationError(
            f"the columns of table {settings.table!r} that are written are not named",
            hint="Call with_type_info(Types.ROW_NAMED([...], [...])) or with_columns('id', 'name').",
        )
    others = [key for key in settings.keys if key not in settings.fields]
    if others:
        raise ConfigurationError(
            f"key column {_names(others)} of table {settings.table!r} is not among the columns that are written",
            detail=f"These are {_names(settings.fields)}.",
        )


def _plain(value: Any) -> Any:
    """Return what JSON has in the place of a value that it has not."""
    if isinstance(value, Row):
        return value.as_dict(True) if value._fields else list(value)
    if isinstance(value, decimal.Decimal):
        number = int(value) if value == value.to_integral_value() else float(value)
        return number if decimal.Decimal(repr(number)) == value else str(value)
    if isinstance(value, Instant):
        return moment_of(value).isoformat()
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")
