"""What it costs to write a table of PostgreSQL: a job with a JdbcSink beside a loop by hand that does the same.

    python benchmarks/databases.py [--rounds 3] [--records 200000] [--only append upsert ...] [--write] [--json FILE]

A server is started, on this machine, that syncs nothing. Each run is a process of its own: records of three columns
are made of a number sequence, and one subtask of the local executor writes them into an empty table, with a checkpoint
about once a second where rows are published exactly once. The loop makes the same records and writes them with psycopg,
in batches of as many: by COPY; by COPY into a temporary table and `INSERT .. ON CONFLICT`; by `executemany`; exactly
once by COPY into a table of its own, `INSERT .. SELECT` and a marker row in one transaction. Processor seconds are of
the client. A job of ten records is run first and not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any

import figures

sys.path.append(str(Path(__file__).parents[1] / "tests"))

RESULTS = Path(__file__).parent / "results" / "databases.md"
JOBS = {
    "append": "append, at least once",
    "upsert": "upsert by key, at least once",
    "statement": "`JdbcSink.sink(INSERT ... ON CONFLICT)`",
    "append-once": "append, exactly once",
    "upsert-once": "upsert by key, exactly once",
}
BATCH = 5_000
UPSERT = "ON CONFLICT (id) DO UPDATE SET name = excluded.name, cents = excluded.cents"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--only", nargs="*", default=list(JOBS), choices=list(JOBS))
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS}")
    figures.add_option(parser)
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        print(json.dumps(_measure(*arguments.worker, arguments.records, arguments.port)))
        return
    from servers.postgres import PostgresServer

    server = PostgresServer()
    seen: dict[tuple[str, str], list[dict[str, float]]] = defaultdict(list)
    try:
        server.start()
        for number in range(arguments.rounds):
            for job in arguments.only:
                for who in ("loop", "job")[:: (-1) ** number]:
                    seen[job, who].append(_start(who, job, arguments.records, server.port))
    finally:
        server.close()
    page = _page(seen, arguments.only, arguments.records, arguments.rounds)
    print(page)
    if arguments.write:
        RESULTS.write_text(page)
    times = {key: [run["cpu"] for run in runs] for key, runs in seen.items()}
    figures.write(
        arguments.json,
        [
            figures.beside(
                job, JOBS[job], times[job, "job"], times[job, "loop"], unit="s", peer="psycopg by hand"
            )
            for job in arguments.only
        ],
    )


def _start(who: str, job: str, records: int, port: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--worker", who, job, "--records", str(records), "--port", str(port)]
    source = str(Path(__file__).parents[1] / "src")
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": source},
        check=True,
        stdout=subprocess.PIPE,
        timeout=300,
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _measure(who: str, job: str, records: int, port: int) -> dict[str, float]:
    run = _loop if who == "loop" else _job
    with _connect(port, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS orders")
        connection.execute("CREATE TABLE orders (id BIGINT NOT NULL PRIMARY KEY, name TEXT, cents BIGINT)")
        connection.execute("CREATE TABLE IF NOT EXISTS markers (name TEXT PRIMARY KEY, number BIGINT)")
        run(job, 10, port)
        connection.execute("TRUNCATE orders")
        begun, spent = time.perf_counter(), time.process_time()
        run(job, records, port)
        wall, cpu = time.perf_counter() - begun, time.process_time() - spent
        (count,) = connection.execute("SELECT COUNT(*) FROM orders").fetchone()
        assert count == records, f"{count} of {records} records are in the table"
    return {"wall": wall, "cpu": cpu}


def _connect(port: int, **options: Any) -> Any:
    import psycopg

    from servers.postgres import PostgresServer

    password = PostgresServer.password
    return psycopg.connect(
        host="127.0.0.1", port=port, user="postgres", password=password, dbname="postgres", **options
    )


def _record(number: int) -> tuple[int, str, int]:
    return number, f"order {number}", number % 997


def _job(job: str, records: int, port: int) -> None:
    from millstream.common import Configuration, Types, WatermarkStrategy
    from millstream.datastream import StreamExecutionEnvironment
    from millstream.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcExecutionOptions, JdbcSink
    from millstream.datastream.connectors.number_seq import NumberSequenceSource
    from servers.postgres import PostgresServer

    environment = StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_dict({"execution.target": "local"})
    )
    environment.set_parallelism(1)
    database = (
        JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
        .with_url(f"jdbc:postgresql://127.0.0.1:{port}/postgres")
        .with_user_name("postgres")
        .with_password(PostgresServer.password)
        .build()
    )
    batches = JdbcExecutionOptions.builder().with_batch_size(BATCH).build()
    kind = Types.ROW_NAMED(["id", "name", "cents"], [Types.LONG(), Types.STRING(), Types.LONG()])
    builder = JdbcSink.table("orders").with_columns("id", "name", "cents").with_execution_options(batches)
    if job.startswith("upsert"):
        builder.with_key_columns("id")
    if job == "statement":
        sink = JdbcSink.sink(f"INSERT INTO orders VALUES (?, ?, ?) {UPSERT}", kind, database, batches)
    elif job.endswith("once"):
        environment.enable_checkpointing(1000)
        sink = builder.build_exactly_once(database)
    else:
        sink = builder.build_at_least_once(database)
    numbers = environment.from_source(
        NumberSequenceSource(0, records - 1), WatermarkStrategy.no_watermarks(), "numbers"
    )
    numbers.map(_record).sink_to(sink)
    environment.execute()


def _loop(job: str, records: int, port: int) -> None:
    with _connect(port) as connection:
        if job not in ("append", "statement"):
            extra = ", 0::bigint AS position" if job == "upsert-once" else ""
            how = "TEMPORARY" if job == "upsert" else ""
            connection.execute(
                f"CREATE {how} TABLE IF NOT EXISTS stage AS SELECT id, name, cents{extra} FROM orders WITH NO DATA"
            )
        for start in range(0, records, BATCH):
            rows = [_record(number) for number in range(start, min(start + BATCH, records))]
            _write_by_hand(connection, job, rows)
        if job.endswith("once"):
            _publish_by_hand(connection, job)


def _write_by_hand(connection: Any, job: str, rows: list[tuple[Any, ...]]) -> None:
    with connection.cursor() as cursor:
        if job == "statement":
            cursor.executemany(f"INSERT INTO orders VALUES (%s, %s, %s) {UPSERT}", rows)
        elif job == "upsert-once":
            _copy(cursor, "stage", [(*row, position) for position, row in enumerate(rows)])
        else:
            _copy(cursor, "orders" if job == "append" else "stage", rows)
        if job == "upsert":
            cursor.execute(f"INSERT INTO orders SELECT * FROM stage {UPSERT}")
            cursor.execute("TRUNCATE stage")
    connection.commit()


def _copy(cursor: Any, table: str, rows: list[tuple[Any, ...]]) -> None:
    with cursor.copy(f"COPY {table} FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)


def _publish_by_hand(connection: Any, job: str) -> None:
    connection.execute("INSERT INTO markers VALUES ('loop', 1) ON CONFLICT (name) DO UPDATE SET number = 1")
    if job == "append-once":
        connection.execute("INSERT INTO orders SELECT * FROM stage")
    else:
        last = "SELECT DISTINCT ON (id) id, name, cents FROM stage ORDER BY id, position DESC"
        connection.execute(f"INSERT INTO orders {last} {UPSERT}")
    connection.execute("DROP TABLE stage")
    connection.commit()


def _page(
    seen: dict[tuple[str, str], list[dict[str, float]]], jobs: list[str], records: int, rounds: int
) -> str:
    lines = [
        "# Writing a table of PostgreSQL",
        "",
        f"`benchmarks/databases.py`: {records:,} rows of three columns, medians of {rounds} rounds in turns. Processor",
        "seconds of the client; seconds by the clock; how many times as fast as psycopg by hand, by either.",
        "",
        "| what | millstream, processor | by hand | times as fast | millstream, clock | by hand | times as fast |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for job in jobs:
        cells = []
        for what in ("cpu", "wall"):
            mine, its = (median(run[what] for run in seen[job, who]) for who in ("job", "loop"))
            cells += [f"{mine:.2f} s", f"{its:.2f} s", f"{its / mine:.2f} x"]
        lines.append(f"| {JOBS[job]} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
