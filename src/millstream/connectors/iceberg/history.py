"""The snapshots of an Iceberg table: which files one has, and which each of them appended.

::

    append                 files that were added
    replace                files that were merged or rewritten, with the same rows: left out
    overwrite, delete      rows that were changed: an error, or left out

What is read is settled when the source begins, by field id: columns that the table gets later are not read, those that
are renamed keep the name that they had, and those that it loses are null in later files.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any

from millstream.base.errors import ConfigurationError, NotSupportedError, SourceError
from millstream.connectors.iceberg.columns import row_type_of
from millstream.connectors.iceberg.files import FileExtra, IcebergSchema
from millstream.connectors.iceberg.library import load_pyiceberg
from millstream.connectors.iceberg.table import Catalog
from millstream.connectors.lake.builder import Reading
from millstream.connectors.lake.conditions import Condition
from millstream.connectors.lake.enumerator import Found, TableHistory
from millstream.connectors.lake.table_file import TableFile
from millstream.types.arrow_types import arrow_type, load_arrow

__all__ = ["IcebergHistory"]

_PUSHED = {
    "=": "EqualTo",
    "<": "LessThan",
    "<=": "LessThanOrEqual",
    ">": "GreaterThan",
    ">=": "GreaterThanOrEqual",
    "in": "In",
    "is null": "IsNull",
    "is not null": "NotNull",
}
_PUSHED_VALUES = (str, int, float, bool, Decimal, datetime.date)

Position = tuple[int | None, IcebergSchema]
"""The snapshot that was read last, None before the first; and what is read."""


class IcebergHistory(TableHistory):
    """The snapshots of one table.

    Args:
        catalog: That lists it.
        reading: What is read.
        ref: The branch or tag.
    """

    def __init__(self, catalog: Catalog, reading: Reading, ref: str) -> None:
        self._catalog = catalog
        self._reading = reading
        self._ref = ref

    def begin(self) -> Found:
        """Return the files of a snapshot, or what a range of snapshots appended."""
        reading, table = self._reading, self._catalog.load_any()
        if reading.starting is not None:
            head = self._head(table) if reading.ending is None else self._snapshot(table, reading.ending)
            schema = self._pin(table, table.schema())
            files = list(self._appended(table, reading.starting, head, schema))
            return Found(files, (reading.starting if head is None else head.snapshot_id, schema))
        if reading.version is not None:
            chosen = self._snapshot(table, reading.version)
        elif reading.as_of_ms is not None:
            chosen = self._at(table, reading.as_of_ms)
        else:
            chosen = self._head(table)
        is_newest = chosen is None or (reading.version is None and reading.as_of_ms is None)
        schema = self._pin(table, table.schema() if is_newest else _schema_of(table, chosen))
        if chosen is None:
            return Found([], (None, schema))
        return Found(self._files_of(table, chosen, schema), (chosen.snapshot_id, schema))

    def follow(self, position: Position) -> Found:
        """Return what the snapshots since appended."""
        snapshot_id, schema = position
        table = self._catalog.load_any()
        head = self._head(table)
        if head is None or head.snapshot_id == snapshot_id:
            return Found([], position)
        return Found(list(self._appended(table, snapshot_id, head, schema)), (head.snapshot_id, schema))

    def _head(self, table: Any) -> Any:
        found = table.snapshot_by_name(self._ref)
        if found is None and self._ref != "main":
            raise SourceError(
                f"{self._catalog} has no branch or tag {self._ref!r}",
                detail=f"It has: {', '.join(sorted(table.refs()))}.",
            )
        return found

    def _snapshot(self, table: Any, snapshot_id: int) -> Any:
        found = table.snapshot_by_id(snapshot_id)
        if found is None:
            raise SourceError(
                f"{self._catalog} has no snapshot {snapshot_id}",
                detail="It was expired, or it is another table's.",
            )
        return found

    def _at(self, table: Any, moment_ms: int) -> Any:
        found = [entry for entry in table.history() if entry.timestamp_ms <= moment_ms]
        if not found:
            moment = datetime.datetime.fromtimestamp(moment_ms / 1000, datetime.UTC)
            raise SourceError(f"{self._catalog} has no snapshot as old as {moment.isoformat()}")
        return self._snapshot(table, found[-1].snapshot_id)

    def _pin(self, table: Any, schema: Any) -> IcebergSchema:
        """Settle what is read."""
        reading = self._reading
        names = [field.name for field in schema.fields]
        given = reading.columns or tuple(names)
        wanted = (*given, *(name for name in reading.conditions.columns if name not in given))
        missing = [name for name in wanted if name not in names]
        if missing:
            raise ConfigurationError(
                f"{self._catalog} has no column {missing[0]!r}", detail=f"Its columns: {', '.join(names)}."
            )
        chosen = [schema.find_field(name) for name in wanted]
        pa = load_arrow("Iceberg tables")
        columns = [pa.field(field.name, arrow_type(field.data_type)) for field in row_type_of(chosen)]
        reading.conditions.check(pa.schema(columns))
        mapping = table.name_mapping()
        return IcebergSchema(
            load_pyiceberg("schema").Schema(*chosen).model_dump_json(),
            len(given),
            None if mapping is None else mapping.model_dump_json(),
            int(table.format_version),
        )

    def _files_of(self, table: Any, snapshot: Any, schema: IcebergSchema) -> list[TableFile]:
        def plan() -> list[Any]:
            scan = table.scan(row_filter=self._filter(table, schema), snapshot_id=snapshot.snapshot_id)
            return list(scan.plan_files())

        return self._files(table, snapshot.snapshot_id, self._plan(plan), schema)

    def _appended(
        self, table: Any, after: int | None, head: Any, schema: IcebergSchema
    ) -> Iterator[TableFile]:
        """Yield the files of each snapshot behind one, up to another."""
        for snapshot in self._between(table, after, head):
            operation = None if snapshot.summary is None else snapshot.summary.operation.value
            if operation == "replace":
                continue
            if operation != "append":
                if self._reading.skips_changes:
                    continue
                raise SourceError(
                    f"snapshot {snapshot.snapshot_id} of {self._catalog} changes or deletes rows",
                    detail=f"Its operation is {operation!r}.",
                    hint="Leave such snapshots out, by set_skip_changes(); or read the table as it is now, without "
                    "the state of this source.",
                )

            def plan(snapshot: Any = snapshot) -> list[Any]:
                scan = table.incremental_append_scan(
                    from_snapshot_id_exclusive=snapshot.parent_snapshot_id,
                    to_snapshot_id_inclusive=snapshot.snapshot_id,
                    row_filter=self._filter(table, schema),
                )
                return list(scan.plan_files())

            yield from self._files(table, snapshot.snapshot_id, self._plan(plan), schema)

    def _between(self, table: Any, after: int | None, head: Any) -> list[Any]:
        """Return the snapshots behind one, up to another, the oldest first."""
        chain: list[Any] = []
        snapshot = head
        while snapshot is not None and snapshot.snapshot_id != after:
            chain.append(snapshot)
            parent = snapshot.parent_snapshot_id
            if parent is None or parent == after:
                snapshot = None
                if parent != after:
                    raise self._not_before(after, head)
            else:
                snapshot = table.snapshot_by_id(parent)
                if snapshot is None:
                    raise self._not_before(after, head)
        return chain[::-1]

    def _not_before(self, after: int | None, head: Any) -> SourceError:
        return SourceError(
            f"snapshot {after} of {self._catalog} is none of those that led to snapshot {head.snapshot_id}",
            detail="Snapshots between them were expired, or the table was rolled back.",
            hint="Begin anew: without the state of this source; have the table keep snapshots for longer than a job "
            "may be away.",
        )

    def _plan(self, plan: Any) -> list[Any]:
        """Plan files; explain what pyiceberg does not read."""

        def checked(_: Any) -> list[Any]:
            try:
                found: list[Any] = plan()
            except ValueError as error:
                if "equality deletes" not in str(error):
                    raise
                raise NotSupportedError(
                    f"{self._catalog} has rows deleted by equality, which is not read",
                    detail="Its delete files name values of columns instead of rows.",
                    hint="Rewrite the table's data files with the engine that deletes (rewrite_data_files), then read.",
                ) from error
            return found

        return self._catalog.perform("planned", checked)

    def _files(
        self, table: Any, snapshot_id: int, tasks: Iterable[Any], schema: IcebergSchema
    ) -> list[TableFile]:
        found = []
        for task in sorted(tasks, key=lambda each: str(each.file.file_path)):
            file = task.file
            if file.file_format.value.lower() != "parquet":
                raise NotSupportedError(
                    f"data file {file.file_path!r} of {self._catalog} is {file.file_format.value}, which is not read",
                    detail="Only Parquet is.",
                )
            deletes = sorted((each.file_format.value, str(each.file_path)) for each in task.delete_files)
            extra = FileExtra(_constants(table, file), tuple(deletes))
            size = int(file.file_size_in_bytes)
            found.append(TableFile(str(snapshot_id), file.file_path, size, schema, extra))
        return found

    def _filter(self, table: Any, schema: IcebergSchema) -> Any:
        """Return the conditions as pyiceberg has them, by which it leaves files out; it may leave out fewer."""
        expressions = load_pyiceberg("expressions")
        pinned = load_pyiceberg("schema").Schema.model_validate_json(schema.text)
        now = {field.field_id: field for field in table.schema().fields}
        whole = expressions.AlwaysTrue()
        for each in self._reading.conditions.each:
            field = pinned.find_field(each.column)
            if now.get(field.field_id) == field and each.operator in _PUSHED and _is_pushed(each):
                make = getattr(expressions, _PUSHED[each.operator])
                values = () if each.value is None else (each.value,)
                whole = expressions.And(whole, make(each.column, *values))
        return whole


def _schema_of(table: Any, snapshot: Any) -> Any:
    return table.schemas().get(snapshot.schema_id, table.schema())


def _constants(table: Any, file: Any) -> dict[int, Any]:
    """Return the values of a file's partition that are columns themselves, by field id."""
    identity = load_pyiceberg("transforms").IdentityTransform
    fields = table.specs()[file.spec_id].fields
    return {
        field.source_id: file.partition[place]
        for place, field in enumerate(fields)
        if isinstance(field.transform, identity) and file.partition[place] is not None
    }


def _is_pushed(condition: Condition) -> bool:
    """Return whether pyiceberg compares such a value with statistics as it is compared here."""
    values = condition.value if isinstance(condition.value, tuple) else (condition.value,)
    return condition.value is None or all(
        isinstance(each, _PUSHED_VALUES) and not isinstance(each, datetime.datetime) for each in values
    )
