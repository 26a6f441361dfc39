from __future__ import annotations

import io
import pickle

import pyarrow.parquet
import pytest

from millstream.base.errors import ConfigurationError, NotSupportedError, SinkError
from millstream.common import Row
from millstream.connectors.files.compaction import FileCompactor, FileCompactStrategy
from millstream.connectors.files.sink import FileSink
from millstream.datastream.formats.csv import CsvBulkWriters, CsvSchema
from millstream.formats.parquet.writer import ParquetBulkWriters
from millstream.spi.serialization import BulkWriter, BulkWriterFactory, Encoder
from millstream.table import DataTypes

ROW = DataTypes.ROW([DataTypes.FIELD("a", DataTypes.INT()), DataTypes.FIELD("b", DataTypes.STRING())])
ROWS = [[Row(a=1, b="x")], [Row(a=2, b="y"), Row(a=3, b=None)], [Row(a=4, b="x,\n")]]


def written(factory, rows):
    file = io.BytesIO()
    writer = factory.create(file)
    writer.add_elements(rows)
    writer.finish()
    return file.getvalue()


def merged(compactor, files):
    output = io.BytesIO()
    pickle.loads(pickle.dumps(compactor)).compact([io.BytesIO(file) for file in files], output)
    return output.getvalue()


def csv_schema(*, header):
    builder = CsvSchema.builder().add_number_column("a", number_type=DataTypes.INT()).add_string_column("b")
    return (builder.set_use_header() if header else builder).build()


def test_parquet_files_are_merged_record_by_record():
    factory = ParquetBulkWriters.for_row_type(ROW)
    compactor = FileCompactor.identical_file_compactor().for_output(factory)
    data = merged(compactor, [written(factory, rows) for rows in ROWS])
    expected = [{"a": row["a"], "b": row["b"]} for rows in ROWS for row in rows]
    table = pyarrow.parquet.ParquetFile(io.BytesIO(data))
    assert table.read().to_pylist() == expected
    assert table.num_row_groups == 1


@pytest.mark.parametrize("header", [True, False])
def test_csv_files_are_merged_as_if_written_at_once(header):
    factory = CsvBulkWriters.for_schema(csv_schema(header=header))
    compactor = FileCompactor.identical_file_compactor().for_output(factory)
    files = [written(factory, rows) for rows in ROWS]
    assert merged(compactor, files) == written(factory, [row for rows in ROWS for row in rows])


def test_file_with_another_head_is_not_merged():
    factory = CsvBulkWriters.for_schema(csv_schema(header=True))
    compactor = FileCompactor.identical_file_compactor().for_output(factory)
    with pytest.raises(SinkError, match="cannot be merged"):
        merged(compactor, [written(factory, ROWS[0]), b"1,x\n"])


def test_rows_are_put_behind_each_other_with_a_delimiter():
    assert merged(FileCompactor.concat_file_compactor(), [b"a\n", b"", b"b\n"]) == b"a\nb\n"
    assert merged(FileCompactor.concat_file_compactor(b"--"), [b"a", b"b", b"c"]) == b"a--b--c"


@pytest.mark.parametrize(
    "factory", [ParquetBulkWriters.for_row_type(ROW), CsvBulkWriters.for_schema(csv_schema(header=True))]
)
def test_concatenation_that_would_damage_files_is_refused(tmp_path, factory):
    strategy = FileCompactStrategy.builder().set_size_threshold(1).build()
    with pytest.raises(ConfigurationError, match="would damage files"):
        FileSink.for_bulk_format(str(tmp_path), factory).enable_compact(
            strategy, FileCompactor.concat_file_compactor()
        )


def test_format_that_is_neither_text_nor_parquet_is_refused():
    class Sealed(BulkWriter):
        def __init__(self, file):
            self.file = file

        def add_elements(self, elements):
            self.file.write(bytes(elements))

        def finish(self):
            self.file.write(b"\xff\xff")

    class Factory(BulkWriterFactory):
        def create(self, file):
            return Sealed(file)

    with pytest.raises(NotSupportedError, match="cannot be merged record by record"):
        FileCompactor.identical_file_compactor().for_output(Factory())


def test_strategy_that_never_merges_is_refused():
    with pytest.raises(ConfigurationError, match="neither by checkpoints nor by size"):
        FileCompactStrategy.builder().build()
    with pytest.raises(ConfigurationError, match="must be positive"):
        FileCompactStrategy.Builder().enable_compaction_on_checkpoint(0)


def test_things_of_other_kinds_are_refused(tmp_path):
    made = FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder())
    with pytest.raises(ConfigurationError, match="str is no FileCompactStrategy"):
        made.enable_compact("strategy", FileCompactor.concat_file_compactor())
