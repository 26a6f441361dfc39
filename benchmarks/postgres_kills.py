"""A table of PostgreSQL to Parquet files in S3, while the driver is killed: the files are the table.

    python benchmarks/postgres_kills.py [--rows 1000000] [--kills 2] [--target local[2]] [--seed 1]

A PostgreSQL server and an S3 server run on this machine. A table is filled with rows of every type that is read:
NULL in each column, numeric(38,10) up to its last digit, timestamptz from the year 1 to 9999, jsonb, bytea, arrays, and
text that has, over all rows, every character of Unicode that PostgreSQL takes (all but NUL). The program of
`examples/postgres_to_parquet.py` copies it. Its driver gets SIGKILL when some files are visible, and is started
again with `--recover`; after each kill it has to write more before the next one.

Then the table is read once more, with psycopg, and DuckDB compares it with the files: every row, every column, both
ways. Exit code 1 if they differ.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from killing import ROOT, machine
from pyarrow import fs, parquet

sys.path.insert(0, str(ROOT / "tests"))

from servers.postgres import PostgresDatabase, PostgresServer
from servers.storage import S3Server

PREFIX = "lake"
FETCHED = 20_000
# Code points without NUL, which PostgreSQL refuses, and surrogates, which are no characters.
CHARACTERS = 0x110000 - 1 - 2048
COLUMNS: dict[str, tuple[str, str, pa.DataType]] = {
    # name: type in PostgreSQL, value for row n, type in Parquet
    "id": ("bigint PRIMARY KEY", "n * 7", pa.int64()),
    "small": ("smallint", "(n %% 65536 - 32768)::smallint", pa.int16()),
    "whole": ("int", "(n * 2147 %% 4294967296 - 2147483648)::int", pa.int32()),
    "total": (
        "numeric(38,10)",
        "CASE n %% 5 WHEN 0 THEN 9999999999999999999999999999.9999999999 - n WHEN 1 THEN -n / 1e10 "
        "ELSE n * 1234567890123.0123456789 END",
        pa.decimal128(38, 10),
    ),
    "single": ("real", "n / 7.0::real", pa.float32()),
    "rate": (
        "float8",
        "CASE n %% 1000 WHEN 1 THEN 'NaN' WHEN 2 THEN '-Infinity' ELSE 1e300 / n END",
        pa.float64(),
    ),
    "paid": ("boolean", "n %% 3 = 0", pa.bool_()),
    "at": (
        "timestamptz",
        "CASE n %% 1000 WHEN 1 THEN '0001-01-01 00:00:00+00' WHEN 2 THEN '9999-12-31 23:59:59.999999+00' "
        "ELSE '1969-12-01'::timestamptz + n * interval '61.000001 s' END",
        pa.timestamp("us", "UTC"),
    ),
    "local_time": ("timestamp", "'1999-12-31'::timestamp + n * interval '0.999999 s'", pa.timestamp("us")),
    "day": ("date", "'0001-01-01'::date + (n %% 3652058)::int", pa.date32()),
    "hour": ("time", "'00:00'::time + n * interval '1.000001 s'", pa.time64("us")),
    "note": ("text", "characters(2 * n) || 'x' || characters(2 * n + 1)", pa.string()),
    "document": (
        "jsonb",
        "jsonb_build_object('n', n, characters(3 * n), ARRAY[NULL, characters(n + 1), '\"'], "
        "'deep', '{\"a\": 1.50}'::jsonb)",
        pa.string(),
    ),
    "raw": ("bytea", "decode(repeat(lpad(to_hex(n), 8, '0'), (n %% 7)::int), 'hex')", pa.binary()),
    "tags": ("text[]", "ARRAY[characters(n), NULL, '', 'a,\"b\\', 'NULL']", pa.list_(pa.string())),
    "sizes": ("bigint[]", "CASE n %% 3 WHEN 0 THEN '{}' ELSE ARRAY[n, NULL, -n] END", pa.list_(pa.int64())),
    "sums": (
        "numeric(20,4)[]",
        "ARRAY[n / 4.0, NULL]",
        pa.list_(pa.decimal128(20, 4)),
    ),
    "mark": ("uuid", "md5(n::text)::uuid", pa.string()),
    "state": ("state", "(CASE n %% 2 WHEN 0 THEN 'new' ELSE 'paid' END)::state", pa.string()),
}
CHARACTERS_OF = f"""
CREATE FUNCTION characters(n bigint) RETURNS text IMMUTABLE LANGUAGE sql AS $$
SELECT chr(CASE WHEN i < 55295 THEN i + 1 ELSE i + 2049 END) FROM (SELECT (n % {CHARACTERS})::int AS i) AS found $$
"""
AS_TEXT = ("document", "mark", "state")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=2)
    parser.add_argument("--target", default="local[2]")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory(prefix="millstream-copy-", ignore_cleanup_errors=True) as scratch:
        directory = Path(scratch)
        (directory / "s3").mkdir()
        s3, postgres = S3Server(directory / "s3"), PostgresServer()
        try:
            s3.start()
            postgres.start()
            with postgres.new_database() as database:
                fill(database, arguments.rows)
                copy = Copy(directory, database, s3, arguments.target, arguments.rows)
                killed = copy.run(arguments.kills, rng)
                files = copy.download()
                write_table(database, directory / "table.parquet")
                found = compare(directory / "table.parquet", files)
        finally:
            s3.stop()
            postgres.close()
    return report(arguments.rows, killed, found)


def fill(database: PostgresDatabase, rows: int) -> None:
    """Make the table; each column but the key is NULL in some rows, and in one row all are."""
    names = [name for name in COLUMNS if name != "id"]
    database.execute("CREATE TYPE state AS ENUM ('new', 'paid')")
    database.execute(CHARACTERS_OF)
    database.execute(f"CREATE TABLE orders ({', '.join(f'{name} {COLUMNS[name][0]}' for name in COLUMNS)})")
    values = [
        f"CASE WHEN n %% {101 + place} <> 0 AND n <> 1 THEN {COLUMNS[name][1]} END"
        for place, name in enumerate(names)
    ]
    with database.connect() as connection:
        connection.execute("SET TIME ZONE 'UTC'")
        connection.execute(
            f"INSERT INTO orders SELECT n * 7, {', '.join(values)} FROM generate_series(1, %s::bigint) n",
            (rows,),
        )
        connection.execute("VACUUM ANALYZE orders")


class Copy:
    """The program of the example, as a process that is killed and started again."""

    def __init__(
        self, directory: Path, database: PostgresDatabase, s3: S3Server, target: str, rows: int
    ) -> None:
        self._directory = directory
        self._bucket = s3.bucket
        self._files = fs.S3FileSystem(
            access_key=s3.access_key, secret_key=s3.secret_key, endpoint_override=s3.endpoint, scheme="http"
        )
        self._environment = {
            **os.environ,
            **s3.environment,
            "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")])),
        }
        settings = {
            **s3.options,
            "execution.checkpointing.interval": "500 ms",
            # So small that the job takes a while.
            "millstream.epoch.fixed-records": str(max(1_000, rows // 100)),
        }
        self._arguments = [
            str(ROOT / "examples" / "postgres_to_parquet.py"), database.url, "--table", "orders",
            "--output", f"s3://{s3.bucket}/{PREFIX}", "--split-size", str(max(1_000, rows // 20)),
            "--target", target, "--checkpoints", str(directory / "checkpoints"),
            *(f"-D{key}={value}" for key, value in settings.items()),
        ]  # fmt: skip
        self._log = directory / "driver.log"

    def keys(self) -> list[str]:
        """Return the files that readers see."""
        selector = fs.FileSelector(f"{self._bucket}/{PREFIX}", recursive=True, allow_not_found=True)
        found = [each.path for each in self._files.get_file_info(selector) if each.is_file]
        return [path for path in found if not path.rpartition("/")[2].startswith((".", "_"))]

    def run(self, kills: int, rng: random.Random) -> list[int]:
        """Run until the job ends; return how many files were visible at each kill."""
        killed: list[int] = []
        for number in range(kills):
            process = self._start()
            wanted = len(self.keys()) + rng.randint(2, 30)
            while (seen := len(self.keys())) < wanted:
                if process.poll() is not None:
                    raise SystemExit(
                        f"the job ended with {process.returncode} before kill {number + 1}:\n{self._tail()}"
                    )
                time.sleep(rng.uniform(0, 0.2))
            time.sleep(rng.uniform(0, 0.5))
            process.send_signal(signal.SIGKILL)
            process.wait()
            killed.append(seen)
            print(f"killed the driver when {seen} files were visible", flush=True)
        if code := self._start().wait(1_800):
            raise SystemExit(f"the job ended with exit code {code}:\n{self._tail()}")
        return killed

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "millstream.cli.main", "run", "--recover"]
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [*command, *self._arguments], env=self._environment, stdout=log, stderr=log
            )

    def _tail(self) -> str:
        return self._log.read_text(errors="replace")[-10_000:]

    def download(self) -> Path:
        """Return a directory with the files that readers see."""
        target = self._directory / "files"
        target.mkdir()
        for place, key in enumerate(self.keys()):
            with self._files.open_input_stream(key) as stream:
                (target / f"{place}.parquet").write_bytes(stream.read())
        return target


def write_table(database: PostgresDatabase, path: Path) -> None:
    """Write what psycopg reads of the table to a Parquet file."""
    schema = pa.schema([(name, kind) for name, (_, _, kind) in COLUMNS.items()])
    columns = ", ".join(f"{name}::text" if name in AS_TEXT else name for name in COLUMNS)
    cursor: Any
    with (
        database.connect(autocommit=False) as connection,
        parquet.ParquetWriter(path, schema) as writer,
    ):
        connection.execute("SET TIME ZONE 'UTC'")
        with connection.cursor(name="rows", binary=True) as cursor:
            cursor.execute(f"SELECT {columns} FROM orders")
            while rows := cursor.fetchmany(FETCHED):
                arrays = [
                    pa.array(values, kind)
                    for values, kind in zip(zip(*rows, strict=True), schema.types, strict=True)
                ]
                writer.write_batch(pa.record_batch(arrays, schema=schema))


def compare(table: Path, files: Path) -> dict[str, int]:
    """Have DuckDB count what is in one and not in the other, and how many characters the texts have."""
    names = ", ".join(f'"{name}"' for name in COLUMNS)
    ours, theirs = f"SELECT {names} FROM read_parquet('{files}/*.parquet')", f"SELECT {names} FROM '{table}'"
    with duckdb.connect(
        config={"memory_limit": "4GB", "temp_directory": str(table.parent / "duckdb")}
    ) as connection:

        def count(query: str) -> int:
            row = connection.execute(f"SELECT count(*) FROM ({query})").fetchone()
            assert row is not None
            return int(row[0])

        characters = f"SELECT unnest(string_split(note, '')) AS letter FROM ({ours})"
        same_types = (
            connection.execute(f"DESCRIBE {ours}").fetchall()
            == connection.execute(f"DESCRIBE {theirs}").fetchall()
        )
        return {
            "rows in the table": count(theirs),
            "rows in the files": count(ours),
            "rows only in the table": count(f"{theirs} EXCEPT ALL {ours}"),
            "rows only in the files": count(f"{ours} EXCEPT ALL {theirs}"),
            "columns": len(COLUMNS),
            "columns of another type": 0 if same_types else 1,
            "characters of Unicode in `note`": count(f"SELECT DISTINCT * FROM ({characters})"),
            "planes of Unicode in `note`": count(
                f"SELECT DISTINCT unicode(letter) // 65536 FROM ({characters})"
            ),
            "files": len(list(files.iterdir())),
        }


def report(rows: int, killed: list[int], found: dict[str, int]) -> int:
    print(f"\n{machine()}, {rows:,} rows; the driver was killed {len(killed)} times, when")
    print(f"{', '.join(map(str, killed))} files were visible\n\n| | |\n| --- | ---: |")
    for what, number in found.items():
        print(f"| {what} | {number:,} |")
    same = found["rows in the table"] == found["rows in the files"] == rows
    differences = [found[f"rows only in the {each}"] for each in ("table", "files")]
    equal = same and not any(differences) and not found["columns of another type"]
    print(f"\n{'The files are the table.' if equal else 'The files differ from the table.'}")
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
