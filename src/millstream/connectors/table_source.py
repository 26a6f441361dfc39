"""What sources of tables and queries of a database's server have in common, and their builders."""

from __future__ import annotations

from typing import Any, Self

from millstream.base.errors import ConfigurationError
from millstream.base.time import Duration, to_milliseconds
from millstream.connectors.key_ranges import Request
from millstream.connectors.patience import Patience
from millstream.spi.source import Boundedness, Source
from millstream.types.datatypes import ArrayType, MapType, RowType

__all__ = ["SPLIT_ROWS", "ServerSettings", "TableSource", "TableSourceBuilder", "positive"]

SPLIT_ROWS = 200_000
"""Rows of a split unless a program says otherwise."""


class TableSource(Source):
    """The rows of a table or a query, cut into ranges of keys.

    Args:
        address: Of the server; shown without secrets.
        request: What is read.
        split_rows: How many rows a split has; None if their number is given.
        splits: How many splits there are at most; None if their size is given.
    """

    def __init__(self, address: Any, request: Request, split_rows: int | None, splits: int | None) -> None:
        self._address = address
        self._request = request
        self._split_rows = split_rows
        self._splits = splits

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._request} at {self._address})"

    def get_boundedness(self) -> Boundedness:
        """Return BOUNDED: rows are read that are there when the job starts."""
        return Boundedness.BOUNDED


class ServerSettings:
    """Says where the server is; each method returns the builder."""

    def __init__(self) -> None:
        self._url: str | None = None
        self._parts: dict[str, Any] = {}
        self._patience = Patience()

    def set_url(self, url: str) -> Self:
        """Set the server's address: system://user@host:port/database, with the parameters of the system."""
        self._url = url
        return self

    def set_password(self, password: str) -> Self:
        """Set the password."""
        self._parts["password"] = password
        return self

    def set_patience(self, patience: Duration) -> Self:
        """Wait so long for a server that is away; by default a minute."""
        self._patience = Patience(total_s=to_milliseconds(patience) / 1000)
        return self


class TableSourceBuilder(ServerSettings):
    """Says what is read, and how it is cut; each method returns the builder."""

    def __init__(self) -> None:
        super().__init__()
        self._table: str | None = None
        self._query: str | None = None
        self._columns: tuple[str, ...] | None = None
        self._split_column: str | None = None
        self._split_rows: int | None = None
        self._splits: int | None = None
        self._row_type: RowType | None = None

    def set_host(self, host: str, port: int | None = None) -> Self:
        """Set the server's host and port; by default the system's usual one."""
        self._parts.update(host=host, port=port)
        return self

    def set_database(self, database: str) -> Self:
        """Set the database."""
        self._parts["database"] = database
        return self

    def set_username(self, username: str) -> Self:
        """Set who reads."""
        self._parts["user"] = username
        return self

    def set_table(self, table: str) -> Self:
        """Read a table (or view), named as in SQL, with its schema if need be: `shop.orders`."""
        self._table = table
        return self

    def set_query(self, query: str) -> Self:
        """Read the rows of a SELECT."""
        self._query = query.strip().rstrip(";")
        return self

    def set_columns(self, *columns: str) -> Self:
        """Read these columns only; by default all."""
        self._columns = columns
        return self

    def set_split_column(self, column: str) -> Self:
        """Cut the rows by ranges of this column; by default those of a table by its primary key."""
        self._split_column = column
        return self

    def set_split_size(self, rows: int) -> Self:
        """Have about so many rows in a split; by default 200,000.

        Raises:
            ConfigurationError: If it is not positive.
        """
        self._split_rows = positive("split size", rows)
        return self

    def set_number_of_splits(self, splits: int) -> Self:
        """Cut the rows into so many splits at most.

        Raises:
            ConfigurationError: If it is not positive.
        """
        self._splits = positive("number of splits", splits)
        return self

    def set_row_type(self, row_type: RowType) -> Self:
        """Declare names and types of the columns; by default they are those of the server's catalogue.

        Raises:
            ConfigurationError: If a type is one that no column is read as.
        """
        for field in row_type:
            inner = field.data_type
            if isinstance(inner, ArrayType):
                inner = inner.element_type
            if isinstance(inner, (RowType, MapType, ArrayType)):
                raise ConfigurationError(
                    f"field {field.name!r} is declared as {field.data_type}, which no column is read as",
                    hint="Declare it STRING to have it as text.",
                )
        self._row_type = row_type
        return self

    def _request(self) -> Request:
        """Return what was asked for.

        Raises:
            ConfigurationError: If it is not said what to read, or two settings exclude each other.
        """
        _check_one("what to read", "set_table", self._table, "set_query", self._query)
        if self._split_rows is not None and self._splits is not None:
            raise ConfigurationError("splits have both a size and a number", hint="Set one of them.")
        if self._row_type is not None and self._columns is not None:
            raise ConfigurationError(
                "columns are named twice", hint="The row type names them: leave set_columns out."
            )
        return Request(self._table, self._query, self._columns, self._split_column, self._row_type)

    def _rows_of_split(self) -> int | None:
        """Return how many rows a split has; None if their number is given."""
        return SPLIT_ROWS if self._split_rows is None and self._splits is None else self._split_rows


def positive(what: str, number: int) -> int:
    """Return a number that has to be positive.

    Raises:
        ConfigurationError: If it is not.
    """
    if number < 1:
        raise ConfigurationError(f"{what} is {number}, must be positive")
    return number


def _check_one(what: str, first: str, one: Any, second: str, other: Any) -> None:
    if (one is None) == (other is None):
        raise ConfigurationError(
            f"{what} is {'not said' if one is None else 'said twice'}",
            hint=f"Call either {first} or {second}.",
        )
