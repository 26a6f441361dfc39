"""SQL: the same statements here and in Flink, over the same CSV file; results are compared.

    python benchmarks/sql_flink.py --pyflink-env ENV [--rows 1000000] [--rounds 3] [--only groups] [--write]

Each statement is an INSERT into a table that keeps nothing (`blackhole`). Its seconds are those from the call
until the job has ended, so the start of Flink's small cluster in the process and of our job count. Both run at
parallelism 2: Flink from PyFlink's wheel (heap state, object reuse, mini-batch), ours on the local executor
and, with --spark, on `local[2]`. Before that each query is run over the first rows of the file in both, and the
tables that come out are compared. ENV is an environment of Python's with apache-flink in it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from sides import ask

HEAP = "3g"

RESULTS = Path(__file__).parent / "results" / "sql_flink.md"
COLUMNS = "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, ts TIMESTAMP(3)"
TABLE = """CREATE TABLE bid ({columns}, WATERMARK FOR ts AS ts - INTERVAL '4' SECOND)
WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv')"""
QUERIES = {
    "calc": (
        "SELECT auction, bidder, 0.908 * price AS euros, ts FROM bid WHERE MOD(auction, 3) < 2",
        "auction BIGINT, bidder BIGINT, euros DECIMAL(23, 3), ts TIMESTAMP(3)",
    ),
    "text": (
        "SELECT bidder, SPLIT_INDEX(url, '/', 3) AS dir, UPPER(channel) AS channel FROM bid WHERE channel <> 'apple'",
        "bidder BIGINT, dir STRING, channel STRING",
    ),
    "groups": (
        "SELECT bidder, COUNT(*) AS n, SUM(price) AS total, MAX(price) AS most FROM bid GROUP BY bidder",
        "bidder BIGINT, n BIGINT, total BIGINT, most BIGINT, PRIMARY KEY (bidder) NOT ENFORCED",
    ),
    "windows": (
        "SELECT bidder, window_start, COUNT(*) AS n FROM "
        "TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '10' SECOND)) "
        "GROUP BY bidder, window_start, window_end",
        "bidder BIGINT, window_start TIMESTAMP(3), n BIGINT",
    ),
    "top": (
        "SELECT auction, bidder, price FROM (SELECT auction, bidder, price, ROW_NUMBER() OVER (PARTITION BY auction "
        "ORDER BY price DESC, bidder) AS place FROM bid) WHERE place <= 3",
        "auction BIGINT, bidder BIGINT, price BIGINT",
    ),
    "join": (
        "SELECT a.auction, a.bidder, b.price FROM bid a JOIN (SELECT auction, MAX(price) AS price FROM bid "
        "GROUP BY auction) b ON a.auction = b.auction AND a.price = b.price",
        "auction BIGINT, bidder BIGINT, price BIGINT",
    ),
}
FLINK = {
    "parallelism.default": "2",
    "pipeline.object-reuse": "true",
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "1 s",
    "table.exec.mini-batch.size": "50000",
}


