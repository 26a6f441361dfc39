"""Rows of a database, looked up by key: one statement for many keys, with a query for each.

The database itself compares, each key by its own query, so a key finds the same rows as it would alone, whatever types,
padding and collations are::

    SELECT 0 AS millstream_key, q.* FROM (SELECT ... WHERE id = ?) q
    UNION ALL SELECT 1, q.* FROM (SELECT ... WHERE id = ?) q
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from millstream.base.errors import ConfigurationError, SourceError, shorten
from millstream.connectors.blocking_lookup import BlockingLookup, LookupBuilder, LookupSettings, rows_by_key
from millstream.connectors.jdbc.alchemy import Alchemy
from millstream.connectors.jdbc.reading import ReadBuilder, RowMaker, database_to_read, read_patiently
from millstream.connectors.jdbc.statements import count_parameters

__all__ = ["JdbcLookup", "JdbcLookupBuilder"]


@dataclass(frozen=True)
class _KeyQuery:
    """What is executed for a key.

    Attributes:
        database: Where.
        sql: With `?` for the parts of a key.
        parts: How many these are.
        patience_s: How long a server that is away is waited for.
    """

    database: Alchemy
    sql: str
    parts: int
    patience_s: float

    def of_keys(self, count: int) -> str:
        """Return the statement for so many keys; the number of the key is its rows' first column."""
        first = f"SELECT 0 AS millstream_key, q.* FROM ({self.sql}\n) q"
        others = (f" UNION ALL SELECT {number}, q.* FROM ({self.sql}\n) q" for number in range(1, count))
        return first + "".join(others)

    def parameters(self, keys: Sequence[Any]) -> list[Any]:
        """Return the parts of keys.

        Raises:
            SourceError: If a key has more or fewer.
        """
        if self.parts == 1:
            return list(keys)
        for key in keys:
            if not isinstance(key, tuple) or len(key) != self.parts:
                raise SourceError(
                    f"a key of a look-up in {self.database} is {shorten(key)}, and the query has {self.parts} "
                    "question marks",
                    hint="Let the key be a tuple of as many values.",
                )
        return [part for key in keys for part in key]


