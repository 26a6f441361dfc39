"""A Delta table by its log: opened, made, looked at, added to. All that deltalake is asked for is in here."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from millstream.base.errors import ConfigurationError, NotSupportedError, SinkError, SourceError
from millstream.base.optional import load_package
from millstream.connectors.delta.columns import row_type_of
from millstream.connectors.lake.storage import deltalake_options
from millstream.connectors.staged_parquet import Column, StagedParquet
from millstream.files.durable import sync_directory
from millstream.files.paths import local_path
from millstream.files.refusals import refusal_at
from millstream.files.remote import without_parameters
from millstream.types.datatypes import RowType

__all__ = [
    "Conflict",
    "Table",
    "columns_of",
    "create_table",
    "load_deltalake",
    "name_of",
    "perform",
    "table_address",
]

Result = TypeVar("Result")

_WHAT = "Delta tables"
_COMPUTED = ("delta.generationExpression", "delta.invariants", "delta.identity.start")
_CHECKS = "delta.constraints."
_MAPPING = "delta.columnMapping.mode"


class Conflict(Exception):
    """Another writer was faster: the table has to be looked at again."""


def load_deltalake() -> Any:
    """Return the module deltalake.

    Raises:
        ConfigurationError: If it, or pyarrow, is not installed.
    """
    load_package("pyarrow", extra="delta", what=_WHAT)
    return load_package("deltalake", extra="delta", what=_WHAT)


def columns_of(arrow_schema: Any) -> tuple[Column, ...]:
    """Return the columns that a table has for an Arrow schema.

    Raises:
        ConfigurationError: If a type is none of Delta's.
    """
    return tuple(_column(field) for field in _delta_schema(arrow_schema)["fields"])


def _delta_schema(arrow_schema: Any) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(load_deltalake().Schema.from_arrow(arrow_schema).to_json())
    except ConfigurationError:
        raise
    except Exception as error:
        raise ConfigurationError(
            "the row type of a Delta sink has a type that Delta tables do not have",
            detail=_first_line(error),
            hint="A TIME is written as a text or a number.",
        ) from error
    return found


def _column(field: dict[str, Any]) -> Column:
    kind = field["type"]
    return field["name"], kind if isinstance(kind, str) else json.dumps(kind, sort_keys=True)


def create_table(address: str, arrow_schema: Any, partition_columns: Sequence[str]) -> None:
    """Make a table, unless there is one.

    Args:
        address: Its directory: a path, or a URI with what it says of how to reach it.
        arrow_schema: Its columns.
        partition_columns: What it is partitioned by.

    Raises:
        ConfigurationError: If a type is none of Delta's.
        SinkError: If it cannot be made.
    """
    _delta_schema(arrow_schema)
    if local_path(address) is not None and os.path.isdir(os.path.join(address, "_delta_log")):
        return
    library = load_deltalake()
    schema = library.Schema.from_arrow(arrow_schema)
    with contextlib.suppress(library.exceptions.CommitFailedError):  # another job has made it a moment ago
        perform(
            address,
            "made",
            lambda: library.DeltaTable.create(
                without_parameters(address),
                schema,
                mode="ignore",
                partition_by=list(partition_columns),
                storage_options=deltalake_options(address),
            ),
        )


def name_of(address: str) -> str:
    """Return a table as messages name it.

    >>> name_of("s3://KEY:SECRET@bucket/orders")
    "the Delta table at 's3://bucket/orders'"
    """
    return f"the Delta table at {without_parameters(address)!r}"


def table_address(path: str) -> str:
    """Return the directory of a table: an absolute path, or a URI as it was given."""
    local = local_path(str(path))
    return str(path).rstrip("/") if local is None else os.path.abspath(local)


class Table:
    """A table as it was when it was opened.

    Args:
        address: Its directory: a path, or a URI with what it says of how to reach it.
        version: Which version; None for the newest.
        failure: What is raised if it cannot be used.

    Attributes:
        address: Its directory.

    Raises:
        SinkError: If there is none, or it cannot be read.
    """

    def __init__(
        self, address: str, version: int | None = None, failure: type[SinkError | SourceError] = SinkError
    ) -> None:
        self.address = address
        self._failure = failure
        library = load_deltalake()
        try:
            self._table = self.perform(
                "read",
                lambda: library.DeltaTable(
                    without_parameters(address), version, storage_options=deltalake_options(address)
                ),
            )
        except library.exceptions.TableNotFoundError as error:
            raise failure(
                f"there is no Delta table at {without_parameters(address)!r}",
                hint="Create it"
                + (
                    "; or declare the records with set_row_type(...), then the sink makes it when the job starts."
                    if failure is SinkError
                    else ", or correct the path; every host of the job must reach it."
                ),
            ) from error
        self._fields: list[dict[str, Any]] = json.loads(self._table.schema().to_json())["fields"]

    def __str__(self) -> str:
        return name_of(self.address)

    def perform(self, what: str, action: Callable[[], Result]) -> Result:
        """Return what deltalake answers; see `perform`."""
        return perform(self.address, what, action, self._failure)

    @property
    def library(self) -> Any:
        """The table as deltalake has it."""
        return self._table

    @property
    def version(self) -> int:
        """Its number."""
        return int(self._table.version())

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The columns that the table is partitioned by."""
        return tuple(self._table.metadata().partition_columns)

    def row_type(self) -> RowType:
        """Return the type of its rows.

        Raises:
            NotSupportedError: If a column has a type that is not written.
        """
        return row_type_of(self._fields)

    def refuse_computed(self) -> None:
        """Refuse a table whose files hold what only an engine with SQL can compute, or under other names.

        Raises:
            NotSupportedError: If it is one.
        """
        settings = self._table.metadata().configuration
        found = [key for key in settings if key.startswith(_CHECKS)]
        found += [key for field in self._fields for key in _COMPUTED if key in field["metadata"]]
        if settings.get(_MAPPING, "none") != "none":
            found.append(_MAPPING)
        if found:
            raise NotSupportedError(
                f"{self} has {found[0]}, which is not written",
                hint="Write to a table without constraints, generated columns and column mapping, and merge from "
                "there.",
            )

    def check_fits(self, columns: Sequence[Column], partition_columns: Sequence[str]) -> None:
        """See whether files with these columns can be added.

        Raises:
            SinkError: If the table lacks a column, has another type for one, or one more that may not be null.
        """
        there = dict(map(_column, self._fields))
        wrong = [
            f"the table has no column {name!r}"
            if name not in there
            else f"column {name!r} is {there[name]}, and {kind} in the records"
            for name, kind in columns
            if there.get(name) != kind
        ]
        written = {name for name, _ in columns}
        wrong += [
            f"column {field['name']!r} may not be null, and the records have no field for it"
            for field in self._fields
            if not field["nullable"] and field["name"] not in written
        ]
        if tuple(partition_columns) != self.partition_columns:
            wrong.append(
                f"the table is partitioned by {list(self.partition_columns)}, the sink by {list(partition_columns)}"
            )
        if wrong:
            raise SinkError(
                f"records do not fit {self}: {wrong[0]}",
                detail="; ".join(wrong[1:]) or None,
                hint="Change set_row_type(...) and set_partition_columns(...), or the table; the log of the table "
                "says who changed it.",
            )

    def check_nulls(self, nullable: Sequence[str]) -> None:
        """See whether columns whose values may be None may be null in the table.

        Raises:
            SinkError: If not.
        """
        for field in self._fields:
            if field["name"] in nullable and not field["nullable"]:
                raise SinkError(
                    f"column {field['name']!r} of {self} may not be null",
                    hint="Declare the field with nullable=False: records without a value then fail the job.",
                )

    def committed(self, application: str) -> int:
        """Return the number that an application committed last; -1 if there was none."""
        found = self.perform("read", lambda: self._table.transaction_version(application))
        return -1 if found is None else int(found)

    def add(self, files: Sequence[StagedParquet], application: str, number: int) -> None:
        """Add files in one commit, and note with it what was committed.

        Raises:
            Conflict: If another writer changed the table in a way that makes this a question again.
            SinkError: If it cannot be written.
        """
        library = load_deltalake()
        # The transaction module is no attribute of the package until it is imported.
        actions = load_package("deltalake.transaction", extra="delta", what=_WHAT)
        added = [
            actions.AddAction(
                file.path,
                file.size_bytes,
                dict(file.partition),
                file.written_ms,
                True,
                json.dumps({"numRecords": file.records}),
            )
            for file in files
        ]
        properties = library.CommitProperties(app_transactions=[library.Transaction(application, number)])
        before = self._table.version()
        try:
            self.perform(
                "written",
                lambda: self._table.create_write_transaction(
                    added,
                    "append",
                    self._table.schema(),
                    list(self.partition_columns),
                    commit_properties=properties,
                ),
            )
        except library.exceptions.CommitFailedError as error:
            raise Conflict(_first_line(error)) from error
        if local_path(self.address) is not None:
            self._sync_log(before)

    def _sync_log(self, before: int) -> None:
        """Make the log durable: deltalake leaves that to the system."""
        directory = os.path.join(self.address, "_delta_log")
        for version in range(before + 1, self._table.version() + 1):
            path = os.path.join(directory, f"{version:020}.json")
            # What was cleaned up is in a checkpoint of the log.
            with contextlib.suppress(FileNotFoundError), open(path, "rb") as entry:
                os.fsync(entry.fileno())
        sync_directory(directory)


def perform(
    address: str, what: str, action: Callable[[], Result], failure: type[SinkError | SourceError] = SinkError
) -> Result:
    """Return what deltalake answers, which raises errors of any class; two of them mean something to callers.

    Raises:
        SinkError: If it fails, or what `failure` says.
        deltalake.exceptions.CommitFailedError, TableNotFoundError: For callers.
    """
    library = load_deltalake()
    try:
        return action()
    except (library.exceptions.CommitFailedError, library.exceptions.TableNotFoundError):
        raise
    except Exception as error:  # noqa: BLE001 - the library raises errors of many classes
        hint = "Check the directory's permissions, the disk's space, and the table with another program."
        refusal = refusal_at(address, error, hint)
        raise failure(
            refusal.after(f"{name_of(address)} cannot be {what}"),
            detail=f"{type(error).__name__}: {refusal.detail.partition(chr(10))[0]}",
            hint=refusal.hint,
        ) from (error if local_path(address) is not None else None)  # the cause could show how it was reached


def _first_line(error: Exception) -> str:
    """Return what an error says, without the stack of the library behind it."""
    return str(error).partition("\n")[0]
