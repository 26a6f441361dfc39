"""Delta tables as sinks: the contract, jobs, two jobs, concurrent writers, trouble."""

from __future__ import annotations

import itertools
import os
import threading
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from millstream.base.errors import ConfigurationError, LostOutputError, NotSupportedError, SinkError
from millstream.common import Row, RowKind
from millstream.datastream.connectors.delta import DeltaSink
from millstream.spi.batch import Columns, Rows
from millstream.spi.sink import WriterContext
from millstream.testing import MiniCluster, SinkTarget, check_sink
from millstream.types.datatypes import DataTypes

NAMES = itertools.count()
KIND = DataTypes.ROW(
    [DataTypes.FIELD("number", DataTypes.BIGINT()), DataTypes.FIELD("shop", DataTypes.STRING())]
)
SCHEMA = pa.schema([("number", pa.int64()), ("shop", pa.string())])


def order(number: int) -> Row:
    return Row(number=number, shop=f"shop {number % 2}")


def rows_of(path: Any) -> list[tuple[Any, ...]]:
    if not os.path.isdir(os.path.join(path, "_delta_log")):
        return []
    table = DeltaTable(str(path)).to_pyarrow_table()
    return [tuple(row.values()) for row in table.select(sorted(table.column_names)).to_pylist()]


def hidden(path: Any) -> list[str]:
    return [str(file) for file in Path(path).rglob(".part-*")]


def builder(path: Any, *partitions: str) -> Any:
    new = DeltaSink.builder().set_table(str(path)).set_row_type(KIND)
    return new.set_partition_columns(*partitions)


def context(number: int = 0, job: str = "job") -> WriterContext:
    return WriterContext(job, "sink", 0, 1, number, began_ms=5)


def stage(sink: DeltaSink, *values: Any, checkpoint: int = 1, number: int = 0, job: str = "job") -> list[Any]:
    """Return what one subtask has for a checkpoint."""
    writer = sink.build_writer(context(number, job))
    writer.open()
    writer.write(Rows(list(values)), watermark_ms=0, now_ms=0)
    found = writer.prepare_commit(now_ms=0, checkpoint=True, end_of_input=False)
    found = writer.number_committables(found, checkpoint)
    writer.close()
    return found


def write(sink: DeltaSink, *values: Any, job: str = "job") -> None:
    sink.check()
    sink.build_committer().commit(stage(sink, *values, job=job))


@pytest.mark.slow
@pytest.mark.parametrize("partitions", [(), ("shop",)])
def test_sink_keeps_the_contract(tmp_path, partitions):
    def new_target() -> SinkTarget:
        path = tmp_path / f"t{next(NAMES)}"
        sink = builder(path, *partitions).build()
        return SinkTarget(sink, lambda: rows_of(path), lambda: hidden(path))

    def key(record: Any) -> Any:
        return record if type(record) is tuple else (record.number, record.shop)

    check_sink(new_target, record=order, key=key, parallelisms=((1, 1), (2, 3)))
