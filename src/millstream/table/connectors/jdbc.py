"""The connector `jdbc`: tables of databases, read once, written by row or by key, and looked up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millstream.base.errors import ConfigurationError
from millstream.base.time import Duration
from millstream.common.watermark_strategy import WatermarkStrategy
from millstream.config.options import RUNTIME_MODE
from millstream.config.options_checkpointing import CHECKPOINT_INTERVAL
from millstream.connectors.jdbc.lookup import JdbcLookup
from millstream.connectors.jdbc.options import (
    JdbcConnectionOptions,
    JdbcConnectionOptionsBuilder,
    JdbcExecutionOptions,
    JdbcExecutionOptionsBuilder,
)
from millstream.connectors.jdbc.parameters import JdbcNumericBetweenParametersProvider
from millstream.connectors.jdbc.sink import JdbcSink
from millstream.connectors.jdbc.source import JdbcSource
from millstream.operators.sink import SinkSpec
from millstream.spi.lookup import LookupCache
from millstream.table.connectors.base import LookupRuntime, SinkRequest, TableConnector
from millstream.table.connectors.conversion import FromSqlSpec, ToSqlSpec
from millstream.table.connectors.print_sinks import with_parallelism
from millstream.table.plan.changes import INSERT_ONLY, ChangelogMode
from millstream.types.datatypes import RowField, RowType
from millstream.types.sql_types import row_type_info
from millstream.types.typeinfo import RowTypeInfo

__all__ = ["JdbcConnector"]

_GUARANTEES = ("at-least-once", "exactly-once")


class JdbcConnector(TableConnector):
    """Reads, writes and looks up a table of a database.

    Options as Flink's: `url`, `table-name`, `driver`, `username`, `password`, `connection.max-retry-timeout`,
    `scan.partition.*`, `scan.fetch-size`, `lookup.cache`, `lookup.partial-cache.*`, `lookup.max-retries`,
    `sink.buffer-flush.*`, `sink.max-retries`, `sink.parallelism`; and `sink.delivery-guarantee`. With a primary key
    rows are written by key (upsert), and deletions delete; without one they are appended.

    What an epoch changes is netted by key. So a job that goes on from a checkpoint may have nothing to say of a row
    that the killed attempt wrote behind that checkpoint: it may come and go within one epoch now. Written as they come,
    upserts would leave such rows in the table. With checkpoints they are written as these complete, exactly once.
    """

    name = "jdbc"

    def check(self) -> None:
        """Check the options."""
        options = self.options
        options.required("url", "jdbc:postgresql://localhost:5432/shop")
        options.required("table-name", self.table.name)
        for key in ("driver", "username", "password"):
            options.text(key)
        options.duration("connection.max-retry-timeout", 60_000)
        options.flag("scan.auto-commit", True)
        options.integer("scan.fetch-size", smallest=0)
        options.integer("scan.parallelism", smallest=1)
        options.integer("sink.parallelism", smallest=1)
        self._partition()
        self._cache()
        options.integer("lookup.max-retries", 3, smallest=0)
        self._execution()
        options.choice("sink.delivery-guarantee", _GUARANTEES, _GUARANTEES[0])
        options.check_all_read()
        if len(self.table.physical) != len(self.table.schema):
            raise ConfigurationError(
                f'table "{self.table.full_name}" has metadata: the connector jdbc knows none'
            )

    def _connection(self) -> JdbcConnectionOptions:
        options = self.options
        builder = JdbcConnectionOptionsBuilder().with_url(options.required("url"))
        for key, setter in (
            ("driver", builder.with_driver_name),
            ("username", builder.with_user_name),
            ("password", builder.with_password),
        ):
            value = options.text(key)
            if value is not None:
                setter(value)
        patience_ms = options.duration("connection.max-retry-timeout", 60_000) or 0
        return builder.with_connection_check_timeout_seconds(patience_ms / 1000).build()

    def _read(self, builder: Any) -> Any:
        options = self.options
        builder.set_db_url(options.required("url"))
        for key, setter in (
            ("driver", builder.set_driver_name),
            ("username", builder.set_username),
            ("password", builder.set_password),
        ):
            value = options.text(key)
            if value is not None:
                setter(value)
        patience_ms = options.duration("connection.max-retry-timeout", 60_000) or 0
        return builder.set_connection_check_timeout_seconds(patience_ms / 1000)

    # --- reading

    def is_bounded(self) -> bool:
        """Return True: the rows that are there when the job starts are all."""
        return True

    def _partition(self) -> tuple[str, int, int, int] | None:
        """Return column, lower and upper bound and number of parts of a scan in parts."""
        options = self.options
        column = options.text("scan.partition.column")
        numbers = {
            key: options.integer(f"scan.partition.{key}") for key in ("num", "lower-bound", "upper-bound")
        }
        said = [column is not None, *(value is not None for value in numbers.values())]
        if not any(said):
            return None
        if not all(said):
            raise ConfigurationError(
                f'table "{self.table.full_name}" has only some of the options scan.partition.*',
                hint="Set scan.partition.column, .num, .lower-bound and .upper-bound, or none.",
            )
        assert column is not None
        return column, numbers["lower-bound"] or 0, numbers["upper-bound"] or 0, numbers["num"] or 1

    def _row_type(self, columns: Sequence[int]) -> RowType:
        schema = self.table.schema
        return RowType([RowField(schema.names[place], schema.types[place]) for place in columns])

    def scan(self, environment: Any, columns: Sequence[int]) -> Any:
        """Return the rows of the table."""
        self.check()
        table = self.table
        wanted = list(columns) or [0]
        names = [table.schema.names[place] for place in wanted]
        builder = self._read(JdbcSource.builder())
        quote = _quote_of(self.options.required("url"))
        shown = ", ".join(f"{quote}{name}{quote}" for name in names)
        sql = f"SELECT {shown} FROM {_quoted_table(self.options.required('table-name'), quote)}"
        partition = self._partition()
        if partition is not None:
            column, low, high, parts = partition
            sql += f" WHERE {quote}{column}{quote} BETWEEN ? AND ?"
            provider = JdbcNumericBetweenParametersProvider(low, high).of_batch_num(parts)
            builder.set_jdbc_parameter_values_provider(provider)
        if table.primary_key and partition is None:
            sql += " ORDER BY " + ", ".join(f"{quote}{name}{quote}" for name in table.primary_key)
        builder.set_sql(sql).set_row_type(self._row_type(wanted))
        fetch = self.options.integer("scan.fetch-size", smallest=0)
        if fetch:
            builder.set_result_set_fetch_size(fetch)
        stream = environment.from_source(
            builder.build(), WatermarkStrategy.no_watermarks(), f"{table.name}[jdbc]"
        )
        stream = with_parallelism(stream, self.options.integer("scan.parallelism", smallest=1))
        types = tuple(table.schema.types[place] for place in columns)
        spec = ToSqlSpec(tuple(names[: len(columns)]), types, f'table "{table.full_name}"')
        return stream._transform(f"{table.name}[columns]", spec)

    # --- writing

    def _execution(self) -> JdbcExecutionOptions:
        options = self.options
        builder = JdbcExecutionOptionsBuilder()
        rows = options.integer("sink.buffer-flush.max-rows", 100, smallest=0) or 0
        interval_ms = options.duration("sink.buffer-flush.interval", 1_000) or 0
        retries = options.integer("sink.max-retries", 3, smallest=0) or 0
        # Epochs flush anyway: 0, "as it comes", is a batch an epoch.
        return (
            builder.with_batch_size(rows or 5_000)
            .with_batch_interval_ms(interval_ms)
            .with_max_retries(retries)
            .build()
        )

    def _once(self, stream: Any) -> bool:
        """Return whether rows are written with checkpoints: by default upserts are, where there are any checkpoints."""
        if self.options.text("sink.delivery-guarantee") is not None:
            return self.options.choice("sink.delivery-guarantee", _GUARANTEES, "") == _GUARANTEES[1]
        configuration = stream._environment._configuration
        checkpoints = configuration.get(CHECKPOINT_INTERVAL) and configuration.get(RUNTIME_MODE) != "BATCH"
        return bool(self.table.primary_key) and bool(checkpoints)

    def accepts(self, mode: ChangelogMode) -> ChangelogMode:
        """Take updates by key and deletions if there is a primary key, else inserts."""
        if not self.table.primary_key or mode.insert_only:
            return INSERT_ONLY
        return ChangelogMode(mode.updates, False, mode.deletes)

    def sink(self, stream: Any, request: SinkRequest) -> Any:
        """Write rows."""
        self.check()
        table = self.table
        schema = table.write_schema
        fields = [RowField(name, kind) for name, kind in zip(schema.names, schema.types, strict=True)]
        type_info = row_type_info(RowType(fields), RowTypeInfo)
        builder = JdbcSink.table(self.options.required("table-name")).with_columns(*schema.names)
        if type_info is not None:
            builder.with_type_info(type_info)
        if table.primary_key:
            builder.with_key_columns(*table.primary_key)
        builder.with_execution_options(self._execution())
        if self._once(stream):
            sink = builder.build_exactly_once(self._connection())
        else:
            sink = builder.build_at_least_once(self._connection())
        spec = FromSqlSpec(schema.names, schema.types, keeps_kinds=bool(table.primary_key))
        named = stream._transform(f"{table.name}[rows]", spec)
        ended = named._transform(f"Sink: {table.full_name}", SinkSpec(sink, type_info))
        return with_parallelism(ended, self.options.integer("sink.parallelism", smallest=1))

    # --- looking up

    def _cache(self) -> LookupCache | None:
        options = self.options
        kind = options.choice("lookup.cache", ("none", "partial"), "none")
        old_rows = options.integer("lookup.cache.max-rows")
        old_ttl = options.duration("lookup.cache.ttl")
        rows = options.integer("lookup.partial-cache.max-rows", old_rows)
        written_ms = options.duration("lookup.partial-cache.expire-after-write", old_ttl)
        options.duration("lookup.partial-cache.expire-after-access")
        missing = options.flag("lookup.partial-cache.cache-missing-key", True)
        if kind == "none" and old_rows is None:
            return None
        age = None if written_ms is None else Duration.of_millis(written_ms)
        return LookupCache(rows or 10_000, age, missing)

    def lookup(self, keys: Sequence[int], columns: Sequence[int]) -> LookupRuntime:
        """Return what finds rows by columns."""
        self.check()
        names = self.table.schema.names
        builder = self._read(JdbcLookup.builder())
        builder.set_table(self.options.required("table-name"), *(names[place] for place in keys))
        builder.set_columns(*(names[place] for place in columns))
        builder.set_row_type(self._row_type(columns)).set_gives_lists()
        retries = self.options.integer("lookup.max-retries", 3, smallest=0) or 0
        return LookupRuntime(builder.build(), self._cache(), retries + 1, asynchronous=True)


def _quote_of(url: str) -> str:
    return "`" if "mysql" in url or "mariadb" in url else '"'


def _quoted_table(name: str, quote: str) -> str:
    return ".".join(f"{quote}{part}{quote}" for part in name.split("."))
