"""Catalogs: where tables, views and functions are kept by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from millstream.base.errors import NotSupportedError
from millstream.table.catalog.resolved import Identifier, ResolvedTable
from millstream.table.catalog.statistics import CatalogColumnStatistics, CatalogTableStatistics
from millstream.table.errors import ValidationError, did_you_mean

__all__ = [
    "Catalog",
    "CatalogDatabase",
    "CatalogFunction",
    "CatalogView",
    "Entry",
    "InMemoryCatalog",
    "Statistics",
]


@dataclass(frozen=True)
class CatalogView:
    """A view.

    Attributes:
        identifier: Its full name.
        text: Its query as it was written; empty if it came from the Table API.
        query: The query's tree with full names of tables, or a bound logical node.
        columns: New names of its columns; empty keeps them.
        comment: What it is for.
        temporary: Whether only the session knows it.
        options: Of views of PyFlink's catalog API; SQL's have none.
    """

    identifier: Identifier
    text: str
    query: Any
    columns: tuple[str, ...] = ()
    comment: str = ""
    temporary: bool = False
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def full_name(self) -> str:
        """Its full name, with dots."""
        return ".".join(self.identifier)


Entry = ResolvedTable | CatalogView


@dataclass(frozen=True)
class CatalogDatabase:
    """A database: a comment and properties.

    Example:
        >>> from millstream.table.catalog import CatalogDatabase
        >>> database = CatalogDatabase.create_instance({"owner": "Ann"}, "orders and payments")
        >>> database.get_properties(), database.get_comment()
        ({'owner': 'Ann'}, 'orders and payments')
    """

    comment: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def create_instance(properties: Mapping[str, str], comment: str | None = None) -> CatalogDatabase:
        """Make a database of its properties."""
        return CatalogDatabase(comment or "", dict(properties))

    def get_properties(self) -> dict[str, str]:
        """Return the properties."""
        return dict(self.properties)

    def get_comment(self) -> str:
        """Return what it is for."""
        return self.comment

    def get_description(self) -> str | None:
        """Return the comment; None without."""
        return self.comment or None

    def get_detailed_description(self) -> str | None:
        """Return the comment; None without."""
        return self.comment or None

    def copy(self) -> CatalogDatabase:
        """Return the same once more."""
        return replace(self, properties=dict(self.properties))


@dataclass(frozen=True)
class CatalogFunction:
    """A user's function.

    Attributes:
        identifier: Its full name; of system functions only the name.
        class_name: `module.attribute` of Python.
        language: PYTHON (JAVA and SCALA are refused before).
        definition: The function itself, if it is known already.
        temporary: Whether only the session knows it.

    Example:
        >>> from millstream.table.catalog import CatalogFunction
        >>> function = CatalogFunction.create_instance("shop.functions.discount")
        >>> function.get_class_name(), function.get_function_language()
        ('shop.functions.discount', 'PYTHON')
        >>> # catalog.create_function(ObjectPath("shop", "discount"), function, False)
    """

    identifier: tuple[str, ...]
    class_name: str
    language: str = "PYTHON"
    definition: Any = None
    temporary: bool = False

    @staticmethod
    def create_instance(class_name: str, function_language: str = "Python") -> CatalogFunction:
        """Make a function that has no name yet: `Catalog.create_function` gives it one.

        Args:
            class_name: `module.attribute` of Python.
            function_language: Python.

        Raises:
            NotSupportedError: If it is another language.
        """
        if function_language.upper() != "PYTHON":
            raise NotSupportedError(
                f'function "{class_name}" is of the language {function_language}', hint="Write it in Python."
            )
        return CatalogFunction((), class_name)

    def get_class_name(self) -> str:
        """Return `module.attribute` of Python."""
        return self.class_name

    def get_function_language(self) -> str:
        """Return the language: PYTHON."""
        return self.language

    def get_options(self) -> dict[str, str]:
        """Return no options: functions of Python have none."""
        return {}

    def get_description(self) -> str | None:
        """Return that it is a user's, in Flink's words."""
        return "This is a user-defined function"

    def get_detailed_description(self) -> str | None:
        """Return that it is a user's, in Flink's words."""
        return self.get_description()

    def copy(self) -> CatalogFunction:
        """Return the same once more."""
        return replace(self)


Statistics = tuple[CatalogTableStatistics, CatalogColumnStatistics]
"""What ANALYZE TABLE counted of a table or partition."""


class Catalog(ABC):
    """Keeps what is declared, by database and name.

    Attributes:
        options: What it was made with, `type` among them.
        comment: What it is for.
        default_database: The database it is used with first.
        statistics: What ANALYZE TABLE counted in this session: by database, table, and partition (`key=value/...`, ""
            for the table).
    """

    def __init__(
        self, default_database: str = "default", options: Mapping[str, str] | None = None, comment: str = ""
    ) -> None:
        self.default_database = default_database
        self.options = dict(options or {})
        self.comment = comment
        self.statistics: dict[tuple[str, str, str], Statistics] = {}

    @abstractmethod
    def databases(self) -> Sequence[str]:
        """Return the names of the databases."""

    @abstractmethod
    def database(self, name: str) -> CatalogDatabase:
        """Return a database that is there."""

    @abstractmethod
    def put_database(self, name: str, database: CatalogDatabase) -> None:
        """Add or replace a database."""

    @abstractmethod
    def remove_database(self, name: str) -> None:
        """Remove a database with all in it."""

    @abstractmethod
    def entries(self, database: str) -> Mapping[str, Entry]:
        """Return tables and views of a database by name."""

    @abstractmethod
    def put(self, database: str, name: str, entry: Entry) -> None:
        """Add or replace a table or view."""

    @abstractmethod
    def remove(self, database: str, name: str) -> None:
        """Remove a table or view."""

    @abstractmethod
    def functions(self, database: str) -> Mapping[str, CatalogFunction]:
        """Return the functions of a database by name."""

    @abstractmethod
    def put_function(self, database: str, name: str, function: CatalogFunction) -> None:
        """Add or replace a function."""

    @abstractmethod
    def remove_function(self, database: str, name: str) -> None:
        """Remove a function."""

    def procedures(self, database: str) -> Mapping[str, Callable[..., Any]]:
        """Return the procedures of a database by name, for CALL; none by default.

        A procedure is called with the values of the arguments, named ones by their names, and gives a list of values
        or of rows (dicts).
        """
        return {}

    def close(self) -> None:
        """Be left: the catalog was dropped or the session ends."""

    def check_database(self, catalog: str, name: str) -> None:
        """Refuse a database that is not there.

        Raises:
            ValidationError: If it is not.
        """
        if name not in self.databases():
            raise ValidationError(
                f'database "{name}" was not found in catalog "{catalog}"',
                detail=f"It has: {', '.join(self.databases())}.",
                hint=did_you_mean(name, self.databases()),
            )


@dataclass
class _Database:
    database: CatalogDatabase
    entries: dict[str, Entry] = field(default_factory=dict)
    functions: dict[str, CatalogFunction] = field(default_factory=dict)


class InMemoryCatalog(Catalog):
    """Lives as long as the session."""

    def __init__(
        self, default_database: str = "default", options: Mapping[str, str] | None = None, comment: str = ""
    ) -> None:
        super().__init__(default_database, options, comment)
        self._databases = {default_database: _Database(CatalogDatabase())}

    def databases(self) -> Sequence[str]:
        """Return the names of the databases."""
        return list(self._databases)

    def database(self, name: str) -> CatalogDatabase:
        """Return a database that is there."""
        return self._databases[name].database

    def put_database(self, name: str, database: CatalogDatabase) -> None:
        """Add or replace a database."""
        kept = self._databases.setdefault(name, _Database(database))
        kept.database = database

    def remove_database(self, name: str) -> None:
        """Remove a database with all in it."""
        del self._databases[name]

    def entries(self, database: str) -> Mapping[str, Entry]:
        """Return tables and views of a database by name."""
        return self._databases[database].entries

    def put(self, database: str, name: str, entry: Entry) -> None:
        """Add or replace a table or view."""
        self._databases[database].entries[name] = entry

    def remove(self, database: str, name: str) -> None:
        """Remove a table or view."""
        del self._databases[database].entries[name]

    def functions(self, database: str) -> Mapping[str, CatalogFunction]:
        """Return the functions of a database by name."""
        return self._databases[database].functions

    def put_function(self, database: str, name: str, function: CatalogFunction) -> None:
        """Add or replace a function."""
        self._databases[database].functions[name] = function

    def remove_function(self, database: str, name: str) -> None:
        """Remove a function."""
        del self._databases[database].functions[name]
