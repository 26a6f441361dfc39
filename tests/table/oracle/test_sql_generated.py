"""Queries made at random, and written ones, give the tables that DuckDB gives."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from oracle_kit import Oracle
from query_maker import QueryMaker, random_tables

WRITTEN = [
    "SELECT COUNT(*), SUM(v), MAX(x) FROM t",
    "SELECT k, s, COUNT(*), SUM(v) FROM t GROUP BY ROLLUP (k, s)",
    "SELECT k, s, COUNT(*), GROUPING(k), GROUPING(s) FROM t GROUP BY CUBE (k, s)",
    "SELECT k, COUNT(*) FROM t GROUP BY GROUPING SETS ((k), ())",
    "SELECT a.k, b.k FROM u a JOIN u b ON a.w < b.w",
    "SELECT k, v FROM t WHERE k NOT IN (SELECT k FROM u)",
    "SELECT k, v, k IN (SELECT k FROM u) FROM t",
    "SELECT k, v, EXISTS (SELECT 1 FROM u WHERE u.k = t.k) FROM t",
    "SELECT a.n, b.m FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) a JOIN (SELECT k, MAX(w) AS m FROM u "
    "GROUP BY k) b ON a.n < b.m",
    "WITH a AS (SELECT k, SUM(v) AS n FROM t GROUP BY k), b AS (SELECT MAX(n) AS m FROM a) "
    "SELECT a.k, a.n FROM a JOIN b ON a.n = b.m",
    "SELECT k, v FROM t WHERE v IS NOT NULL AND x IS NOT NULL AND k IS NOT NULL ORDER BY v, k, x LIMIT 5",
    "SELECT k, v, s FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC, s, x) AS rn FROM t "
    "WHERE v IS NOT NULL AND s IS NOT NULL AND x IS NOT NULL) WHERE rn <= 2",
    "SELECT t.k, y.w FROM t, LATERAL (SELECT w FROM u WHERE u.k = t.k) y",
    "SELECT k, w FROM u WHERE w > ALL (SELECT v FROM t WHERE t.k = u.k AND v IS NOT NULL)",
    "SELECT k, w FROM u WHERE w >= ANY (SELECT v FROM t WHERE v > 40)",
    "SELECT k, n FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) WHERE n > (SELECT AVG(w) FROM u) - 20",
]


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    made = Oracle(Path(tmp_path_factory.mktemp("generated")), random_tables(5))
    yield made
    made.duck.close()


@pytest.mark.parametrize("query", WRITTEN)
def test_a_written_query_gives_duckdbs_table_whatever_the_cuts(oracle: Oracle, query: str) -> None:
    oracle.check(query, parallelism=2, epoch=19)


@pytest.mark.parametrize("seed", range(24))
def test_a_random_query_gives_duckdbs_table(oracle: Oracle, seed: int) -> None:
    query = QueryMaker(random.Random(seed)).query()
    oracle.check(query, parallelism=1 + seed % 2, epoch=(None, 7, 31)[seed % 3])


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 300))
def test_many_random_queries_give_duckdbs_tables(tmp_path: Path, seed: int) -> None:
    made = Oracle(tmp_path, random_tables(seed))
    query = QueryMaker(random.Random(seed)).query()
    for parallelism, epoch in ((1, None), (2, 5), (3, 23)):
        made.check(query, parallelism=parallelism, epoch=epoch)
    made.duck.close()
