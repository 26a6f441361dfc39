"""Records of files that tell where they came from."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from millstream.base.errors import ConfigurationError
from millstream.connectors.files.source import FileSource
from millstream.datastream.formats.avro import AvroBulkWriters, AvroFormat, AvroSchema
from millstream.formats.json.reader import JsonLinesFormat
from millstream.formats.parquet.reader import ParquetColumnarRowInputFormat
from millstream.formats.text.lines import StreamFormat
from millstream.table import DataTypes
from millstream.testing import SourceRun, check_source
from millstream.types.row import Row

KIND = DataTypes.ROW([DataTypes.FIELD("n", DataTypes.BIGINT())])
SIZES = {"a": 50, "b": 0, "c": 17}


def expected(folder, value, ending):
    return [
        Row(**value(name, n), file_path=f"{folder}/{name}{ending}", record_number=n)
        for name, size in SIZES.items()
        for n in range(size)
    ]


def test_lines_tell_their_file_and_number(tmp_path):
    for name, size in SIZES.items():
        (tmp_path / f"{name}.txt").write_text("".join(f"{name}{n}\n" for n in range(size)))

    source = (
        FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path))
        .add_metadata()
        .build()
    )
    check_source(
        source,
        parallelisms=(2,),
        budgets=(10,),
        expected=expected(tmp_path, lambda name, n: {"value": f"{name}{n}"}, ".txt"),
    )


def test_rows_tell_their_file_and_number(tmp_path):
    for name, size in SIZES.items():
        text = "".join(json.dumps({"n": n}) + "\n" for n in range(size))
        (tmp_path / f"{name}.json").write_text(text)

    source = (
        FileSource.for_record_stream_format(JsonLinesFormat.for_schema(KIND), str(tmp_path))
        .add_metadata()
        .build()
    )
    check_source(
        source,
        parallelisms=(2,),
        budgets=(10,),
        expected=expected(tmp_path, lambda name, n: {"n": n}, ".json"),
    )


@pytest.mark.parametrize("columns", [True, False])
@pytest.mark.parametrize("budget", [7, 1_000])
def test_rows_of_bulk_formats_tell_theirs_as_columns_too(tmp_path, columns, budget):
    for name, size in SIZES.items():
        pq.write_table(pa.table({"n": pa.array(range(size), pa.int64())}), tmp_path / f"{name}.parquet")
    fmt = ParquetColumnarRowInputFormat(KIND)
    source = FileSource.for_bulk_file_format(fmt, str(tmp_path)).add_metadata("file", "row").build()
    found = SourceRun(source, 1, budget, columns=columns).run()
    assert [(row.n, row.file, row.row) for row in found] == [
        (row.n, row.file_path, row.record_number)
        for row in expected(tmp_path, lambda name, n: {"n": n}, ".parquet")
    ]


def test_generic_records_get_two_more_entries(tmp_path):
    text = '{"type": "record", "name": "a", "fields": [{"name": "n", "type": "long"}]}'
    schema = AvroSchema.parse_string(text)
    with open(tmp_path / "a.avro", "wb") as file:
        writer = AvroBulkWriters.for_generic_record(schema).create(file)
        writer.add_elements([{"n": n} for n in range(20)])
        writer.finish()
    fmt = AvroFormat.for_generic_record(schema)
    source = FileSource.for_bulk_file_format(fmt, str(tmp_path)).add_metadata().build()
    path = f"{tmp_path}/a.avro"
    assert SourceRun(source, 1, 6, columns=True).run() == [
        {"n": n, "file_path": path, "record_number": n} for n in range(20)
    ]


def test_names_and_parts_are_checked(tmp_path):
    builder = FileSource.for_record_stream_format(JsonLinesFormat.for_schema(KIND), str(tmp_path))
    for names in (("", "n"), ("x", "x")):
        with pytest.raises(ConfigurationError, match="need two names"):
            builder.add_metadata(*names)
    with pytest.raises(ConfigurationError, match="a split size and metadata"):
        builder.add_metadata().set_split_size(10).build()
    (tmp_path / "a").write_text('{"n": 1}\n')
    builder = FileSource.for_record_stream_format(JsonLinesFormat.for_schema(KIND), str(tmp_path))
    with pytest.raises(ConfigurationError, match="have a field 'n', as metadata have"):
        SourceRun(builder.add_metadata("file", "n").build(), 1, 10).run()
