"""What MATCH_RECOGNIZE refuses, with the place in the text."""

from __future__ import annotations

import json

import pytest
from match_queries import RECORDED, REFUSED, table

from millstream.base.errors import NotSupportedError
from millstream.config.configuration import Configuration
from millstream.table import EnvironmentSettings, TableEnvironment
from millstream.table.errors import SqlError

pytestmark = pytest.mark.filterwarnings("ignore::millstream.cep.GrowingStateWarning")

SAID = {
    "all rows": ("ALL ROWS PER MATCH", "ticks"),
    "no order": ("no ORDER BY", "ticks"),
    "order by no time": ('ordered by "id", which is no time attribute', "id MEASURES"),
    "order descending": ('ordered by "rt", descending', "rt DESC"),
    "greedy last": ('greedy quantifier of "B+"', "A B+"),
    "greedy range last": ('greedy quantifier of "B{2,3}"', "A B{2,3}"),
    "empty matches": ("can match no row at all", "A*?"),
    "alternation": ("alternatives (|)", "(A | B)"),
    "permutation": ("PERMUTE", "PERMUTE"),
    "group": ("a group of the pattern has a quantifier", "A (B C)+"),
    "reluctant optional": ('"B??" is a reluctant optional', "A B??"),
    "twice": ('"A" comes twice', "A B A"),
    "subset": ("SUBSET U = (A, B)", "ticks"),
    "distinct": ("COUNT has DISTINCT", "COUNT(DISTINCT"),
    "previous": ("PREV is used", "PREV("),
    "next": ("NEXT is used", "NEXT("),
    "classifier": ("CLASSIFIER() is used in MEASURES", "CLASSIFIER()"),
    "several variables": ("several pattern variables: A, B", "SUM("),
    "unknown variable": ('table "X" was not found', "X.id"),
    "unknown column": ('column "nothing" was not found', "A.nothing"),
    "defined elsewhere": ('DEFINE has "X"', "X.price"),
    "skip to unknown": ('SKIP TO LAST "X"', "ticks"),
    "months": ("interval of months", "ticks"),
    "no condition": ("is INT, not BOOLEAN", "A.price) AS m"),
    "updating input": ("does not support consuming update changes", None),
}


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    found = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    found.execute_sql(table(str(tmp_path_factory.mktemp("ticks"))))
    return found


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_at_its_place(tables, name):
    query = REFUSED[name]
    message, place = SAID[name]
    with pytest.raises(SqlError) as caught:
        tables.explain_sql(query)
    assert message in str(caught.value)
    if place is not None:
        assert caught.value.position.column == query.index(place) + 1


def test_flink_refuses_the_same_but_what_it_overlooks():
    refused = json.loads(RECORDED.read_text())["refused"]
    assert [name for name, reason in refused.items() if not reason] == ["subset", "defined elsewhere"]


@pytest.mark.parametrize("aggregate", ["STDDEV_POP(A.price)", "LISTAGG(A.note)", "FIRST_VALUE(A.id)"])
def test_aggregates_that_are_not_there_say_so(tables, aggregate):
    query = (
        f"SELECT * FROM ticks MATCH_RECOGNIZE (ORDER BY rt MEASURES {aggregate} AS a PATTERN (A B) "
        "DEFINE A AS A.price > 1)"
    )
    with pytest.raises(NotSupportedError, match=r"COUNT, SUM, AVG, MIN, MAX"):
        tables.explain_sql(query)


def test_a_match_that_cannot_skip_fails_the_job(tmp_path):
    options = {"execution.target": "local", "parallelism.default": "1", "restart-strategy.type": "none"}
    settings = EnvironmentSettings.new_instance().with_configuration(Configuration.from_dict(options)).build()
    tables = TableEnvironment.create(settings)
    (tmp_path / "rows.csv").write_text("A,2024-03-01 09:00:00\nA,2024-03-01 09:00:01\n")
    tables.execute_sql(
        "CREATE TEMPORARY TABLE few (k STRING, rt TIMESTAMP(3), WATERMARK FOR rt AS rt) "
        f"WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'csv')"
    )
    result = tables.execute_sql(
        "SELECT * FROM few MATCH_RECOGNIZE (ORDER BY rt MEASURES A.k AS k "
        "AFTER MATCH SKIP TO FIRST A PATTERN (A B) DEFINE A AS TRUE)"
    )
    with pytest.raises(Exception, match="begins with the event"), result.collect() as rows:
        list(rows)
