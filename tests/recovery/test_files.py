"""From files into files: each record is in what readers see exactly once, and nothing unfinished is."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recovery_support import FAULTS, Tap, new_environment, running

from millstream.common import Encoder, Types, WatermarkStrategy
from millstream.connectors.files.rolling import RollingPolicy
from millstream.connectors.files.sink import FileSink
from millstream.connectors.files.source import FileSource
from millstream.formats.csv.reader import CsvReaderFormat
from millstream.formats.csv.schema import CsvSchema
from millstream.formats.parquet.writer import ParquetBulkWriters
from millstream.table import DataTypes

LENGTHS = [17, 0, 30, 8]
RECORDS = Counter((f"file {file}", line) for file, length in enumerate(LENGTHS) for line in range(length))
ROW = DataTypes.ROW([DataTypes.FIELD("name", DataTypes.STRING()), DataTypes.FIELD("line", DataTypes.INT())])


def rows_sink(directory):
    policy = RollingPolicy.default_rolling_policy(
        part_size=40, rollover_interval=10**6, inactivity_interval=10**6
    )
    return FileSink.for_row_format(str(directory), Encoder.simple_string_encoder()).with_rolling_policy(
        policy
    )


def parquet_sink(directory):
    return FileSink.for_bulk_format(str(directory), ParquetBulkWriters.for_row_type(ROW))


def seen(directory):
    """Return what readers see: they leave out hidden files."""
    return [path for path in directory.rglob("*") if path.is_file() and not path.name.startswith((".", "_"))]


def lines_of(files):
    pairs = (line.rpartition(",") for path in files for line in path.read_text().splitlines())
    return Counter((name, int(line)) for name, _, line in pairs)


def rows_of(files):
    return Counter(
        (row["name"], row["line"]) for path in files for row in pq.ParquetFile(path).read().to_pylist()
    )


def pairs(row):
    return f"{row[0]},{row[1]}"


KINDS = {"rows": (rows_sink, lines_of), "parquet": (parquet_sink, rows_of)}


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=10, deadline=None)
@given(
    gaps=st.tuples(st.integers(1, 50), st.lists(st.integers(1, 60), max_size=3)).map(lambda g: [g[0], *g[1]]),
    interval=st.integers(1, 15),
    parallelism=st.integers(1, 3),
    epoch=st.sampled_from([1, 4, 10]),
)
def test_every_record_is_in_finished_files_once(kind, gaps, interval, parallelism, epoch):
    build_sink, read = KINDS[kind]
    schema = CsvSchema.builder().add_string_column("name").add_number_column("line", DataTypes.INT()).build()
    with tempfile.TemporaryDirectory() as name:
        inputs, outputs = Path(name) / "in", Path(name) / "out"
        inputs.mkdir()
        for file, length in enumerate(LENGTHS):
            (inputs / f"{file}.csv").write_text("".join(f"file {file},{line}\n" for line in range(length)))
        environment = new_environment(parallelism, epoch, execution_checkpointing_interval=interval)
        source = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), str(inputs)).build()
        stream = environment.from_source(source, WatermarkStrategy.no_watermarks(), "files").map(Tap())
        if kind == "rows":
            stream = stream.map(pairs, Types.STRING())
        stream.sink_to(build_sink(outputs).build())
        FAULTS.arm(*gaps)
        with running():
            environment.execute()
        assert FAULTS.raised
        files = seen(outputs)
        assert read(files) == RECORDS
        assert not [path for path in files if "inprogress" in path.name]
