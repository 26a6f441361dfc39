"""Options of a table environment (PyFlink's `pyflink.table.table_config`)."""

from __future__ import annotations

import datetime
import os
from typing import Any

from millstream.base.errors import ConfigurationError, NotSupportedError
from millstream.config.configuration import Configuration
from millstream.table.connectors.options import duration_ms

__all__ = ["TableConfig", "local_zone"]

ZONE = "table.local-time-zone"
_TTL = "table.exec.state.ttl"


def local_zone(options: Any) -> str:
    """Return the session's time zone: as set, else the machine's."""
    said = options.get(ZONE)
    if said and said != "default":
        return str(said)
    zone = os.environ.get("TZ", "")
    if zone:
        return zone.lstrip(":")
    try:
        path = os.path.realpath("/etc/localtime")
    except OSError:
        return "UTC"
    _, found, name = path.partition("zoneinfo/")
    return name.removeprefix("posix/") if found and not name.startswith("Etc/") else "UTC"


class TableConfig:
    """Options by key, shared with the stream environment.

    Args:
        configuration: Where they are kept.

    Example:
        >>> from millstream.table import EnvironmentSettings, TableEnvironment
        >>> config = TableEnvironment.create(EnvironmentSettings.in_streaming_mode()).get_config()
        >>> config.set_local_timezone("Europe/Berlin")
        >>> config.set("table.exec.state.ttl", "1 h").get("table.exec.state.ttl", "0 ms")
        '1 h'
        >>> config.get_local_timezone()
        'Europe/Berlin'
    """

    def __init__(self, configuration: Configuration | None = None) -> None:
        self._configuration = Configuration() if configuration is None else configuration

    @staticmethod
    def get_default() -> TableConfig:
        """Return options of which none is set."""
        return TableConfig()

    def get(self, key: str, default_value: str) -> str:
        """Return an option as text."""
        value = self.to_map().get(key)
        return default_value if value is None else value

    def set(self, key: str, value: str) -> TableConfig:
        """Set an option.

        Raises:
            ConfigurationError: If the value does not fit, or is no text.
        """
        if not isinstance(value, str):
            raise ConfigurationError(f'option "{key}" was given {value!r}', hint="Give it as text.")
        self._configuration.set_string(key, value)
        return self

    def reset(self, key: str) -> None:
        """Have an option at its default (millstream's own)."""
        self._configuration.remove_config(key)

    def to_map(self) -> dict[str, str]:
        """Return the options that are set, as texts."""
        return {key: str(value) for key, value in self._configuration.to_dict().items()}

    def get_configuration(self) -> Configuration:
        """Return the options themselves: what is set there is set here."""
        return self._configuration

    def add_configuration(self, configuration: Configuration) -> None:
        """Set all options that another configuration sets."""
        self._configuration.add_all(configuration)

    def get_local_timezone(self) -> str:
        """Return the zone of TIMESTAMP_LTZ values when they become text or days."""
        return local_zone(self.to_map())

    def set_local_timezone(self, timezone_id: str) -> None:
        """Set that zone.

        Raises:
            ConfigurationError: If there is no such zone.
        """
        check_zone(timezone_id)
        self._configuration.set_string(ZONE, timezone_id)

    def set_idle_state_retention(self, duration: datetime.timedelta) -> None:
        """Set how long state is kept that nobody touches."""
        self._configuration.set_string(_TTL, f"{int(duration.total_seconds() * 1000)} ms")

    def get_idle_state_retention(self) -> datetime.timedelta:
        """Return how long state is kept that nobody touches; zero is for ever."""
        return datetime.timedelta(milliseconds=duration_ms(self.get(_TTL, "0 ms")))

    def get_max_generated_code_length(self) -> int:
        """Return the option, which is without effect: no code is generated."""
        return int(self.get("table.generated-code.max-length", "4000"))

    def set_max_generated_code_length(self, max_generated_code_length: int) -> None:
        """Keep the option, which is without effect: no code is generated."""
        self.set("table.generated-code.max-length", str(max_generated_code_length))

    def get_sql_dialect(self) -> Any:
        """Return the dialect of SQL texts: the default one."""
        from millstream.table.sql_dialect import SqlDialect

        return SqlDialect.DEFAULT

    def set_sql_dialect(self, sql_dialect: Any) -> None:
        """Set the dialect of SQL texts.

        Raises:
            NotSupportedError: If it is Hive's.
        """
        if getattr(sql_dialect, "name", str(sql_dialect)).upper() != "DEFAULT":
            raise NotSupportedError("the SQL dialect of Hive is not in millstream")

    def set_python_executable(self, python_exec: str) -> None:
        """Set which Python runs users' functions."""
        self.set("python.executable", python_exec)

    def get_python_executable(self) -> str:
        """Return which Python runs users' functions."""
        return self.get("python.executable", "python")


def check_zone(name: str) -> str:
    """Return the name of a time zone.

    Raises:
        ConfigurationError: If there is none of that name.
    """
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise ConfigurationError(
            f'time zone "{name}" was not found', hint="Give a name such as Europe/Berlin or UTC."
        ) from error
    return name
