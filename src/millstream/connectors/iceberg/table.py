"""An Iceberg table by its catalog: opened, made, looked at, added to. All that pyiceberg is asked for is in here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from millstream.base.errors import (
    ConfigurationError,
    MillstreamError,
    NotSupportedError,
    SinkError,
    SourceError,
)
from millstream.base.optional import load_package
from millstream.connectors.iceberg.columns import kind_of, row_type_of
from millstream.connectors.lake.storage import pyiceberg_properties
from millstream.connectors.staged_parquet import Column, StagedParquet
from millstream.files.file_systems import current
from millstream.files.paths import local_path
from millstream.formats.row_columns import RowColumns
from millstream.types.datatypes import RowType

__all__ = ["Catalog", "Conflict", "Table", "check_identifier", "load_pyiceberg"]

Result = TypeVar("Result")

_WHAT = "Iceberg tables"
_RETRIES = "commit.retry.num-retries"
_SHORTEST_SECRET = 4


class Conflict(Exception):
    """Another writer was faster: the table has to be looked at again."""


def load_pyiceberg(module: str) -> Any:
    """Return a module of pyiceberg.

    Raises:
        ConfigurationError: If it, or pyarrow, is not installed.
    """
    load_package("pyarrow", extra="iceberg", what=_WHAT)
    return load_package(f"pyiceberg.{module}", extra="iceberg", what=_WHAT)


def check_identifier(identifier: str, what: str) -> str:
    """Return the name of a table with its namespace.

    Args:
        identifier: The name.
        what: Whose, for the message: `sink`.

    Raises:
        ConfigurationError: If there is no namespace.
    """
    if not all(identifier.split(".")) or "." not in identifier:
        raise ConfigurationError(
            f"the table of an Iceberg {what} is {identifier!r}, which has no namespace",
            hint='Such as set_table("sales.orders").',
        )
    return identifier


@dataclass(frozen=True, slots=True)
class Catalog:
    """Where a table is listed.

    Attributes:
        name: The catalog's.
        properties: As pyiceberg has them; they may hold secrets.
        table: The table in it: `sales.orders`.
        failure: What is raised if it cannot be used.
    """

    name: str
    properties: Mapping[str, str] = field(repr=False)
    table: str
    failure: type[SinkError | SourceError] = SinkError

    def __str__(self) -> str:
        return f"the Iceberg table {self.table!r}"

    def perform(self, what: str, action: Callable[[Any], Result]) -> Result:
        """Connect, and return what an action with the catalog gives.

        Raises:
            Conflict: If another writer was faster.
            SinkError: If the catalog is away, or has no such table.
        """
        errors = load_pyiceberg("exceptions")
        try:
            reached_by = pyiceberg_properties(self.properties)
            return action(load_pyiceberg("catalog").load_catalog(self.name, **reached_by))
        except MillstreamError:
            raise
        except errors.CommitFailedException as error:
            raise Conflict(self.shown(error)) from None
        except (errors.NoSuchTableError, errors.NoSuchNamespaceError):
            raise self.failure(
                f"there is no Iceberg table {self.table!r} in catalog {self.name!r}",
                hint="Create it; or declare the records with set_row_type(...), then the sink makes it when the "
                "job starts."
                if self.failure is SinkError
                else "Create it, or correct its name.",
            ) from None
        except Exception as error:  # noqa: BLE001 - catalogs raise what their clients do
            raise self.failure(
                f"{self} cannot be {what}",
                detail=f"{type(error).__name__}: {self.shown(error)}",
                hint=f"Check the properties of catalog {self.name!r}, and that the catalog is there.",
            ) from None  # the cause could show what the catalog was reached by

    def shown(self, error: Exception) -> str:
        """Return what an error says in its first line, without what the catalog is reached by."""
        text = current().s3.scrub(str(error).partition("\n")[0])
        for value in sorted(self.properties.values(), key=len, reverse=True):
            if len(value) >= _SHORTEST_SECRET:
                text = text.replace(value, "…")
        return text

    def create(self, row_type: RowType) -> None:
        """Make the table and its namespace, unless they are there."""
        schema = RowColumns(row_type).schema
        namespace = self.table.rpartition(".")[0]

        def create(catalog: Any) -> None:
            if not catalog.table_exists(self.table):
                catalog.create_namespace_if_not_exists(namespace)
                catalog.create_table_if_not_exists(self.table, schema)

        self.perform("made", create)

    def load_any(self) -> Any:
        """Return pyiceberg's table as it is now.

        Raises:
            SinkError: If there is none; or what `failure` says.
        """
        return self.perform("read", lambda catalog: catalog.load_table(self.table))

    def load(self) -> Table:
        """Return the table as it is now, to be written.

        Raises:
            SinkError: If there is none.
            NotSupportedError: If such tables are not written.
        """
        return Table(self, self.load_any())


class Table:
    """A table as it was when it was loaded.

    Args:
        catalog: Where it is listed.
        table: pyiceberg's.

    Attributes:
        base: The local directory of its data files.

    Raises:
        NotSupportedError: If it is partitioned, or in an object store.
    """

    def __init__(self, catalog: Catalog, table: Any) -> None:
        self._catalog = catalog
        self._table = table
        location = local_path(table.location())
        if location is None:
            raise NotSupportedError(
                f"{catalog} is in an object store, and only those in directories are written",
                hint="Give the catalog a warehouse in a directory that every host sees.",
            )
        if table.spec().fields:
            raise NotSupportedError(
                f"{catalog} is partitioned, and only those without partitions are written",
                hint="Write to a table without partitions, and move the rows from there.",
            )
        self.base = f"{location.rstrip('/')}/data"

    def row_type(self) -> RowType:
        """Return the type of its rows.

        Raises:
            NotSupportedError: If a column has a type that is not written.
        """
        return row_type_of(self._table.schema().fields)

    def check_fits(self, columns: Sequence[Column]) -> None:
        """See whether files with these columns can be added.

        Raises:
            SinkError: If the table lacks a column, has another type for one, or one more that may not be null.
        """
        fields = {each.name: each for each in self._table.schema().fields}
        written = {name for name, _ in columns}
        known = row_type_of([each for name, each in fields.items() if name in written])
        there = {each.name: each.data_type for each in known}
        wrong = [
            f"the table has no column {name!r}"
            if name not in there
            else f"column {name!r} is {kind_of(there[name])}, and {kind} in the records"
            for name, kind in columns
            if name not in there or kind_of(there[name]) != kind
        ]
        wrong += [
            f"column {name!r} may not be null, and the records have no field for it"
            for name, each in fields.items()
            if each.required and name not in written
        ]
        if wrong:
            raise SinkError(
                f"records do not fit {self._catalog}: {wrong[0]}",
                detail="; ".join(wrong[1:]) or None,
                hint="Change set_row_type(...), or the table.",
            )

    def check_nulls(self, nullable: Sequence[str]) -> None:
        """See whether columns whose values may be None may be null in the table.

        Raises:
            SinkError: If not.
        """
        for each in self._table.schema().fields:
            if each.required and each.name in nullable:
                raise SinkError(
                    f"column {each.name!r} of {self._catalog} may not be null",
                    hint="Declare the field with nullable=False: records without a value then fail the job.",
                )

    def committed(self, owner: str) -> tuple[int, ...]:
        """Return the order of what was committed last for an owner; less than all if there was nothing."""
        noted = self._table.properties.get(owner, "")
        return tuple(map(int, noted.split("-"))) if noted else ()

    def add(self, files: Sequence[StagedParquet], owner: str, order: Sequence[int]) -> None:
        """Add files in one commit, and note with it what was committed.

        Raises:
            Conflict: If another writer changed the table since it was loaded.
            SinkError: If it cannot be written.
        """
        # pyiceberg would try again with what it finds then, and not look at what is noted there.
        self._table.metadata.properties[_RETRIES] = "0"
        paths = [f"file://{file.final_path}" for file in files]

        def add(_: Any) -> None:
            with self._table.transaction() as transaction:
                transaction.add_files(paths, check_duplicate_files=False)
                transaction.set_properties({owner: "-".join(map(str, order))})

        self._catalog.perform("written", add)
