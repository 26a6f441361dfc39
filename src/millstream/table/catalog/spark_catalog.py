"""Spark's own catalog: databases, tables and views of the Spark session that jobs run in, to be read.

Nothing here imports pyspark: the session is asked, and tells of columns as JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

from millstream.base.errors import ConfigurationError, NotSupportedError
from millstream.config.configuration import Configuration
from millstream.graph.launcher import spark_session
from millstream.table.catalog.catalog import Catalog, CatalogDatabase, CatalogFunction, Entry
from millstream.table.catalog.definition import build_table
from millstream.table.catalog.resolved import ResolvedTable, TableColumn
from millstream.types import datatypes as sql

__all__ = ["SparkCatalog", "data_type_of_json"]


class SparkCatalog(Catalog):
    """Tables of the Spark session.

    Args:
        name: The catalog's name in the session of SQL.
        configuration: Options of the session's jobs: they say which Spark session it is.
        default_database: Spark's current one by default.
        options: What it was made with.
        comment: What it is for.

    Raises:
        ConfigurationError: If there is no Spark session, and the options do not say how to make one.
    """

    def __init__(
        self,
        name: str,
        configuration: Configuration,
        default_database: str | None = None,
        options: Mapping[str, str] | None = None,
        comment: str = "",
    ) -> None:
        self._name = name
        self._configuration = configuration
        current = default_database or str(self._session().catalog.currentDatabase())
        super().__init__(current, options, comment)

    def _session(self) -> Any:
        """Return Spark's session of today: it may be another one than before."""
        try:
            return spark_session(self._configuration)
        except (ConfigurationError, NotSupportedError) as error:
            raise ConfigurationError(
                f'catalog "{self._name}" of type spark needs Spark: {error.message}',
                detail="It shows the tables of the Spark session that jobs run in.",
                hint="Have jobs run on Spark: millstream sql --target 'local[*]', or the option execution.target.",
            ) from error

    def databases(self) -> Sequence[str]:
        """Return the names of the databases."""
        return sorted(each.name for each in self._session().catalog.listDatabases())

    def database(self, name: str) -> CatalogDatabase:
        """Return a database that is there."""
        return CatalogDatabase(self._session().catalog.getDatabase(name).description or "")

    def entries(self, database: str) -> Mapping[str, Entry]:
        """Return tables and views of a database by name; a table's columns are asked for when it is used."""
        return _Tables(self._name, database, self._session())

    def functions(self, database: str) -> Mapping[str, CatalogFunction]:
        """Return no functions: those of Spark run in Spark."""
        return {}

    def put_database(self, name: str, database: CatalogDatabase) -> None:
        """Refuse to add a database."""
        self._refuse("CREATE DATABASE")

    def remove_database(self, name: str) -> None:
        """Refuse to remove a database."""
        self._refuse("DROP DATABASE")

    def put(self, database: str, name: str, entry: Entry) -> None:
        """Refuse to add a table."""
        self._refuse("A change of a table")

    def remove(self, database: str, name: str) -> None:
        """Refuse to remove a table."""
        self._refuse("DROP")

    def put_function(self, database: str, name: str, function: CatalogFunction) -> None:
        """Refuse to add a function."""
        self._refuse("CREATE FUNCTION")

    def remove_function(self, database: str, name: str) -> None:
        """Refuse to remove a function."""
        self._refuse("DROP FUNCTION")

    def _refuse(self, what: str) -> NoReturn:
        raise NotSupportedError(
            f'{what} is not possible in the catalog "{self._name}": it is Spark\'s, and is read only',
            hint="Use Spark (spark.sql(...)), or a temporary table or view, or another catalog.",
        )


class _Tables(Mapping[str, Entry]):
    """Tables and views of a database; what columns they have is asked for one by one.

    Args:
        catalog: The catalog's name.
        database: The database.
        session: Spark's session.
    """

    def __init__(self, catalog: str, database: str, session: Any) -> None:
        self._catalog = catalog
        self._database = database
        self._session = session
        self._found = {each.name: each for each in session.catalog.listTables(database)}

    def __len__(self) -> int:
        return len(self._found)

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __contains__(self, name: object) -> bool:
        return name in self._found

    def __getitem__(self, name: str) -> ResolvedTable:
        found = self._found[name]
        quoted = "`" + name.replace("`", "``") + "`"
        path = quoted if found.isTemporary else f"`{self._database.replace('`', '``')}`.{quoted}"
        columns = []
        for field in self._session.table(path).schema.jsonValue()["fields"]:
            kind = data_type_of_json(field["type"], field["name"], nullable=field["nullable"])
            comment = str(field.get("metadata", {}).get("comment", ""))
            columns.append(TableColumn(field["name"], type=kind, comment=comment))
        return build_table(
            (self._catalog, self._database, name),
            columns,
            options={"connector": "spark", "table": path},
            comment=found.description or "",
        )


_PLAIN: dict[str, Any] = {
    "binary": lambda nullable: sql.VarBinaryType(nullable=nullable),
    "boolean": lambda nullable: sql.BooleanType(nullable),
    "byte": lambda nullable: sql.TinyIntType(nullable),
    "date": lambda nullable: sql.DateType(nullable),
    "double": lambda nullable: sql.DoubleType(nullable),
    "float": lambda nullable: sql.FloatType(nullable),
    "integer": lambda nullable: sql.IntType(nullable),
    "long": lambda nullable: sql.BigIntType(nullable),
    "short": lambda nullable: sql.SmallIntType(nullable),
    "string": lambda nullable: sql.VarCharType(nullable=nullable),
    "timestamp": lambda nullable: sql.LocalZonedTimestampType(6, nullable=nullable),
    "timestamp_ntz": lambda nullable: sql.TimestampType(6, nullable=nullable),
}
_DECIMAL = re.compile(r"decimal\((\d+), *(\d+)\)")
_TEXT = re.compile(r"(?:char|varchar)\(\d+\)|string collate .*")


def data_type_of_json(kind: Any, column: str, *, nullable: bool = True) -> sql.DataType:
    """Return the type of a column by what Spark's schema says of it as JSON.

    Args:
        kind: A name, or a dict of an array, map or struct.
        column: The column, for messages.
        nullable: Whether values may be NULL.

    Raises:
        NotSupportedError: If no type of SQL stands for it.
    """
    if isinstance(kind, str):
        if kind in _PLAIN:
            made: sql.DataType = _PLAIN[kind](nullable)
            return made
        decimal = _DECIMAL.fullmatch(kind)
        if decimal is not None:
            return sql.DecimalType(int(decimal[1]), int(decimal[2]), nullable)
        if _TEXT.fullmatch(kind):
            return sql.VarCharType(nullable=nullable)
    elif kind.get("type") == "array":
        inner = data_type_of_json(kind["elementType"], column, nullable=kind["containsNull"])
        return sql.ArrayType(inner, nullable)
    elif kind.get("type") == "map":
        value = data_type_of_json(kind["valueType"], column, nullable=kind["valueContainsNull"])
        return sql.MapType(data_type_of_json(kind["keyType"], column, nullable=False), value, nullable)
    elif kind.get("type") == "struct":
        fields = [
            sql.RowField(each["name"], data_type_of_json(each["type"], column, nullable=each["nullable"]))
            for each in kind["fields"]
        ]
        return sql.RowType(fields, nullable)
    raise NotSupportedError(
        f'column "{column}" of a table of Spark has the type {kind}, which no type of SQL stands for',
        hint="Make a view in Spark that casts the column or leaves it out.",
    )
