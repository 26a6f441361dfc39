"""Read CSV files, keep what matters, write Parquet: a small ETL job.

millstream run --target local examples/csv_to_parquet.py
"""

import csv
import tempfile
from pathlib import Path

from millstream.common import WatermarkStrategy
from millstream.datastream import StreamExecutionEnvironment
from millstream.datastream.connectors.file_system import FileSink, FileSource
from millstream.datastream.formats.csv import CsvReaderFormat, CsvSchema
from millstream.datastream.formats.parquet import ParquetBulkWriters
from millstream.table import DataTypes


def make_csv(directory: Path) -> None:
    """Write a hundred orders."""
    with (directory / "orders.csv").open("w", newline="") as file:
        csv.writer(file).writerows([number, f"item-{number % 7}", number * 1.5] for number in range(100))


def main() -> None:
    """Print how many rows were read back."""
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        make_csv(directory)
        env = StreamExecutionEnvironment.get_execution_environment()
        schema = (
            CsvSchema.builder()
            .add_number_column("id", DataTypes.BIGINT())
            .add_string_column("item")
            .add_number_column("euros", DataTypes.DOUBLE())
            .build()
        )
        source = FileSource.for_record_stream_format(
            CsvReaderFormat.for_schema(schema), str(directory / "orders.csv")
        ).build()
        orders = env.from_source(source, WatermarkStrategy.no_watermarks(), "orders")
        row_type = DataTypes.ROW(
            [
                DataTypes.FIELD("id", DataTypes.BIGINT()),
                DataTypes.FIELD("item", DataTypes.STRING()),
                DataTypes.FIELD("euros", DataTypes.DOUBLE()),
            ]
        )
        sink = FileSink.for_bulk_format(
            str(directory / "out"), ParquetBulkWriters.for_row_type(row_type)
        ).build()
        orders.filter(lambda row: row.euros >= 75).sink_to(sink)
        env.execute("csv to parquet")

        from pyarrow import dataset

        table = dataset.dataset(directory / "out", format="parquet").to_table()
        print(f"{table.num_rows} rows, {sum(table['euros'].to_pylist())} euros")


if __name__ == "__main__":
    main()
