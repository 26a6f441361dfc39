"""The older name of the file sink, as PyFlink's programs use it."""

from __future__ import annotations

import pytest

from millstream.base.errors import ConfigurationError
from millstream.common import Encoder, Types
from millstream.datastream.connectors.base import WriterContext
from millstream.datastream.connectors.file_system import (
    BucketAssigner,
    FileSink,
    OutputFileConfig,
    RollingPolicy,
    StreamingFileSink,
)
from millstream.datastream.formats.csv import CsvBulkWriters, CsvSchema
from millstream.operators.base import connector_name
from millstream.table import DataTypes
from millstream.testing import MiniCluster, SinkTarget, check_sink


def rows(path):
    builder = StreamingFileSink.for_row_format(str(path), Encoder.simple_string_encoder())
    builder = builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
    return builder.with_rolling_policy(RollingPolicy.default_rolling_policy(1 << 20, 1000, 1000))


def lines(path):
    return [line for file in path.glob("part-*") for line in file.read_text().splitlines()]


def test_a_program_gives_it_to_add_sink(tmp_path):
    config = OutputFileConfig.builder().with_part_prefix("part").with_part_suffix(".txt").build()
    sink = rows(tmp_path).with_bucket_check_interval(100).with_output_file_config(config).build()
    with MiniCluster() as cluster:
        environment = cluster.environment()
        environment.from_collection(["a", "b"], Types.STRING()).add_sink(sink).name("files")
        environment.execute()
    assert sorted(lines(tmp_path)) == ["a", "b"]
    assert all(file.suffix == ".txt" for file in tmp_path.glob("part-*"))


def test_bulk_formats(tmp_path):
    schema = CsvSchema.builder().add_number_column("n", number_type=DataTypes.BIGINT()).build()
    builder = StreamingFileSink.for_bulk_format(str(tmp_path), CsvBulkWriters.for_schema(schema))
    with pytest.raises(ConfigurationError, match="cannot roll by size or age"):
        builder.with_rolling_policy(RollingPolicy.default_rolling_policy())
    sink = builder.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build()
    assert isinstance(sink, StreamingFileSink)
    with pytest.raises(ConfigurationError, match="is no BulkWriterFactory"):
        StreamingFileSink.for_bulk_format(str(tmp_path), Encoder.simple_string_encoder())
    with pytest.raises(ConfigurationError, match="is no Encoder"):
        StreamingFileSink.for_row_format(str(tmp_path), "text")


def test_it_keeps_the_contract(tmp_path):
    count = iter(range(10_000))

    def target():
        folder = tmp_path / str(next(count))
        folder.mkdir()
        return SinkTarget(rows(folder).build(), lambda: lines(folder))

    check_sink(target, parallelisms=((1, 2),))


def test_what_it_left_is_taken_over_by_a_file_sink(tmp_path):
    assert connector_name(rows(tmp_path).build()) == "FileSink"
    context = WriterContext("job", "sink", 0, 1, 0)
    writer = rows(tmp_path).build().build_writer(context)
    assert type(writer) is type(
        FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder()).build().build_writer(context)
    )
