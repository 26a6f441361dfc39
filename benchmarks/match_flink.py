"""MATCH_RECOGNIZE: the same statements here and in Flink, over the same rows made in the job; results are compared.

    python benchmarks/match_flink.py --pyflink-env ENV [--rows 1000000] [--rounds 2] [--only steps] [--write]

Rows come from `datagen`, a sequence, and a view makes keys, letters and prices of their numbers. The matches in the
first rows are collected and compared. Then each statement is an INSERT into a table that keeps nothing (`blackhole`):
its seconds are those from the call until the job has ended, start included. Parallelism is 1 in both: the rows of one
sequence are in order then.
ENV is an environment of Python's with apache-flink in it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from sides import ask

HEAP = "1500m"

RESULTS = Path(__file__).parent / "results" / "match_flink.md"
SOURCE = """CREATE TABLE numbers (
  n BIGINT, ts AS TO_TIMESTAMP_LTZ(n, 3), WATERMARK FOR ts AS ts
) WITH ('connector' = 'datagen', 'rows-per-second' = '100000000',
  'number-of-rows' = '{rows}', 'fields.n.kind' = 'sequence',
  'fields.n.start' = '1', 'fields.n.end' = '{rows}')"""
EVENTS = """CREATE VIEW events AS SELECT n, ts, MOD(n * 7919, 1009) AS k, MOD(n * 104729, 8) AS letter,
  MOD(n * 31337, 101) AS price FROM numbers"""
QUERIES = {
    "steps": """SELECT * FROM events MATCH_RECOGNIZE (
  PARTITION BY k ORDER BY ts MEASURES A.n AS a, C.n AS c AFTER MATCH SKIP PAST LAST ROW
  PATTERN (A B C) WITHIN INTERVAL '20' SECOND DEFINE A AS A.letter < 4, B AS B.letter > 2, C AS C.letter = 5)""",
    "loop": """SELECT * FROM events MATCH_RECOGNIZE (
  PARTITION BY k ORDER BY ts MEASURES A.n AS a, C.n AS c AFTER MATCH SKIP PAST LAST ROW
  PATTERN (A B* C) WITHIN INTERVAL '20' SECOND DEFINE A AS A.letter = 0, B AS B.letter < 6, C AS C.letter = 6)""",
    "v shape": """SELECT * FROM events MATCH_RECOGNIZE (
  PARTITION BY k ORDER BY ts MEASURES S.n AS a, UP.n AS c AFTER MATCH SKIP PAST LAST ROW
  PATTERN (S DOWN+ UP) WITHIN INTERVAL '20' SECOND
  DEFINE DOWN AS DOWN.price < COALESCE(LAST(DOWN.price, 1), S.price), UP AS UP.price > LAST(DOWN.price))""",
}


def run(environment: Any, task: dict[str, Any]) -> dict[str, Any]:
    """Return the result over a few rows, and the seconds of each round over all."""
    query = QUERIES[task["query"]]
    found: list[str] = []
    seconds: list[float] = []
    for turn, rows in enumerate((task["few"], *[task["rows"]] * (task["rounds"] + 1))):
        environment.execute_sql(SOURCE.format(rows=rows))
        environment.execute_sql(EVENTS)
        if turn == 0:
            with environment.execute_sql(query).collect() as results:
                found = sorted(" ".join(str(value) for value in row) for row in results)
        else:
            environment.execute_sql(
                "CREATE TABLE nothing (k BIGINT, a BIGINT, c BIGINT) WITH ('connector' = 'blackhole')"
            )
            start = time.perf_counter()
            environment.execute_sql(f"INSERT INTO nothing {query}").wait()
            seconds.append(time.perf_counter() - start)
            environment.execute_sql("DROP TABLE nothing")
        environment.execute_sql("DROP VIEW events")
        environment.execute_sql("DROP TABLE numbers")
    return {"rows": found, "seconds": seconds[1:]}  # the first round warms up


def run_ours(task: dict[str, Any]) -> dict[str, Any]:
    """Run in this process."""
    from millstream.common import Configuration
    from millstream.table import EnvironmentSettings, TableEnvironment

    options = Configuration.from_dict({"execution.target": "local", "parallelism.default": 1})
    settings = EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(options).build()
    return run(TableEnvironment.create(settings), task)


def run_flink(task: dict[str, Any]) -> dict[str, Any]:
    """Run in this process, which has PyFlink."""
    from pyflink.table import EnvironmentSettings, TableEnvironment

    environment = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    environment.get_config().set("parallelism.default", "1")
    environment.get_config().set("pipeline.object-reuse", "true")
    return run(environment, task)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pyflink-env", type=Path)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--few", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", nargs="*", choices=list(QUERIES), default=list(QUERIES))
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--side", choices=["ours", "flink"])
    parser.add_argument("--task", type=json.loads)
    given = parser.parse_args()
    if given.side:
        print(json.dumps((run_ours if given.side == "ours" else run_flink)(given.task)))
        return
    lines = [
        "| pattern | matches compared | millstream | Flink | times as fast |",
        "|---|---:|---:|---:|---:|",
    ]
    for query in given.only:
        task = {"query": query, "few": given.few, "rows": given.rows, "rounds": given.rounds}
        flink = ask(__file__, str(given.pyflink_env / "bin" / "python"), "flink", task, heap=HEAP)
        ours = ask(__file__, sys.executable, "ours", task, heap=HEAP)
        if ours["rows"] != flink["rows"]:
            extra = sorted(set(ours["rows"]) ^ set(flink["rows"]))
            raise SystemExit(f"{query}: matches differ, such as by {extra[:5]}")
        mine, theirs = statistics.median(ours["seconds"]), statistics.median(flink["seconds"])
        lines.append(
            f"| {query} | {len(ours['rows']):,} | {given.rows / mine:,.0f}/s | {given.rows / theirs:,.0f}/s "
            f"| {theirs / mine:.2f} x |"
        )
        print(lines[-1], flush=True)
    text = "\n".join(lines)
    if given.write:
        command = f"python benchmarks/match_flink.py --rows {given.rows} --rounds {given.rounds}"
        RESULTS.write_text(f"# MATCH_RECOGNIZE beside Flink's\n\n`{command}`\n\n{text}\n")


if __name__ == "__main__":
    main()
