"""Tables and queries of PostgreSQL as a bounded source."""

from __future__ import annotations

from typing import Any

from millstream.base.errors import ConfigurationError
from millstream.base.time import Duration, to_milliseconds
from millstream.connectors.patience import Patience
from millstream.connectors.postgres.address import PostgresAddress
from millstream.connectors.postgres.enumerator import PostgresEnumerator, read_relation
from millstream.connectors.postgres.reader import PostgresReader
from millstream.connectors.postgres.relation import Request
from millstream.connectors.postgres.rows import load_arrow_csv
from millstream.spi.source import Boundedness, Source, SourceReader, SplitEnumerator
from millstream.types.datatypes import ArrayType, MapType, RowType

__all__ = ["PostgresSource", "PostgresSourceBuilder"]

_SPLIT_ROWS = 200_000


class PostgresSource(Source):
    """The rows of a table or a query, cut into ranges of keys that are read side by side, all in one snapshot.

    Rows are `Row`s with the names of the columns. Made by `PostgresSource.builder()`.
    """

    def __init__(
        self, address: PostgresAddress, request: Request, split_rows: int | None, splits: int | None
    ) -> None:
        self._address = address
        self._request = request
        self._split_rows = split_rows
        self._splits = splits

    def __repr__(self) -> str:
        return f"PostgresSource({self._request} at {self._address})"

    @staticmethod
    def builder() -> PostgresSourceBuilder:
        """Begin to declare a source."""
        return PostgresSourceBuilder()

    def read_row_type(self) -> RowType:
        """Ask the server for names and types of the columns.

        Raises:
            SourceError: If it is away or refuses us, or what is to be read is not there.
        """
        return read_relation(self._address, self._request).row_type

    def get_boundedness(self) -> Boundedness:
        """Return BOUNDED: rows are read that are there when the job starts."""
        return Boundedness.BOUNDED

    def build_enumerator(self, parallelism: int, restored: Any | None) -> SplitEnumerator:
        """Look at the table, and cut it into ranges.

        Raises:
            SourceError: If the server is away or refuses us, or what is to be read is not there.
        """
        return PostgresEnumerator(
            self._address, self._request, self._split_rows, self._splits, parallelism, restored
        )

    def build_reader(self, subtask_index: int, parallelism: int) -> SourceReader:
        """Make the reader of one subtask."""
        return PostgresReader(self._address)


class PostgresSourceBuilder:
    """Builds a `PostgresSource`; each method returns the builder.

    Example:
        >>> source = (
        ...     PostgresSource.builder()
        ...     .set_url("postgresql://ada@db.example.org/shop")
        ...     .set_password("enigma")
        ...     .set_table("orders")
        ...     .build()
        ... )
        >>> source
        PostgresSource(table orders at db.example.org:5432/shop)
    """

    def __init__(self) -> None:
        self._url: str | None = None
        self._parts: dict[str, Any] = {}
        self._patience = Patience()
        self._table: str | None = None
        self._query: str | None = None
        self._columns: tuple[str, ...] | None = None
        self._split_column: str | None = None
        self._split_rows: int | None = None
        self._splits: int | None = None
        self._row_type: RowType | None = None

    def set_url(self, url: str) -> PostgresSourceBuilder:
        """Set the server's address: postgresql://user@host:5432/database, with any parameters of libpq's."""
        self._url = url
        return self

    def set_host(self, host: str, port: int = 5432) -> PostgresSourceBuilder:
        """Set the server's host and port."""
        self._parts.update(host=host, port=port)
        return self

    def set_database(self, database: str) -> PostgresSourceBuilder:
        """Set the database."""
        self._parts["dbname"] = database
        return self

    def set_username(self, username: str) -> PostgresSourceBuilder:
        """Set who reads."""
        self._parts["user"] = username
        return self

    def set_password(self, password: str) -> PostgresSourceBuilder:
        """Set the password; without one, libpq looks for it in PGPASSWORD and ~/.pgpass, there where slots run."""
        self._parts["password"] = password
        return self

    def set_table(self, table: str) -> PostgresSourceBuilder:
        """Read a table (or view, or partitioned table), named as in SQL: `orders`, `shop."Orders"`."""
        self._table = table
        return self

    def set_query(self, query: str) -> PostgresSourceBuilder:
        """Read the rows of a SELECT."""
        self._query = query.strip().rstrip(";")
        return self

    def set_columns(self, *columns: str) -> PostgresSourceBuilder:
        """Read these columns only; by default all."""
        self._columns = columns
        return self

    def set_split_column(self, column: str) -> PostgresSourceBuilder:
        """Cut the rows by ranges of this column; by default those of a table by its primary key."""
        self._split_column = column
        return self

    def set_split_size(self, rows: int) -> PostgresSourceBuilder:
        """Have about so many rows in a split; by default 200,000.

        Raises:
            ConfigurationError: If it is not positive.
        """
        self._split_rows = _positive("split size", rows)
        return self

    def set_number_of_splits(self, splits: int) -> PostgresSourceBuilder:
        """Cut the rows into so many splits at most.

        Raises:
            ConfigurationError: If it is not positive.
        """
        self._splits = _positive("number of splits", splits)
        return self

    def set_row_type(self, row_type: RowType) -> PostgresSourceBuilder:
        """Declare names and types of the columns; by default they are those of the server's catalogue.

        Raises:
            ConfigurationError: If a type is a row or a map, which PostgreSQL has not.
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

    def set_patience(self, patience: Duration) -> PostgresSourceBuilder:
        """Wait so long for a server that is away; by default a minute."""
        self._patience = Patience(total_s=to_milliseconds(patience) / 1000)
        return self

    def build(self) -> PostgresSource:
        """Return the source.

        Raises:
            ConfigurationError: If it is not said what to read, or two settings exclude each other; if psycopg or
                pyarrow is not installed.
        """
        _check_one("what to read", "set_table", self._table, "set_query", self._query)
        if self._split_rows is not None and self._splits is not None:
            raise ConfigurationError("splits have both a size and a number", hint="Set one of them.")
        if self._row_type is not None and self._columns is not None:
            raise ConfigurationError(
                "columns are named twice", hint="The row type names them: leave set_columns out."
            )
        load_arrow_csv()
        address = PostgresAddress.of(self._url, self._patience, **self._parts)
        request = Request(self._table, self._query, self._columns, self._split_column, self._row_type)
        rows = _SPLIT_ROWS if self._split_rows is None and self._splits is None else self._split_rows
        return PostgresSource(address, request, rows, self._splits)


def _positive(what: str, number: int) -> int:
    if number < 1:
        raise ConfigurationError(f"{what} is {number}, must be positive")
    return number


def _check_one(what: str, first: str, one: Any, second: str, other: Any) -> None:
    if (one is None) == (other is None):
        raise ConfigurationError(
            f"{what} is {'not said' if one is None else 'said twice'}",
            hint=f"Call either {first} or {second}.",
        )