def write_rows(path: Path, rows: int) -> None:
    """Write bids: auctions and bidders from 1 to rows / 10, ten a millisecond."""
    import numpy as np
    import pyarrow as pa
    from pyarrow import csv

    made = np.random.default_rng(7)
    keys = max(10, rows // 10)
    at = np.datetime64("2026-01-01T00:00:00", "ms") + np.arange(rows) // 10
    bidder = made.integers(1, keys, rows)
    table = pa.table(
        {
            "auction": made.integers(1, keys, rows),
            "bidder": bidder,
            "price": made.integers(1, 1_000_000, rows),
            "channel": pa.array(["apple", "google", "baidu", "channel-9"]).take(
                pa.array(made.integers(0, 4, rows))
            ),
            "url": [f"https://shop.test/item/{number % 977}/p?c={number}" for number in bidder],
            "ts": [text.replace("T", " ") for text in np.datetime_as_string(at)],
        }
    )
    csv.write_csv(table, path, csv.WriteOptions(include_header=False, quoting_style="none"))


def run_ours(task: dict[str, Any]) -> dict[str, Any]:
    """Run in this process."""
    from millstream.common import Configuration
    from millstream.table import EnvironmentSettings, TableEnvironment

    options = Configuration.from_dict({"execution.target": task["target"], "parallelism.default": 2})
    settings = EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(options).build()
    return run(TableEnvironment.create(settings), task)


def run_flink(task: dict[str, Any]) -> dict[str, Any]:
    """Run in this process, which has PyFlink."""
    from pyflink.table import EnvironmentSettings, TableEnvironment

    environment = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for key, value in FLINK.items():
        environment.get_config().set(key, value)
    return run(environment, task)


def run(environment: Any, task: dict[str, Any]) -> dict[str, Any]:
    """Return the table over the first rows, and the seconds of each round over all."""
    query, columns = QUERIES[task["query"]]
    environment.execute_sql(TABLE.format(columns=COLUMNS, path=task["few"]))
    found: dict[str, int] = {}
    with environment.execute_sql(query).collect() as rows:
        for row in rows:
            text = " ".join(str(value) for value in row)
            added = 1 if row.get_row_kind().name in ("INSERT", "UPDATE_AFTER") else -1
            found[text] = found.get(text, 0) + added
    environment.execute_sql("DROP TABLE bid")
    environment.execute_sql(TABLE.format(columns=COLUMNS, path=task["all"]))
    environment.execute_sql(f"CREATE TABLE nothing ({columns}) WITH ('connector' = 'blackhole')")
    seconds = []
    for _ in range(task["rounds"] + 1):  # the first one warms up
        start = time.perf_counter()
        environment.execute_sql(f"INSERT INTO nothing {query}").wait()
        seconds.append(time.perf_counter() - start)
    return {
        "table": sorted(text for text, count in found.items() for _ in range(count)),
        "seconds": seconds[1:],
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pyflink-env", type=Path)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", choices=list(QUERIES), default=list(QUERIES))
    parser.add_argument("--spark", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--side", choices=["ours", "flink"])
    parser.add_argument("--task", type=json.loads)
    given = parser.parse_args()
    if given.side:
        print(json.dumps((run_ours if given.side == "ours" else run_flink)(given.task)))
        return
    lines = ["| query | millstream | target | Flink | times as fast |", "|---|---:|---|---:|---:|"]
    with tempfile.TemporaryDirectory() as place:
        everything, few = Path(place) / "all.csv", Path(place) / "few.csv"
        write_rows(everything, given.rows)
        write_rows(few, 5_000)
        for query in given.only:
            task = {"query": query, "few": str(few), "all": str(everything), "rounds": given.rounds}
            flink = ask(__file__, str(given.pyflink_env / "bin" / "python"), "flink", task, heap=HEAP)
            for target in ["local", *(["local[2]"] if given.spark else [])]:
                ours = ask(__file__, sys.executable, "ours", {**task, "target": target}, heap=HEAP)
                if ours["table"] != flink["table"]:
                    extra = set(ours["table"]) ^ set(flink["table"])
                    raise SystemExit(f"{query}: the tables differ, such as by {sorted(extra)[:5]}")
                mine, theirs = statistics.median(ours["seconds"]), statistics.median(flink["seconds"])
                lines.append(
                    f"| {query} | {given.rows / mine:,.0f}/s | {target} | {given.rows / theirs:,.0f}/s "
                    f"| {theirs / mine:.2f} x |"
                )
                print(lines[-1], flush=True)
    text = "\n".join(lines)
    print(text)
    if given.write:
        command = f"python benchmarks/sql_flink.py --rows {given.rows} --rounds {given.rounds}"
        RESULTS.write_text(f"# SQL beside Flink's\n\n`{command}`\n\n{text}\n")


if __name__ == "__main__":
    main()
