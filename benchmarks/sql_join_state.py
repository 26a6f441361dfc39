"""SQL: a join of two streams whose rows do not fit into memory; its memory, disk and checkpoints.

    python benchmarks/sql_join_state.py [--rows 10000000] [--cache-bytes 67108864] [--interval "30 s"]
        [--hashmap] [--write]

Each side has so many rows (a key, a number, a text of 20 bytes). Left keys are all different, right keys are drawn at
random from them, so every right row has one partner, anywhere in the left stream. The statement counts the pairs and
sums both numbers; DuckDB computes the same. The job runs in a process of its own on the local executor at parallelism
2, with incremental checkpoints. Memory is the resident set of that process and all below it, added up, looked at five
times a second: pages of mapped files count. State on disk is what lies in the directory of
`state.backend.rocksdb.localdir`. --hashmap has the state in memory instead, for comparison.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results" / "sql_join_state.md"
QUERY = (
    "SELECT COUNT(*) AS pairs, SUM(l.a) AS a, SUM(r.b) AS b, SUM(CHAR_LENGTH(l.t) + CHAR_LENGTH(r.u)) AS n "
    "FROM l JOIN r ON l.k = r.k"
)
LIMIT_BYTES = 2_000_000_000
_PART = 1 << 20


def write_rows(directory: Path, rows: int) -> None:
    """Write both sides as Parquet."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    made = np.random.default_rng(7)
    keys = {"l": made.permutation(rows), "r": made.integers(0, rows, rows)}
    for side, (number, text) in {"l": ("a", "t"), "r": ("b", "u")}.items():
        (directory / side).mkdir()
        schema = pa.schema([("k", pa.int64()), (number, pa.int64()), (text, pa.string())])
        with pq.ParquetWriter(directory / side / "rows.parquet", schema) as writer:
            for start in range(0, rows, _PART):
                part = keys[side][start : start + _PART]
                texts = pa.array(part).cast(pa.string())
                filled = pa.compute.utf8_lpad(texts, 20, "x")
                numbers = pa.array(made.integers(0, 1000, len(part)))
                table = pa.table([pa.array(part), numbers, filled], schema=schema)
                writer.write_table(table, row_group_size=1 << 16)


def run_job(task: dict[str, Any]) -> dict[str, Any]:
    """Run the statement in this process; return what came out, and how long it took."""
    from millstream.common import Configuration
    from millstream.table import EnvironmentSettings, TableEnvironment

    options = Configuration.from_dict(task["options"])
    settings = EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(options).build()
    environment = TableEnvironment.create(settings)
    for side, (number, text) in {"l": ("a", "t"), "r": ("b", "u")}.items():
        environment.execute_sql(
            f"CREATE TABLE {side} (k BIGINT, {number} BIGINT, {text} STRING) WITH ('connector' = 'filesystem', "
            f"'path' = '{task['directory']}/{side}', 'format' = 'parquet')"
        )
    start = time.perf_counter()
    last = None
    with environment.execute_sql(QUERY).collect() as rows:
        for row in rows:
            if row.get_row_kind().name in ("INSERT", "UPDATE_AFTER"):
                last = list(row)
    return {"row": last, "seconds": time.perf_counter() - start}


class Watch(threading.Thread):
    """Looks at memory, disk and checkpoints of a process until it has ended."""

    def __init__(self, pid: int, state: Path, checkpoints: Path) -> None:
        super().__init__(daemon=True)
        self._pid, self._state, self._checkpoints = pid, state, checkpoints
        self._over = threading.Event()
        self.memory = self.disk = 0
        self.written: dict[str, tuple[str, int, bool]] = {}

    def run(self) -> None:
        """Look five times a second."""
        import psutil

        top = psutil.Process(self._pid)
        looks = 0
        while not self._over.wait(0.2):
            size = 0
            try:
                for each in [top, *top.children(recursive=True)]:
                    try:
                        size += each.memory_info().rss
                    except psutil.NoSuchProcess:
                        continue
            except psutil.NoSuchProcess:
                return
            self.memory = max(self.memory, size)
            looks += 1
            if looks % 5 == 0:
                self.disk = max(self.disk, _size(self._state))
                self._look_at_checkpoints()

    def _look_at_checkpoints(self) -> None:
        for manifest in self._checkpoints.glob("*/chk-*/_metadata"):
            try:
                body = json.loads(manifest.read_text().split("\n", 1)[1])
            except FileNotFoundError:  # a checkpoint that is not kept any more
                continue
            for each in body["state"]:
                ref = each["file"]
                self.written.setdefault(ref["path"], (manifest.parent.name, ref["size"], each["is_delta"]))

    def stop(self) -> None:
        """End."""
        self._over.set()
        self.join()


