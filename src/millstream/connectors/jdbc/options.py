"""What a program says about a database and about batches (PyFlink's options and their builders)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from millstream.base.errors import ConfigurationError

__all__ = [
    "JdbcConnectionOptions",
    "JdbcConnectionOptionsBuilder",
    "JdbcExactlyOnceOptions",
    "JdbcExactlyOnceOptionsBuilder",
    "JdbcExecutionOptions",
    "JdbcExecutionOptionsBuilder",
]

_DAY_MS = 24 * 60 * 60 * 1000


class JdbcConnectionOptionsBuilder:
    """Builds `JdbcConnectionOptions`; each method returns the builder."""

    def __init__(self) -> None:
        self._url: str | None = None
        self._driver_name: str | None = None
        self._user_name: str | None = None
        self._password: str | None = None
        self._patience_s = 60.0

    def with_url(self, url: str) -> Self:
        """Set the JDBC URL, such as `jdbc:postgresql://host:5432/db`, or one of SQLAlchemy's."""
        self._url = url
        return self

    def with_driver_name(self, driver_name: str) -> Self:
        """Name the driver's class; the URL says which driver is used, so this is only compared with it."""
        self._driver_name = driver_name
        return self

    def with_user_name(self, user_name: str) -> Self:
        """Set the user; comes before one in the URL."""
        self._user_name = user_name
        return self

    def with_password(self, password: str) -> Self:
        """Set the password; comes before one in the URL."""
        self._password = password
        return self

    def with_connection_check_timeout_seconds(self, seconds: float) -> Self:
        """Set how long a server that is away is waited for; the job fails then. By default 60 s."""
        if not seconds >= 0:
            raise ConfigurationError(f"a database cannot be waited for {seconds} s")
        self._patience_s = float(seconds)
        return self

    def build(self) -> JdbcConnectionOptions:
        """Return the options.

        Raises:
            ConfigurationError: If there is no URL.
        """
        if not self._url:
            raise ConfigurationError(
                "connection options of a database have no URL",
                hint="Call with_url('jdbc:postgresql://host:5432/database') before build().",
            )
        return JdbcConnectionOptions(
            self._url, self._driver_name, self._user_name, self._password, self._patience_s
        )


@dataclass(frozen=True)
class JdbcConnectionOptions:
    """Which database, and as whom. What may hold a password is not in its `repr`.

    Attributes:
        url: The URL, as it was given.
        driver_name: The driver's class, None if none was named.
        user_name: The user, None if the URL tells.
        password: The password, None if the URL tells or none is needed.
        patience_s: How long a server that is away is waited for, in seconds.

    Example:
        >>> from millstream.datastream.connectors.jdbc import JdbcConnectionOptions
        >>> options = (
        ...     JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
        ...     .with_url("jdbc:postgresql://localhost:5432/shop")
        ...     .with_user_name("app")
        ...     .with_password("secret")
        ...     .build()
        ... )
        >>> options.get_user_name(), options.patience_s
        ('app', 60.0)
    """

    url: str = field(repr=False)
    driver_name: str | None = None
    user_name: str | None = None
    password: str | None = field(default=None, repr=False)
    patience_s: float = 60.0

    JdbcConnectionOptionsBuilder = JdbcConnectionOptionsBuilder

    def get_db_url(self) -> str:
        """Return the URL."""
        return self.url

    def get_driver_name(self) -> str | None:
        """Return the driver's class."""
        return self.driver_name

    def get_user_name(self) -> str | None:
        """Return the user."""
        return self.user_name

    def get_password(self) -> str | None:
        """Return the password."""
        return self.password


