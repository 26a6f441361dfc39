"""What is read: a table or the rows of a query, its columns and types, and what its rows are told apart by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from millstream.base.errors import ConfigurationError, SourceError
from millstream.connectors.key_ranges import Request, check_same_columns, listed_columns, wanted_columns
from millstream.connectors.postgres.address import load_psycopg, said
from millstream.connectors.postgres.column_types import ColumnType, data_type_of, types_of
from millstream.types.datatypes import DataType, DataTypes, RowType

__all__ = ["ROWS", "Relation", "Table", "describe", "find_table", "literal", "quoted"]

ROWS = "millstream_rows"
"""What the rows are called in statements."""

_TABLES = "rp"
"""Kinds of relations that can be locked: tables, and those that have partitions."""
_WITH_ROW_PLACES = "rm"
"""Kinds of relations whose rows have a place of their own (ctid): tables and materialized views."""


def quoted(name: str) -> str:
    """Return a name as SQL has it, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return a text as SQL has it; what it is compared with gives it its type."""
    return "'" + text.replace("'", "''") + "'"


@dataclass(frozen=True)
class Relation:
    """What is read, as it was found.

    Attributes:
        name: For messages: `table "public"."orders"`.
        sql: What stands behind FROM.
        columns: Names of the columns.
        numbers: Numbers and modifiers of their types on the server.
        kinds: These types.
        data_types: The types that they are read as.
        key: Expressions that no two rows have the same values of, in the order in which rows are read; none if there
            are none, and rows can only be counted.
        split_column: What the rows are cut by, if somebody said so; the first of the key then.
        may_be_null: Whether the split column may.
        is_scanned: Whether the key is the place of a row alone, so that a scan gives them in order.
        pages: How many pages of the table there are, 0 if it has none.
        oid: The table's number, 0 if it is none.
    """

    name: str
    sql: str
    columns: tuple[str, ...]
    numbers: tuple[tuple[int, int], ...]
    kinds: tuple[ColumnType, ...]
    data_types: tuple[DataType, ...]
    key: tuple[str, ...] = ()
    split_column: str | None = None
    may_be_null: bool = False
    is_scanned: bool = False
    pages: int = 0
    oid: int = 0

    @property
    def row_type(self) -> RowType:
        """Names and types of the rows."""
        return DataTypes.ROW(list(map(DataTypes.FIELD, self.columns, self.data_types)))

    def check_same(self, now: Relation) -> None:
        """Check that what is there now is what was found when reading began.

        Raises:
            SourceError: If it is not.
        """
        check_same_columns(
            self.name,
            dict(zip(self.columns, self.kinds, strict=True)),
            dict(zip(now.columns, now.kinds, strict=True)),
        )
        if now.key != self.key:
            raise SourceError(
                f"the rows of {self.name} were told apart by {_listed(self.key)} when reading began, "
                f"and are by {_listed(now.key)}",
                hint="Start the job anew, without its checkpoint.",
            )


def _listed(key: Sequence[str]) -> str:
    return ", ".join(key) or "nothing"


@dataclass(frozen=True)
class Table:
    """A table, or what can be read like one.

    Attributes:
        oid: Its number.
        name: Its name with its schema, as SQL has it.
        kind: One letter, as the catalogue has it.
        pages: How many pages its file has.
        has_children: Whether its rows may be those of other tables too, which inherit from it.
    """

    oid: int
    name: str
    kind: str
    pages: int
    has_children: bool

    @property
    def can_be_locked(self) -> bool:
        """Whether LOCK TABLE takes it."""
        return self.kind in _TABLES


_TABLE = """
SELECT c.oid, format('%%I.%%I', n.nspname, c.relname), c.relkind::text,
       CASE WHEN c.relkind IN ('r', 'm')
            THEN pg_relation_size(c.oid) / current_setting('block_size')::int8 ELSE 0 END,
       c.relhassubclass AND c.relkind = 'r'
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = to_regclass(%s)
"""
_KEY = """
SELECT i.indisprimary, array_agg(a.attname::text ORDER BY k.place)
FROM pg_catalog.pg_index i
CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k(number, place)
JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
WHERE i.indrelid = %s AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL
      AND i.indexprs IS NULL AND k.place <= i.indnkeyatts
