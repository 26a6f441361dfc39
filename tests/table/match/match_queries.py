"""Queries with MATCH_RECOGNIZE, rows to run them over, and what PyFlink 2.3 gave of them (`flink_matches.json`).

Run `python match_queries.py record` with PyFlink to record anew.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from random import Random
from typing import Any

RECORDED = Path(__file__).with_name("flink_matches.json")

COLUMNS = "symbol STRING, rt TIMESTAMP(3), id INT, price INT, amount DOUBLE, fee DECIMAL(10, 2), note STRING"


def lines() -> list[str]:
    """Return the rows of the table as lines: three symbols, times up to two seconds out of order, some NULLs."""
    random = Random(7)
    rows = []
    for number in range(90):
        second = number + random.randrange(3)
        price = "null" if random.random() < 0.05 else str(random.randrange(10, 30))
        amount = random.randrange(0, 80) / 8
        fee = f"{random.randrange(0, 400) / 100:.2f}"
        symbol = random.choice("ABC")
        note = random.choice(["up", "down", "flat"])
        minute, second = divmod(second, 60)
        rows.append(
            f"{symbol},2024-03-01 09:{minute:02d}:{second:02d},{number},{price},{amount},{fee},{note}"
        )
    return rows


def table(path: str) -> str:
    """Return CREATE TABLE of the rows in a directory."""
    return (
        f"CREATE TABLE ticks ({COLUMNS}, WATERMARK FOR rt AS rt - INTERVAL '3' SECOND) "
        f"WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv', 'csv.null-literal' = 'null')"
    )


def _query(clauses: str, head: str = "PARTITION BY symbol ORDER BY rt, id", select: str = "*") -> str:
    return f"SELECT {select} FROM ticks MATCH_RECOGNIZE ({head} {clauses}) AS m"


PAST = "ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW"
V_MEASURES = "MEASURES S.id AS first_id, LAST(DOWN.id) AS bottom, LAST(UP.id) AS last_id, COUNT(*) AS n"
V_DEFINE = (
    "DEFINE DOWN AS (LAST(DOWN.price, 1) IS NULL AND DOWN.price < S.price) OR DOWN.price < LAST(DOWN.price, 1), "
    "UP AS UP.price > LAST(DOWN.price)"
)

QUERIES = {
    "v shape": _query(f"{V_MEASURES} {PAST} PATTERN (S DOWN+ UP) {V_DEFINE}"),
    "v shape, next row": _query(f"{V_MEASURES} PATTERN (S DOWN+ UP) {V_DEFINE}"),
    "v shape, to last": _query(f"{V_MEASURES} AFTER MATCH SKIP TO LAST UP PATTERN (S DOWN+ UP) {V_DEFINE}"),
    "v shape, to first": _query(
        f"{V_MEASURES} AFTER MATCH SKIP TO FIRST DOWN PATTERN (S DOWN+ UP) {V_DEFINE}"
    ),
    "average below": _query(
        "MEASURES FIRST(A.id) AS f, LAST(A.id) AS l, AVG(A.price) AS mean, B.id AS b "
        f"{PAST} PATTERN (A+ B) DEFINE A AS AVG(A.price) < 18"
    ),
    "sum of all rows": _query(
        f"MEASURES FIRST(id) AS f, LAST(id) AS l, SUM(price) AS s {PAST} PATTERN (A+ B) "
        "DEFINE A AS SUM(price) < 60, B AS SUM(price) >= 60"
    ),
    "sum of an expression": _query(
        "MEASURES SUM(A.price * A.amount) AS s, SUM(A.fee) AS fees, AVG(A.fee) AS fee, MIN(A.amount) AS low, "
        f"MAX(A.note) AS note, COUNT(A.price) AS n, COUNT(*) AS all_rows {PAST} PATTERN (A{{3}} B) "
        "DEFINE B AS B.price > 12"
    ),
    "first and last with offsets": _query(
        "MEASURES FIRST(A.id) AS f0, FIRST(A.id, 1) AS f1, FIRST(A.id, 5) AS f5, LAST(A.id, 1) AS l1, "
        f"LAST(id, 1) AS before_last, A.id AS a {PAST} PATTERN (A{{2,4}} B) DEFINE A AS A.price > 14"
    ),
    "greedy star": _query(
        f"MEASURES A.id AS a, COUNT(B.id) AS bs, C.id AS c {PAST} PATTERN (A B* C) "
        "DEFINE A AS A.note = 'up', B AS B.price > 15, C AS C.price > 20"
    ),
    "reluctant star": _query(
        f"MEASURES A.id AS a, COUNT(B.id) AS bs, C.id AS c {PAST} PATTERN (A B*? C) "
        "DEFINE A AS A.note = 'up', B AS B.price > 15, C AS C.price > 20"
    ),
    "reluctant plus": _query(
        f"MEASURES A.id AS a, COUNT(B.id) AS bs, C.id AS c {PAST} PATTERN (A B+? C) "
        "DEFINE B AS B.price > 12, C AS C.price > 18"
    ),
    "greedy plus": _query(
        f"MEASURES A.id AS a, COUNT(B.id) AS bs, C.id AS c {PAST} PATTERN (A B+ C) "
        "DEFINE B AS B.price > 12, C AS C.price > 18"
    ),
    "reluctant last": _query(
        f"MEASURES A.id AS a, COUNT(B.id) AS bs, LAST(B.id) AS b {PAST} PATTERN (A B{{2,}}?) "
        "DEFINE A AS A.note = 'down', B AS B.price > 12"
    ),
    "reluctant range last": _query(
        f"MEASURES A.id AS a, COUNT(B.id) AS bs {PAST} PATTERN (A B{{1,3}}?) DEFINE B AS B.price > 12"
    ),
    "greedy range": _query(
        f"MEASURES A.id AS a, COUNT(B.id) AS bs, C.id AS c {PAST} PATTERN (A B{{1,3}} C) "
        "DEFINE B AS B.price > 12, C AS C.price <= 22"
    ),
    "at least two": _query(
        f"MEASURES FIRST(A.id) AS a, COUNT(A.id) AS n, B.id AS b {PAST} PATTERN (A{{2,}} B) "
        "DEFINE A AS A.price >= 15, B AS B.price < 25"
    ),
    "optional": _query(
        f"MEASURES A.id AS a, B.id AS b, C.id AS c {PAST} PATTERN (A B? C) "
        "DEFINE A AS A.note = 'up', B AS B.note = 'flat', C AS C.note <> 'up'"
    ),
    "optional last": _query(
        f"MEASURES A.id AS a, B.id AS b {PAST} PATTERN (A B?) DEFINE A AS A.note = 'up', B AS B.note = 'up'"
    ),
    "optional first": _query(
        f"MEASURES A.id AS a, B.id AS b {PAST} PATTERN (A? B) DEFINE A AS A.note = 'up', B AS B.note = 'down'"
    ),
    "exactly": _query(
        f"MEASURES FIRST(A.id) AS a, LAST(A.id) AS z {PAST} PATTERN (A{{2}} B{{1}}) DEFINE B AS B.price > 15"
    ),
    "within": _query(
        "MEASURES A.id AS a, B.id AS b, C.id AS c PATTERN (A B C) WITHIN INTERVAL '7' SECOND "
        "DEFINE B AS B.price > 12"
    ),
    "within, past": _query(
        f"MEASURES A.id AS a, COUNT(B.id) AS n, C.id AS c {PAST} PATTERN (A B+ C) "
        "WITHIN INTERVAL '10' SECOND DEFINE B AS B.price > 10, C AS C.price < 20"
    ),
    "overlapping": _query("MEASURES A.id AS a, B.id AS b PATTERN (A B) DEFINE A AS A.price > 15"),
    "everything": _query("MEASURES A.id AS a, B.id AS b PATTERN (A B) DEFINE A AS TRUE"),
    "no partition": _query(
        f"MEASURES A.symbol AS s, A.id AS a, B.id AS b {PAST} PATTERN (A B) DEFINE B AS B.symbol = A.symbol",
        "ORDER BY rt, id",
    ),
    "ties, descending": _query(
        f"MEASURES A.id AS a, B.id AS b {PAST} PATTERN (A B) DEFINE A AS A.price > 12",
        "PARTITION BY symbol ORDER BY rt, id DESC",
    ),
    "two keys": _query(
        f"MEASURES A.id AS a, B.id AS b {PAST} PATTERN (A B) DEFINE B AS B.price > A.price",
        "PARTITION BY symbol, note ORDER BY rt, id",
    ),
    "row time": _query(
        f"MEASURES MATCH_ROWTIME() AS at_time, A.rt AS began {PAST} PATTERN (A B) DEFINE B AS B.price > 20"
    ),
    "window of matches": (
        "WITH m AS (SELECT * FROM ticks MATCH_RECOGNIZE ("
        "PARTITION BY symbol ORDER BY rt, id MEASURES A.id AS a, MATCH_ROWTIME() AS at_time "
        "PATTERN (A B) DEFINE B AS B.price > A.price)) "
        "SELECT symbol, window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE m, DESCRIPTOR(at_time), "
        "INTERVAL '30' SECOND)) GROUP BY symbol, window_start, window_end"
    ),
    "expressions": _query(
        "MEASURES UPPER(A.note) || '!' AS loud, B.price - A.price AS more, "
        "CASE WHEN B.price > 25 THEN 'high' ELSE 'low' END AS level, CAST(A.fee AS STRING) AS fee "
        f"{PAST} PATTERN (A B) DEFINE B AS B.price > A.price AND CHAR_LENGTH(B.note) > 2"
    ),
    "decimals and text": _query(
        f"MEASURES A.id AS a, COUNT(B.id) AS n, C.fee AS fee {PAST} PATTERN (A B* C) "
        "DEFINE B AS B.fee > LAST(A.fee) AND B.note <> A.note, C AS C.fee < A.fee OR C.note = A.note"
    ),
    "functions of other rows": _query(
        f"MEASURES A.id AS a, B.id AS b {PAST} PATTERN (A B) "
        "DEFINE B AS ABS(B.price - A.price) <= 3 OR COALESCE(A.price, 0) = 0"
    ),
    "counts in a condition": _query(
        f"MEASURES A.id AS a, COUNT(B.id) AS n, C.id AS c {PAST} PATTERN (A B* C) "
        "DEFINE B AS COUNT(B.id) <= 2, C AS C.price > MIN(B.price) OR MAX(B.price) IS NULL"
    ),
    "final": _query(
        f"MEASURES FINAL LAST(A.id) AS f, LAST(A.id) AS r {PAST} PATTERN (A B) DEFINE A AS A.price > 20"
    ),
    "filtered input": (
        "SELECT a, b FROM (SELECT * FROM ticks WHERE price > 14) MATCH_RECOGNIZE ("
        f"PARTITION BY symbol ORDER BY rt, id MEASURES A.id AS a, B.id AS b {PAST} PATTERN (A B) "
        "DEFINE B AS B.amount > A.amount) WHERE a > 10"
    ),
}

REFUSED = {
    "all rows": _query("MEASURES A.id AS a ALL ROWS PER MATCH PATTERN (A B) DEFINE A AS A.price > 1"),
    "no order": _query("MEASURES A.id AS a PATTERN (A B) DEFINE A AS TRUE", "PARTITION BY symbol"),
    "order by no time": _query(
        "MEASURES A.id AS a PATTERN (A B) DEFINE A AS TRUE", "PARTITION BY symbol ORDER BY id"
    ),
    "order descending": _query(
        "MEASURES A.id AS a PATTERN (A B) DEFINE A AS TRUE", "PARTITION BY symbol ORDER BY rt DESC"
    ),
    "greedy last": _query("MEASURES A.id AS a PATTERN (A B+) DEFINE B AS B.price > 1"),
    "greedy range last": _query("MEASURES A.id AS a PATTERN (A B{2,3}) DEFINE B AS B.price > 1"),
    "empty matches": _query("MEASURES A.id AS a PATTERN (A*?) DEFINE A AS A.price > 1"),
    "alternation": _query("MEASURES A.id AS a PATTERN ((A | B) C) DEFINE A AS A.price > 1"),
    "permutation": _query("MEASURES A.id AS a PATTERN (PERMUTE(A, B)) DEFINE A AS A.price > 1"),
    "group": _query("MEASURES A.id AS a PATTERN (A (B C)+ D) DEFINE A AS A.price > 1"),
    "reluctant optional": _query("MEASURES A.id AS a PATTERN (A B?? C) DEFINE A AS A.price > 1"),
    "twice": _query("MEASURES A.id AS a PATTERN (A B A) DEFINE A AS A.price > 1"),
    "subset": _query("MEASURES A.id AS a PATTERN (A B) SUBSET U = (A, B) DEFINE A AS A.price > 1"),
    "distinct": _query("MEASURES COUNT(DISTINCT A.id) AS a PATTERN (A B) DEFINE A AS A.price > 1"),
    "previous": _query("MEASURES A.id AS a PATTERN (A B) DEFINE B AS B.price > PREV(B.price)"),
    "next": _query("MEASURES A.id AS a PATTERN (A B) DEFINE B AS B.price > NEXT(B.price, 1)"),
    "classifier": _query("MEASURES CLASSIFIER() AS a PATTERN (A B) DEFINE A AS A.price > 1"),
    "several variables": _query("MEASURES SUM(A.price * B.price) AS a PATTERN (A B) DEFINE A AS A.price > 1"),
    "unknown variable": _query("MEASURES X.id AS a PATTERN (A B) DEFINE A AS A.price > 1"),
    "unknown column": _query("MEASURES A.nothing AS a PATTERN (A B) DEFINE A AS A.price > 1"),
    "defined elsewhere": _query("MEASURES A.id AS a PATTERN (A B) DEFINE X AS X.price > 1"),
    "skip to unknown": _query("MEASURES A.id AS a AFTER MATCH SKIP TO LAST X PATTERN (A B) DEFINE A AS TRUE"),
    "months": _query("MEASURES A.id AS a PATTERN (A B) WITHIN INTERVAL '1' MONTH DEFINE A AS A.price > 1"),
    "no condition": _query("MEASURES A.id AS a PATTERN (A B) DEFINE A AS A.price"),
    "updating input": (
        "SELECT * FROM (SELECT symbol, COUNT(*) AS n, PROCTIME() AS pt FROM ticks GROUP BY symbol) "
        "MATCH_RECOGNIZE (ORDER BY pt MEASURES A.n AS a PATTERN (A B) DEFINE A AS A.n > 1)"
    ),
}


def plain(row: Any) -> list[Any]:
    """Return a row as JSON has it."""
    return [
        value
        if value is None or isinstance(value, (int, str, bool))
        else round(value, 9)
        if isinstance(value, float)
        else str(value)
        for value in row
    ]


def record() -> None:
    """Run all queries with PyFlink."""
    from pyflink.table import EnvironmentSettings, TableEnvironment

    environment = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    environment.get_config().set("parallelism.default", "1")
    results: dict[str, Any] = {}
    refused: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as directory:
        Path(directory, "rows.csv").write_text("\n".join(lines()) + "\n")
        environment.execute_sql(table(directory))
        for name, query in QUERIES.items():
            try:
                result = environment.execute_sql(query)
                with result.collect() as rows:
                    found = sorted((plain(row) for row in rows), key=repr)
                schema = result.get_table_schema()
                types = [str(each) for each in schema.get_field_data_types()]
                results[name] = {"names": list(schema.get_field_names()), "types": types, "rows": found}
            except Exception as error:
                print(name, str(error)[:3000])
                results[name] = {"error": _reason(error)}
        for name, query in REFUSED.items():
            try:
                environment.execute_sql(f"EXPLAIN {query}").print()
                refused[name] = ""
            except Exception as error:
                refused[name] = _reason(error)
    RECORDED.write_text(json.dumps({"results": results, "refused": refused}, indent=1) + "\n")


def _reason(error: Exception) -> str:
    lines_ = [each for each in str(error).splitlines() if "Exception" in each and not each.startswith("\tat")]
    return (lines_ or ["?"])[-1][:300]


if __name__ == "__main__" and sys.argv[1:] == ["record"]:
    record()