class _Connection:
    """A connection of SQLAlchemy, made when it is needed, and anew when it broke."""

    def __init__(self, query: _KeyQuery) -> None:
        self._query = query
        self._connection: Any = None

    def execute(self, sql: str, parameters: Sequence[Any]) -> tuple[list[Any], list[str]]:
        """Return the rows of a statement, and the names of its columns.

        Raises:
            SourceError: If the database refuses it, or stays away.
        """
        database = self._query.database

        def attempt() -> tuple[list[Any], list[str]]:
            try:
                if self._connection is None:
                    self._connection = database.connect_to_ask()
                result = database.execute_in(self._connection, sql, parameters)
                found, names = result.fetchall(), list(result.keys())
                self._connection.rollback()  # the next statement sees what others have written meanwhile
            except BaseException:
                self.close()
                raise
            return found, names

        return read_patiently(database, self._query.patience_s, attempt)

    def close(self) -> None:
        """End it."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.invalidate()
            connection.close()


class JdbcLookup(BlockingLookup[_Connection]):
    """Finds rows of a table or a query by key; made by `JdbcLookup.builder()`.

    A key is a value, or a tuple of the values of several columns.

    Example:
        >>> from millstream.datastream.connectors.jdbc import JdbcLookup
        >>> names = JdbcLookup.builder().set_db_url("jdbc:sqlite:shop.db").set_table("customers", "id").build()
        >>> # AsyncDataStream.unordered_lookup(orders, names, ...)
    """

    def __init__(self, query: _KeyQuery, maker: RowMaker, settings: LookupSettings) -> None:
        super().__init__(settings)
        self._query = query
        self._maker = maker

    def __repr__(self) -> str:
        return f"JdbcLookup({self._query.database})"

    @staticmethod
    def builder() -> JdbcLookupBuilder:
        """Begin to declare a look-up.

        Example:
            >>> JdbcLookup.builder().set_db_url("jdbc:sqlite:/tmp/shop.db").set_table("users", "id").build()
            JdbcLookup(SQLite at /tmp/shop.db)
        """
        return JdbcLookupBuilder()

    def connect(self) -> _Connection:
        """Connect, and have the query executed for no key."""
        connection = _Connection(self._query)
        nobody = [None] * self._query.parts
        try:
            connection.execute(self._query.of_keys(1), nobody)
        except BaseException:
            connection.close()
            raise
        return connection

    def find(self, client: _Connection, keys: Sequence[Any]) -> dict[Any, Any]:
        """Execute one statement for all keys."""
        found, names = client.execute(self._query.of_keys(len(keys)), self._query.parameters(keys))
        if not found:
            return {}
        records = self._maker.records([tuple(row)[1:] for row in found], names[1:])
        return rows_by_key(
            ((keys[row[0]], record) for row, record in zip(found, records, strict=True)),
            gives_lists=self._asking.gives_lists,
            where=str(self._query.database),
        )

    def disconnect(self, client: _Connection) -> None:
        """End the connection."""
        client.close()


class JdbcLookupBuilder(LookupBuilder, ReadBuilder):
    """Makes a `JdbcLookup`; each method returns the builder.

    Example:
        >>> from millstream.datastream.connectors.jdbc import JdbcLookup
        >>> builder = JdbcLookup.builder().set_db_url("jdbc:sqlite:shop.db").set_table("customers", "id")
        >>> names = builder.set_columns("name").build()  # AsyncDataStream.unordered_lookup(orders, names, ...)
    """

    def __init__(self) -> None:
        super().__init__()
        self._sql: str | None = None
        self._table: str | None = None
        self._keys: tuple[str, ...] = ()
        self._columns: tuple[str, ...] = ()

    def set_sql(self, sql: str) -> Self:
        """Execute a query for each key: `SELECT name FROM customers WHERE id = ?`; a key of parts has more `?`."""
        self._sql = sql.strip().rstrip(";")
        return self

    def set_table(self, table: str, *key_columns: str) -> Self:
        """Look into a table by these columns, which should have an index; names are quoted.

        Raises:
            ConfigurationError: If no column is named.
        """
        if not key_columns:
            raise ConfigurationError(
                f"the columns by which table {table!r} is looked into are not named",
                hint="set_table('customers', 'id').",
            )
        self._table, self._keys = table, key_columns
        return self

    def set_columns(self, *columns: str) -> Self:
        """Choose the columns of a table's rows; by default all."""
        self._columns = columns
        return self

    def set_gives_lists(self) -> Self:
        """Have a list of rows for each key; without it several rows are an error."""
        self._gives_lists = True
        return self

    def build(self) -> JdbcLookup:
        """Return the look-up.

        Raises:
            ConfigurationError: If something is missing, or said twice; if SQLAlchemy or the driver is not installed.
        """
        if (self._sql is None) == (self._table is None):
            raise ConfigurationError(
                f"what a look-up in a database asks for is {'not said' if self._sql is None else 'said twice'}",
                hint="Call either set_sql or set_table.",
            )
        options = self._connection.build()
        database = database_to_read(options)
        sql = self._sql if self._sql is not None else self._of_table(database)
        parts = count_parameters(sql, database.syntax)
        if not parts:
            raise ConfigurationError(
                "the query of a look-up has no question mark for the key", hint="Write WHERE id = ? into it."
            )
        query = _KeyQuery(database, sql, parts, options.patience_s)
        return JdbcLookup(query, RowMaker(database, self._extractor, self._row_type), self._settings())

    def _of_table(self, database: Alchemy) -> str:
        assert self._table is not None
        # Names of columns are said to be of the table: SQLite takes others for texts where there is no such column.
        columns = ", ".join(f"t.{database.quote(name)}" for name in self._columns) or "t.*"
        conditions = " AND ".join(f"t.{database.quote(key)} = ?" for key in self._keys)
        return f"SELECT {columns} FROM {database.quote_table(self._table)} t WHERE {conditions}"
