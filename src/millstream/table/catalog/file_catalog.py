"""A catalog in a directory: each table, view and function is a file with the statement that makes it. ::

    path/
      default/                 a database
        database.json          its comment and properties
        orders.table.sql       CREATE TABLE ...
        recent.view.sql        CREATE VIEW ...
        score.function.json    class and language

Files are written whole, then renamed: a reader sees the old one or the new one. Other processes' changes are seen at
the next statement. Temporary objects are the session's and are not kept.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, unquote

from millstream.base.errors import ConfigurationError
from millstream.table.catalog.catalog import (
    Catalog,
    CatalogDatabase,
    CatalogFunction,
    CatalogView,
    Entry,
)
from millstream.table.catalog.definition import as_column, build_table, watermark_of
from millstream.table.catalog.resolved import ResolvedTable
from millstream.table.catalog.text import create_table_text, create_view_text
from millstream.table.errors import SqlError
from millstream.table.sql import statements_ast as st
from millstream.table.sql.parser import parse_statement

__all__ = ["FileCatalog"]

_TABLE, _VIEW, _FUNCTION, _DATABASE = ".table.sql", ".view.sql", ".function.json", "database.json"


class FileCatalog(Catalog):
    """Keeps what is declared in files.

    Args:
        name: The catalog's name in the session.
        path: Of its directory, which is made if it is not there.
        default_database: Made if it is not there.
        options: What it was made with.
        comment: What it is for.

    Raises:
        ConfigurationError: If the directory cannot be made.
    """

    def __init__(
        self,
        name: str,
        path: str,
        default_database: str = "default",
        options: Mapping[str, str] | None = None,
        comment: str = "",
    ) -> None:
        super().__init__(default_database, options, comment)
        self._name = name
        self._path = os.path.abspath(path)
        self._read: dict[str, tuple[tuple[int, int], Entry]] = {}
        try:
            os.makedirs(self._directory(default_database), exist_ok=True)
        except OSError as error:
            raise ConfigurationError(f"directory {path!r} of a catalog cannot be made: {error}") from error
        if not os.path.exists(self._file(default_database, _DATABASE)):
            self.put_database(default_database, CatalogDatabase())

    def databases(self) -> Sequence[str]:
        """Return the names of the databases."""
        return sorted(unquote(entry.name) for entry in os.scandir(self._path) if entry.is_dir())

    def database(self, name: str) -> CatalogDatabase:
        """Return a database that is there."""
        try:
            with open(self._file(name, _DATABASE), encoding="utf-8") as file:
                kept = json.load(file)
        except FileNotFoundError:
            return CatalogDatabase()
        return CatalogDatabase(kept.get("comment", ""), kept.get("properties", {}))

    def put_database(self, name: str, database: CatalogDatabase) -> None:
        """Add or replace a database."""
        os.makedirs(self._directory(name), exist_ok=True)
        text = json.dumps({"comment": database.comment, "properties": dict(database.properties)}, indent=2)
        self._write(self._file(name, _DATABASE), text)

    def remove_database(self, name: str) -> None:
        """Remove a database with all in it."""
        directory = self._directory(name)
        for entry in list(os.scandir(directory)):
            os.unlink(entry.path)
        os.rmdir(directory)

    def entries(self, database: str) -> Mapping[str, Entry]:
        """Return tables and views of a database by name."""
        found: dict[str, Entry] = {}
        for file in sorted(os.scandir(self._directory(database)), key=lambda each: each.name):
            for suffix in (_TABLE, _VIEW):
                if file.name.endswith(suffix):
                    name = unquote(file.name.removesuffix(suffix))
                    found[name] = self._loaded(database, name, file)
        return found

    def put(self, database: str, name: str, entry: Entry) -> None:
        """Add or replace a table or view."""
        if isinstance(entry, CatalogView):
            if not entry.text:
                raise ConfigurationError(
                    f'view "{name}" of the Table API has no text, so a catalog of files cannot keep it',
                    hint="Make it a temporary view, or write it in SQL.",
                )
            if entry.options:
                raise ConfigurationError(
                    f'view "{name}" has the properties {", ".join(entry.options)}, which its file cannot keep',
                    hint="Make it without properties.",
                )
            self._write(self._file(database, quote(name, "") + _VIEW), create_view_text(entry))
            return
        self._write(self._file(database, quote(name, "") + _TABLE), create_table_text(entry))

    def remove(self, database: str, name: str) -> None:
        """Remove a table or view."""
        for suffix in (_TABLE, _VIEW):
            path = self._file(database, quote(name, "") + suffix)
            if os.path.exists(path):
                os.unlink(path)

    def functions(self, database: str) -> Mapping[str, CatalogFunction]:
        """Return the functions of a database by name."""
        found = {}
        for file in os.scandir(self._directory(database)):
            if file.name.endswith(_FUNCTION):
                name = unquote(file.name.removesuffix(_FUNCTION))
                with open(file.path, encoding="utf-8") as opened:
                    kept = json.load(opened)
                identifier = (self._name, database, name)
                found[name] = CatalogFunction(identifier, kept["class"], kept["language"])
        return found

    def put_function(self, database: str, name: str, function: CatalogFunction) -> None:
        """Add or replace a function."""
        text = json.dumps({"class": function.class_name, "language": function.language}, indent=2)
        self._write(self._file(database, quote(name, "") + _FUNCTION), text)

    def remove_function(self, database: str, name: str) -> None:
        """Remove a function."""
        os.unlink(self._file(database, quote(name, "") + _FUNCTION))

    # --- files

    def _directory(self, database: str) -> str:
        return os.path.join(self._path, quote(database, ""))

    def _file(self, database: str, name: str) -> str:
        return os.path.join(self._directory(database), name)

    def _write(self, path: str, text: str) -> None:
        handle, temporary = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".", suffix=".tmp")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)

    def _loaded(self, database: str, name: str, file: Any) -> Entry:
        status = file.stat()
        stamp = (status.st_mtime_ns, status.st_size)
        known = self._read.get(file.path)
        if known is not None and known[0] == stamp:
            return known[1]
        with open(file.path, encoding="utf-8") as opened:
            text = opened.read()
        entry = self._parsed(database, name, text, file.path)
        self._read[file.path] = (stamp, entry)
        return entry

    def _parsed(self, database: str, name: str, text: str, path: str) -> Entry:
        identifier = (self._name, database, name)
        try:
            statement = parse_statement(text)
            if isinstance(statement, st.CreateView):
                # Names in it are full: the view was written so.
                return CatalogView(
                    identifier, statement.query_text, statement.query, statement.columns, statement.comment
                )
            if isinstance(statement, st.CreateTable):
                return _table(identifier, statement)
        except SqlError as error:
            raise ConfigurationError(
                f'file {path!r} of catalog "{self._name}" does not say what the table is', detail=str(error)
            ) from error
        raise ConfigurationError(f'file {path!r} of catalog "{self._name}" is no CREATE TABLE or CREATE VIEW')


def _table(identifier: tuple[str, str, str], statement: st.CreateTable) -> ResolvedTable:
    watermark, watermark_text = watermark_of(statement.watermark)
    return build_table(
        identifier,
        [as_column(each) for each in statement.columns],
        watermark=watermark,
        watermark_text=watermark_text,
        primary_key=statement.primary_key,
        partition_keys=statement.partition_keys,
        options=dict(statement.options),
        comment=statement.comment,
        distribution=statement.distribution,
    )
