"""Nexmark's queries, over streams that are cut into many epochs, give the tables that DuckDB gives at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from nexmark_queries import QUERIES
from nexmark_rows import nexmark_tables
from oracle_kit import Oracle

LATE = dict.fromkeys(("bid", "auction", "person"), ("dateTime", 2000))


@pytest.fixture(scope="module")
def nexmark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    made = Oracle(Path(tmp_path_factory.mktemp("nexmark")), nexmark_tables(), LATE)
    yield made
    made.duck.close()


@pytest.mark.parametrize("name", sorted(QUERIES))
def test_a_query_of_nexmark_gives_duckdbs_table(nexmark: Oracle, name: str) -> None:
    query, duck = QUERIES[name]
    nexmark.check(query, duck, parallelism=2, epoch=29)


@pytest.mark.long
@pytest.mark.parametrize("parallelism", [1, 2, 3])
@pytest.mark.parametrize("epoch", [None, 3, 101])
@pytest.mark.parametrize("name", sorted(QUERIES))
def test_cuts_and_parallelism_change_nothing(
    nexmark: Oracle, name: str, parallelism: int, epoch: int | None
) -> None:
    query, duck = QUERIES[name]
    nexmark.check(query, duck, parallelism=parallelism, epoch=epoch)
