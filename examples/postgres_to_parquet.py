"""Reads a table or a query from PostgreSQL and writes it as Parquet files, on a disk or in S3.

    python postgres_to_parquet.py postgresql://reader@db.example.org/shop --table orders --output s3://lake/orders

The table is read side by side, in ranges of its primary key, as it is at one moment. Files appear when they are whole,
and each row is in them once, also if slots or the server die on the way. With `--checkpoints`, a driver that died goes
on where it was: `millstream run --recover postgres_to_parquet.py ...`.

A password that is not in the URL is looked for in PGPASSWORD and ~/.pgpass, keys of S3 in the usual variables of the
environment, and `-D s3.endpoint=...` sets any option.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from millstream.common import Configuration, WatermarkStrategy
from millstream.datastream import StreamExecutionEnvironment
from millstream.datastream.connectors.file_system import FileSink
from millstream.datastream.connectors.postgres import PostgresSource
from millstream.datastream.formats.parquet import ParquetBulkWriters


def main(arguments: Sequence[str] | None = None) -> None:
    """Copy what the command line says."""
    options = _parser().parse_args(arguments)
    environment = build_environment(options)
    add_copy(environment, options)
    environment.execute(f"{options.table or 'query'} to {options.output}")


def add_copy(environment: StreamExecutionEnvironment, options: argparse.Namespace) -> None:
    """Add the copy to a program."""
    source = build_source(options)
    row_type = source.read_row_type()
    environment.from_source(source, WatermarkStrategy.no_watermarks(), "table").uid("table").sink_to(
        FileSink.for_bulk_format(options.output, ParquetBulkWriters.for_row_type(row_type)).build()
    ).uid("files")


def build_source(options: argparse.Namespace) -> PostgresSource:
    """Declare what is read."""
    builder = PostgresSource.builder().set_url(options.url)
    builder = builder.set_table(options.table) if options.table else builder.set_query(options.query)
    if options.columns:
        builder.set_columns(*options.columns.split(","))
    if options.split_column:
        builder.set_split_column(options.split_column)
    return builder.set_split_size(options.split_size).build()


def build_environment(options: argparse.Namespace) -> StreamExecutionEnvironment:
    """Say where and how the job runs."""
    settings = {"execution.target": options.target}
    if options.checkpoints:
        settings |= {
            "execution.checkpointing.interval": "10 s",
            "execution.checkpointing.dir": options.checkpoints,
            "high-availability.storageDir": options.checkpoints,
        }
    settings |= dict(each.split("=", 1) for each in options.define)
    environment = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    environment.set_parallelism(options.parallelism)
    return environment


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("url", help="postgresql://user:password@host:port/database")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--table", help="a table or view, as in SQL")
    what.add_argument("--query", help="a SELECT; give it a --split-column to have it read side by side")
    parser.add_argument("--output", required=True, help="a directory, or s3://bucket/prefix")
    parser.add_argument("--columns", help="names with commas between; all by default")
    parser.add_argument("--split-column", help="what to cut the rows by; the primary key by default")
    parser.add_argument(
        "--split-size", type=int, default=200_000, help="rows that one subtask reads at a time"
    )
    parser.add_argument(
        "--target", default="local[*]", help="where to run: local, local[2], spark://host:7077"
    )
    parser.add_argument("--parallelism", type=int, default=2, help="how many connections read")
    parser.add_argument("--checkpoints", help="a directory for checkpoints, to go on from if the job fails")
    parser.add_argument(
        "-D", dest="define", action="append", default=[], metavar="KEY=VALUE", help="set an option"
    )
    return parser


if __name__ == "__main__":
    main()
