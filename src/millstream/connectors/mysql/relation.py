"""What is read: a table or the rows of a query, its columns and types, and what its rows are told apart by."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from millstream.base.errors import ConfigurationError, SourceError
from millstream.connectors.key_ranges import Request, check_same_columns, listed_columns, wanted_columns
from millstream.connectors.mysql.address import MySqlAddress, is_away, load_pymysql, query, said
from millstream.connectors.mysql.column_types import ColumnType, data_type_of, type_of
from millstream.types.datatypes import DataType, DataTypes, RowType

__all__ = ["KeyPart", "Relation", "Table", "describe", "find_table", "quoted", "text_literal"]

_ROWS = "millstream_rows"
"""What the rows are called in statements."""

_NUMBERS = ("tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "year", "double")
_BY_NUMBER = ("enum", "set", "bit")
"""Types that the server orders by a number that stands for the value."""
_LITERALS = {
    **dict.fromkeys((*_NUMBERS, *_BY_NUMBER), "{}"),
    **dict.fromkeys(("binary", "varbinary", "blob"), "X'{}'"),
    "date": "DATE'{}'",
    "time": "TIME'{}'",
    **dict.fromkeys(("datetime", "timestamp"), "TIMESTAMP'{}'"),
}
_TEXTS = ("char", "varchar", "text")
_COMPARABLE = {"tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "year"}
_COMPARABLE |= {"date", "datetime", "timestamp", *_TEXTS}


def quoted(name: str) -> str:
    """Return a name as SQL has it, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


def text_literal(text: str) -> str:
    """Return a text as SQL has it, whatever the server's mode says of quotes and backslashes."""
    return f"_utf8mb4 X'{text.encode().hex()}'"


@dataclass(frozen=True, slots=True)
class KeyPart:
    """One of the columns that rows are ordered and cut by.

    Attributes:
        column: The column.
        type: The name of its type.
        charset: Of a text: its character set.
        collation: Of a text: how the server compares it.
    """

    column: str
    type: str
    charset: str = ""
    collation: str = ""

    @property
    def expression(self) -> str:
        """What rows are ordered by."""
        name = quoted(self.column)
        return f"({name} + 0)" if self.type in _BY_NUMBER else name

    @property
    def text(self) -> str:
        """An expression that gives the value as `literal` takes it."""
        is_binary = self.type in ("binary", "varbinary", "blob")
        return f"HEX({quoted(self.column)})" if is_binary else self.expression

    def literal(self, value: str) -> str:
        """Return a value as SQL has it."""
        return text_literal(value) if self.type in _TEXTS else _LITERALS[self.type].format(value)

    @property
    def is_comparable(self) -> bool:
        """Whether keys of changes can be compared with it."""
        return self.type in _COMPARABLE

    @property
    def is_whole_number(self) -> bool:
        """Whether values are whole numbers."""
        return self.type in ("tinyint", "smallint", "mediumint", "int", "bigint")

    @staticmethod
    def can_be(kind: ColumnType) -> bool:
        """Return whether a column of a type can be one: a float is not equal to its own text."""
        return kind.name in _LITERALS or kind.name in _TEXTS


@dataclass(frozen=True)
class Relation:
    """What is read, as it was found.

    Attributes:
        name: For messages: ``table `shop`.`orders` ``.
        sql: What stands behind FROM.
        columns: Names of the columns.
        kinds: Their types on the server.
        data_types: The types that they are read as.
        key: Columns that no two rows have the same values of, in the order in which rows are read; none if there are
            none, and rows can only be counted.
        split_by: What the rows are cut by, if somebody said so; the first of the key then.
        may_be_null: Whether that may be NULL.
        all_columns: All columns of the relation, read or not.
        rows: About how many rows there are.
        table: Schema and name, None if it is a query.
    """

    name: str
    sql: str
    columns: tuple[str, ...]
    kinds: tuple[ColumnType, ...]
    data_types: tuple[DataType, ...]
    key: tuple[KeyPart, ...] = ()
    split_by: KeyPart | None = None
    may_be_null: bool = False
    all_columns: tuple[str, ...] = ()
    rows: int = 0
    table: tuple[str, str] | None = None

    @property
    def row_type(self) -> RowType:
        """Names and types of the rows."""
        return DataTypes.ROW(list(map(DataTypes.FIELD, self.columns, self.data_types)))

    @property
    def by(self) -> tuple[KeyPart, ...]:
        """What the rows are cut by; nothing if they cannot be."""
        return self.key or (() if self.split_by is None else (self.split_by,))

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


def _listed(key: Sequence[KeyPart]) -> str:
    return ", ".join(part.column for part in key) or "nothing"


@dataclass(frozen=True)
class Table:
    """A table, or what can be read like one.

    Attributes:
        schema: The database that it is in.
        name: How it is called there.
        kind: `BASE TABLE`, `VIEW`, ...
        engine: What stores it; empty for a view.
        rows: About how many rows it has.
    """

    schema: str
    name: str
    kind: str
    engine: str
    rows: int

    @property
    def sql(self) -> str:
        """Its name as SQL has it."""
        return f"{quoted(self.schema)}.{quoted(self.name)}"


