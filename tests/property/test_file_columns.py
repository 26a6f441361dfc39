"""Files written from columns are those written from rows, bucket by bucket, however records are cut and mixed."""

from __future__ import annotations

import csv
import datetime
import io
import json
import tempfile
from collections import defaultdict
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.base.errors import ConfigurationError, TypeMismatchError
from millstream.connectors.files.buckets import BucketAssigner
from millstream.connectors.files.sink import FileSink
from millstream.datastream.formats.csv import CsvBulkWriters, CsvSchema
from millstream.datastream.formats.json import JsonLinesBulkWriters
from millstream.datastream.formats.parquet import ParquetBulkWriters
from millstream.spi.batch import Columns, Rows
from millstream.spi.serialization import BulkWriter, BulkWriterFactory, Encoder
from millstream.spi.sink import WriterContext
from millstream.table import DataTypes
from millstream.types.row import Row

FIELDS = {
    "name": DataTypes.STRING(),
    "n": DataTypes.INT(),
    "x": DataTypes.DOUBLE(),
    "day": DataTypes.DATE(),
    "at": DataTypes.TIMESTAMP(),
    "tags": DataTypes.ARRAY(DataTypes.STRING()),
}
ROW_TYPE = DataTypes.ROW([DataTypes.FIELD(name, kind) for name, kind in FIELDS.items()])
ARROW = pa.schema(
    [
        ("name", pa.string()),
        ("n", pa.int32()),
        ("x", pa.float64()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us")),
        ("tags", pa.list_(pa.string())),
    ]
)


def csv_schema():
    builder = CsvSchema.builder()
    for name, kind in FIELDS.items():
        builder.add_column(name, kind)
    return builder.build()


class ByLength(BucketAssigner):
    """A user's own: asked for each record."""

    def get_bucket_id(self, element, context):
        return f"{len(element['name'] or '')}-{context.timestamp() % 2}"


class Default(BulkWriterFactory):
    """A user's format, which knows rows only."""

    def create(self, file):
        class Writer(BulkWriter):
            def add_elements(self, elements):
                file.writelines(f"{element!r}\n".encode() for element in elements)

            def finish(self):
                pass

        return Writer()


FORMATS = {
    "csv": lambda: CsvBulkWriters.for_schema(csv_schema()),
    "json": lambda: JsonLinesBulkWriters.for_schema(ROW_TYPE),
    "parquet": lambda: ParquetBulkWriters.for_row_type(ROW_TYPE),
    "own": Default,
    "encoder": Encoder.simple_string_encoder,
}


def hive(name, value):
    text = "" if value is None else {"a/b=%": "a%2Fb%3D%25"}.get(value, str(value))
    return f"{name}={text or '__HIVE_DEFAULT_PARTITION__'}"


def minute(ms, zone=0):
    return (datetime.datetime(1970, 1, 1) + datetime.timedelta(hours=zone, milliseconds=ms)).strftime(
        "%Y/%m-%d %H"
    )


ASSIGNERS = {
    "one": (BucketAssigner.base_path_bucket_assigner, lambda row, ms: ""),
    "by name": (lambda: BucketAssigner.field_bucket_assigner("name"), lambda row, ms: hive("name", row.name)),
    "by number": (lambda: BucketAssigner.field_bucket_assigner("n"), lambda row, ms: hive("n", row.n)),
    "by float": (lambda: BucketAssigner.field_bucket_assigner("x"), lambda row, ms: hive("x", row.x)),
    "by day": (lambda: BucketAssigner.field_bucket_assigner("day"), lambda row, ms: hive("day", row.day)),
    "by time": (
        lambda: BucketAssigner.event_time_bucket_assigner("yyyy/MM-dd HH", "UTC"),
        lambda row, ms: minute(ms),
    ),
    "by zone": (
        lambda: BucketAssigner.event_time_bucket_assigner("yyyy/MM-dd HH", "GMT+02:00"),
        lambda row, ms: minute(ms, 2),
    ),
    "own": (ByLength, lambda row, ms: f"{len(row.name or '')}-{ms % 2}"),
}

rows = st.builds(
    Row,
    name=st.none() | st.sampled_from(["a", "b c", "a/b=%", "ä", ""]),
    n=st.none() | st.integers(0, 3),
    x=st.none() | st.sampled_from([0.0, -0.0, 1.5, 1e10]),
    day=st.none() | st.dates(datetime.date(2013, 1, 1), datetime.date(2013, 1, 3)),
    at=st.none()
    | st.datetimes(datetime.datetime(2013, 1, 1), datetime.datetime(2013, 1, 3), allow_imaginary=False).map(
        lambda at: at.replace(fold=0)
    ),
    tags=st.none() | st.lists(st.sampled_from(["t", "u"]), max_size=2),
)
stamps = st.one_of(st.integers(-(10**7), 10**7), st.integers(1_356_998_400_000, 1_357_098_400_000))


def written(form, assigner, records, pieces, as_columns):
    """Write records in pieces, as columns or rows in turn; return the contents of the files by bucket."""
    with tempfile.TemporaryDirectory() as base:
        output = FORMATS[form]()
        make = FileSink.for_row_format if form == "encoder" else FileSink.for_bulk_format
        sink = make(base, output).with_bucket_assigner(assigner).build()
        writer = sink.build_writer(WriterContext("job", "sink", 0, 1, 0))
        start, turn = 0, 0
        while start < len(records):
            part = records[start : start + pieces[turn % len(pieces)]]
            start += len(part)
            values, times = [row for row, _ in part], [ms for _, ms in part]
            if as_columns[turn % len(as_columns)]:
                batch = pa.RecordBatch.from_pylist([row.as_dict() for row in values], ARROW)
                writer.write(Columns(batch, pa.array(times, pa.int64())), watermark_ms=0, now_ms=0)
            else:
                writer.write(Rows(values, times), watermark_ms=0, now_ms=0)
            turn += 1
        sink.build_committer().commit(writer.prepare_commit(now_ms=0, checkpoint=True, end_of_input=True))
        found = defaultdict(list)
        for path in sorted(Path(base).rglob("*")):
            if path.is_file():
                bucket = "" if path.parent == Path(base) else str(path.parent.relative_to(base))
                found[bucket].append(contents(form, path))
        assert all(len(files) == 1 for files in found.values())
        return {bucket: files[0] for bucket, files in found.items()}


def contents(form, path):
    if form == "parquet":
        table = pq.read_table(path, partitioning=None)
        return table.schema.types, table.to_pylist()
    return path.read_bytes()


@settings(max_examples=60, deadline=None)
@given(
    form=st.sampled_from(sorted(FORMATS)),
    name=st.sampled_from(sorted(ASSIGNERS)),
    records=st.lists(st.tuples(rows, stamps), max_size=40),
    pieces=st.lists(st.integers(1, 15), min_size=1, max_size=3),
    as_columns=st.lists(st.booleans(), min_size=1, max_size=3),
)
def test_files_from_columns_are_those_from_rows(form, name, records, pieces, as_columns):
    make, expected_bucket = ASSIGNERS[name]
    from_rows = written(form, make(), records, pieces, [False])
    assert written(form, make(), records, pieces, [True]) == from_rows
    assert written(form, make(), records, pieces, as_columns) == from_rows
    by_bucket = defaultdict(list)
    for row, ms in records:
        by_bucket[expected_bucket(row, ms)].append(row)
    assert set(from_rows) == set(by_bucket)
    for bucket, members in by_bucket.items():
        assert names_in(form, from_rows[bucket]) == [(row.name or "", row.n) for row in members]


def names_in(form, content):
    """Return two fields of what is in a file, read by others' code."""
    if form == "csv":
        lines = csv.reader(io.StringIO(content.decode(), newline=""))
        return [(name, int(n) if n else None) for name, n, *_ in lines]
    if form in ("json", "parquet"):
        records = map(json.loads, content.decode().splitlines()) if form == "json" else content[1]
        return [(record["name"] or "", record["n"]) for record in records]
    values = [eval(line, {"Row": Row, "datetime": datetime}) for line in content.decode().splitlines()]
    return [(row.name or "", row.n) for row in values]


def write_batch(form, batch, assigner=None):
    with tempfile.TemporaryDirectory() as base:
        sink = FileSink.for_bulk_format(base, FORMATS[form]())
        sink = sink.with_bucket_assigner(assigner or BucketAssigner.base_path_bucket_assigner()).build()
        writer = sink.build_writer(WriterContext("job", "sink", 0, 1, 0))
        writer.write(Columns(batch), watermark_ms=0, now_ms=0)
        sink.build_committer().commit(writer.prepare_commit(now_ms=0, checkpoint=True, end_of_input=True))
        return [contents(form, path) for path in Path(base).rglob("*") if path.is_file()]


@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
def test_columns_of_other_types_are_taken_as_their_rows_would_be(form):
    row = {"name": "a", "n": 1, "x": 2, "day": None, "at": datetime.datetime(2013, 1, 1), "tags": []}
    schema = pa.schema(
        [
            ("x", pa.int8()),
            ("name", pa.dictionary(pa.int8(), pa.large_string())),
            ("n", pa.int64()),
            ("day", pa.null()),
            ("at", pa.timestamp("s")),
            ("tags", pa.large_list(pa.string())),
        ]
    )
    usual = pa.RecordBatch.from_pylist([row], ARROW)
    assert write_batch(form, pa.RecordBatch.from_pylist([row], schema)) == write_batch(form, usual)
    with pytest.raises(TypeMismatchError, match="column 'n'"):
        write_batch(form, pa.RecordBatch.from_pylist([{**row, "n": 1 << 40}], schema))
    with pytest.raises(TypeMismatchError, match="has 1 fields, the file has 6 columns"):
        write_batch(form, pa.record_batch({"name": ["a"]}))


def test_a_bucket_that_cannot_be_told_is_an_error():
    batch = pa.RecordBatch.from_pylist([{"name": "a"}], ARROW)
    with pytest.raises(ConfigurationError, match="have no field 'nope'"):
        write_batch("csv", batch, BucketAssigner.field_bucket_assigner("nope"))
    with pytest.raises(ConfigurationError, match="records without timestamps"):
        write_batch("csv", batch, BucketAssigner.event_time_bucket_assigner())
