"""A Delta table by its log: opened, made, looked at, added to. All that deltalake is asked for is in here."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from millstream.base.errors import ConfigurationError, NotSupportedError, SinkError
from millstream.base.optional import load_package
from millstream.connectors.delta.columns import row_type_of
from millstream.connectors.staged_parquet import Column, StagedParquet
from millstream.files.durable import sync_directory
from millstream.types.datatypes import RowType

__all__ = ["Conflict", "Table", "columns_of", "create_table", "load_deltalake"]

Result = TypeVar("Result")

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
    load_package("pyarrow", extra="delta", what="sinks of Delta tables")
    return load_package("deltalake", extra="delta", what="sinks of Delta tables")


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


def create_table(path: str, arrow_schema: Any, partition_columns: Sequence[str]) -> None:
    """Make a table, unless there is one.

    Raises:
        ConfigurationError: If a type is none of Delta's.
        SinkError: If it cannot be made.
    """
    _delta_schema(arrow_schema)
    library = load_deltalake()
    schema = library.Schema.from_arrow(arrow_schema)
    _perform(
        path,
        "made",
        lambda: library.DeltaTable.create(path, schema, mode="ignore", partition_by=list(partition_columns)),
    )


class Table:
    """A table as it was when it was opened.

    Args:
        path: Its directory.

    Attributes:
        path: Its directory.

    Raises:
        SinkError: If there is none, or it cannot be read.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        library = load_deltalake()
        try:
            self._table = _perform(path, "read", lambda: library.DeltaTable(path))
        except library.exceptions.TableNotFoundError as error:
            raise SinkError(
                f"there is no Delta table at {path!r}",
                hint="Create it; or declare the records with set_row_type(...), then the sink makes it when the "
                "job starts.",
            ) from error
        self._fields: list[dict[str, Any]] = json.loads(self._table.schema().to_json())["fields"]

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
                f"the Delta table at {self.path!r} has {found[0]}, which is not written",
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
                f"records do not fit the Delta table at {self.path!r}: {wrong[0]}",
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
                    f"column {field['name']!r} of the Delta table at {self.path!r} may not be null",
                    hint="Declare the field with nullable=False: records without a value then fail the job.",
                )

    def committed(self, application: str) -> int:
        """Return the number that an application committed last; -1 if there was none."""
        found = _perform(self.path, "read", lambda: self._table.transaction_version(application))
        return -1 if found is None else int(found)

    def add(self, files: Sequence[StagedParquet], application: str, number: int) -> None:
        """Add files in one commit, and note with it what was committed.

        Raises:
            Conflict: If another writer changed the table in a way that makes this a question again.
            SinkError: If it cannot be written.
        """
        library = load_deltalake()
        # The transaction module is no attribute of the package until it is imported.
        actions = load_package("deltalake.transaction", extra="delta", what="sinks of Delta tables")
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
            _perform(
                self.path,
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
        self._sync_log(before)

    def _sync_log(self, before: int) -> None:
        """Make the log durable: deltalake leaves that to the system."""
        directory = os.path.join(self.path, "_delta_log")
        for version in range(before + 1, self._table.version() + 1):
            path = os.path.join(directory, f"{version:020}.json")
            # What was cleaned up is in a checkpoint of the log.
            with contextlib.suppress(FileNotFoundError), open(path, "rb") as entry:
                os.fsync(entry.fileno())
        sync_directory(directory)


def _perform(path: str, what: str, action: Callable[[], Result]) -> Result:
    """Return what deltalake answers, which raises errors of any class; two of them mean something to callers."""
    library = load_deltalake()
    try:
        return action()
    except (library.exceptions.CommitFailedError, library.exceptions.TableNotFoundError):
        raise
    except Exception as error:
        raise SinkError(
            f"the Delta table at {path!r} cannot be {what}",
            detail=f"{type(error).__name__}: {_first_line(error)}",
            hint="Check the directory's permissions, the disk's space, and the table with another program.",
        ) from error


def _first_line(error: Exception) -> str:
    """Return what an error says, without the stack of the library behind it."""
    return str(error).partition("\n")[0]