GROUP BY i.indexrelid, i.indisprimary, i.indnkeyatts HAVING bool_and(a.attnotnull)
ORDER BY i.indisprimary DESC, i.indnkeyatts, i.indexrelid LIMIT 1
"""
_NOT_NULL = "SELECT attnotnull FROM pg_catalog.pg_attribute WHERE attrelid = %s AND attname = %s"


def find_table(connection: Any, name: str, where: object) -> Table:
    """Return a table by its name, which is looked for as SQL does.

    Raises:
        SourceError: If there is none.
    """
    psycopg = load_psycopg()
    try:
        found = connection.execute(_TABLE, (name,)).fetchone()
    except psycopg.errors.ProgrammingError as error:  # a name of too many parts, an open quote
        raise SourceError(f"{name!r} is no name of a table", detail=said(error)) from error
    if found is None:
        raise SourceError(
            f"there is no table {name} in PostgreSQL at {where}",
            hint='Check the name and its schema; it is taken in lower case unless it is in quotes: shop."Orders".',
        )
    return Table(*found)


def describe(connection: Any, request: Request, table: Table | None, where: object) -> Relation:
    """Find out what the columns are, their types, and what tells the rows apart.

    Args:
        connection: In whose transaction what is read cannot change its columns any more.
        request: What is asked for.
        table: The table, None if it is a query.
        where: The server, for messages.

    Raises:
        SourceError: If a column is missing or has no type, or the query cannot be run.
        ConfigurationError: If what was asked for does not fit together.
    """
    name = "the query" if table is None else f"table {table.name}"
    rows = f"({request.query}\n)" if table is None else table.name  # a comment may end the query
    sql = f"{rows} AS {ROWS}"
    found = _columns_of(connection, sql, name, where)
    columns = wanted_columns(request, list(found), name)
    kinds = types_of(connection, [found[column] for column in columns])
    declared = (
        [data_type_of(column, kind) for column, kind in zip(columns, kinds, strict=True)]
        if request.row_type is None
        else request.row_type.field_types()
    )
    split = request.split_column
    if split is not None and split not in found:
        raise SourceError(
            f"{name} has no column {split!r} to be split by", detail=listed_columns(list(found))
        )
    key, scanned = _key_of(connection, table, split)
    return Relation(
        name=name,
        sql=sql,
        columns=tuple(columns),
        numbers=tuple(found[column] for column in columns),
        kinds=tuple(kinds),
        data_types=tuple(declared),
        key=key,
        split_column=split,
        may_be_null=split is not None and not _is_never_null(connection, table, split),
        is_scanned=scanned,
        pages=0 if table is None else table.pages,
        oid=0 if table is None else table.oid,
    )


def _columns_of(connection: Any, sql: str, name: str, where: object) -> dict[str, tuple[int, int]]:
    psycopg = load_psycopg()
    try:
        cursor = connection.execute(f"SELECT * FROM {sql} LIMIT 0")
    except psycopg.errors.InsufficientPrivilege as error:
        raise SourceError(
            f"the user may not read {name} in PostgreSQL at {where}",
            detail=said(error),
            hint="GRANT SELECT on it to the user that the source connects as.",
        ) from error
    except psycopg.errors.ProgrammingError as error:
        raise SourceError(f"PostgreSQL at {where} does not take {name}", detail=said(error)) from error
    result = cursor.pgresult
    columns = {
        column.name: (column.type_code, result.fmod(place)) for place, column in enumerate(cursor.description)
    }
    if len(columns) < len(cursor.description):
        raise ConfigurationError(f"{name} has two columns of one name", detail=listed_columns(list(columns)))
    return columns


def _key_of(connection: Any, table: Table | None, split: str | None) -> tuple[tuple[str, ...], bool]:
    """Return what tells rows apart, and whether that is their place alone."""
    if table is None or table.has_children:
        return (), False
    found = connection.execute(_KEY, (table.oid,)).fetchone()
    if found is not None:
        names = list(found[1])
        if split is not None:
            names = [split, *(name for name in names if name != split)]
        return tuple(map(quoted, names)), False
    if table.kind not in _WITH_ROW_PLACES:
        return (), False
    return ("ctid",) if split is None else (quoted(split), "ctid"), split is None


def _is_never_null(connection: Any, table: Table | None, column: str) -> bool:
    return table is not None and bool(connection.execute(_NOT_NULL, (table.oid, column)).fetchone()[0])
