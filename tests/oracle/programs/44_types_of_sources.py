"""What a stream of a source is typed as: CSV files, lines of text, generated numbers."""

import tempfile
from pathlib import Path

from pyflink.common import Types, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSource, StreamFormat
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.datastream.formats.csv import CsvReaderFormat, CsvSchema
from pyflink.table import DataTypes

with tempfile.TemporaryDirectory() as folder:
    Path(folder, "people.csv").write_text("1,ann,1.5,true\n2,bo,2.0,false\n3,,0.1,true\n", "utf-8")
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    schema = (
        CsvSchema.builder()
        .add_number_column("id", number_type=DataTypes.BIGINT())
        .add_string_column("name")
        .add_number_column("score", number_type=DataTypes.DOUBLE())
        .add_boolean_column("well")
        .build()
    )

    def read(stream_format, name):
        source = FileSource.for_record_stream_format(stream_format, folder)
        return env.from_source(source.build(), WatermarkStrategy.no_watermarks(), name)

    rows = read(CsvReaderFormat.for_schema(schema), "rows")
    rows.print("row")
    rows.map(lambda row: row.name).print("name")
    lines = read(StreamFormat.text_line_format(), "lines")
    lines.print("line")
    lines.union(lines).print("twice")
    numbers = env.from_source(
        NumberSequenceSource(1, 3), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG()
    )
    numbers.print("number")
    more = env.from_source(NumberSequenceSource(7, 8), WatermarkStrategy.no_watermarks(), "more")
    more.union(numbers).print("both")
    env.execute()
