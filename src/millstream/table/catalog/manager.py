"""All catalogs of a session, what is current, and what is temporary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from millstream.table.catalog.catalog import (
    Catalog,
    CatalogDatabase,
    CatalogFunction,
    CatalogView,
    Entry,
    InMemoryCatalog,
)
from millstream.table.catalog.resolved import Identifier, ResolvedTable
from millstream.table.errors import ValidationError, did_you_mean

__all__ = ["CatalogManager"]


class CatalogManager:
    """Finds and keeps tables, views and functions by names of one to three parts.

    Args:
        catalog: Name of the catalog that is there from the start.
        database: Name of its database.

    Attributes:
        current_catalog: What names without a catalog are in.
        current_database: What names without a database are in.
    """

    def __init__(self, catalog: str = "default_catalog", database: str = "default_database") -> None:
        self.built_in_catalog = catalog
        self._catalogs: dict[str, Catalog] = {
            catalog: InMemoryCatalog(database, {"type": "generic_in_memory"})
        }
        self.current_catalog: str = catalog
        self.current_database: str = database
        self._temporary: dict[Identifier, Entry] = {}
        self._system_functions: dict[str, CatalogFunction] = {}
        self._temporary_functions: dict[Identifier, CatalogFunction] = {}

    # --- catalogs and databases

    def catalogs(self) -> list[str]:
        """Return the names of all catalogs, sorted."""
        return sorted(self._catalogs)

    def catalog(self, name: str) -> Catalog:
        """Return a catalog.

        Raises:
            ValidationError: If it is not there.
        """
        found = self._catalogs.get(name)
        if found is None:
            raise ValidationError(
                f'catalog "{name}" was not found',
                detail=f"There are: {', '.join(self.catalogs())}.",
                hint=did_you_mean(name, self._catalogs),
            )
        return found

    def register_catalog(self, name: str, catalog: Catalog, *, if_not_exists: bool = False) -> None:
        """Add a catalog.

        Raises:
            ValidationError: If there is one of that name.
        """
        if name in self._catalogs:
            if if_not_exists:
                return
            raise ValidationError(f'catalog "{name}" exists already', hint="Drop it, or write IF NOT EXISTS.")
        self._catalogs[name] = catalog

    def drop_catalog(self, name: str, *, if_exists: bool = False) -> None:
        """Remove a catalog.

        Raises:
            ValidationError: If it is not there, or is the current one.
        """
        if name not in self._catalogs and if_exists:
            return
        found = self.catalog(name)
        if name == self.current_catalog:
            raise ValidationError(
                f'catalog "{name}" is in use', hint="Change to another one first: USE CATALOG other."
            )
        found.close()
        del self._catalogs[name]

    def use_catalog(self, name: str) -> None:
        """Make a catalog, and its default database, the current one."""
        self.current_database = self.catalog(name).default_database
        self.current_catalog = name

    def use_database(self, parts: Sequence[str]) -> None:
        """Make a database, perhaps with its catalog before it, the current one."""
        catalog, database = self.qualify_database(parts)
        self.catalog(catalog).check_database(catalog, database)
        self.current_catalog, self.current_database = catalog, database

    def qualify_database(self, parts: Sequence[str]) -> tuple[str, str]:
        """Return catalog and database of a name.

        Raises:
            ValidationError: If it has more than two parts.
        """
        if len(parts) > 2:
            raise ValidationError(f'the name "{".".join(parts)}" of a database has {len(parts)} parts')
        return (parts[0], parts[1]) if len(parts) == 2 else (self.current_catalog, parts[0])

    def create_database(
        self, parts: Sequence[str], database: CatalogDatabase, *, if_not_exists: bool = False
    ) -> None:
        """Add a database.

        Raises:
            ValidationError: If there is one of that name.
        """
        catalog, name = self.qualify_database(parts)
        found = self.catalog(catalog)
        if name in found.databases():
            if if_not_exists:
                return
            raise ValidationError(f'database "{name}" exists already in catalog "{catalog}"')
        found.put_database(name, database)

    def alter_database(self, parts: Sequence[str], properties: dict[str, str]) -> None:
        """Set properties of a database."""
        catalog, name = self.qualify_database(parts)
        found = self.catalog(catalog)
        found.check_database(catalog, name)
        kept = found.database(name)
        found.put_database(name, replace(kept, properties={**kept.properties, **properties}))

    def drop_database(self, parts: Sequence[str], *, if_exists: bool = False, cascade: bool = False) -> None:
        """Remove a database.

        Raises:
            ValidationError: If it is not there, is the current one, or has tables and `cascade` is not set.
        """
        catalog, name = self.qualify_database(parts)
        found = self.catalog(catalog)
        if name not in found.databases() and if_exists:
            return
        found.check_database(catalog, name)
        if (catalog, name) == (self.current_catalog, self.current_database):
            raise ValidationError(
                f'database "{name}" is in use', hint="Change to another one first: USE other."
            )
        if (found.entries(name) or found.functions(name)) and not cascade:
            raise ValidationError(f'database "{name}" is not empty', hint="Write DROP DATABASE ... CASCADE.")
        found.remove_database(name)

    # --- tables and views

    def qualify(self, parts: Sequence[str]) -> Identifier:
        """Return the full name of a table, view or function.

        Raises:
            ValidationError: If it has no part or more than three.
        """
        if not 1 <= len(parts) <= 3:
            raise ValidationError(
                f'the name "{".".join(parts)}" has {len(parts)} parts',
                detail="It is catalog.database.name at most.",
            )
        whole = (self.current_catalog, self.current_database)[: 3 - len(parts)] + tuple(parts)
        return whole[0], whole[1], whole[2]

    def find(self, parts: Sequence[str]) -> Entry | None:
        """Return a table or view; temporary ones come first. None if there is none."""
        if not 1 <= len(parts) <= 3:
            return None
        identifier = self.qualify(parts)
        temporary = self._temporary.get(identifier)
        if temporary is not None:
            return temporary
        catalog = self._catalogs.get(identifier[0])
        if catalog is None or identifier[1] not in catalog.databases():
            return None
        found = catalog.entries(identifier[1]).get(identifier[2])
        if found is None or found.identifier == identifier:
            return found
        return replace(
            found, identifier=identifier
        )  # the catalog has another name in the session it came from

    def table(self, parts: Sequence[str]) -> Entry:
        """Return a table or view.

        Raises:
            ValidationError: If there is none.
        """
        found = self.find(parts)
        if found is None:
            identifier = self.qualify(parts)
            self.catalog(identifier[0]).check_database(identifier[0], identifier[1])
            names = self.names(identifier[0], identifier[1])
            raise ValidationError(
                f'table "{".".join(parts)}" was not found',
                detail=f"{identifier[0]}.{identifier[1]} has: {', '.join(names) or 'no tables'}.",
                hint=did_you_mean(parts[-1], names),
            )
        return found

    def names(self, catalog: str | None = None, database: str | None = None) -> list[str]:
        """Return names of tables and views of a database, the current one by default, temporary ones too, sorted."""
        return sorted(self._entries(catalog, database))

    def views(self, catalog: str | None = None, database: str | None = None) -> list[str]:
        """Return names of views, as `names`."""
        entries = self._entries(catalog, database)
        return sorted(name for name, entry in entries.items() if isinstance(entry, CatalogView))

    def temporary_names(self) -> list[str]:
        """Return names of temporary tables and views of the current database, sorted."""
        current = (self.current_catalog, self.current_database)
        return sorted(identifier[2] for identifier in self._temporary if identifier[:2] == current)

    def _entries(self, catalog: str | None, database: str | None) -> dict[str, Entry]:
        catalog = catalog or self.current_catalog
        database = database or self.current_database
        found = dict(self.catalog(catalog).entries(database))
        for identifier, entry in self._temporary.items():
            if identifier[:2] == (catalog, database):
                found[identifier[2]] = entry
        return found

    def create(self, entry: Entry, *, if_not_exists: bool = False, replaced: bool = False) -> bool:
        """Add a table or view.

        Returns:
            Whether it was added; not if there is one already and `if_not_exists`.

        Raises:
            ValidationError: If there is one of that name, or no such database.
        """
        catalog, database, name = entry.identifier
        keeper = self.catalog(catalog)
        keeper.check_database(catalog, database)
        kind = "view" if isinstance(entry, CatalogView) else "table"
        there = entry.identifier in self._temporary if entry.temporary else name in keeper.entries(database)
        if there and if_not_exists:
            return False
        if there and not replaced:
            temporary = "temporary " if entry.temporary else ""
            raise ValidationError(
                f'{temporary}{kind} "{entry.full_name}" exists already',
                hint=f"Drop it, or write CREATE {kind.upper()} IF NOT EXISTS.",
            )
        if entry.temporary:
            self._temporary[entry.identifier] = entry
        else:
            keeper.put(database, name, entry)
        return True

    def alter(self, entry: Entry) -> None:
        """Replace a table or view that is there by a changed one of the same name."""
        if entry.temporary:
            self._temporary[entry.identifier] = entry
        else:
            self.catalog(entry.identifier[0]).put(entry.identifier[1], entry.identifier[2], entry)

    def rename(self, entry: Entry, name: str) -> None:
        """Give a table or view another name in the same database.

        Raises:
            ValidationError: If there is one of that name.
        """
        catalog, database, old = entry.identifier
        renamed = replace(entry, identifier=(catalog, database, name))
        self.create(renamed)
        if entry.temporary:
            del self._temporary[entry.identifier]
        else:
            self.catalog(catalog).remove(database, old)

    def drop(
        self, parts: Sequence[str], *, view: bool, temporary: bool | None = None, if_exists: bool = False
    ) -> bool:
        """Remove a table or view.

        Args:
            parts: Its name.
            view: Whether it is a view.
            temporary: Whether it is a temporary one; None for whichever is there.
            if_exists: Whether it may be missing.

        Returns:
            Whether it was there.

        Raises:
            ValidationError: If it is not there, or a temporary one hides it.
        """
        identifier = self.qualify(parts)
        kind = "view" if view else "table"
        hidden = self._temporary.get(identifier)
        hides = hidden is not None and isinstance(hidden, CatalogView) == view
        if hides and temporary is False:
            raise ValidationError(
                f'temporary {kind} "{".".join(identifier)}" hides the one that is to be dropped',
                hint=f"Drop it first: DROP TEMPORARY {kind.upper()} {'.'.join(parts)}.",
            )
        if hides:
            del self._temporary[identifier]
            return True
        entry = None if temporary else self.find(parts)
        if entry is None or isinstance(entry, CatalogView) != view:
            if if_exists:
                return False
            names = self.views() if view else [name for name in self.names() if name not in self.views()]
            raise ValidationError(
                f'{"temporary " if temporary else ""}{kind} "{".".join(identifier)}" was not found',
                hint=did_you_mean(parts[-1], names),
            )
        self.catalog(identifier[0]).remove(identifier[1], identifier[2])
        return True

    # --- functions

    def create_function(
        self,
        function: CatalogFunction,
        *,
        system: bool = False,
        if_not_exists: bool = False,
        replaced: bool = False,
    ) -> None:
        """Add a user's function.

        Raises:
            ValidationError: If there is one of that name.
        """
        name = function.identifier[-1]
        if system:
            there = name.lower() in self._system_functions
        elif function.temporary:
            there = self._key(function.identifier) in self._temporary_functions
        else:
            catalog, database, _ = self.qualify(function.identifier)
            self.catalog(catalog).check_database(catalog, database)
            there = name.lower() in self.catalog(catalog).functions(database)
        if there and if_not_exists:
            return
        if there and not replaced:
            raise ValidationError(
                f'function "{".".join(function.identifier)}" exists already',
                hint="Drop it, or write IF NOT EXISTS.",
            )
        if system:
            self._system_functions[name.lower()] = function
        elif function.temporary:
            self._temporary_functions[self._key(function.identifier)] = function
        else:
            self.catalog(catalog).put_function(database, name.lower(), function)

    def drop_function(
        self, parts: Sequence[str], *, system: bool = False, temporary: bool = False, if_exists: bool = False
    ) -> bool:
        """Remove a user's function; returns whether it was there.

        Raises:
            ValidationError: If it is not there and `if_exists` is not set.
        """
        key = self._key(parts)
        if system:
            found = self._system_functions.pop(parts[-1].lower(), None)
        elif temporary:
            found = self._temporary_functions.pop(key, None)
        else:
            keeper = self.catalog(key[0])
            found = keeper.functions(key[1]).get(key[2])
            if found is not None:
                keeper.remove_function(key[1], key[2])
        if found is None and not if_exists:
            raise ValidationError(
                f'function "{".".join(parts)}" was not found',
                hint=did_you_mean(parts[-1], self.user_functions()),
            )
        return found is not None

    def find_function(self, parts: Sequence[str]) -> CatalogFunction | None:
        """Return a user's function; None if there is none."""
        if len(parts) == 1 and parts[0].lower() in self._system_functions:
            return self._system_functions[parts[0].lower()]
        if not 1 <= len(parts) <= 3:
            return None
        key = self._key(parts)
        found = self._temporary_functions.get(key)
        if found is not None:
            return found
        catalog = self._catalogs.get(key[0])
        if catalog is None or key[1] not in catalog.databases():
            return None
        return catalog.functions(key[1]).get(key[2])

    def user_functions(self) -> list[str]:
        """Return the names of users' functions that can be called without a database."""
        current = (self.current_catalog, self.current_database)
        found = {name for *where, name in self._temporary_functions if tuple(where) == current}
        found.update(self._system_functions)
        found.update(self.catalog(self.current_catalog).functions(self.current_database))
        return sorted(found)

    def _key(self, parts: Sequence[str]) -> Identifier:
        catalog, database, name = self.qualify(parts)
        return catalog, database, name.lower()

    # --- what the planner asks

    def find_relation(self, parts: Sequence[str]) -> Any | None:
        """Return a table, the definition of a view, or a bound node of the Table API; None if there is none."""
        from millstream.table.plan.context import ViewDefinition  # the planner imports this room's tables

        entry = self.find(parts)
        if entry is None or isinstance(entry, ResolvedTable):
            return entry
        return ViewDefinition(entry.query, entry.columns, entry.full_name, entry.text)

    def relation_names(self) -> Sequence[str]:
        """Return names of tables and views that can be seen."""
        return self.names()

    def find_user_function(self, name: str) -> Any | None:
        """Return the definition of a user's function by its name as it was written; None if there is none."""
        function = self.find_function(tuple(name.split(".")))
        if function is None:
            return None
        return function.definition if function.definition is not None else self._load(function)

    def _load(self, function: CatalogFunction) -> Any:
        from millstream.table.catalog.python_functions import load_function  # only if there is one

        return load_function(function)
