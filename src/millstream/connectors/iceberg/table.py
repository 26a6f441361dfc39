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
from millstream.connectors.iceberg.columns import kind_of, row_type_of, with_field_ids
from millstream.connectors.iceberg.library import load_pyiceberg
from millstream.connectors.iceberg.partitions import Partitioning
from millstream.connectors.lake.storage import addressed, is_in_s3, pyiceberg_properties
from millstream.connectors.staged_parquet import Column, StagedParquet
from millstream.files.file_systems import current
from millstream.files.paths import local_path
from millstream.formats.row_columns import RowColumns
from millstream.types.arrow_types import load_parquet
from millstream.types.datatypes import RowType

__all__ = ["Catalog", "Conflict", "Table", "check_identifier"]

Result = TypeVar("Result")

_RETRIES = "commit.retry.num-retries"
_SHORTEST_SECRET = 4
_NAME_MAPPING = "schema.name-mapping.default"


class Conflict(Exception):
    """Another writer was faster: the table has to be looked at again."""


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
    """A table as it was when it was loaded, to be written.

    Args:
        catalog: Where it is listed.
        table: pyiceberg's.

    Attributes:
        base: The directory of its data files: a path, or a URI with what the catalog says of how to reach it.
        partitioning: How rows go to partitions.

    Raises:
        NotSupportedError: If it is in another store than a directory or S3, or partitioned in a way that is not known.
    """

    def __init__(self, catalog: Catalog, table: Any) -> None:
        self._catalog = catalog
        self._table = table
        location = table.location()
        local = local_path(location)
        if local is None and not is_in_s3(location):
            raise NotSupportedError(
                f"{catalog} is in another store than a directory or S3, and not written",
                hint="Give the catalog a warehouse in a directory that every host sees, or in S3.",
            )
        place = addressed(location, table.io.properties) if local is None else local
        self.base = f"{place.rstrip('/')}/data"
        self.partitioning = Partitioning(table.spec(), table.schema())

    def row_type(self) -> RowType:
        """Return the type of its rows.

        Raises:
            NotSupportedError: If a column has a type that is not written.
        """
        return row_type_of(self._table.schema().fields)

    def stored_schema(self, row_type: RowType) -> Any:
        """Return the columns of files as Arrow has them, with the ids of their fields."""
        return with_field_ids(RowColumns(row_type).schema, self._table.schema().fields)

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
        metadata = self._table.metadata
        # pyiceberg would try again with what it finds then, and not look at what is noted there.
        metadata.properties[_RETRIES] = "0"
        # Files that were staged before the table was partitioned anew belong to the spec of then: a snapshot of it.
        groups: dict[int, list[StagedParquet]] = {}
        for file in files:
            groups.setdefault(self._spec_id(file), []).append(file)

        def add(_: Any) -> None:
            with self._table.transaction() as transaction:
                if self._table.name_mapping() is None:
                    mapping = self._table.schema().name_mapping.model_dump_json()
                    transaction.set_properties({_NAME_MAPPING: mapping})
                for spec_id, staged in groups.items():
                    self._table.metadata = metadata.model_copy(update={"default_spec_id": spec_id})
                    with transaction._append_snapshot_producer({}) as append:
                        for file in staged:
                            append.append_data_file(self._data_file(file))
                transaction.set_properties({owner: "-".join(map(str, order))})

        self._catalog.perform("written", add)

    def _spec_id(self, file: StagedParquet) -> int:
        names = tuple(name for name, _ in file.partition)
        if names == self.partitioning.names:
            return int(self._table.spec().spec_id)
        for spec_id, spec in self._table.specs().items():
            if Partitioning(spec, self._table.schema()).names == names:
                return int(spec_id)
        raise SinkError(
            f"{self._catalog} was never partitioned by {', '.join(names) or 'nothing'}, as a staged file is",
            detail=f"The file is {file.final_path!r}.",
            hint="The table was made anew while the job ran: begin without the state of the sink.",
        )

    def _data_file(self, file: StagedParquet) -> Any:
        """Return what a manifest says of a file."""
        library, manifest = load_pyiceberg("io.pyarrow"), load_pyiceberg("manifest")
        schema, metadata = self._table.schema(), self._table.metadata
        path = f"file://{file.final_path}" if local_path(file.final_path) is not None else file.final_path
        with self._table.io.new_input(path).open() as stream:
            parquet = load_parquet().read_metadata(stream)
        statistics = library.data_file_statistics_from_parquet_metadata(
            parquet_metadata=parquet,
            stats_columns=library.compute_statistics_plan(schema, metadata.properties),
            parquet_column_mapping=library.parquet_path_to_id_mapping(schema),
        )
        return manifest.DataFile.from_args(
            content=manifest.DataFileContent.DATA,
            file_path=path,
            file_format=manifest.FileFormat.PARQUET,
            partition=load_pyiceberg("typedef").Record(*(value for _, value in file.partition)),
            file_size_in_bytes=file.size_bytes,
            sort_order_id=None,
            spec_id=metadata.default_spec_id,
            equality_ids=None,
            key_metadata=None,
            **statistics.to_serialized_dict(),
        )
