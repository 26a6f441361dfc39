"""What sources and look-ups of databases have in common: their connection, their patience, and records made of rows."""

from __future__ import annotations

import dataclasses
import datetime
import logging
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, Self, TypeVar

from millstream.base.errors import MalformedRecordError, SourceError, shorten
from millstream.connectors.jdbc.alchemy import Alchemy, Sqlite, load_sqlalchemy
from millstream.connectors.jdbc.database import Trouble
from millstream.connectors.jdbc.options import JdbcConnectionOptions
from millstream.connectors.jdbc.statements import Syntax
from millstream.connectors.jdbc.urls import parse_url
from millstream.connectors.patience import Patience
from millstream.types import datatypes as types
from millstream.types.datatypes import DataType, RowType
from millstream.types.row import Row, rows_of

__all__ = ["ReadBuilder", "ResultExtractor", "RowMaker", "database_to_read", "read_patiently"]

_log = logging.getLogger(__name__)

Result = TypeVar("Result")
ResultExtractor = Callable[[Any], Any]

_DRIVERS = {"mysql": "mysql+pymysql", "mariadb": "mysql+pymysql"}
_DRIVERS |= dict.fromkeys(("postgresql", "postgres"), "postgresql+psycopg")
"""What SQLAlchemy is told where a URL names no driver: those that millstream's extras bring."""


class _MySqlByAlchemy(Alchemy):
    syntax = Syntax.MYSQL
    quote_mark = "`"


class _PostgresByAlchemy(Alchemy):
    syntax = Syntax.POSTGRES


_KINDS: dict[str, type[Alchemy]] = {"mysql": _MySqlByAlchemy, "postgresql": _PostgresByAlchemy}


def database_to_read(options: JdbcConnectionOptions) -> Alchemy:
    """Return the database of connection options.

    Raises:
        ConfigurationError: If there is no such kind of database, or SQLAlchemy or the driver is not installed.
    """
    url = parse_url(options)
    if url.kind == "sqlite":
        database: Alchemy = Sqlite(url)
    else:
        if driver := _DRIVERS.get(url.dialect):
            url = dataclasses.replace(url, dialect=driver)
        database = _KINDS.get(url.kind, Alchemy)(url)
    database.check_installed()
    return database


def read_patiently(database: Alchemy, patience_s: float, attempt: Callable[[], Result]) -> Result:
    """Return what an attempt to read gives; it is repeated while the server is away.

    Args:
        database: Which.
        patience_s: For how many seconds.
        attempt: May be repeated: what is broken has to be made anew in it.

    Raises:
        SourceError: If the database refuses it, or stays away.
    """
    try:
        return Patience(total_s=patience_s).call(
            attempt,
            is_passing=lambda error: database.judge(error) is Trouble.AWAY,
            what=f"reading {database}",
            log=_log,
        )
    except load_sqlalchemy().exc.SQLAlchemyError as error:
        is_away = database.judge(error) is Trouble.AWAY
        detail = " ".join(str(getattr(error, "orig", None) or error).split())[:500]
        raise SourceError(
            f"{database} is away, and was waited for {patience_s:g} s"
            if is_away
            else f"{database} does not give the rows of the query",
            detail=detail,
            hint="Start the server, or correct the URL."
            if is_away
            else "Look at the query, at user and password, and at what the user may read.",
        ) from None


class RowMaker:
    """Makes records of what a database gives; small and picklable.

    Args:
        database: Which, for messages.
        extractor: Makes records of rows; None for `Row`s.
        row_type: Names and types of the columns; None for those that the driver gives.
    """

    def __init__(
        self, database: Alchemy, extractor: ResultExtractor | None, row_type: RowType | None
    ) -> None:
        self._database = database
        self._extractor = extractor
        self._row_type = row_type

    def records(self, rows: Sequence[Any], names: Sequence[str]) -> list[Any]:
        """Return a record for each row.

        Args:
            rows: The values of at least one row.
            names: Of their columns.

        Raises:
            SourceError: If there are more or fewer columns than declared.
            MalformedRecordError: If a value does not fit its declared type.
        """
        if self._row_type is not None:
            made = self._typed(rows, self._row_type)
            return made if self._extractor is None else list(map(self._extractor, made))
        if self._extractor is not None:
            return list(map(self._extractor, rows))
        return list(rows_of(tuple(names), map(tuple, rows)))

    def _typed(self, rows: Sequence[Any], row_type: RowType) -> list[Row]:
        names = row_type.field_names()
        converters = [_converter(each) for each in row_type.field_types()]
        if len(rows[0]) != len(names):
            raise SourceError(
                f"the query of {self._database} gives {len(rows[0])} columns, and {len(names)} are declared",
                hint="Declare a type for each column (set_row_type).",
            )
        records = []
        for row in rows:
            values = []
            for name, value, convert in zip(names, row, converters, strict=True):
                try:
                    values.append(None if value is None else convert(value))
                except (ValueError, ArithmeticError, TypeError) as error:
                    raise MalformedRecordError(
                        f"column {name!r} of {self._database}: {shorten(value)} does not fit its type",
                        detail=str(error),
                    ) from error
            records.append(tuple(values))
        return rows_of(tuple(names), records)


class ReadBuilder:
    """Says what is read from, and what is made of it; each method returns the builder."""

    def __init__(self) -> None:
        super().__init__()
        self._connection = JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
        self._extractor: ResultExtractor | None = None
        self._row_type: RowType | None = None

    def set_result_extractor(self, extractor: ResultExtractor) -> Self:
        """Make records by a function of a row; by default they are `Row`s with the names of the columns."""
        self._extractor = extractor
        return self

    def set_row_type(self, row_type: RowType) -> Self:
        """Declare names and types of the columns in order: values of a database with few types are made those."""
        self._row_type = row_type
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


# Databases have more digits than the 28 of a program's context.
_EXACT = Context(prec=100, rounding=ROUND_HALF_UP)


def _decimal(scale: int) -> Callable[[Any], Decimal]:
    unit = Decimal(1).scaleb(-scale)
    return lambda value: Decimal(str(value)).quantize(unit, context=_EXACT)


def _parsed(parse: Callable[[str], Any]) -> Callable[[Any], Any]:
    return lambda value: parse(value) if isinstance(value, str) else value


def _moment(text: str) -> datetime.datetime:
    moment = datetime.datetime.fromisoformat(text)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=datetime.UTC)


def _time(value: Any) -> Any:
    """Return a time of day; drivers of MySQL give how long after midnight it is."""
    if isinstance(value, datetime.timedelta):
        if not datetime.timedelta(0) <= value < datetime.timedelta(days=1):
            raise ValueError(f"{value} is no time of a day")
        return (datetime.datetime.min + value).time()
    return datetime.time.fromisoformat(value) if isinstance(value, str) else value


_CONVERTERS: list[tuple[type[DataType], Callable[[Any], Any]]] = [
    (types.BooleanType, bool),
    (types.DoubleType, float),
    (types.DateType, _parsed(datetime.date.fromisoformat)),
    (types.TimeType, _time),
    (types.LocalZonedTimestampType, _parsed(_moment)),
    (types.TimestampType, _parsed(datetime.datetime.fromisoformat)),
    (types.VarBinaryType, bytes),
    (types.VarCharType, str),
    (types.NumericType, int),
]


def _converter(declared: DataType) -> Callable[[Any], Any]:
    if isinstance(declared, types.DecimalType):
        return _decimal(declared.scale)
    for kind, convert in _CONVERTERS:
        if isinstance(declared, kind):
            return convert
    return lambda value: value
