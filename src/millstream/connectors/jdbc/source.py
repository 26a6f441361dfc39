"""Queries of any database that SQLAlchemy has a dialect for, as a bounded source."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Self

from millstream.base.errors import ConfigurationError
from millstream.connectors.jdbc.alchemy import Alchemy, Sqlite
from millstream.connectors.jdbc.options import JdbcConnectionOptions
from millstream.connectors.jdbc.parameters import JdbcParameterValuesProvider
from millstream.connectors.jdbc.query_reader import JdbcQuery, QueryEnumerator, QueryReader
from millstream.connectors.jdbc.statements import Syntax, count_parameters
from millstream.connectors.jdbc.urls import parse_url
from millstream.spi.source import Boundedness, Source, SourceReader, SplitEnumerator
from millstream.types.basic import TypeInformation
from millstream.types.datatypes import RowType
from millstream.types.sql_types import row_type_info
from millstream.types.typeinfo import RowTypeInfo

__all__ = ["JdbcSource", "JdbcSourceBuilder"]

_DRIVERS = {"mysql": "mysql+pymysql", "mariadb": "mysql+pymysql"}
_DRIVERS |= dict.fromkeys(("postgresql", "postgres"), "postgresql+psycopg")
"""What SQLAlchemy is told where a URL names no driver: those that millstream's extras bring."""


class _MySqlByAlchemy(Alchemy):
    syntax = Syntax.MYSQL


class _PostgresByAlchemy(Alchemy):
    syntax = Syntax.POSTGRES


_KINDS: dict[str, type[Alchemy]] = {"mysql": _MySqlByAlchemy, "postgresql": _PostgresByAlchemy}

ResultExtractor = Callable[[Any], Any]


class JdbcSource(Source):
    """The rows of a query, which is executed once for each row of parameters. Made by `JdbcSource.builder()`."""

    def __init__(self, query: JdbcQuery, provider: JdbcParameterValuesProvider | None) -> None:
        self._query = query
        self._provider = provider

    def __repr__(self) -> str:
        return f"JdbcSource({self._query.database})"

    @staticmethod
    def builder() -> JdbcSourceBuilder:
        """Begin to declare a source."""
        return JdbcSourceBuilder()

    def get_boundedness(self) -> Boundedness:
        """Return BOUNDED."""
        return Boundedness.BOUNDED

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type of the rows, if it was set and they are the records."""
        query = self._query
        if query.row_type is None or query.extractor is not None:
            return None
        return row_type_info(query.row_type, RowTypeInfo)

    def build_enumerator(self, parallelism: int, restored: Any | None) -> SplitEnumerator:
        """Ask for the parameters of the splits; those of a checkpoint are kept.

        Raises:
            ConfigurationError: If there are more or fewer of them than the query has question marks.
        """
        return QueryEnumerator(self._splits() if restored is None else (), parallelism, restored)

    def _splits(self) -> Sequence[tuple[Any, ...]]:
        rows: Sequence[Sequence[Any]] = [()]
        if self._provider is not None:
            rows = self._provider.get_parameter_values()
        wanted = count_parameters(self._query.sql, self._query.database.syntax)
        for row in rows:
            if len(row) != wanted:
                raise ConfigurationError(
                    f"a query of {self._query.database} has {wanted} question marks, and a split {len(row)} values",
                    hint="Give set_jdbc_parameter_values_provider(...) rows of as many values.",
                )
        return list(map(tuple, rows))

    def build_reader(self, subtask_index: int, parallelism: int) -> SourceReader:
        """Make the reader of one subtask."""
        return QueryReader(self._query)


class JdbcSourceBuilder:
    """Builds a `JdbcSource`, as Flink's builder in Java does; each method returns the builder.

    Example:
        >>> source = (
        ...     JdbcSource.builder()
        ...     .set_db_url("jdbc:sqlite:/tmp/shop.db")
        ...     .set_sql("SELECT id, cents FROM orders")
        ...     .set_result_extractor(tuple)
        ...     .build()
        ... )
        >>> source
        JdbcSource(SQLite at /tmp/shop.db)
    """

    def __init__(self) -> None:
        self._connection = JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
        self._sql: str | None = None
        self._extractor: ResultExtractor | None = None
        self._row_type: RowType | None = None
        self._provider: JdbcParameterValuesProvider | None = None
        self._fetch_size = 4_096

    def set_sql(self, sql: str) -> Self:
        """Set the query; `?` is a parameter. Order it by something unique, for a job may go on in its middle."""
        self._sql = sql.strip().rstrip(";")
        return self

    def set_result_extractor(self, extractor: ResultExtractor) -> Self:
        """Make records by a function of a row; by default they are `Row`s with the names of the columns."""
        self._extractor = extractor
        return self

    def set_row_type(self, row_type: RowType) -> Self:
        """Declare names and types of the columns in order: values of a database with few types are made those."""
        self._row_type = row_type
        return self

    def set_jdbc_parameter_values_provider(self, provider: JdbcParameterValuesProvider) -> Self:
        """Execute the query once for each row of parameters; each is a split."""
        self._provider = provider
        return self

    def set_db_url(self, url: str) -> Self:
        """Set the database: JDBC's URL, or SQLAlchemy's."""
        self._connection.with_url(url)
        return self

    def set_driver_name(self, driver_name: str) -> Self:
        """Name the driver's class; the URL says which driver is used, so this is only compared with it."""
        self._connection.with_driver_name(driver_name)
        return self

    def set_username(self, username: str) -> Self:
        """Set who reads."""
        self._connection.with_user_name(username)
        return self

    def set_password(self, password: str) -> Self:
        """Set the password."""
        self._connection.with_password(password)
        return self

    def set_connection_check_timeout_seconds(self, seconds: float) -> Self:
        """Set how long a server that is away is waited for; by default 60 s."""
        self._connection.with_connection_check_timeout_seconds(seconds)
        return self

    def set_result_set_fetch_size(self, rows: int) -> Self:
        """Set how many rows are fetched at once; by default 4,096.

        Raises:
            ConfigurationError: If it is not positive.
        """
        if rows < 1:
            raise ConfigurationError(f"fetch size is {rows}, must be positive")
        self._fetch_size = rows
        return self

    def build(self) -> JdbcSource:
        """Return the source.

        Raises:
            ConfigurationError: If query or URL is missing; if SQLAlchemy or the driver is not installed.
        """
        if not self._sql:
            raise ConfigurationError("a source of a database has no query", hint="Call set_sql(...).")
        options = self._connection.build()
        return JdbcSource(
            JdbcQuery(
                _database_of(options),
                self._sql,
                self._extractor,
                self._row_type,
                self._fetch_size,
                options.patience_s,
            ),
            self._provider,
        )


def _database_of(options: JdbcConnectionOptions) -> Alchemy:
    url = parse_url(options)
    if url.kind == "sqlite":
        database: Alchemy = Sqlite(url)
    else:
        if driver := _DRIVERS.get(url.dialect):
            url = dataclasses.replace(url, dialect=driver)
        database = _KINDS.get(url.kind, Alchemy)(url)
    database.check_installed()
    return database