class JdbcExecutionOptionsBuilder:
    """Builds `JdbcExecutionOptions`; each method returns the builder."""

    def __init__(self) -> None:
        self._options = {"batch_size": 5_000, "batch_interval_ms": 0, "max_retries": 3}

    def with_batch_size(self, size: int) -> Self:
        """Set how many records are written at once; 0 writes them with checkpoints, or by the interval."""
        return self._with("batch_size", size)

    def with_batch_interval_ms(self, interval_ms: int) -> Self:
        """Set how long a record waits for others at most, in milliseconds; 0 waits for the batch or a checkpoint."""
        return self._with("batch_interval_ms", interval_ms)

    def with_max_retries(self, max_retries: int) -> Self:
        """Set how often a batch is written again after a deadlock or the like."""
        return self._with("max_retries", max_retries)

    def _with(self, name: str, value: int) -> Self:
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise ConfigurationError(
                f"{name} of a database sink is {value!r}, must be an integer of at least 0"
            )
        self._options[name] = value
        return self

    def build(self) -> JdbcExecutionOptions:
        """Return the options."""
        return JdbcExecutionOptions(**self._options)


@dataclass(frozen=True)
class JdbcExecutionOptions:
    """How rows are batched.

    Attributes:
        batch_size: Records that are written at once; 0 for all up to a checkpoint or the interval.
        batch_interval_ms: How long a record waits at most; 0 for as long as its batch is not full.
        max_retries: How often a batch is written again.

    Example:
        >>> from millstream.datastream.connectors.jdbc import JdbcExecutionOptions
        >>> JdbcExecutionOptions.builder().with_batch_size(1_000).with_batch_interval_ms(200).build()
        JdbcExecutionOptions(batch_size=1000, batch_interval_ms=200, max_retries=3)
    """

    batch_size: int = 5_000
    batch_interval_ms: int = 0
    max_retries: int = 3

    Builder = JdbcExecutionOptionsBuilder

    def get_batch_interval_ms(self) -> int:
        """Return how long a record waits at most, in milliseconds."""
        return self.batch_interval_ms

    def get_batch_size(self) -> int:
        """Return how many records are written at once."""
        return self.batch_size

    def get_max_retries(self) -> int:
        """Return how often a batch is written again."""
        return self.max_retries

    @staticmethod
    def defaults() -> JdbcExecutionOptions:
        """Return the options that hold if none are given."""
        return JdbcExecutionOptions()

    @staticmethod
    def builder() -> JdbcExecutionOptionsBuilder:
        """Begin to build options."""
        return JdbcExecutionOptionsBuilder()


class JdbcExactlyOnceOptionsBuilder:
    """Builds `JdbcExactlyOnceOptions`; each method returns the builder."""

    def __init__(self) -> None:
        self._marker_table = JdbcExactlyOnceOptions.marker_table
        self._retention_ms = JdbcExactlyOnceOptions.retention_ms

    def with_marker_table(self, name: str) -> Self:
        """Name the table of markers, with its schema if need be: `etl.commits`."""
        if not name:
            raise ConfigurationError("the table of markers has no name")
        self._marker_table = name
        return self

    def with_retention_days(self, days: float) -> Self:
        """Set after how many days markers and staged rows that nobody came back for are removed."""
        if not days > 0:
            raise ConfigurationError(f"markers are kept for {days} days, must be more than 0")
        self._retention_ms = int(days * _DAY_MS)
        return self

    def build(self) -> JdbcExactlyOnceOptions:
        """Return the options."""
        return JdbcExactlyOnceOptions(self._marker_table, self._retention_ms)


@dataclass(frozen=True)
class JdbcExactlyOnceOptions:
    """Where it is noted what was committed, and for how long.

    Attributes:
        marker_table: The table of markers; made if it is not there.
        retention_ms: How long markers, and staged rows that nobody came back for, are kept.

    Example:
        >>> from millstream.datastream.connectors.jdbc import JdbcExactlyOnceOptions
        >>> options = JdbcExactlyOnceOptions.builder().with_marker_table("etl.commits").with_retention_days(7).build()
        >>> options.marker_table, options.retention_ms
        ('etl.commits', 604800000)
    """

    marker_table: str = "millstream_commits"
    retention_ms: int = 30 * _DAY_MS

    @staticmethod
    def defaults() -> JdbcExactlyOnceOptions:
        """Return the options that hold if none are given."""
        return JdbcExactlyOnceOptions()

    @staticmethod
    def builder() -> JdbcExactlyOnceOptionsBuilder:
        """Begin to build options."""
        return JdbcExactlyOnceOptionsBuilder()
