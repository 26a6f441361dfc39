"""What readers emit as columns is what they emit as rows, and files copied as columns are those copied as rows."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millstream.common import Configuration, WatermarkStrategy
from millstream.connectors.files.source import FileSource
from millstream.connectors.number_sequence import NumberSequenceSource
from millstream.datastream import StreamExecutionEnvironment
from millstream.datastream.connectors.file_system import BucketAssigner, FileSink, StreamFormat
from millstream.datastream.formats.csv import CsvBulkWriters, CsvReaderFormat, CsvSchema
from millstream.datastream.formats.json import JsonLinesBulkWriters, JsonLinesFormat
from millstream.datastream.formats.parquet import ParquetBulkWriters, ParquetColumnarRowInputFormat
from millstream.formats import block_records
from millstream.spi.batch import Columns
from millstream.spi.serialization import Encoder
from millstream.spi.sink import WriterContext
from millstream.spi.source import PlanRequest
from millstream.table import DataTypes
from millstream.types.row import Row

FIELDS = {
    "name": DataTypes.STRING(),
    "n": DataTypes.INT(),
    "x": DataTypes.DOUBLE(),
    "at": DataTypes.TIMESTAMP(),
    "m": DataTypes.DECIMAL(6, 2),
}
ROW_TYPE = DataTypes.ROW([DataTypes.FIELD(name, kind) for name, kind in FIELDS.items()])


def csv_schema():
    builder = CsvSchema.builder()
    for name, kind in FIELDS.items():
        builder.add_column(name, kind)
    return builder.set_use_header().build()


def records(count, *, odd):
    for number in range(count):
        at = datetime.datetime(2013, 1, 1) + datetime.timedelta(seconds=number)
        # What is odd is read one by one.
        text = f"{at:%Y%m%dT%H%M%S}" if odd and number % odd == 0 else str(at)
        yield {
            "name": f"n{number % 7}",
            "n": None if number % 5 == 0 else number,
            "x": number / 4,
            "at": text,
        }


def written(folder, form, count, odd):
    rows = list(records(count, odd=odd))
    path = folder / f"x.{form}"
    if form in ("json", "text"):
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif form == "csv":
        lines = [
            f"{row['name']},{'' if row['n'] is None else row['n']},{row['x']},{row['at']}," for row in rows
        ]
        path.write_text("\n".join([",".join(FIELDS), *lines, ""]))
    else:
        for row in rows:
            row["at"] = datetime.datetime.fromisoformat(row["at"])
        schema = pa.schema(
            [
                ("name", pa.string()),
                ("n", pa.int32()),
                ("x", pa.float64()),
                ("at", pa.timestamp("us")),
                ("m", pa.decimal128(6, 2)),
            ]
        )
        pq.write_table(pa.Table.from_pylist(rows, schema), path, row_group_size=max(1, count // 3))
    return path


def source_of(form, path):
    if form == "parquet":
        fmt = ParquetColumnarRowInputFormat(ROW_TYPE)
        return FileSource.for_bulk_file_format(fmt, str(path)).build()
    formats = {
        "json": lambda: JsonLinesFormat.for_schema(ROW_TYPE),
        "csv": lambda: CsvReaderFormat.for_schema(csv_schema()),
        "text": StreamFormat.text_line_format,
    }
    return FileSource.for_record_stream_format(formats[form](), str(path)).build()


def emitted(source, budgets, stops, *, columns):
    """Read a source to its end; return records, and the forms they came in."""
    enumerator, reader = source.build_enumerator(1, None), source.build_reader(0, 1)
    reader.wants_columns = columns
    reader.open()
    seen, forms, turn, finished = [], set(), 0, False
    while not finished:
        plan = enumerator.plan(PlanRequest(1, budgets[turn % len(budgets)], 0))
        stop = stops[turn % len(stops)]

        def emit(batch):
            forms.add(type(batch) is Columns)
            seen.extend(batch.to_rows().values)
            return not stop

        enumerator.advance([reader.read(each, emit) for each in plan.ranges.get(0, ())])
        if turn % 3 == 2:
            enumerator = source.build_enumerator(1, enumerator.snapshot())
            reader.close()
        finished = 0 in plan.finished
        turn += 1
        assert turn < 10_000
    return seen, forms


@pytest.mark.parametrize("form", ["json", "csv", "parquet", "text"])
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    count=st.integers(0, 200),
    odd=st.sampled_from([0, 0, 7, 90]),
    budgets=st.lists(st.integers(1, 120), min_size=1, max_size=3),
    stops=st.lists(st.booleans(), min_size=1, max_size=3),
    smallest=st.sampled_from([1, 1 << 60]),
)
def test_records_in_columns_are_those_in_rows(
    monkeypatch, tmp_path_factory, form, count, odd, budgets, stops, smallest
):
    monkeypatch.setattr(block_records, "SMALLEST_BLOCK_BYTES", smallest)
    path = written(tmp_path_factory.mktemp("in"), form, count, odd)
    rows, forms = emitted(source_of(form, path), [10_000], [False], columns=False)
    assert len(rows) == count and True not in forms
    if form != "text":
        assert all(type(row) is Row for row in rows)
    in_columns, forms = emitted(source_of(form, path), budgets, stops, columns=True)
    assert list(map(repr, in_columns)) == list(map(repr, rows))
    assert False not in forms


@given(
    start=st.integers(-50, 50) | st.sampled_from([(1 << 63) - 30, (1 << 63) + 5, -(1 << 63) - 5]),
    count=st.integers(1, 60),
    budgets=st.lists(st.integers(1, 40), min_size=1, max_size=3),
)
def test_numbers_in_a_column_are_those_in_rows(start, count, budgets):
    source = NumberSequenceSource(start, start + count - 1)
    numbers, _ = emitted(source, budgets, [False], columns=True)
    assert numbers == list(range(start, start + count))
    assert all(type(number) is int for number in numbers)


class Watched(FileSink):
    """Notes the forms in which records come."""

    forms: set[bool] = set()

    def build_writer(self, context):
        writer = super().build_writer(context)
        right = writer.write

        def write(batch, **times):
            Watched.forms.add(type(batch) is Columns)
            right(batch, **times)

        writer.write = write
        return writer


def copied(source, output, target, *, rows, parallelism=2, **options):
    Watched.forms = set()
    configuration = {
        "execution.target": "local",
        "parallelism.default": parallelism,
        "execution.checkpointing.interval": "5 ms",
        "millstream.epoch.fixed-records": 70,
        **options,
    }
    environment = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(configuration))
    stream = environment.from_source(source, WatermarkStrategy.no_watermarks(), "files")
    if rows:
        stream = stream.map(lambda row: row)
    sink = FileSink.for_bulk_format(str(target), output).with_bucket_assigner(
        BucketAssigner.field_bucket_assigner("name")
    )
    stream.sink_to(Watched(sink.build()._settings))
    environment.execute()
    assert Watched.forms == {not rows}
    return {
        str(folder.relative_to(target)): sorted(sum((lines(path) for path in sorted(folder.iterdir())), []))
        for folder in Path(target).iterdir()
    }


def lines(path):
    if path.read_bytes().startswith(b"PAR1"):
        return list(map(repr, pq.read_table(path, partitioning=None).to_pylist()))
    return path.read_text().splitlines()


OUTPUTS = {
    "json": lambda: JsonLinesBulkWriters.for_schema(ROW_TYPE),
    "csv": lambda: CsvBulkWriters.for_schema(csv_schema()),
    "parquet": lambda: ParquetBulkWriters.for_row_type(ROW_TYPE),
}


@pytest.mark.slow
@pytest.mark.parametrize("form", ["json", "csv", "parquet"])
@pytest.mark.parametrize("to", ["json", "csv", "parquet"])
def test_a_copy_in_columns_is_the_copy_in_rows(tmp_path, form, to):
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(3):
        written(folder, form, 500, 90).rename(folder / f"{number}.{form}")
    as_rows = copied(source_of(form, folder), OUTPUTS[to](), tmp_path / "rows", rows=True)
    as_columns = copied(source_of(form, folder), OUTPUTS[to](), tmp_path / "columns", rows=False)
    heads = {"csv": lambda each: [line for line in each if not line.startswith("name,")]}.get(to, list)
    assert {name: heads(each) for name, each in as_columns.items()} == {
        name: heads(each) for name, each in as_rows.items()
    }
    assert sum(len(heads(each)) for each in as_columns.values()) == 1_500


def test_files_that_are_written_record_by_record_want_rows(tmp_path):
    sink = FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder()).build()
    assert not sink.build_writer(WriterContext("job", "sink", 0, 1, 0)).takes_columns