def _size(directory: Path) -> int:
    total = 0
    for root, _, names in os.walk(directory):
        for name in names:
            try:
                total += os.stat(os.path.join(root, name)).st_blocks * 512
            except FileNotFoundError:  # merged, and gone
                continue
    return total


def measure(directory: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Run the job in a process of its own."""
    state, checkpoints = directory / "state", directory / "checkpoints"
    state.mkdir()
    options = {
        "execution.target": "local",
        "parallelism.default": 2,
        "execution.checkpointing.dir": str(checkpoints),
        "execution.checkpointing.interval": arguments.interval,
        "state.backend.type": "hashmap" if arguments.hashmap else "rocksdb",
        "state.backend.rocksdb.localdir": str(state),
        "millstream.state.cache-bytes": arguments.cache_bytes,
    }
    task = {"options": options, "directory": str(directory)}
    with open(directory / "errors", "wb") as errors:
        process = subprocess.Popen(
            [sys.executable, __file__, "--task", json.dumps(task)], stdout=subprocess.PIPE, stderr=errors
        )
        watch = Watch(process.pid, state, checkpoints)
        watch.start()
        out, _ = process.communicate()
        watch.stop()
    if process.returncode:
        raise SystemExit(f"the job failed:\n{(directory / 'errors').read_text()[-4000:]}")
    done = json.loads(out.decode().strip().splitlines()[-1])
    return {**done, "memory": watch.memory, "disk": watch.disk, "written": watch.written}


def check(directory: Path, row: list[int]) -> None:
    """Compare with DuckDB's answer."""
    import duckdb

    query = QUERY.replace("CHAR_LENGTH", "LENGTH")
    with duckdb.connect(config={"memory_limit": "2GB", "threads": 1}) as database:
        database.execute(f"SET temp_directory = '{directory}/duckdb'")
        for side in ("l", "r"):
            database.execute(f"CREATE VIEW {side} AS SELECT * FROM '{directory}/{side}/rows.parquet'")
        wanted = [int(value) for value in database.execute(query).fetchone()]
    if wanted != row:
        raise SystemExit(f"the join gave {row}, DuckDB's {wanted}")


def report(found: dict[str, Any], arguments: argparse.Namespace) -> str:
    """Return a table."""
    mega = 1_000_000
    whole = [size for _, size, is_delta in found["written"].values() if not is_delta]
    deltas = [size for _, size, is_delta in found["written"].values() if is_delta]
    rows = [
        ("rows a side", f"{arguments.rows:,}"),
        ("state", "in memory" if arguments.hashmap else "on disk"),
        ("cache of each subtask", f"{arguments.cache_bytes / mega:,.0f} MB"),
        ("rows a second, both sides", f"{2 * arguments.rows / found['seconds']:,.0f}"),
        ("seconds", f"{found['seconds']:,.0f}"),
        ("memory, all processes, at most", f"{found['memory'] / mega:,.0f} MB"),
        ("state on disk, at most", f"{found['disk'] / mega:,.0f} MB"),
        ("files of checkpoints: whole", _sizes(whole)),
        ("files of checkpoints: changes", _sizes(deltas)),
        ("result", "as DuckDB's"),
    ]
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)])


def _sizes(sizes: list[int]) -> str:
    mega = 1_000_000
    if not sizes:
        return "none"
    mean = sum(sizes) / len(sizes)
    return f"{len(sizes)}, {mean / mega:,.0f} MB each (largest {max(sizes) / mega:,.0f} MB)"


def main() -> None:
    """Run, or run the job."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--cache-bytes", type=int, default=64 << 20)
    parser.add_argument("--interval", default="30 s")
    parser.add_argument("--hashmap", action="store_true")
    parser.add_argument("--directory", help="where rows, state and checkpoints lie meanwhile")
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name}")
    parser.add_argument("--task")
    arguments = parser.parse_args()
    if arguments.task:
        print(json.dumps(run_job(json.loads(arguments.task))))
        return
    with tempfile.TemporaryDirectory(dir=arguments.directory) as name:
        directory = Path(name)
        write_rows(directory, arguments.rows)
        found = measure(directory, arguments)
        check(directory, found["row"])
        table = report(found, arguments)
    print(table)
    if found["memory"] > LIMIT_BYTES:
        print(f"OVER the limit of {LIMIT_BYTES / 1e6:,.0f} MB")
    if arguments.write:
        RESULTS.write_text(f"# A join larger than memory\n\n`benchmarks/sql_join_state.py`\n\n{table}\n")


if __name__ == "__main__":
    main()
