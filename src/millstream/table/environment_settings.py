"""What a table environment is made with (PyFlink's `pyflink.table.environment_settings`)."""

from __future__ import annotations

from millstream.config import options
from millstream.config.configuration import Configuration

__all__ = ["EnvironmentSettings"]


class EnvironmentSettings:
    """Mode, names of the first catalog and database, and options of a table environment; immutable.

    >>> from millstream.table import EnvironmentSettings
    >>> EnvironmentSettings.in_batch_mode().is_streaming_mode()
    False
    """

    class Builder:
        """Collects settings; streaming mode by default."""

        def __init__(self) -> None:
            self._configuration = Configuration()
            self._catalog_name = "default_catalog"
            self._database_name = "default_database"

        def with_configuration(self, config: Configuration) -> EnvironmentSettings.Builder:
            """Set all options that `config` sets."""
            self._configuration.add_all(config)
            return self

        def in_batch_mode(self) -> EnvironmentSettings.Builder:
            """Emit results once, at the end of a bounded input."""
            self._configuration.set(options.RUNTIME_MODE, "BATCH")
            return self

        def in_streaming_mode(self) -> EnvironmentSettings.Builder:
            """Emit results as they come."""
            self._configuration.set(options.RUNTIME_MODE, "STREAMING")
            return self

        def with_built_in_catalog_name(self, built_in_catalog_name: str) -> EnvironmentSettings.Builder:
            """Name the catalog that is there from the start."""
            self._catalog_name = built_in_catalog_name
            return self

        def with_built_in_database_name(self, built_in_database_name: str) -> EnvironmentSettings.Builder:
            """Name that catalog's database."""
            self._database_name = built_in_database_name
            return self

        def build(self) -> EnvironmentSettings:
            """Return the settings."""
            return EnvironmentSettings(self._configuration, self._catalog_name, self._database_name)

    def __init__(self, configuration: Configuration, catalog_name: str, database_name: str) -> None:
        self._configuration = Configuration(configuration)
        self._catalog_name = catalog_name
        self._database_name = database_name

    def get_built_in_catalog_name(self) -> str:
        """Return the name of the catalog that is there from the start."""
        return self._catalog_name

    def get_built_in_database_name(self) -> str:
        """Return the name of that catalog's database."""
        return self._database_name

    def is_streaming_mode(self) -> bool:
        """Return whether results are emitted as they come."""
        streaming: bool = self._configuration.get(options.RUNTIME_MODE) == "STREAMING"
        return streaming

    def get_configuration(self) -> Configuration:
        """Return a copy of the options."""
        return Configuration(self._configuration)

    @staticmethod
    def new_instance() -> EnvironmentSettings.Builder:
        """Begin to collect settings."""
        return EnvironmentSettings.Builder()

    @staticmethod
    def in_streaming_mode() -> EnvironmentSettings:
        """Return the defaults in streaming mode."""
        return EnvironmentSettings.new_instance().in_streaming_mode().build()

    @staticmethod
    def in_batch_mode() -> EnvironmentSettings:
        """Return the defaults in batch mode."""
        return EnvironmentSettings.new_instance().in_batch_mode().build()
