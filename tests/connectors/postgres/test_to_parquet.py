"""The example that copies a table to Parquet files in S3: what DuckDB reads of them is the table."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import duckdb
import pytest

from millstream.testing import FailurePoint, MiniCluster
from servers.postgres import PostgresDatabase
from servers.storage import S3Server

EXAMPLE = Path(__file__).parents[3] / "examples" / "postgres_to_parquet.py"
ROWS = 20_000


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    server = S3Server(tmp_path_factory.mktemp("s3"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def program() -> ModuleType:
    spec = importlib.util.spec_from_file_location("postgres_to_parquet", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def table(postgres: PostgresDatabase) -> PostgresDatabase:
    postgres.execute("CREATE TYPE state AS ENUM ('new', 'paid')")
    postgres.execute(
        "CREATE TABLE orders (id uuid PRIMARY KEY, n int, total numeric(38,10), at timestamptz, day date,"
        " note text, document jsonb, raw bytea, tags text[], state state, rate float8, hour time, ok bool)"
    )
    postgres.execute(
        f"""INSERT INTO orders SELECT gen_random_uuid(), n, n * 1.0000000001, '2024-01-01'::timestamptz + n * interval
        '61.000001 s', '2000-01-01'::date + n % 9000, nullif(repeat(chr(128512 + n % 40), n % 5), ''),
        jsonb_build_object('n', n), decode(lpad(to_hex(n), 8, '0'), 'hex'), ARRAY[n::text, NULL, 'a,"b'],
        (CASE n % 2 WHEN 0 THEN 'new' ELSE 'paid' END)::state, n / 7.0::float8, '00:00'::time + n * interval '1 s',
        n % 3 = 0 FROM generate_series(1, {ROWS}) n"""
    )
    return postgres


def expected(database: PostgresDatabase) -> list[tuple[Any, ...]]:
    return sorted(
        database.execute(
            "SELECT id::text, n, total, (extract(epoch FROM at) * 1000000)::int8, day, note, document::text, raw, tags,"
            " state::text, rate, hour, ok FROM orders"
        )
    )


def in_files(server: S3Server, prefix: str, directory: Path) -> list[tuple[Any, ...]]:
    """Download what readers see, and read it with DuckDB."""
    keys = [key for key in server.keys(f"{prefix}/") if key.rpartition("/")[2].startswith("part-")]
    for place, key in enumerate(keys):
        (directory / f"{place}.parquet").write_bytes(server.get(key))
    query = (
        'SELECT id, n, total, epoch_us("at"), day, note, document, raw, tags,'
        f" state, rate, hour, ok FROM read_parquet('{directory}/*.parquet')"
    )
    with duckdb.connect() as connection:
        return sorted(connection.execute(query).fetchall())


@pytest.mark.parametrize("point", [None, FailurePoint.AFTER_EPOCH, FailurePoint.AFTER_CHECKPOINT])
def test_the_files_hold_the_table_wherever_the_job_fails(
    table: PostgresDatabase, s3: S3Server, program: ModuleType, tmp_path: Path, point: FailurePoint | None
) -> None:
    prefix = f"lake-{table.name}"
    arguments = [
        table.url,
        "--table",
        "orders",
        "--output",
        f"s3://{s3.bucket}/{prefix}",
        "--split-size",
        "3000",
    ]
    options = program._parser().parse_args(arguments)
    settings = {**s3.options, "millstream.epoch.fixed-records": 2_000}
    with MiniCluster(parallelism=2, options=settings) as cluster:
        if point is not None:
            cluster.fail_at(point, 3)
        environment = cluster.environment()
        program.add_copy(environment, options)
        environment.execute()
    assert in_files(s3, prefix, tmp_path) == expected(table)


def test_the_program_by_its_command_line(
    table: PostgresDatabase, program: ModuleType, tmp_path: Path
) -> None:
    query = "SELECT n, note FROM orders WHERE n <= 100"
    program.main(
        [table.url, "--query", query, "--split-column", "n", "--columns", "note,n", "--split-size", "30",
         "--output", str(tmp_path / "out"), "--checkpoints", str(tmp_path / "checkpoints"), "--target", "local"]
    )  # fmt: skip
    with duckdb.connect() as connection:
        files = f"read_parquet('{tmp_path}/out/**/*', filename=false)"
        found = connection.execute(f"SELECT n, note FROM {files}").fetchall()
    assert sorted(found) == sorted(table.execute(query))


def test_options_of_the_command_line_win(program: ModuleType, tmp_path: Path) -> None:
    option = "execution.checkpointing.interval"
    arguments = ["postgresql://db/shop", "--table", "t", "--output", "out", "--checkpoints", str(tmp_path)]
    options = program._parser().parse_args([*arguments, "-D", f"{option}=500 ms"])
    environment = program.build_environment(options)
    assert environment.get_checkpoint_config().get_checkpoint_interval() == 500
