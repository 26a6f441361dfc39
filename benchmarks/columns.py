"""What columns cost: jobs of whole columns on the local executor, beside the same work written by hand on one core.

    python benchmarks/columns.py [--only parquet count sessions json combine] [--rounds 5] [--write] [--json FILE]

Job and peer take turns in one process, round by round, and are timed by its processor time. Each job reads files and
writes files, or counts what comes out; what the two make is compared.
"""

from __future__ import annotations

import argparse
import gc
import glob
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import figures
import json_lines
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from millstream.common import Configuration, Duration, Time, WatermarkStrategy
from millstream.datastream import StreamExecutionEnvironment
from millstream.datastream.connectors.file_system import FileSink, FileSource
from millstream.datastream.expressions import count, max_, sum_
from millstream.datastream.formats.parquet import ParquetBulkWriters, ParquetColumnarRowInputFormat
from millstream.datastream.window import EventTimeSessionWindows, TumblingEventTimeWindows
from millstream.table.types import DataTypes

RESULTS = Path(__file__).resolve().parent / "results" / "columns.md"
ROWS = 3_000_000
LINES = 300_000
KEYS = 1_000_000
FEW_KEYS = 1_000
TITLES = {
    "parquet": "Parquet -> `map_batches` -> Parquet, beside pyarrow alone",
    "count": f"Parquet -> `key_by` -> `count()` of {KEYS:,} integer keys, beside a dict in Python",
    "few": f"Parquet -> `key_by` -> `count()` of {FEW_KEYS:,} integer keys, beside a dict in Python",
    "texts": f"Parquet -> `key_by` -> `count()` of {KEYS:,} texts, beside a dict in Python",
    "combine": "Parquet -> `key_by` of 4 shops -> tumbling aggregates on two slots, beside the same without combining",
    "sessions": f"Parquet -> `key_by` of {FEW_KEYS:,} keys -> session sums and counts, beside a loop in Python",
    "json": "JSON lines -> filter -> `key_by` -> tumbling sums and counts -> Parquet, beside a loop with orjson",
}
PEERS = {
    "parquet": "pyarrow alone",
    "combine": "not combined",
    "sessions": "loop by hand",
    "json": "loop by hand, orjson",
}
Fields = list[tuple[str, Any]]
FLOORS = {"parquet": 0.6, "count": 3.0, "combine": 1.0}


def environment(parallelism: int = 1, **options: Any) -> StreamExecutionEnvironment:
    settings = {"execution.target": "local", "execution.runtime-mode": "STREAMING", **options}
    made = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    return made.set_parallelism(parallelism)


def row_type_of(fields: Fields) -> Any:
    return DataTypes.ROW([DataTypes.FIELD(name, kind) for name, kind in fields])


def parquet_source(env: StreamExecutionEnvironment, folder: Path, fields: Fields) -> Any:
    source = FileSource.for_bulk_file_format(
        ParquetColumnarRowInputFormat(row_type_of(fields)), str(folder)
    ).build()
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")


# Parquet -> map_batches -> Parquet

SALES = [("user", DataTypes.BIGINT()), ("price", DataTypes.DOUBLE()), ("shop", DataTypes.STRING())]
RAISED = [*SALES, ("raised", DataTypes.DOUBLE())]


