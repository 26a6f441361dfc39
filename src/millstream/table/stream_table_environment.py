"""Tables and streams (PyFlink's `StreamTableEnvironment`): so far generated tables, turned into streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from millstream.base.errors import JobDefinitionError, NotSupportedError, TypeMismatchError
from millstream.base.not_yet import NotYetAttributeError
from millstream.common.watermark_strategy import WatermarkStrategy
from millstream.config.configuration import Configuration
from millstream.table.datagen import build_datagen_source, row_type
from millstream.table.environment_settings import EnvironmentSettings
from millstream.table.table_descriptor import TableDescriptor

__all__ = ["StreamTableEnvironment", "Table"]


class _StreamEnvironment(Protocol):
    def configure(self, configuration: Configuration) -> None: ...

    def from_source(
        self, source: Any, watermark_strategy: WatermarkStrategy, source_name: str, type_info: Any = None
    ) -> Any: ...


class Table:
    """A table that was declared.

    Attributes:
        path: Its name.
        descriptor: Where it comes from.
    """

    def __init__(self, path: str, descriptor: TableDescriptor) -> None:
        self.path = path
        self.descriptor = descriptor

    if not TYPE_CHECKING:  # to checkers, what is not there is not there

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            raise NotYetAttributeError(
                f'a table was asked for "{name}"',
                detail="The Table API comes with a later release; tables can be turned into streams.",
                hint="Use table_environment.to_data_stream(table).",
            )


class StreamTableEnvironment:
    """Declares tables beside a stream environment."""

    def __init__(self, stream_execution_environment: _StreamEnvironment) -> None:
        self._environment = stream_execution_environment
        self._tables: dict[str, TableDescriptor] = {}

    @staticmethod
    def create(
        stream_execution_environment: Any = None, environment_settings: EnvironmentSettings | None = None
    ) -> StreamTableEnvironment:
        """Make an environment for tables.

        Args:
            stream_execution_environment: Where the streams are.
            environment_settings: Their mode and options hold for the streams too.

        Raises:
            NotSupportedError: If there is no stream environment.
            TypeMismatchError: If the settings are something else.
        """
        if environment_settings is not None and not isinstance(environment_settings, EnvironmentSettings):
            raise TypeMismatchError(
                f"environment_settings is a {type(environment_settings).__name__}",
                hint="Use EnvironmentSettings.in_streaming_mode() or in_batch_mode().",
            )
        if stream_execution_environment is None:
            raise NotSupportedError(
                "a table environment was made without a stream environment",
                detail="The Table API comes with a later release.",
                hint="Use StreamTableEnvironment.create(StreamExecutionEnvironment.get_execution_environment()).",
            )
        if environment_settings is not None:
            stream_execution_environment.configure(environment_settings.get_configuration())
        return StreamTableEnvironment(stream_execution_environment)

    if not TYPE_CHECKING:  # to checkers, what is not there is not there

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            raise NotYetAttributeError(
                f'"{name}" of table environments is not in millstream yet',
                detail="The Table API and SQL come with a later release; so far there are create_temporary_table, "
                "from_path and to_data_stream.",
                hint="Use the DataStream API.",
            )

    def create_temporary_table(self, path: str, descriptor: TableDescriptor) -> None:
        """Declare a table.

        Raises:
            JobDefinitionError: If there is one of that name.
            NotSupportedError: If its connector is not "datagen".
        """
        if path in self._tables:
            raise JobDefinitionError(f'table "{path}" exists already')
        if descriptor.connector != "datagen":
            raise NotSupportedError(
                f'table "{path}" has the connector "{descriptor.connector}"',
                detail='Tables can be of the connector "datagen" so far; others come with a later release.',
                hint="Use the DataStream API's sources.",
            )
        self._tables[path] = descriptor

    def from_path(self, path: str) -> Table:
        """Return a table by its name.

        Raises:
            JobDefinitionError: If there is none.
        """
        if path not in self._tables:
            raise JobDefinitionError(
                f'table "{path}" was not found', detail=f"Declared are: {', '.join(self._tables) or 'none'}."
            )
        return Table(path, self._tables[path])

    def to_data_stream(self, table: Table) -> Any:
        """Return the table's rows as a stream.

        Raises:
            ConfigurationError: If an option of the table does not fit.
        """
        return self._environment.from_source(
            build_datagen_source(table.descriptor),
            WatermarkStrategy.no_watermarks(),
            f"{table.path}[datagen]",
            row_type(table.descriptor),
        )