_NAME = re.compile(r"(?:(`(?:[^`]|``)+`|[^.`]+)\.)?(`(?:[^`]|``)+`|[^.`]+)")
_TABLE = """
SELECT table_schema, table_name, table_type, COALESCE(engine, ''), COALESCE(table_rows, 0)
FROM information_schema.tables WHERE table_schema = COALESCE(%s, DATABASE()) AND table_name = %s
"""
_KEY = """
SELECT s.index_name, GROUP_CONCAT(HEX(s.column_name) ORDER BY s.seq_in_index)
FROM information_schema.statistics s
LEFT JOIN information_schema.columns c
  ON c.table_schema = s.table_schema AND c.table_name = s.table_name AND c.column_name = s.column_name
WHERE s.table_schema = %s AND s.table_name = %s AND s.non_unique = 0
GROUP BY s.index_name
HAVING SUM(c.is_nullable = 'NO' AND s.sub_part IS NULL) = COUNT(*)
ORDER BY s.index_name <> 'PRIMARY', COUNT(*), s.index_name
"""
_COLUMNS = """
SELECT column_name, COALESCE(character_set_name, ''), COALESCE(collation_name, ''), is_nullable
FROM information_schema.columns WHERE table_schema = %s AND table_name = %s
"""


def find_table(connection: Any, name: str, where: MySqlAddress) -> Table:
    """Return a table by its name: `orders`, `shop.orders`, each part in backticks if need be.

    Raises:
        SourceError: If there is none.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        raise SourceError(f"{name!r} is no name of a table", hint="Write orders, or shop.orders.")
    schema, table = (None if part is None else _bare(part) for part in match.groups())
    found = query(connection, _TABLE, (schema, table))
    if not found:
        raise SourceError(
            f"there is no table {name} in MySQL at {where}",
            hint="Check the name and its database (shop.orders), and that the user may read it.",
        )
    schema, table, kind, engine, rows = found[0]
    return Table(schema, table, kind, engine, int(rows))


def _bare(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name


def describe(connection: Any, request: Request, where: MySqlAddress) -> Relation:
    """Find out what the columns are, their types, and what tells the rows apart.

    Args:
        connection: A connection.
        request: What is asked for.
        where: The server, for messages.

    Raises:
        SourceError: If what is asked for is not there, a column has no type, or the query cannot be run.
        ConfigurationError: If what was asked for does not fit together.
        pymysql.err.Error: If the server went away.
    """
    table = None if request.table is None else find_table(connection, request.table, where)
    name = "the query" if table is None else f"table {table.sql}"
    rows = f"({request.query}\n)" if table is None else table.sql  # a comment may end the query
    sql = f"{rows} AS {_ROWS}"
    found = _columns_of(connection, sql, name, where)
    columns = wanted_columns(request, list(found), name)
    kinds = [found[column] for column in columns]
    declared = (
        [data_type_of(column, kind) for column, kind in zip(columns, kinds, strict=True)]
        if request.row_type is None
        else request.row_type.field_types()
    )
    texts = _texts_of(connection, table)
    split = None if request.split_column is None else _split_part(request.split_column, found, texts, name)
    key = _key_of(connection, table, found, texts)
    if key and split is not None:
        key = (split, *(part for part in key if part.column != split.column))
    return Relation(
        name=name,
        sql=sql,
        columns=tuple(columns),
        kinds=tuple(kinds),
        data_types=tuple(declared),
        key=key,
        split_by=split,
        may_be_null=split is not None and texts.get(split.column, ("", "", "YES"))[2] == "YES",
        all_columns=tuple(found),
        rows=0 if table is None else table.rows,
        table=None if table is None else (table.schema, table.name),
    )


def _columns_of(connection: Any, sql: str, name: str, where: MySqlAddress) -> dict[str, ColumnType]:
    errors = load_pymysql().err
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {sql} LIMIT 0")
            fields = list(cursor._result.fields)  # lengths and signs are not in the cursor's description
    except errors.MySQLError as error:
        if is_away(error):
            raise
        raise SourceError(f"MySQL at {where} does not take {name}", detail=said(error)) from error
    columns = {field.name: type_of(field) for field in fields}
    if len(columns) < len(fields):
        raise ConfigurationError(f"{name} has two columns of one name", detail=listed_columns(list(columns)))
    return columns


_Texts = Mapping[str, tuple[str, str, str]]


def _texts_of(connection: Any, table: Table | None) -> _Texts:
    """Return character set, collation and whether it may be NULL of each column of a table."""
    if table is None:
        return {}
    return {
        name: (charset, collation, nullable)
        for name, charset, collation, nullable in query(connection, _COLUMNS, (table.schema, table.name))
    }


def _part(column: str, found: Mapping[str, ColumnType], texts: _Texts) -> KeyPart:
    charset, collation, _ = texts.get(column, ("", "", ""))
    return KeyPart(column, found[column].name, charset, collation)


def _split_part(column: str, found: Mapping[str, ColumnType], texts: _Texts, name: str) -> KeyPart:
    if column not in found:
        raise SourceError(
            f"{name} has no column {column!r} to be split by", detail=listed_columns(list(found))
        )
    if not KeyPart.can_be(found[column]):
        raise SourceError(
            f"{name} cannot be split by column {column!r} of type {found[column].shown}",
            hint="Split by a column whose type has an order, such as a number, a text or a timestamp.",
        )
    return _part(column, found, texts)


def _key_of(
    connection: Any, table: Table | None, found: Mapping[str, ColumnType], texts: _Texts
) -> tuple[KeyPart, ...]:
    if table is None:
        return ()
    for _, listed in query(connection, _KEY, (table.schema, table.name)):
        names = [bytes.fromhex(name).decode() for name in listed.split(",")]
        if all(name in found and KeyPart.can_be(found[name]) for name in names):
            return tuple(_part(name, found, texts) for name in names)
    return ()