def raised(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.append_column("raised", pc.multiply(batch["price"], 1.1))


def write_sales(folder: Path) -> None:
    numbers = np.random.default_rng(1)
    users = numbers.integers(0, KEYS, ROWS)
    table = pa.table(
        {
            "user": users,
            "group": pa.array(users % FEW_KEYS),
            "name": pc.binary_join_element_wise("user", pc.cast(pa.array(users), pa.string()), "-"),
            "price": numbers.random(ROWS),
            "shop": pa.array(np.array(["north", "south", "east", "west"])[numbers.integers(0, 4, ROWS)]),
        }
    )
    folder.mkdir()
    pq.write_table(table, folder / "sales.parquet", row_group_size=100_000)


def parquet_job(folder: Path) -> float:
    env = environment()
    sink = FileSink.for_bulk_format(
        str(folder / "out"), ParquetBulkWriters.for_row_type(row_type_of(RAISED))
    ).build()
    parquet_source(env, folder / "sales", SALES).map_batches(raised).sink_to(sink)
    env.execute("parquet")
    return total_of(folder / "out", "raised")


def parquet_peer(folder: Path) -> float:
    (folder / "out").mkdir()
    source = pq.ParquetFile(folder / "sales" / "sales.parquet")
    writer = None
    for batch in source.iter_batches(batch_size=100_000):
        made = raised(batch)
        if writer is None:
            writer = pq.ParquetWriter(folder / "out" / "raised.parquet", made.schema)
        writer.write_batch(made)
    assert writer is not None
    writer.close()
    return total_of(folder / "out", "raised")


def total_of(folder: Path, column: str) -> float:
    files = [path for path in glob.glob(f"{folder}/**/*", recursive=True) if Path(path).is_file()]
    return round(sum(pc.sum(pq.read_table(path, columns=[column])[column]).as_py() for path in files), 3)


# Keyed count


class Tally:
    """What came out, to be compared."""

    records = 0


def tally(batch: pa.RecordBatch) -> None:
    Tally.records = max(Tally.records, pc.max(batch["n"]).as_py())


def count_job(folder: Path, key: str, kind: Any) -> float:
    env = environment()
    Tally.records = 0
    stream = parquet_source(env, folder / "sales", [(key, kind)])
    stream.key_by(key).aggregate(n=count()).map_batches(tally).print()
    env.execute("count")
    return Tally.records


def count_peer(folder: Path, key: str) -> float:
    counts: dict[Any, int] = {}
    for batch in pq.ParquetFile(folder / "sales" / "sales.parquet").iter_batches(100_000, columns=[key]):
        for each in batch[key].to_pylist():
            counts[each] = counts.get(each, 0) + 1
    return max(counts.values())


def counting(key: str, kind: Any) -> tuple[Callable[[Path], Any], Callable[[Path], Any]]:
    """Return job and peer that count by a column."""
    return lambda folder: count_job(folder, key, kind), lambda folder: count_peer(folder, key)


# Windows of few keys on two slots, begun before the exchange or not

VISITS = [("shop", DataTypes.STRING()), ("user", DataTypes.BIGINT()), ("ts", DataTypes.BIGINT())]
VISIT_MS, BOUND_MS, WINDOW_MS = 10, 5_000, 60_000


def write_visits(folder: Path) -> None:
    numbers, half = np.random.default_rng(2), ROWS // 2
    folder.mkdir()
    for part in range(2):
        table = pa.table(
            {
                "shop": pa.array(np.array(["north", "south", "east", "west"])[numbers.integers(0, 4, half)]),
                "user": numbers.integers(0, KEYS, half),
                "ts": np.arange(half) * VISIT_MS - numbers.integers(0, BOUND_MS, half),
            }
        )
        pq.write_table(table, folder / f"visits-{part}.parquet", row_group_size=100_000)


def visits(folder: Path, combine: str) -> int:
    env = environment(2, **{"millstream.exchange.combine": combine})
    Tally.records = 0
    source = FileSource.for_bulk_file_format(
        ParquetColumnarRowInputFormat(row_type_of(VISITS)), str(folder / "visits")
    ).build()
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(BOUND_MS))
    (
        env.from_source(source, strategy.with_timestamp_assigner("ts"), "visits")
        .key_by("shop")
        .window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS)))
        .aggregate(n=count(), users=sum_("user"), latest=max_("ts"))
        .map_batches(add_up)
        .print()
    )
    env.execute("visits")
    return Tally.records


def add_up(batch: pa.RecordBatch) -> None:
    Tally.records += pc.sum(batch["n"]).as_py() + pc.sum(batch["users"]).as_py()


def combine_job(folder: Path) -> int:
    return visits(folder, "AUTO")


def combine_peer(folder: Path) -> int:
    return visits(folder, "NEVER")


# Sessions of keys, of rows in order of time

CLICKS = [("group", DataTypes.BIGINT()), ("number", DataTypes.BIGINT()), ("ts", DataTypes.BIGINT())]
GAP_MS = 30_000


def write_clicks(folder: Path) -> None:
    numbers = np.random.default_rng(3)
    folder.mkdir()
    table = pa.table(
        {
            "group": numbers.integers(0, FEW_KEYS, ROWS),
            "number": numbers.integers(0, 100, ROWS),
            "ts": np.arange(ROWS) * VISIT_MS,
        }
    )
    pq.write_table(table, folder / "clicks.parquet", row_group_size=100_000)


def add_sessions(batch: pa.RecordBatch) -> None:
    lengths = pc.subtract(batch["window_end"], batch["window_start"])
    Tally.records += pc.sum(pc.multiply(lengths, batch["n"])).as_py() + pc.sum(batch["total"]).as_py()


def sessions_job(folder: Path) -> int:
    Tally.records = 0
    source = FileSource.for_bulk_file_format(
        ParquetColumnarRowInputFormat(row_type_of(CLICKS)), str(folder / "clicks")
    ).build()
    env, strategy = environment(), WatermarkStrategy.for_monotonous_timestamps()
    (
        env.from_source(source, strategy.with_timestamp_assigner("ts"), "clicks")
        .key_by("group")
        .window(EventTimeSessionWindows.with_gap(Time.milliseconds(GAP_MS)))
        .aggregate(n=count(), total=sum_("number"))
        .map_batches(add_sessions)
        .print()
    )
    env.execute("sessions")
    return Tally.records


