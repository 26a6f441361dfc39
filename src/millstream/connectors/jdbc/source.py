"""Queries of any database that SQLAlchemy has a dialect for, as a bounded source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from millstream.base.errors import ConfigurationError
from millstream.connectors.jdbc.parameters import JdbcParameterValuesProvider
from millstream.connectors.jdbc.query_reader import JdbcQuery, QueryEnumerator, QueryReader
from millstream.connectors.jdbc.reading import ReadBuilder, database_to_read
from millstream.connectors.jdbc.statements import count_parameters
from millstream.spi.source import Boundedness, Source, SourceReader, SplitEnumerator
from millstream.types.basic import TypeInformation
from millstream.types.sql_types import row_type_info
from millstream.types.typeinfo import RowTypeInfo

__all__ = ["JdbcSource", "JdbcSourceBuilder"]


class JdbcSource(Source):
    """The rows of a query, which is executed once for each row of parameters. Made by `JdbcSource.builder()`.

    Example:
        >>> from millstream.datastream.connectors.jdbc import JdbcSource
        >>> from millstream.datastream.connectors.jdbc import JdbcNumericBetweenParametersProvider
        >>> source = (
        ...     JdbcSource.builder()
        ...     .set_db_url("jdbc:sqlite:/tmp/shop.db")
        ...     .set_sql("SELECT id, cents FROM orders WHERE id BETWEEN ? AND ?")
        ...     .set_jdbc_parameter_values_provider(JdbcNumericBetweenParametersProvider(1, 100).of_batch_num(4))
        ...     .set_result_extractor(tuple)
        ...     .build()
        ... )  # four splits; env.from_source(source, WatermarkStrategy.no_watermarks(), "orders")
    """

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


class JdbcSourceBuilder(ReadBuilder):
    """Builds a `JdbcSource`, as Flink's builder in Java does; each method returns the builder.

    Example:
        >>> from millstream.datastream.connectors.jdbc import JdbcSource
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
        super().__init__()
        self._sql: str | None = None
        self._provider: JdbcParameterValuesProvider | None = None
        self._fetch_size = 4_096

    def set_sql(self, sql: str) -> Self:
        """Set the query; `?` is a parameter. Order it by something unique, for a job may go on in its middle."""
        self._sql = sql.strip().rstrip(";")
        return self

    def set_jdbc_parameter_values_provider(self, provider: JdbcParameterValuesProvider) -> Self:
        """Execute the query once for each row of parameters; each is a split."""
        self._provider = provider
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
                database_to_read(options),
                self._sql,
                self._extractor,
                self._row_type,
                self._fetch_size,
                options.patience_s,
            ),
            self._provider,
        )
