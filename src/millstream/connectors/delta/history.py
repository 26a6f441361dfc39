"""The versions of a Delta table: which files a snapshot has, and what each commit adds, removes or changes.

A snapshot is deltalake's: it reads the log with its checkpoints, leaves files out by partition and statistics, and
reads deletion vectors. Commits are read here, file by file, as the protocol has them::

    add, no remove                   rows that were appended
    add and remove, no rows changed  files that were merged (OPTIMIZE): left out
    remove                           rows that were changed: an error, left out, or changes
    cdc                              the changes themselves, where the table has a change data feed

What is read is settled when the source begins: columns that the table gets later are not read, and one that it loses or
that gets another type is an error.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from millstream.base.errors import ConfigurationError, NotSupportedError, SourceError
from millstream.connectors.delta.columns import row_type_of
from millstream.connectors.delta.files import DeltaSchema, FileExtra, KeptRows, partition_values
from millstream.connectors.delta.log import Commit, file_path, read_commit
from millstream.connectors.delta.table import Table, name_of
from millstream.connectors.lake.builder import Reading
from millstream.connectors.lake.conditions import Conditions
from millstream.connectors.lake.enumerator import Found, TableHistory
from millstream.connectors.lake.table_file import TableFile
from millstream.types.arrow_types import arrow_type, load_arrow
from millstream.types.row import RowKind

__all__ = ["DeltaHistory"]

_FEATURES = {"deletionVectors", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck", "columnMapping"}
_MAPPING = "delta.columnMapping.mode"
_PUSHED = ("=", "<", "<=", ">", ">=", "in")
_PUSHED_VALUES = (str, int, float, bool, datetime.date)

Position = tuple[int, DeltaSchema]
"""The version that was read last, and what is read."""


class DeltaHistory(TableHistory):
    """The versions of one table.

    Args:
        address: Of the table, with what it says of how to reach it.
        reading: What is read.
        reads_changes: Whether changes are given with their kind.
    """

    def __init__(self, address: str, reading: Reading, *, reads_changes: bool) -> None:
        self._address = address
        self._reading = reading
        self._reads_changes = reads_changes
        self._looked = False

    def begin(self) -> Found:
        """Return the files of a snapshot, or what a range of versions brought."""
        reading = self._reading
        newest = Table(self._address, failure=SourceError)
        if reading.starting is not None:
            return self._begin_range(newest, reading.starting)
        version = reading.version
        if reading.as_of_ms is not None:
            version = self._version_at(newest, reading.as_of_ms)
        table = newest if version is None else self._table_at(newest, version)
        schema = self._pin(table)
        return Found(self._snapshot(table, schema), (table.version, schema))

    def follow(self, position: Position) -> Found:
        """Return what the versions since brought."""
        version, schema = position
        files: list[TableFile] = []
        while (commit := read_commit(self._address, version + 1)) is not None:
            version += 1
            files += self._changed(commit, schema)
        if not self._looked:
            self._refuse_gap(version)
        return Found(files, (version, schema))

    def _begin_range(self, newest: Table, starting: int) -> Found:
        ending = newest.version if self._reading.ending is None else self._reading.ending
        if ending > newest.version or starting > newest.version + 1:
            raise SourceError(
                f"{newest} has no version {max(starting, ending)} yet",
                detail=f"Its newest is {newest.version}.",
            )
        schema = self._pin(newest if ending == newest.version else self._table_at(newest, ending))
        files: list[TableFile] = []
        for version in range(starting, ending + 1):
            commit = read_commit(self._address, version)
            if commit is None:
                raise self._gone(version)
            files += self._changed(commit, schema)
        return Found(files, (max(ending, starting - 1), schema))

    def _refuse_gap(self, version: int) -> None:
        """See, once, that there is no newer version behind one that is gone."""
        self._looked = True
        newest = Table(self._address, failure=SourceError).version
        if newest < version:
            raise SourceError(
                f"{name_of(self._address)} has the newest version {newest}, and {version} was read of it",
                detail="It was made anew, or its log was changed.",
                hint="Begin anew: without the state of this source, under another uid.",
            )
        if newest > version and read_commit(self._address, version + 1) is None:
            raise self._gone(version + 1)

    def _gone(self, version: int) -> SourceError:
        return SourceError(
            f"version {version} of {name_of(self._address)} is no longer in its log",
            hint="Begin at a later version, without the state of this source; have the table keep its log for longer "
            "(delta.logRetentionDuration) than a job may be away.",
        )

    def _table_at(self, newest: Table, version: int) -> Table:
        if version > newest.version:
            raise SourceError(
                f"{newest} has no version {version} yet", detail=f"Its newest is {newest.version}."
            )
        return Table(self._address, version, SourceError)

    def _version_at(self, newest: Table, moment_ms: int) -> int:
        moment = datetime.datetime.fromtimestamp(moment_ms / 1000, datetime.UTC)
        history = newest.perform("read", lambda: newest.library.history())
        times = [(int(each["timestamp"]), int(each["version"])) for each in history if "timestamp" in each]
        found = [version for timestamp_ms, version in times if timestamp_ms <= moment_ms]
        if not found:
            raise SourceError(
                f"{newest} has no version as old as {moment.isoformat()}",
                detail=f"The oldest in its log is of {_shown(min(times)[0])}." if times else None,
            )
        return max(found)

    def _pin(self, table: Table) -> DeltaSchema:
        """Settle what is read."""
        library = table.library
        protocol = library.protocol()
        _refuse_features(str(table), protocol.reader_features, library.metadata().configuration)
        fields = {field["name"]: field for field in json.loads(library.schema().to_json())["fields"]}
        reading = self._reading
        given = reading.columns or tuple(fields)
        wanted = (*given, *(name for name in reading.conditions.columns if name not in given))
        missing = [name for name in wanted if name not in fields]
        if missing:
            raise ConfigurationError(
                f"{table} has no column {missing[0]!r}", detail=f"Its columns: {', '.join(fields)}."
            )
        row_type = row_type_of([fields[name] for name in wanted])
        pa = load_arrow("Delta tables")
        columns = [pa.field(field.name, arrow_type(field.data_type)) for field in row_type]
        reading.conditions.check(pa.schema(columns))
        return DeltaSchema(row_type, len(given), table.partition_columns)

    def _snapshot(self, table: Table, schema: DeltaSchema) -> list[TableFile]:
        pa = load_arrow("Delta tables")
        library = table.library
        actions = table.perform("read", lambda: pa.table(library.get_add_actions(flatten=True))).to_pylist()
        chosen = None
        pushed = [
            (each.column, each.operator, each.value)
            for each in self._reading.conditions.each
            if each.operator in _PUSHED and _is_pushed(each.value)
        ]
        if pushed:
            uris = table.perform("read", lambda: library.file_uris(file_pruning_predicate=pushed))
            chosen = {_without_scheme(uri) for uri in uris}
        kept = self._kept_rows(table)
        found = []
        for action in sorted(actions, key=lambda each: (each["modification_time"], each["path"])):
            path = file_path(self._address, action["path"])
            if chosen is not None and _without_scheme(path) not in chosen:
                continue
            texts = {name: _text(action.get(f"partition.{name}")) for name in schema.partition_columns}
            values = partition_values(schema, texts)
            if self._is_left_out(values, schema):
                continue
            extra = FileExtra(values, kept.get(_without_scheme(path)))
            found.append(TableFile(str(table.version), path, action["size_bytes"], schema, extra))
        return found

    def _kept_rows(self, table: Table) -> dict[str, KeptRows]:
        """Return by file which rows deletion vectors leave."""
        if "deletionVectors" not in (table.library.protocol().reader_features or ()):
            return {}
        pa = load_arrow("Delta tables")
        kept = {}
        vectors = table.perform("read", lambda: pa.table(table.library.deletion_vectors()))
        for batch in vectors.to_batches():
            masks = batch.column("selection_vector")
            for place, uri in enumerate(batch.column("filepath").to_pylist()):
                kept[_without_scheme(uri)] = KeptRows.of(masks[place].values)
        return kept

    def _changed(self, commit: Commit, schema: DeltaSchema) -> list[TableFile]:
        """Return the files that a version is read of."""
        self._refuse_schema(commit, schema)
        if self._reads_changes:
            return list(self._files_of_changes(commit, schema))
        if commit.removed:
            if self._reading.skips_changes:
                return []
            raise SourceError(
                f"version {commit.version} of {name_of(self._address)} changes or deletes rows",
                detail=f"It removes {len(commit.removed)} files, such as {commit.removed[0]['path']!r}.",
                hint="Read changes with their kind, by read_changes(); or leave such versions out, by "
                "set_skip_changes().",
            )
        return list(self._files(commit.version, commit.added, schema, RowKind.INSERT))

    def _files_of_changes(self, commit: Commit, schema: DeltaSchema) -> Iterator[TableFile]:
        if commit.changes:
            yield from self._files(commit.version, commit.changes, schema, None)
            return
        with_vectors = [action for action in commit.removed if action.get("deletionVector")]
        again = {action["path"] for action in commit.removed} & {action["path"] for action in commit.added}
        if with_vectors or again:
            path = with_vectors[0]["path"] if with_vectors else again.pop()
            raise NotSupportedError(
                f"version {commit.version} of {name_of(self._address)} deletes rows of {path!r} by a deletion vector, "
                "and does not tell which",
                hint="Set delta.enableChangeDataFeed on the table: later versions tell.",
            )
        yield from self._files(commit.version, commit.removed, schema, RowKind.DELETE)
        yield from self._files(commit.version, commit.added, schema, RowKind.INSERT)

    def _files(
        self,
        version: int,
        actions: Sequence[Mapping[str, Any]],
        schema: DeltaSchema,
        kind: RowKind | None,
    ) -> Iterator[TableFile]:
        for action in sorted(actions, key=lambda each: str(each["path"])):
            path = file_path(self._address, action["path"])
            if action.get("deletionVector"):
                raise NotSupportedError(
                    f"version {version} of {name_of(self._address)} has a file with a deletion vector, {path!r}",
                    hint="Read the table as it is, without naming versions to begin and end with.",
                )
            texts = action.get("partitionValues")
            if texts is None and schema.partition_columns:
                raise NotSupportedError(
                    f"version {version} of {name_of(self._address)} removes {path!r}, and does not tell its partition"
                )
            values = partition_values(schema, texts or {})
            if self._is_left_out(values, schema):
                continue
            size = action.get("size") or 1
            yield TableFile(str(version), path, size, schema, FileExtra(values), kind)

    def _is_left_out(self, values: Mapping[str, Any], schema: DeltaSchema) -> bool:
        """Return whether the values of a partition show that none of its rows is wanted."""
        known = Conditions(tuple(each for each in self._reading.conditions.each if each.column in values))
        if not known:
            return False
        pa = load_arrow("Delta tables")
        kinds = {field.name: arrow_type(field.data_type) for field in schema.row_type}
        row = [pa.array([values[name]], kinds[name]) for name in known.columns]
        return not known.mask(pa.record_batch(row, names=list(known.columns)))[0].as_py()

    def _refuse_schema(self, commit: Commit, schema: DeltaSchema) -> None:
        """Refuse what was changed of the columns that are read."""
        name = name_of(self._address)
        if commit.protocol is not None:
            _refuse_features(name, commit.protocol.get("readerFeatures"), {})
        if commit.metadata is None:
            return
        _refuse_features(name, (), commit.metadata.get("configuration") or {})
        there = {each["name"]: each for each in json.loads(commit.metadata["schemaString"])["fields"]}
        for field in schema.row_type:
            if field.name not in there:
                said = f"version {commit.version} of {name} has no column {field.name!r}"
            else:
                (now,) = row_type_of([there[field.name]])
                if arrow_type(now.data_type) == arrow_type(field.data_type):
                    continue
                said = f"version {commit.version} of {name} has column {field.name!r} as {now.data_type}"
            raise SourceError(
                said,
                detail=f"The source reads it as {field.data_type}.",
                hint="Begin anew at this version: without the state of this source, under another uid.",
            )


def _refuse_features(name: str, features: Sequence[str] | None, configuration: Mapping[str, str]) -> None:
    unread = sorted(set(features or ()) - _FEATURES)
    if configuration.get(_MAPPING, "none") != "none":
        unread.append(_MAPPING)
    if unread:
        raise NotSupportedError(
            f"{name} has {unread[0]}, which is not read", hint="Read it with another engine, or copy it."
        )


def _is_pushed(value: Any) -> bool:
    """Return whether deltalake compares such a value with statistics as it is compared here."""
    values = value if isinstance(value, tuple) else (value,)
    return all(
        isinstance(each, _PUSHED_VALUES) and not isinstance(each, datetime.datetime) for each in values
    )


def _text(value: Any) -> str | None:
    """Return a partition's value as the log has it."""
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    return value.decode() if isinstance(value, bytes) else str(value)


def _without_scheme(uri: str) -> str:
    """Return what is the same for `s3://`, `s3a://` and `file://` URIs of a file."""
    return uri.partition("://")[2].lstrip("/") if "://" in uri else uri.lstrip("/")


def _shown(moment_ms: int) -> str:
    return datetime.datetime.fromtimestamp(moment_ms / 1000, datetime.UTC).isoformat()
