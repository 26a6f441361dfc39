"""A session's catalog as programs see it (PyFlink's `Catalog`).

What is done here is seen by SQL at once, and what SQL does is seen here: both work on the session's `CatalogManager`.
Temporary tables, views and functions are the session's and are in no catalog.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from millstream.base.errors import NotSupportedError, TypeMismatchError
from millstream.table.catalog.base_table import CatalogBaseTable
from millstream.table.catalog.catalog import Catalog as Keeper
from millstream.table.catalog.catalog import CatalogDatabase, CatalogFunction, CatalogView, Entry
from millstream.table.catalog.contents import PartitionsAndModels
from millstream.table.catalog.manager import CatalogManager
from millstream.table.catalog.object_identifier import ObjectPath
from millstream.table.errors import ValidationError, did_you_mean
from millstream.table.schema import Schema

__all__ = ["Catalog", "HiveCatalog", "JdbcCatalog"]


class Catalog(PartitionsAndModels):
    """Databases, tables, views and functions of one catalog; `TableEnvironment.get_catalog` gives it.

    Args:
        manager: The session's catalogs.
        name: Which of them.
        view_schema: Gives the columns of a view.

    Example:
        >>> from millstream.table import EnvironmentSettings, TableEnvironment
        >>> from millstream.table.catalog import CatalogDatabase
        >>> t_env = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
        >>> catalog = t_env.get_catalog("default_catalog")
        >>> catalog.create_database("shop", CatalogDatabase.create_instance({}, "orders and payments"), False)
        >>> catalog.list_databases(), catalog.get_database("shop").get_comment()
        (['default_database', 'shop'], 'orders and payments')
    """

    def __init__(
        self, manager: CatalogManager, name: str, view_schema: Callable[[CatalogView], Schema]
    ) -> None:
        self._manager = manager
        self._name = name
        self._view_schema = view_schema

    @property
    def keeper(self) -> Keeper:
        """What keeps the contents (millstream's own).

        Raises:
            ValidationError: If the catalog was dropped.
        """
        return self._manager.catalog(self._name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Catalog) and self.keeper is other.keeper

    def __hash__(self) -> int:
        return hash(self._name)

    def __repr__(self) -> str:
        return f'{type(self).__name__}("{self._name}", databases: {", ".join(self.list_databases())})'

    # --- databases

    def get_default_database(self) -> str:
        """Return the name of the database that the catalog is used with first."""
        return self.keeper.default_database

    def list_databases(self) -> list[str]:
        """Return the names of the databases."""
        return list(self.keeper.databases())

    def get_database(self, database_name: str) -> CatalogDatabase:
        """Return a database.

        Raises:
            ValidationError: If it is not there.
        """
        return self._checked(database_name).database(database_name)

    def database_exists(self, database_name: str) -> bool:
        """Return whether a database is there."""
        return database_name in self.keeper.databases()

    def create_database(self, name: str, database: CatalogDatabase, ignore_if_exists: bool) -> None:
        """Add a database.

        Raises:
            ValidationError: If there is one of that name, unless `ignore_if_exists`.
            TypeMismatchError: If it is none.
        """
        _check("database", name, database, CatalogDatabase)
        self._manager.create_database((self._name, name), database, if_not_exists=ignore_if_exists)

    def drop_database(self, name: str, ignore_if_exists: bool) -> None:
        """Remove a database that is empty.

        Args:
            name: Its name.
            ignore_if_exists: Whether it may be missing (PyFlink's name of the parameter).

        Raises:
            ValidationError: If it is not there, is not empty, or is in use.
        """
        self._manager.drop_database((self._name, name), if_exists=ignore_if_exists)

    def alter_database(self, name: str, new_database: CatalogDatabase, ignore_if_not_exists: bool) -> None:
        """Replace comment and properties of a database.

        Raises:
            ValidationError: If it is not there, unless `ignore_if_not_exists`.
            TypeMismatchError: If the new one is none.
        """
        _check("database", name, new_database, CatalogDatabase)
        if not self.database_exists(name) and ignore_if_not_exists:
            return
        self._checked(name).put_database(name, new_database)

    def _checked(self, database: str) -> Keeper:
        keeper = self.keeper
        keeper.check_database(self._name, database)
        return keeper

    # --- tables and views

    def list_tables(self, database_name: str) -> list[str]:
        """Return the names of tables and views of a database.

        Raises:
            ValidationError: If the database is not there.
        """
        return list(self._checked(database_name).entries(database_name))

    def list_views(self, database_name: str) -> list[str]:
        """Return the names of views of a database.

        Raises:
            ValidationError: If the database is not there.
        """
        entries = self._checked(database_name).entries(database_name)
        return [name for name, entry in entries.items() if isinstance(entry, CatalogView)]

    def list_materialized_tables(self, database_name: str) -> list[str]:
        """Return no names: there are no materialized tables.

        Raises:
            ValidationError: If the database is not there.
        """
        self._checked(database_name)
        return []

    def get_table(self, table_path: ObjectPath) -> CatalogBaseTable:
        """Return a table or view.

        Raises:
            ValidationError: If it is not there.
        """
        entry = self._entry(table_path)
        schema = self._view_schema(entry) if isinstance(entry, CatalogView) else Schema()
        return CatalogBaseTable.of_entry(entry, schema)

    def table_exists(self, table_path: ObjectPath) -> bool:
        """Return whether a table or view is there."""
        return self._find(table_path) is not None

    def drop_table(self, table_path: ObjectPath, ignore_if_not_exists: bool) -> None:
        """Remove a table or view.

        Raises:
            ValidationError: If it is not there, unless `ignore_if_not_exists`.
        """
        if self._find(table_path) is None and ignore_if_not_exists:
            return
        self._entry(table_path)
        self.keeper.remove(table_path.database_name, table_path.object_name)

    def rename_table(self, table_path: ObjectPath, new_table_name: str, ignore_if_not_exists: bool) -> None:
        """Give a table or view another name in its database.

        Raises:
            ValidationError: If it is not there, unless `ignore_if_not_exists`, or there is one of the new name.
        """
        if self._find(table_path) is None and ignore_if_not_exists:
            return
        self._manager.rename(self._entry(table_path), new_table_name)

    def create_table(self, table_path: ObjectPath, table: CatalogBaseTable, ignore_if_exists: bool) -> None:
        """Add a table or view.

        Raises:
            ValidationError: If there is one of that name, unless `ignore_if_exists`, no such database, or the parts
                of the table do not fit each other.
            TypeMismatchError: If it is none.
        """
        _check("table", table_path.get_full_name(), table, CatalogBaseTable)
        self._manager.create(table.entry_at(self._identifier(table_path)), if_not_exists=ignore_if_exists)

    def alter_table(
        self, table_path: ObjectPath, new_table: CatalogBaseTable, ignore_if_not_exists: bool
    ) -> None:
        """Replace a table by a table, or a view by a view.

        Raises:
            ValidationError: If it is not there, unless `ignore_if_not_exists`, or is of the other kind.
            TypeMismatchError: If the new one is none.
        """
        _check("table", table_path.get_full_name(), new_table, CatalogBaseTable)
        if self._find(table_path) is None and ignore_if_not_exists:
            return
        is_view = isinstance(self._entry(table_path), CatalogView)
        if is_view != new_table.is_view:
            kinds = ("view", "table") if is_view else ("table", "view")
            raise ValidationError(
                f'"{table_path}" is a {kinds[0]} and cannot be altered to a {kinds[1]}',
                hint=f"Drop it, and create the {kinds[1]}.",
            )
        self._manager.alter(new_table.entry_at(self._identifier(table_path)))

    def _identifier(self, path: ObjectPath) -> tuple[str, str, str]:
        return self._name, path.database_name, path.object_name

    def _find(self, path: ObjectPath) -> Entry | None:
        if not isinstance(path, ObjectPath):
            raise TypeMismatchError(
                f"a catalog was asked for {path!r}", hint="Write ObjectPath(database, name)."
            )
        keeper = self.keeper
        if path.database_name not in keeper.databases():
            return None
        return keeper.entries(path.database_name).get(path.object_name)

    def _entry(self, path: ObjectPath) -> Entry:
        found = self._find(path)
        if found is None:
            names = self.list_tables(path.database_name)
            raise ValidationError(
                f'table "{path}" was not found in catalog "{self._name}"',
                detail=f"The database has: {', '.join(names) or 'no tables'}.",
                hint=did_you_mean(path.object_name, names),
            )
        return found

    # --- functions

    def list_functions(self, database_name: str) -> list[str]:
        """Return the names of users' functions of a database, in small letters.

        Raises:
            ValidationError: If the database is not there.
        """
        return list(self._checked(database_name).functions(database_name))

    def get_function(self, function_path: ObjectPath) -> CatalogFunction:
        """Return a user's function.

        Raises:
            ValidationError: If it is not there.
        """
        functions = self._checked(function_path.database_name).functions(function_path.database_name)
        found = functions.get(function_path.object_name.lower())
        if found is None:
            raise ValidationError(
                f'function "{function_path}" was not found in catalog "{self._name}"',
                hint=did_you_mean(function_path.object_name, functions),
            )
        return found

    def function_exists(self, function_path: ObjectPath) -> bool:
        """Return whether a user's function is there."""
        database = function_path.database_name
        there = self.database_exists(database)
        return there and function_path.object_name.lower() in self.keeper.functions(database)

    def create_function(
        self, function_path: ObjectPath, function: CatalogFunction, ignore_if_exists: bool
    ) -> None:
        """Add a user's function.

        Raises:
            ValidationError: If there is one of that name, unless `ignore_if_exists`, or no such database.
            TypeMismatchError: If it is none.
        """
        self._manager.create_function(self._named(function_path, function), if_not_exists=ignore_if_exists)

    def alter_function(
        self, function_path: ObjectPath, new_function: CatalogFunction, ignore_if_not_exists: bool
    ) -> None:
        """Replace a user's function.

        Raises:
            ValidationError: If it is not there, unless `ignore_if_not_exists`.
            TypeMismatchError: If the new one is none.
        """
        named = self._named(function_path, new_function)
        if not self.function_exists(function_path) and ignore_if_not_exists:
            return
        self.get_function(function_path)
        self._manager.create_function(named, replaced=True)

    def drop_function(self, function_path: ObjectPath, ignore_if_not_exists: bool) -> None:
        """Remove a user's function.

        Raises:
            ValidationError: If it is not there, unless `ignore_if_not_exists`.
        """
        if not self.function_exists(function_path) and ignore_if_not_exists:
            return
        self.get_function(function_path)
        self.keeper.remove_function(function_path.database_name, function_path.object_name.lower())

    def _named(self, path: ObjectPath, function: CatalogFunction) -> CatalogFunction:
        _check("function", path.get_full_name(), function, CatalogFunction)
        return replace(function, identifier=self._identifier(path), temporary=False)


def _check(what: str, name: str, given: Any, wanted: type) -> None:
    if not isinstance(given, wanted):
        raise TypeMismatchError(
            f'{what} "{name}" was given a {type(given).__name__}, not a {wanted.__name__}'
        )


class HiveCatalog(Catalog):
    """Tables of a Hive metastore, which Flink reaches through Hive's Java classes.

    Raises:
        NotSupportedError: Always.

    Example:
        >>> from millstream.table.catalog import HiveCatalog
        >>> HiveCatalog("hive")
        Traceback (most recent call last):
        ...
        millstream.base.errors.NotSupportedError: ...
    """

    def __init__(
        self,
        catalog_name: str,
        default_database: str | None = None,
        hive_conf_dir: str | None = None,
        hadoop_conf_dir: str | None = None,
        hive_version: str | None = None,
    ) -> None:
        raise NotSupportedError(
            f'catalog "{catalog_name}" is of Hive: millstream runs no Java classes, and Hive\'s client is one',
            hint="Keep tables in a catalog of files: CREATE CATALOG c WITH ('type' = 'file', 'path' = '...').",
        )


class JdbcCatalog(Catalog):
    """Tables of a database as a catalog; tables of the connector jdbc are declared one by one here.

    Raises:
        NotSupportedError: Always.

    Example:
        >>> from millstream.table.catalog import JdbcCatalog
        >>> JdbcCatalog("shop", "public", "app", "secret", "jdbc:postgresql://localhost:5432")
        Traceback (most recent call last):
        ...
        millstream.base.errors.NotSupportedError: ...
    """

    def __init__(
        self, catalog_name: str, default_database: str, username: str, pwd: str, base_url: str
    ) -> None:
        raise NotSupportedError(
            f'catalog "{catalog_name}" of {base_url} would list the database\'s tables, which is not in '
            "millstream yet",
            hint="Declare each: CREATE TABLE t (...) WITH ('connector' = 'jdbc', 'url' = '...', 'table-name' = '...').",
        )
