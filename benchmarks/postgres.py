"""What it costs to read a table of PostgreSQL into Parquet: a job beside a loop by hand that does the same.

    python benchmarks/postgres.py [--rounds 3] [--records 1000000] [--json FILE]

A server is started, on this machine. Each run is a process of its own, which reads a table of six columns and writes
Parquet files: a job of `PostgresSource` and `FileSink` on the local executor, with one subtask; or a loop that fetches
rows by a server-side cursor of psycopg's, in binary, 20,000 at a time, and has pyarrow make columns of them. Processor
seconds are of the client. The loop is right for one connection and a run without failures.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import figures

sys.path.append(str(Path(__file__).parents[1] / "tests"))

TABLE = "orders (id bigint PRIMARY KEY, name text, cents int, at timestamp, rate float8, paid bool)"
ROWS = """
INSERT INTO orders
SELECT n, 'order ' || n, n %% 997, '2024-01-01'::timestamp + n * interval '1.001 s', n / 7.0, n %% 3 = 0
FROM generate_series(1, %s::int) n
"""
FETCHED = 20_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--records", type=int, default=1_000_000)
    figures.add_option(parser)
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        print(json.dumps(_measure(*arguments.worker, arguments.records)))
        return
    from servers.postgres import PostgresServer

    server = PostgresServer()
    seen: dict[str, list[dict[str, float]]] = {"job": [], "loop": []}
    try:
        server.start()
        with server.new_database() as database:
            database.execute(f"CREATE TABLE {TABLE}")
            database.execute(ROWS, (arguments.records,))
            database.execute("VACUUM ANALYZE orders")
            for number in range(arguments.rounds):
                for who in ("loop", "job")[:: (-1) ** number]:
                    seen[who].append(_start(who, database.url, arguments.records))
    finally:
        server.close()
    for who, runs in seen.items():
        cpu, wall = (median(run[each] for run in runs) for each in ("cpu", "wall"))
        print(f"{who}: {cpu:.2f} processor seconds, {wall:.2f} s")
    times = {who: [run["cpu"] for run in runs] for who, runs in seen.items()}
    what = "a table of PostgreSQL to Parquet"
    figures.write(
        arguments.json,
        [
            figures.beside(
                "read", what, times["job"], times["loop"], unit="s", peer="psycopg and pyarrow by hand"
            )
        ],
    )


def _start(who: str, url: str, records: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--worker", who, url, "--records", str(records)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "src")}
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, timeout=300)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _measure(who: str, url: str, records: int) -> dict[str, float]:
    from pyarrow import parquet

    run = _loop if who == "loop" else _job
    directory = Path(tempfile.mkdtemp())
    try:
        run(url, "SELECT * FROM orders WHERE id <= 10", directory / "first")
        begun, spent = time.perf_counter(), time.process_time()
        run(url, None, directory / "all")
        wall, cpu = time.perf_counter() - begun, time.process_time() - spent
        count = sum(parquet.read_metadata(path).num_rows for path in (directory / "all").rglob("part-*"))
    finally:
        shutil.rmtree(directory)
    assert count == records, f"{count} of {records} rows are in the files"
    return {"wall": wall, "cpu": cpu}


def _job(url: str, query: str | None, directory: Path) -> None:
    from millstream.common import Configuration, WatermarkStrategy
    from millstream.datastream import StreamExecutionEnvironment
    from millstream.datastream.connectors.file_system import FileSink
    from millstream.datastream.connectors.postgres import PostgresSource
    from millstream.datastream.formats.parquet import ParquetBulkWriters

    settings = Configuration.from_dict({"execution.target": "local"})
    environment = StreamExecutionEnvironment.get_execution_environment(settings).set_parallelism(1)
    builder = PostgresSource.builder().set_url(url)
    source = (builder.set_table("orders") if query is None else builder.set_query(query)).build()
    writers = ParquetBulkWriters.for_row_type(source.read_row_type())
    rows = environment.from_source(source, WatermarkStrategy.no_watermarks(), "orders")
    rows.sink_to(FileSink.for_bulk_format(str(directory), writers).build())
    environment.execute()


def _loop(url: str, query: str | None, directory: Path) -> None:
    import psycopg
    import pyarrow as pa
    from pyarrow import parquet

    kinds = (pa.int64(), pa.string(), pa.int32(), pa.timestamp("us"), pa.float64(), pa.bool_())
    schema = pa.schema(list(zip(("id", "name", "cents", "at", "rate", "paid"), kinds, strict=True)))
    directory.mkdir()
    cursor: Any
    with (
        psycopg.connect(url) as connection,
        connection.cursor(name="rows", binary=True) as cursor,
        parquet.ParquetWriter(directory / "part-0", schema) as writer,
    ):
        cursor.execute(query or "SELECT * FROM orders")
        while rows := cursor.fetchmany(FETCHED):
            columns = [
                pa.array(values, kind) for values, kind in zip(zip(*rows, strict=True), kinds, strict=True)
            ]
            writer.write_batch(pa.record_batch(columns, schema=schema))


if __name__ == "__main__":
    main()
