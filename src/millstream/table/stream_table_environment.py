"""Tables beside streams in one program (PyFlink's `StreamTableEnvironment`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from millstream.base.errors import TypeMismatchError
from millstream.table.environment import TableEnvironment, check_settings
from millstream.table.environment_settings import EnvironmentSettings

if TYPE_CHECKING:
    from millstream.table.table import Table

__all__ = ["StreamTableEnvironment"]


class StreamTableEnvironment(TableEnvironment):
    """A table environment whose tables come from DataStreams and become DataStreams.

    Example:
        >>> from millstream.common import Row, Types
        >>> from millstream.table import StreamTableEnvironment
        >>> from millstream.testing import MiniCluster
        >>> with MiniCluster() as cluster:
        ...     env = cluster.environment()
        ...     t_env = StreamTableEnvironment.create(env)
        ...     row = Types.ROW_NAMED(["buyer", "amount"], [Types.STRING(), Types.INT()])
        ...     sales = env.from_collection([Row("ann", 10), Row("bob", 25)], row)
        ...     t_env.create_temporary_view("sales", sales)
        ...     large = t_env.sql_query("SELECT UPPER(buyer) AS buyer FROM sales WHERE amount > 20")
        ...     cluster.collect(t_env.to_data_stream(large))
        [Row(buyer='BOB')]
    """

    @staticmethod
    def create(  # type: ignore[override]
        stream_execution_environment: Any = None, environment_settings: EnvironmentSettings | None = None
    ) -> StreamTableEnvironment:
        """Make an environment for tables.

        Args:
            stream_execution_environment: Where the streams are; a new one by default.
            environment_settings: Their mode and options hold for the streams too.

        Raises:
            TypeMismatchError: If the settings are something else.
        """
        from millstream.datastream.stream_execution_environment import StreamExecutionEnvironment

        if isinstance(stream_execution_environment, EnvironmentSettings) and environment_settings is None:
            stream_execution_environment, environment_settings = None, stream_execution_environment
        check_settings(environment_settings)
        environment = stream_execution_environment
        if environment is None:
            environment = StreamExecutionEnvironment.get_execution_environment()
        if not isinstance(environment, StreamExecutionEnvironment):
            raise TypeMismatchError(
                f"stream_execution_environment is a {type(environment).__name__}",
                hint="Use StreamExecutionEnvironment.get_execution_environment().",
            )
        if environment_settings is not None:
            environment.configure(environment_settings.get_configuration())
        return StreamTableEnvironment(environment, environment_settings)

    def from_data_stream(self, data_stream: Any, *fields_or_schema: Any) -> Table:
        """Return a stream of inserted rows as a table.

        Args:
            data_stream: The stream, whose records' type is declared.
            fields_or_schema: A `Schema`, or expressions that name the columns.

        Raises:
            TypeMismatchError: If the type of the records is not declared, or a column does not fit.
        """
        from millstream.table.session.streams import table_of_stream

        return self._table(table_of_stream(self, data_stream, fields_or_schema))

    def from_changelog_stream(
        self, data_stream: Any, schema: Any = None, changelog_mode: Any = None
    ) -> Table:
        """Return a stream of rows with kinds (`Row.set_row_kind`) as a table that changes.

        Args:
            data_stream: The stream, whose records' type is declared.
            schema: Columns, watermark, primary key.
            changelog_mode: Which kinds there are; all by default. Updates without the row before need a primary key.
        """
        from millstream.table.session.streams import table_of_changes

        return self._table(table_of_changes(self, data_stream, schema, changelog_mode))

    def to_data_stream(self, table: Table) -> Any:
        """Return a table whose rows are only inserted as a stream of Rows.

        Raises:
            ValidationError: If rows of the table change.
        """
        from millstream.table.session.streams import stream_of_inserts

        return stream_of_inserts(self, table)

    def to_changelog_stream(self, table: Table, target_schema: Any = None, changelog_mode: Any = None) -> Any:
        """Return a table as a stream of Rows with kinds.

        Args:
            table: The table.
            target_schema: Columns to which the table's are cast.
            changelog_mode: Which kinds the stream may have; all by default.
        """
        from millstream.table.session.streams import stream_of_changes

        return stream_of_changes(self, table, target_schema, changelog_mode)

    def to_append_stream(self, table: Table, type_info: Any) -> Any:
        """Return a table whose rows are only inserted as a stream of records of a type."""
        from millstream.table.session.streams import append_stream

        return append_stream(self, table, type_info)

    def to_retract_stream(self, table: Table, type_info: Any) -> Any:
        """Return a table as a stream of (True, row) for rows that come and (False, row) for those that go."""
        from millstream.table.session.streams import retract_stream

        return retract_stream(self, table, type_info)