def sessions_peer(folder: Path) -> int:
    found = 0
    sessions: dict[int, list[int]] = {}
    for batch in pq.ParquetFile(folder / "clicks" / "clicks.parquet").iter_batches(100_000):
        columns = (batch[name].to_pylist() for name in ("group", "number", "ts"))
        for group, number, time_ms in zip(*columns, strict=True):
            session = sessions.get(group)
            if session is not None and time_ms <= session[1]:
                session[1] = time_ms + GAP_MS
                session[2] += 1
                session[3] += number
                continue
            if session is not None:
                found += (session[1] - session[0]) * session[2] + session[3]
            sessions[group] = [time_ms, time_ms + GAP_MS, 1, number]
    return found + sum((end - start) * n + total for start, end, n, total in sessions.values())


# JSON lines -> filter -> key_by -> windows -> Parquet


def json_job(folder: Path) -> list[float]:
    json_lines.expressions(str(folder / "events.json"), str(folder / "out"), 1)
    return json_lines.totals(folder / "out")


def json_peer(folder: Path) -> list[float]:
    json_lines.loop(str(folder / "events.json"), folder / "out")()
    return json_lines.totals(folder / "out")


JOBS: dict[str, tuple[Callable[[Path], Any], Callable[[Path], Any]]] = {
    "parquet": (parquet_job, parquet_peer),
    "count": counting("user", DataTypes.BIGINT()),
    "few": counting("group", DataTypes.BIGINT()),
    "texts": counting("name", DataTypes.STRING()),
    "combine": (combine_job, combine_peer),
    "sessions": (sessions_job, sessions_peer),
    "json": (json_job, json_peer),
}
ROWS_OF = {**dict.fromkeys(JOBS, ROWS), "json": LINES}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", nargs="*", default=list(JOBS), choices=list(JOBS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS}")
    figures.add_option(parser)
    arguments = parser.parse_args()
    seen: dict[str, list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory(prefix="columns") as made:
        folder = Path(made)
        write_sales(folder / "sales")
        if "combine" in arguments.only:
            write_visits(folder / "visits")
        if "sessions" in arguments.only:
            write_clicks(folder / "clicks")
        if "json" in arguments.only:
            json_lines.prepare(folder / "events.json", LINES)
        for name in arguments.only:
            job, peer = JOBS[name]
            timed(job, folder), timed(peer, folder)  # imports, and the disk's cache
            seen[name] = [(timed(job, folder), timed(peer, folder)) for _ in range(arguments.rounds)]
    page = _page(seen, arguments.rounds)
    print(page)
    if arguments.write:
        RESULTS.write_text(page)
    figures.write(arguments.json, _figures(seen))


def _figures(seen: dict[str, list[tuple[tuple[float, str], tuple[float, str]]]]) -> list[figures.Figure]:
    found = []
    for name, pairs in seen.items():
        ours, theirs = ([pair[who][0] / ROWS_OF[name] * 1e6 for pair in pairs] for who in (0, 1))
        title, floor = TITLES[name].partition(", beside")[0], FLOORS.get(name)
        peer = PEERS.get(name, "dict in Python")
        found.append(figures.beside(name, title, ours, theirs, unit="us a row", peer=peer, floor=floor))
    return found


def timed(work: Callable[[Path], Any], folder: Path) -> tuple[float, str]:
    """Return the processor time of some work, seconds, and what it made."""
    shutil.rmtree(folder / "out", ignore_errors=True)
    gc.collect()
    begun = time.process_time()
    made = work(folder)
    return time.process_time() - begun, repr(made)


def _page(seen: dict[str, list[tuple[tuple[float, str], tuple[float, str]]]], rounds: int) -> str:
    lines = [
        "# Columns",
        "",
        f"`benchmarks/columns.py`: {ROWS:,} rows of Parquet, {LINES:,} lines of JSON of 1 KB, {rounds} rounds",
        "in turns. Microseconds of processor time a row on the local executor with one slot, medians; by hand /",
        "job, the median of the rounds. Most of the JSON job is reading, parsing and checking the text.",
        "",
        "| work | job | by hand | times as fast | wanted |",
        "|---|---|---|---|---|",
    ]
    for name, pairs in seen.items():
        made = {each for pair in pairs for _, each in pair}
        assert len(made) == 1, f"{name}: job and peer made {made}"
        job, peer = (median(turn[who][0] for turn in pairs) / ROWS_OF[name] * 1e6 for who in (0, 1))
        ratio = median(hand / ours for (ours, _), (hand, _) in pairs)
        floor = f"{FLOORS[name]} x" if name in FLOORS else ""
        lines.append(f"| {TITLES[name]} | {job:.3f} | {peer:.3f} | {ratio:.2f} x | {floor} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
