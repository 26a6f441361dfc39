"""Runs a query here and in DuckDB, over the same rows, and compares the tables that are there at the end."""

from __future__ import annotations

import decimal
import math
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from millstream.common import Configuration
from millstream.datastream import StreamExecutionEnvironment
from millstream.table import StreamTableEnvironment
from millstream.types.row import RowKind

SQL_TYPES = {
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.bool_(): "BOOLEAN",
    pa.date32(): "DATE",
    pa.timestamp("ms"): "TIMESTAMP(3)",
    pa.timestamp("us"): "TIMESTAMP(6)",
    pa.decimal128(10, 2): "DECIMAL(10, 2)",
}


class Oracle:
    """Tables as files, and the same tables in DuckDB.

    Args:
        directory: Where files are written.
        tables: By name.
        watermarks: Column and delay in milliseconds, by table.
        row_group: Rows of a row group, so that epochs cut in many places.
    """

    def __init__(
        self,
        directory: Path,
        tables: dict[str, pa.Table],
        watermarks: dict[str, tuple[str, int]] | None = None,
        row_group: int = 64,
    ) -> None:
        self.directory = directory
        self.tables = tables
        self.watermarks = watermarks or {}
        for name, table in tables.items():
            (directory / name).mkdir(parents=True, exist_ok=True)
            pq.write_table(table, directory / name / "rows.parquet", row_group_size=row_group)
        self.duck = duckdb.connect()
        for name, table in tables.items():
            self.duck.register(f"{name}_rows", table)
            self.duck.execute(f'CREATE TABLE "{name}" AS SELECT * FROM "{name}_rows"')

    def environment(
        self, parallelism: int = 1, epoch: int | None = None, options: dict[str, str] | None = None
    ) -> StreamTableEnvironment:
        """Return an environment that knows the tables."""
        configuration = Configuration()
        configuration.set_string("execution.target", "local")
        stream = StreamExecutionEnvironment.get_execution_environment(configuration)
        stream.set_parallelism(parallelism)
        tables = StreamTableEnvironment.create(stream)
        settings = dict(options or {})
        if epoch is not None:
            settings["millstream.epoch.fixed-records"] = str(epoch)
        for key, value in settings.items():
            tables.get_config().set(key, value)
        for name in self.tables:
            tables.execute_sql(self.ddl(name))
        return tables

    def ddl(self, name: str) -> str:
        """Return CREATE TABLE of a table."""
        columns = [f"`{each.name}` {SQL_TYPES[each.type]}" for each in self.tables[name].schema]
        if name in self.watermarks:
            column, delay = self.watermarks[name]
            columns.append(f"WATERMARK FOR `{column}` AS `{column}` - INTERVAL '{delay / 1000:.3f}' SECOND")
        path = self.directory / name
        return (
            f"CREATE TABLE `{name}` ({', '.join(columns)}) "
            f"WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'parquet')"
        )

    def expected(self, query: str) -> Counter[tuple[Any, ...]]:
        """Return DuckDB's rows."""
        return Counter(map(normal, self.duck.execute(query).fetchall()))

    def check(
        self,
        query: str,
        duck_query: str | None = None,
        *,
        parallelism: int = 1,
        epoch: int | None = None,
        options: dict[str, str] | None = None,
    ) -> None:
        """Assert that a query gives here what it gives in DuckDB."""
        wanted = self.expected(duck_query or query)
        environment = self.environment(parallelism, epoch, options)
        found = folded(environment.execute_sql(query))
        assert found == wanted, difference(found, wanted)


def folded(result: Any) -> Counter[tuple[Any, ...]]:
    """Return the rows that are there at the end; a retraction of a row that is not there fails."""
    rows: Counter[tuple[Any, ...]] = Counter()
    with result.collect() as changes:
        for change in changes:
            values = normal(tuple(change))
            if change.get_row_kind() in (RowKind.INSERT, RowKind.UPDATE_AFTER):
                rows[values] += 1
            else:
                assert rows[values] > 0, f"retracted a row that is not there: {values}"
                rows[values] -= 1
                if not rows[values]:
                    del rows[values]
    return rows


def normal(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a row whose values compare across engines."""
    return tuple(map(_value, row))


def _value(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else float(f"{value:.9g}")
    if isinstance(value, decimal.Decimal):
        return float(f"{float(value):.9g}")
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return float(value) if abs(value) < 2**53 else value
    if isinstance(value, (list, tuple)):
        return tuple(map(_value, value))
    return value


def difference(found: Counter[tuple[Any, ...]], wanted: Counter[tuple[Any, ...]]) -> str:
    """Return what differs, shortened."""
    more = list((found - wanted).items())[:5]
    less = list((wanted - found).items())[:5]
    return f"only here: {more}; only in DuckDB: {less}"
