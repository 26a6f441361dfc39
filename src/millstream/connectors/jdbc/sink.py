"""The database sink (PyFlink's `JdbcSink`), with a statement or of a whole table, at least once or exactly once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

from millstream.base.errors import ConfigurationError, MillstreamError, NotSupportedError, SinkError
from millstream.common.functions import SinkFunction
from millstream.connectors.jdbc.commits import Markers
from millstream.connectors.jdbc.database import Database, Session
from millstream.connectors.jdbc.databases import open_database
from millstream.connectors.jdbc.link import Link
from millstream.connectors.jdbc.options import (
    JdbcConnectionOptions,
    JdbcExactlyOnceOptions,
    JdbcExecutionOptions,
)
from millstream.connectors.jdbc.rows import RowReader
from millstream.connectors.jdbc.staging import StageCommitter, StageWriter
from millstream.connectors.jdbc.statements import count_parameters
from millstream.connectors.jdbc.tables import TableSettings, check_settings, find_target
from millstream.connectors.jdbc.work import Append, Statement, Upsert, Work
from millstream.connectors.jdbc.writer import Batches, JdbcWriter
from millstream.spi.sink import Committer, Sink, SinkWriter, WriterContext
from millstream.types.basic import TypeInformation
from millstream.types.composite import RowTypeInfo, TupleTypeInfo

__all__ = ["JdbcSink", "JdbcTableSinkBuilder"]


@dataclass(frozen=True)
class _Settings:
    """What a program says.

    Attributes:
        connection: Which database.
        execution: How rows are batched.
        target: A statement and the type of its parameters, or a table.
        exactly_once: Where markers are; None writes at least once.
    """

    connection: JdbcConnectionOptions
    execution: JdbcExecutionOptions
    target: tuple[str, RowTypeInfo] | TableSettings
    exactly_once: JdbcExactlyOnceOptions | None = None


class JdbcSink(SinkFunction[Any], Sink):
    """Writes records into a database; made by its static methods, for `add_sink` or `sink_to`.

    Example:
        >>> from millstream.common import Types
        >>> from millstream.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcSink
        >>> database = JdbcConnectionOptions("jdbc:sqlite:shop.db")
        >>> orders = Types.ROW_NAMED(["id", "cents"], [Types.LONG(), Types.LONG()])
        >>> sink = JdbcSink.sink("INSERT INTO orders VALUES (?, ?)", orders, database)  # stream.add_sink(sink)
    """

    def __init__(self, settings: _Settings) -> None:
        self._settings = settings

    @staticmethod
    def sink(
        sql: str,
        type_info: TypeInformation,
        jdbc_connection_options: JdbcConnectionOptions,
        jdbc_execution_options: JdbcExecutionOptions | None = None,
    ) -> JdbcSink:
        """Execute a statement for each record, at least once.

        Args:
            sql: INSERT, UPDATE, DELETE or the like, with `?` for the fields of a record, in their order.
            type_info: Type of the records, `Types.ROW([...])`.
            jdbc_connection_options: Which database.
            jdbc_execution_options: How records are batched.

        Raises:
            ConfigurationError: If the statement has not as many parameters as the records fields, or the URL is none.
        """
        return JdbcSink(_of_statement(sql, type_info, jdbc_connection_options, jdbc_execution_options))

    @staticmethod
    def exactly_once_sink(
        sql: str,
        type_info: TypeInformation,
        jdbc_connection_options: JdbcConnectionOptions,
        jdbc_execution_options: JdbcExecutionOptions | None = None,
        jdbc_exactly_once_options: JdbcExactlyOnceOptions | None = None,
    ) -> JdbcSink:
        """Execute a statement for each record, exactly once: when the checkpoint is complete that the record is in.

        The records' values wait in the database, and are executed by the driver, in one transaction with a marker row.

        Args:
            sql: As for `sink`.
            type_info: As for `sink`.
            jdbc_connection_options: Which database: PostgreSQL, MySQL, MariaDB or SQLite.
            jdbc_execution_options: How records are batched.
            jdbc_exactly_once_options: Where markers are.

        Raises:
            ConfigurationError: As for `sink`.
            NotSupportedError: If it is another kind of database.
        """
        settings = _of_statement(sql, type_info, jdbc_connection_options, jdbc_execution_options)
        return JdbcSink(_once(settings, jdbc_exactly_once_options))

    @staticmethod
    def table(name: str) -> JdbcTableSinkBuilder:
        """Begin to build a sink that appends to a table, or overwrites its rows by key.

        Args:
            name: The table, with its schema if need be: `sales.orders`; as the database writes it.
        """
        return JdbcTableSinkBuilder(name)

    def invoke(self, value: Any, *args: Any, **kwargs: Any) -> None:
        """Not called: records are written in batches.

        Raises:
            NotSupportedError: Always.
        """
        raise NotSupportedError(
            "a JdbcSink is not called for single records", hint="Give it to add_sink(...) or sink_to(...)."
        )

    def check(self) -> None:
        """Connect; look at the table, or have the server parse the statement; make the table of markers.

        Raises:
            SinkError: If the server is away or refuses the connection, or the table cannot be written so.
        """
        database = open_database(self._settings.connection)
        link = self._new_link(database)
        exactly_once = self._settings.exactly_once

        def check(session: Session) -> None:
            if exactly_once is not None:
                Markers(database, exactly_once.marker_table).create(session)
            if isinstance(self._settings.target, TableSettings):
                find_target(database, session, self._settings.target)
            else:
                database.check_statement(session, self._settings.target[0])

        try:
            link.run(check, what="looking at the table")
        except MillstreamError:
            raise
        except Exception as error:
            raise SinkError(
                f"{database} cannot be written: {type(error).__name__}",
                detail=" ".join(str(error).split())[:600],
                hint="Correct the statement, or create what it names, and look at the rights of the user.",
            ) from error
        finally:
            link.close()

    def build_writer(self, context: WriterContext) -> SinkWriter:
        """Make the writer of one subtask."""
        settings = self._settings
        database = open_database(settings.connection)
        if settings.exactly_once is None:
            return JdbcWriter(
                lambda prepare: self._new_link(database, prepare=prepare),
                lambda session: self._build_work(database, session, context.value_type),
                settings.execution,
            )
        size = settings.execution.batch_size or JdbcExecutionOptions.batch_size
        return StageWriter(
            database,
            lambda patience_s: self._new_link(database, patience_s),
            lambda session: self._build_work(database, session, context.value_type),
            Batches(replace(settings.execution, batch_size=size)),
            settings.exactly_once,
            context,
        )

    def build_committer(self) -> Committer | None:
        """Make the committer, if rows are staged."""
        settings = self._settings
        if settings.exactly_once is None:
            return None
        database = open_database(settings.connection)
        return StageCommitter(
            database,
            lambda patience_s: self._new_link(database, patience_s),
            lambda session: self._build_work(database, session, None),
            settings.exactly_once,
        )

    def _new_link(
        self,
        database: Database,
        patience_s: float | None = None,
        prepare: Callable[[Session], None] | None = None,
    ) -> Link:
        settings = self._settings
        usual = settings.connection.patience_s
        return Link(
            database,
            patience_s=usual if patience_s is None else patience_s,
            max_retries=settings.execution.max_retries,
            prepare=prepare,
        )

    def _build_work(self, database: Database, session: Session, declared: TypeInformation | None) -> Work:
        target = self._settings.target
        if not isinstance(target, TableSettings):
            sql, type_info = target
            return Statement(database, RowReader(type_info.get_field_names(), type_info, declared), sql)
        reader = RowReader(target.fields, target.type_info, declared)
        found = find_target(database, session, target)
        return Upsert(database, reader, found) if target.keys else Append(database, reader, found)


class JdbcTableSinkBuilder:
    """Builds a sink of a whole table; each method but the last returns the builder.

    Example:
        >>> from millstream.common import Types
        >>> from millstream.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcSink
        >>> orders = Types.ROW_NAMED(["id", "cents"], [Types.LONG(), Types.LONG()])
        >>> sink = (
        ...     JdbcSink.table("orders")
        ...     .with_type_info(orders)
        ...     .with_key_columns("id")
        ...     .build_exactly_once(JdbcConnectionOptions("jdbc:postgresql://localhost:5432/shop"))
        ... )  # stream.sink_to(sink)
    """

    def __init__(self, table: str) -> None:
        if not isinstance(table, str) or not table:
            raise ConfigurationError(f"the table of a database sink is {table!r}, must be a name")
        self._table = table
        self._columns: tuple[str, ...] = ()
        self._type_info: RowTypeInfo | None = None
        self._keys: tuple[str, ...] = ()
        self._execution = JdbcExecutionOptions.defaults()

    def with_type_info(self, type_info: TypeInformation) -> Self:
        """Declare the records, `Types.ROW_NAMED(names, types)`; the names are those of the columns."""
        self._type_info = _row_type(type_info)
        return self

    def with_columns(self, *names: str) -> Self:
        """Name the columns that are written, if the records are not declared, or if not all fields are wanted."""
        self._columns = names
        return self

    def with_key_columns(self, *names: str) -> Self:
        """Overwrite rows with the same key, and delete those of rows of the kind DELETE; by default rows are appended.

        The database holds the key unique, by a primary key or an index.
        """
        self._keys = names
        return self

    def with_execution_options(self, options: JdbcExecutionOptions) -> Self:
        """Set how records are batched."""
        self._execution = _execution_options(options)
        return self

    def build_at_least_once(self, connection_options: JdbcConnectionOptions) -> JdbcSink:
        """Return a sink that writes batches as they come.

        After a failure records come again: appended ones are there twice, upserts have no further effect.

        Raises:
            ConfigurationError: If columns are not named, or keys are not among them.
            NotSupportedError: If tables of the database cannot be written so.
        """
        return JdbcSink(self._settings(connection_options))

    def build_exactly_once(
        self,
        connection_options: JdbcConnectionOptions,
        exactly_once_options: JdbcExactlyOnceOptions | None = None,
    ) -> JdbcSink:
        """Return a sink that publishes with checkpoints: what comes between two is seen at once, and once.

        Raises:
            ConfigurationError: As `build_at_least_once`.
            NotSupportedError: Likewise.
        """
        return JdbcSink(_once(self._settings(connection_options), exactly_once_options))

    def _settings(self, connection: JdbcConnectionOptions) -> _Settings:
        database = open_database(connection)
        if not database.writes_tables:
            raise NotSupportedError(
                f"tables of {database.product} are not written without a statement",
                hint="Use JdbcSink.sink(...) with a statement of the database's own (MERGE, INSERT).",
            )
        fields = self._columns
        if self._type_info is not None:
            names = self._type_info.get_field_names()
            fields = fields or tuple(names)
            if unknown := [name for name in fields if name not in names]:
                raise ConfigurationError(
                    f"columns {', '.join(unknown)} of table {self._table!r} are no fields of the records",
                    detail=f"These are {self._type_info.describe()}.",
                )
        target = TableSettings(self._table, fields, self._type_info, self._keys)
        check_settings(target)
        return _Settings(connection, self._execution, target)


def _of_statement(
    sql: str,
    type_info: TypeInformation,
    connection: JdbcConnectionOptions,
    execution: JdbcExecutionOptions | None,
) -> _Settings:
    declared = _row_type(type_info)
    wanted = count_parameters(sql, open_database(connection).syntax)
    count = len(declared.get_field_types())
    if wanted != count:
        raise ConfigurationError(
            f"a statement has {wanted} parameters, and its records {count} fields: {declared.describe()}",
            detail="Each ? stands for a field; those in texts, quoted names and comments do not count, nor does ??.",
        )
    return _Settings(connection, _execution_options(execution), (sql, declared))


def _once(settings: _Settings, options: JdbcExactlyOnceOptions | None) -> _Settings:
    if options is not None and not isinstance(options, JdbcExactlyOnceOptions):
        raise ConfigurationError(
            f"{type(options).__name__} is no JdbcExactlyOnceOptions",
            hint="Use JdbcExactlyOnceOptions.builder()....build().",
        )
    database = open_database(settings.connection)
    if not database.writes_tables:
        raise NotSupportedError(
            f"databases of the kind {database.product} are not written exactly once",
            hint="Use JdbcSink.sink(...) with a statement that may be repeated, such as MERGE.",
        )
    return replace(settings, exactly_once=options or JdbcExactlyOnceOptions.defaults())


def _execution_options(options: JdbcExecutionOptions | None) -> JdbcExecutionOptions:
    if options is None:
        return JdbcExecutionOptions.defaults()
    if not isinstance(options, JdbcExecutionOptions):
        raise ConfigurationError(
            f"{type(options).__name__} is no JdbcExecutionOptions",
            hint="Use JdbcExecutionOptions.builder()....build().",
        )
    return options


def _row_type(type_info: TypeInformation) -> RowTypeInfo:
    if isinstance(type_info, RowTypeInfo):
        return type_info
    if isinstance(type_info, TupleTypeInfo):
        return RowTypeInfo(type_info.get_field_types())
    raise ConfigurationError(
        f"records of a database sink are declared as {type_info!r}, which has no fields",
        hint="Declare them by Types.ROW([...]) or Types.ROW_NAMED([...], [...]).",
    )
