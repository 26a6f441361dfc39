"""Where a PostgreSQL server is, who asks, and connections to it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from millstream.base.errors import ConfigurationError, SourceError
from millstream.base.optional import load_package
from millstream.connectors.patience import Patience

__all__ = ["PostgresAddress", "load_psycopg", "said"]

_log = logging.getLogger(__name__)

_DEFAULTS = {
    "connect_timeout": "10",
    "fallback_application_name": "millstream",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
}
"""What a connection has unless the URL says otherwise: a host that is gone is noticed within a minute."""

_SESSION = """
SET standard_conforming_strings = on; SET DateStyle = 'ISO'; SET TimeZone = 'UTC'; SET IntervalStyle = 'iso_8601';
SET extra_float_digits = 1; SET bytea_output = 'hex'; SET statement_timeout = 0;
SET idle_in_transaction_session_timeout = 0; SET synchronize_seqscans = off
"""
"""Values as text that says all; transactions may wait for the next epoch; a scan begins where the table does."""

_STARTING = (
    "starting up",
    "not yet accepting",
    "shutting down",
    "recovery mode",
    "too many clients",
    "connection slots",
)
"""What a server answers that may take connections soon."""


def load_psycopg() -> Any:
    """Return psycopg.

    Raises:
        ConfigurationError: If it is not installed.
    """
    return load_package("psycopg", extra="postgres", what="PostgreSQL sources")


def said(error: BaseException) -> str:
    """Return what a server said, in one line."""
    return " ".join(str(error).split())


@dataclass(frozen=True)
class PostgresAddress:
    """A database on a server, and who asks; its text and its repr hold no password.

    Attributes:
        parameters: What libpq is told, by its names, also the password. Whatever is not said libpq takes from its own
            environment variables and files.
        patience: How long a server that is away is waited for.
    """

    parameters: Mapping[str, str] = field(repr=False)
    patience: Patience = field(default_factory=Patience)

    @staticmethod
    def of(url: str | None, patience: Patience, **parts: Any) -> PostgresAddress:
        """Make an address of a URL or key-value text of libpq's, of parts, or of both; parts count.

        Raises:
            ConfigurationError: If it does not parse, or psycopg is not installed.
        """
        psycopg = load_psycopg()
        given = {name: value for name, value in parts.items() if value is not None}
        try:
            parameters = psycopg.conninfo.conninfo_to_dict(url or "", **given)
        except psycopg.ProgrammingError:
            # What libpq says repeats what it did not understand, which may hold the password.
            raise ConfigurationError(
                "the address of the PostgreSQL server does not parse",
                hint="Write postgresql://user:password@host:5432/database; @ and / in a password are %40 and %2F.",
            ) from None
        return PostgresAddress({name: str(value) for name, value in parameters.items()}, patience)

    def __str__(self) -> str:
        host = self.parameters.get("host") or self.parameters.get("hostaddr") or "localhost"
        port, database = self.parameters.get("port", "5432"), self.parameters.get("dbname", "")
        return f"{host}:{port}/{database}"

    def connect(self, **more: str) -> Any:
        """Return a connection of psycopg, each of whose statements is a transaction; wait for a server that is away.

        Args:
            more: Further parameters of libpq's.

        Raises:
            SourceError: If there is no server in time, or it does not let us in.
        """
        psycopg = load_psycopg()

        def attempt() -> Any:
            parameters = {**_DEFAULTS, **self.parameters, **more, "client_encoding": "UTF8"}
            connection = psycopg.connect(**parameters, autocommit=True, prepare_threshold=None)
            try:
                connection.execute(_SESSION)
            except BaseException:
                connection.close()
                raise
            return connection

        try:
            return self.patience.call(
                attempt, is_passing=_may_pass, what=f"connecting to PostgreSQL at {self}", log=_log
            )
        except psycopg.Error as error:
            raise self.refusal(error) from error

    def refusal(self, error: Exception) -> SourceError:
        """Return the error that says that there is no connection, and what to do."""
        if _may_pass(error):
            return SourceError(
                f"the PostgreSQL server at {self} is away, and was waited for {self.patience.total_s:g} s",
                detail=said(error),
                hint="Check that it runs and can be reached from here and from where slots run.",
            )
        return SourceError(
            f"the PostgreSQL server at {self} refused the connection",
            detail=said(error),
            hint="Check user, password and database, and that pg_hba.conf lets this host in.",
        )


def _may_pass(error: Exception) -> bool:
    """Return whether a connection may be had later: nobody answered, or who answered is about to start."""
    if not isinstance(error, load_psycopg().OperationalError):
        return False
    text = str(error)
    return "FATAL" not in text or any(words in text for words in _STARTING)
