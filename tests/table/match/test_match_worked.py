"""MATCH_RECOGNIZE over prices whose matches are worked out by hand; the first are those of Flink's documentation."""

from __future__ import annotations

import pytest

from millstream.common import Configuration
from millstream.datastream import StreamExecutionEnvironment
from millstream.table import StreamTableEnvironment

pytestmark = pytest.mark.filterwarnings("ignore::millstream.cep.GrowingStateWarning")

PRICES = {
    "acme": (12, 17, 19, 21, 25, 18, 15, 14, 24, 25, 19),
    "mean": (12, 17, 13, 16, 25, 2, 4, 10, 15, 25, 25, 30),
    "lazy": (14, 13, 13, 13, 20),
}
"""A price each second."""

PAST = "AFTER MATCH SKIP PAST LAST ROW"
V_SHAPE = (
    "MEASURES START_ROW.s AS a, LAST(PRICE_DOWN.s) AS b, LAST(PRICE_UP.s) AS c ONE ROW PER MATCH "
    "AFTER MATCH SKIP TO LAST PRICE_UP PATTERN (START_ROW PRICE_DOWN+ PRICE_UP) DEFINE "
    "PRICE_DOWN AS (LAST(PRICE_DOWN.price, 1) IS NULL AND PRICE_DOWN.price < START_ROW.price) "
    "OR PRICE_DOWN.price < LAST(PRICE_DOWN.price, 1), PRICE_UP AS PRICE_UP.price > LAST(PRICE_DOWN.price)"
)
RISING = "DEFINE B AS B.price > A.price, C AS C.price > B.price"
TRIPLE = "MEASURES A.s AS a, B.s AS b, C.s AS c"

CASES = {
    # prices fall from 25 at 4 s down to 14 at 7 s, and are up again at 8 s
    "v shape": ("acme", V_SHAPE, [(4, 7, 8)]),
    # 12 17 13 16 | 25: mean 14.5; 2 4 10 15 25 25 | 30: mean 13.5
    "mean below 15": (
        "mean",
        f"MEASURES FIRST(A.s) AS a, LAST(A.s) AS b, AVG(A.price) AS m {PAST} PATTERN (A+ B) "
        "DEFINE A AS AVG(A.price) < 15",
        [(0, 3, 14.5), (5, 10, 13.5)],
    ),
    # greedy: all three 13 belong to B, though they fit C too; reluctant: the first 13 is C
    "greedy": (
        "lazy",
        f"MEASURES A.s AS a, COUNT(B.s) AS n, C.s AS c {PAST} PATTERN (A B* C) "
        "DEFINE A AS A.price > 10, B AS B.price < 15, C AS C.price > 12",
        [(0, 3, 4)],
    ),
    "reluctant": (
        "lazy",
        f"MEASURES A.s AS a, COUNT(B.s) AS n, C.s AS c {PAST} PATTERN (A B*? C) "
        "DEFINE A AS A.price > 10, B AS B.price < 15, C AS C.price > 12",
        [(0, 0, 1), (2, 0, 3)],
    ),
    # three rising prices begin at 0, 1, 2 and 7 s
    "next row": (
        "acme",
        f"{TRIPLE} AFTER MATCH SKIP TO NEXT ROW PATTERN (A B C) {RISING}",
        [(0, 1, 2), (1, 2, 3), (2, 3, 4), (7, 8, 9)],
    ),
    "next row is the default": (
        "acme",
        f"{TRIPLE} PATTERN (A B C) {RISING}",
        [(0, 1, 2), (1, 2, 3), (2, 3, 4), (7, 8, 9)],
    ),
    "past last row": ("acme", f"{TRIPLE} {PAST} PATTERN (A B C) {RISING}", [(0, 1, 2), (7, 8, 9)]),
    "to last": (
        "acme",
        f"{TRIPLE} AFTER MATCH SKIP TO LAST C PATTERN (A B C) {RISING}",
        [(0, 1, 2), (2, 3, 4), (7, 8, 9)],
    ),
    "to first": (
        "acme",
        f"{TRIPLE} AFTER MATCH SKIP TO FIRST C PATTERN (A B C) {RISING}",
        [(0, 1, 2), (2, 3, 4), (7, 8, 9)],
    ),
    # the last row has to be less than this behind the first
    "within 2 s": ("acme", f"{TRIPLE} {PAST} PATTERN (A B C) WITHIN INTERVAL '2' SECOND {RISING}", []),
    "within 2.001 s": (
        "acme",
        f"{TRIPLE} {PAST} PATTERN (A B C) WITHIN INTERVAL '2.001' SECOND {RISING}",
        [(0, 1, 2), (7, 8, 9)],
    ),
    # 25 18 15 14 is the only fall of three steps
    "exactly three": (
        "acme",
        f"MEASURES A.s AS a, FIRST(B.s) AS b, LAST(B.s) AS c {PAST} PATTERN (A B{{3}}) "
        "DEFINE B AS B.price < COALESCE(LAST(B.price, 1), A.price)",
        [(4, 5, 7)],
    ),
}


def environment(directory, parallelism, epoch):
    rows = [
        f"{symbol},2024-03-01 09:00:{second:02d},{second},{price}"
        for second in range(12)
        for symbol, prices in PRICES.items()
        for price in prices[second : second + 1]
    ]
    (directory / "rows.csv").write_text("\n".join(rows) + "\n")
    configuration = Configuration()
    configuration.set_string("execution.target", "local")
    stream = StreamExecutionEnvironment.get_execution_environment(configuration)
    stream.set_parallelism(parallelism)
    tables = StreamTableEnvironment.create(stream)
    tables.get_config().set("millstream.epoch.fixed-records", str(epoch))
    tables.execute_sql(
        "CREATE TABLE Ticker (symbol STRING, rt TIMESTAMP(3), s INT, price DOUBLE, "
        "WATERMARK FOR rt AS rt - INTERVAL '1' SECOND) "
        f"WITH ('connector' = 'filesystem', 'path' = '{directory}', 'format' = 'csv')"
    )
    return tables


def run(directory, parallelism, epoch):
    """Return the rows of all cases, of one job."""
    tables = environment(directory, parallelism, epoch)
    streams = []
    for name, (symbol, clauses, _) in CASES.items():
        query = (
            f"SELECT a, b, c FROM Ticker MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY rt {clauses}) "
            f"AS t(symbol, a, b, c) WHERE symbol = '{symbol}'"
        )
        stream = tables.to_data_stream(tables.sql_query(query))
        streams.append(stream.map(lambda row, name=name: (name, tuple(row))))
    rows = {name: [] for name in CASES}
    with streams[0].union(*streams[1:]).execute_and_collect() as results:
        for name, row in results:
            rows[name].append(row)
    return rows


def test_matches_are_those_worked_out_by_hand(tmp_path):
    rows = run(tmp_path, 1, 5)
    assert rows == {name: wanted for name, (_, _, wanted) in CASES.items()}


def test_two_subtasks_find_the_same(tmp_path):
    rows = run(tmp_path, 2, 3)
    assert rows == {name: wanted for name, (_, _, wanted) in CASES.items()}
