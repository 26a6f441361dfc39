"""Statements that cannot run are refused before anything runs, with the place in the text and a suggestion."""

from __future__ import annotations

import pytest

from millstream.common import Configuration
from millstream.datastream import StreamExecutionEnvironment
from millstream.table import StreamTableEnvironment
from millstream.table.errors import SqlError

REFUSED = [
    ("SELECT bider FROM bid", (1, 8), 'Did you mean "bidder"'),
    ("SELECT b.price FROM bid", (1, 8), 'table "b" was not found'),
    ("SELECT a FROM bids", (1, 15), 'Did you mean "bid"'),
    ("SELECT price, COUNT(*) FROM bid", (1, 8), "without an aggregate"),
    ("SELECT price FROM bid GROUP BY bidder", (1, 8), "is not in GROUP BY"),
    ("SELECT bidder FROM bid WHERE COUNT(*) > 1", None, "aggregate function"),
    ("SELECT SUM(COUNT(*)) FROM bid", None, 'stands in "SUM"'),
    ("SELECT bidder FROM bid WHERE price", None, "not BOOLEAN"),
    ("SELECT bidder FROM bid a JOIN bid b ON a.price = b.price", (1, 8), "ambiguous"),
    ("SELECT * FROM bid ORDER BY price", None, "without LIMIT"),
    (
        "SELECT SUM(price) OVER (PARTITION BY bidder ORDER BY ts DESC) FROM bid",
        None,
        "descending",
    ),
    ("SELECT SUM(price) OVER (PARTITION BY bidder) FROM bid", None, "OVER without ORDER BY"),
    ("SELECT ROW_NUMBER() FROM bid", None, "without OVER"),
    ("SELECT RANK() OVER (PARTITION BY bidder) FROM bid", None, "without ORDER BY"),
    (
        "SELECT * FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(price), INTERVAL '1' MINUTE))",
        None,
        "requires a time attribute",
    ),
    (
        "SELECT * FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(url_), INTERVAL '1' MINUTE))",
        None,
        'Did you mean "url"',
    ),
    ("SELECT * FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts)))", None, "lacks the argument SIZE"),
    (
        "SELECT * FROM TABLE(CUMULATE(TABLE bid, DESCRIPTOR(ts), INTERVAL '7' SECOND, INTERVAL '1' MINUTE))",
        None,
        "multiple of the step",
    ),
    ("SELECT COUNT(*) FROM bid GROUP BY TUMBLE(price, INTERVAL '1' MINUTE)", None, "no time attribute"),
    (
        "SELECT TUMBLE_START(ts, INTERVAL '2' MINUTE) FROM bid GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE)",
        None,
        "other arguments than the window",
    ),
    ("SELECT TUMBLE_START(ts, INTERVAL '2' MINUTE) FROM bid", None, "without a window"),
    ("SELECT bidder FROM bid UNION SELECT bidder, price FROM bid", None, "1 columns on its left and 2"),
    ("SELECT bidder FROM bid UNION SELECT url FROM bid", None, "without a common one"),
    ("SELECT (SELECT bidder, price FROM bid) FROM bid", None, "a scalar subquery has 2 columns"),
    ("SELECT * FROM bid WHERE bidder IN (SELECT bidder, price FROM bid)", None, "1 values are compared"),
    ("SELECT bidder FROM bid LIMIT -1", None, ""),
    ("SELECT bidder AS x FROM bid AS b (p)", None, "names 1 columns"),
    ("SELECT DISTINCT bidder FROM bid ORDER BY price LIMIT 1", None, "SELECT DISTINCT does not give"),
    ("SELECT bidder FROM bid ORDER BY 3 LIMIT 1", None, "the result has 1 columns"),
    ("SELECT SUM(price) OVER w FROM bid", None, 'window "w" was not found'),
    ("SELECT UPER(url) FROM bid", None, "does not exist"),
    ("SELECT bidder FROM bid, LATERAL TABLE(UPPER(url)) AS t(x)", None, "is no table function"),
    ("SELECT x FROM bid CROSS JOIN UNNEST(price) AS t(x)", None, "UNNEST was given BIGINT"),
    ("INSERT INTO bid SELECT bidder FROM bid", None, "is written with 4 columns, but the query gives 1"),
    ("INSERT INTO bid (bidder, prise) SELECT bidder, price FROM bid", None, 'column "prise" is not in table'),
    ("INSERT INTO bid SELECT url, price, url, ts FROM bid", None, "Use CAST"),
    ("SELECT COUNT(*) AS n, window_start FROM (SELECT ts AS window_start FROM bid) GROUP BY ts", None, ""),
    (
        "SELECT w.bidder FROM (SELECT bidder, COUNT(*) AS n, MAX(ts) AS ts FROM bid GROUP BY bidder) w "
        "JOIN bid FOR SYSTEM_TIME AS OF w.ts AS v ON v.bidder = w.bidder",
        None,
        "no time attribute of the left side",
    ),
    (
        "SELECT l.bidder FROM bid l JOIN bid FOR SYSTEM_TIME AS OF l.ts AS v ON v.bidder = l.bidder",
        None,
        "does not compare the primary key",
    ),
    (
        "SELECT window_start FROM TABLE(TUMBLE(TABLE agg, DESCRIPTOR(ts), INTERVAL '1' MINUTE))",
        None,
        "time attribute",
    ),
]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> StreamTableEnvironment:
    configuration = Configuration()
    configuration.set_string("execution.target", "local")
    stream = StreamExecutionEnvironment.get_execution_environment(configuration)
    environment = StreamTableEnvironment.create(stream)
    environment.execute_sql(
        "CREATE TABLE bid (bidder BIGINT, price BIGINT, url STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) "
        f"WITH ('connector' = 'filesystem', 'path' = '{tmp_path_factory.mktemp('bid')}', 'format' = 'csv')"
    )
    environment.execute_sql("CREATE VIEW agg AS SELECT bidder, MAX(ts) AS ts FROM bid GROUP BY bidder")
    return environment


@pytest.mark.parametrize(("sql", "place", "words"), REFUSED, ids=[sql[:60] for sql, _, _ in REFUSED])
def test_a_statement_is_refused(
    tables: StreamTableEnvironment, sql: str, place: tuple[int, int] | None, words: str
) -> None:
    with pytest.raises(SqlError) as refused:
        tables.explain_sql(sql)
    assert words in str(refused.value)
    if place is not None:
        assert refused.value.position is not None
        assert (refused.value.position.line, refused.value.position.column) == place
        assert "^" in str(refused.value)
