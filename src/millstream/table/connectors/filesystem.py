"""The connector `filesystem`: files below a path, in a format."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from millstream.base.errors import NotSupportedError
from millstream.base.time import Duration
from millstream.common.watermark_strategy import WatermarkStrategy
from millstream.connectors.files.buckets import BucketAssigner
from millstream.connectors.files.rolling import OutputFileConfig
from millstream.connectors.files.source import FileSource
from millstream.files.paths import local_path
from millstream.operators.sink import SinkSpec
from millstream.table.connectors.base import SinkRequest, TableConnector
from millstream.table.connectors.conversion import FromSqlSpec, ToSqlSpec
from millstream.table.connectors.file_formats import file_reader, file_writer
from millstream.table.connectors.message_formats import wire_type
from millstream.table.connectors.partitions import METADATA_TYPES, PartitionBuckets, PartitionedToSqlSpec
from millstream.table.connectors.print_sinks import with_parallelism
from millstream.table.connectors.table_files import (
    CommittingFileSink,
    file_sink_builder,
    path_pattern,
    read_partition_commit,
    read_rolling,
)
from millstream.types.datatypes import DataType, RowField, RowType

__all__ = ["FilesystemConnector"]


class FilesystemConnector(TableConnector):
    """Reads and writes files.

    ======================================  ==============================================================
    option                                  meaning
    ======================================  ==============================================================
    ``path``                                a file or directory, local or a URI
    ``format``                              csv, json, parquet, avro, orc, raw (of lines of text, read only)
    ``source.monitor-interval``             follows the directory: how often it looks for new files
    ``source.path.regex-pattern``           only files whose whole path fits
    ``source.split-size``                   reads larger files in parts (millstream's own)
    ``sink.parallelism``                    of the sink
    ``scan.parallelism``                    of the source
    ``sink.rolling-policy.*``               csv and json: when a file is finished (`table_files.py`)
    ``sink.partition-commit.*``             what marks a partition that got rows (`table_files.py`)
    ======================================  ==============================================================

    Columns of PARTITIONED BY are directories, `key=value`. Metadata: `METADATA_TYPES`.
    """

    name = "filesystem"

    def check(self) -> None:
        """Check the options."""
        options = self.options
        options.required("path", "/path/to/directory")
        options.required("format", "csv")
        options.duration("source.monitor-interval")
        options.memory("source.split-size")
        for key in ("sink.parallelism", "scan.parallelism"):
            options.integer(key, smallest=1)
        options.text("partition.default-name")
        read_rolling(options, options.required("format"))
        read_partition_commit(options, partitioned=bool(self.table.partition_keys))
        path_pattern(options)
        if options.flag("auto-compaction", False):
            raise NotSupportedError("'auto-compaction' = 'true' of tables is not in millstream yet")
        options.none_with_prefix("partition.time-extractor.")
        self._row_type(tuple(range(len(self.table.schema))))
        file_reader(options.required("format"), self._row_type(None), options)
        options.check_all_read()

    # --- reading

    def is_bounded(self) -> bool:
        """Return whether the files that are there are all."""
        return self.options.duration("source.monitor-interval") is None

    def readable_metadata(self) -> Mapping[str, Any]:
        """Return what is known of a row's file."""
        return METADATA_TYPES

    def scan(self, environment: Any, columns: Sequence[int]) -> Any:
        """Return the rows of the files."""
        self.check()
        table, options = self.table, self.options
        schema = table.schema
        names = tuple(schema.names[place] for place in columns)
        types = tuple(schema.types[place] for place in columns)
        metadata = self._metadata(names)
        outside = {*metadata, *table.partition_keys}
        # Formats with columns of their own are asked for those that are wanted; CSV has all, in order.
        wanted = None if options.required("format") in ("csv", "raw") else set(names) - outside
        if wanted is not None and not wanted:
            wanted = None
        reader, is_stream = file_reader(options.required("format"), self._row_type(wanted), options)
        path = options.required("path")
        make = FileSource.for_record_stream_format if is_stream else FileSource.for_bulk_file_format
        builder = make(reader, path)
        interval_ms = options.duration("source.monitor-interval")
        if interval_ms is not None:
            builder.monitor_continuously(Duration.of_millis(interval_ms))
        split_bytes = options.memory("source.split-size")
        pattern = path_pattern(options)
        if pattern is not None:
            builder.set_path_pattern(pattern)
        needs_path = bool(outside & set(names))
        if needs_path:
            builder.add_metadata("file_path", "record_number")
        elif split_bytes is not None:
            builder.set_split_size(split_bytes)
        stream = environment.from_source(
            builder.build(), WatermarkStrategy.no_watermarks(), f"{table.name}[filesystem]"
        )
        stream = with_parallelism(stream, options.integer("scan.parallelism", smallest=1))
        where = f'table "{table.full_name}"'
        if not needs_path:
            return stream._transform(f"{table.name}[columns]", ToSqlSpec(names, types, where))
        default = options.text("partition.default-name", "__DEFAULT_PARTITION__") or ""
        facts = tuple(metadata.items())
        spec = PartitionedToSqlSpec(names, types, where, table.partition_keys, facts, default, path)
        return stream._transform(f"{table.name}[columns]", spec)

    def _metadata(self, names: Sequence[str]) -> dict[str, str]:
        """Return the metadata columns that are wanted: name to key."""
        self.check_metadata()
        return {
            column.name: column.metadata_key or column.name
            for column in self.table.columns
            if column.kind == "metadata" and column.name in names
        }

    def _row_type(self, wanted: set[str] | tuple[int, ...] | None) -> RowType:
        """Return names and types of the columns in the files."""
        keys = self.table.partition_keys
        fields = []
        for column in self.table.physical:
            inside = column.name not in keys and column.type is not None
            if inside and (not isinstance(wanted, set) or column.name in wanted):
                fields.append(RowField(column.name, _nullable(column.type)))
        return RowType(fields)

    # --- writing

    def sink(self, stream: Any, request: SinkRequest) -> Any:
        """Write files; they are seen when they are finished and their epoch is safe."""
        self.check()
        table, options = self.table, self.options
        schema = table.write_schema
        kinds = dict(zip(schema.names, schema.types, strict=True))
        inside = [name for name in schema.names if name not in table.partition_keys]
        format_name = options.required("format")
        wire = {
            name: wire_type(format_name, kinds[name]) if format_name == "json" else kinds[name]
            for name in kinds
        }
        row_type = RowType([RowField(name, wire[name]) for name in inside])
        writer = file_writer(format_name, row_type, options)
        assigner = BucketAssigner.base_path_bucket_assigner()
        if table.partition_keys:
            default = options.text("partition.default-name", "__DEFAULT_PARTITION__") or ""
            assigner = PartitionBuckets(table.partition_keys, default)
            writer = assigner.without_keys(writer, tuple(inside))
        suffix = f".{format_name}"
        builder = file_sink_builder(options, format_name, writer)
        builder.with_bucket_assigner(assigner)
        builder.with_output_file_config(OutputFileConfig.builder().with_part_suffix(suffix).build())
        marks = read_partition_commit(options, partitioned=bool(table.partition_keys))
        target = builder.build() if marks is None else CommittingFileSink(builder.settings(), marks)
        spec = FromSqlSpec(schema.names, tuple(wire[name] for name in schema.names), given=schema.types)
        named = stream._transform(f"{table.name}[rows]", spec)
        ended = named._transform(f"Sink: {table.full_name}", SinkSpec(target, None))
        return with_parallelism(ended, options.integer("sink.parallelism", smallest=1))

    def begin_overwrite(self) -> Callable[[], None]:
        """Note which files there are; what is returned removes them, of partitions only where new ones came."""
        before = set(_files_below(self.options.required("path")))
        partitioned = bool(self.table.partition_keys)

        def finish() -> None:
            now = set(_files_below(self.options.required("path")))
            touched = {os.path.dirname(path) for path in now - before}
            for path in before & now:
                if not partitioned or os.path.dirname(path) in touched:
                    os.unlink(path)

        return finish


def _files_below(path: str) -> list[str]:
    base = local_path(path)
    if base is None:
        raise NotSupportedError(
            f"INSERT OVERWRITE of {path!r}, which is not on this machine, is not in millstream yet"
        )
    return [
        os.path.join(directory, name)
        for directory, _, names in os.walk(base)
        for name in names
        if not name.startswith((".", "_"))
    ]


def _nullable(kind: DataType | None) -> DataType:
    """Return a type without NOT NULL: what a file lacks is refused with the column's name, behind the reader."""
    import copy

    assert kind is not None
    made = copy.copy(kind)
    made.nullable = True
    return made
