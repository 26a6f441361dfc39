"""Hints of queries, and what aggregates are told of NULLs: heeded, or refused."""

from __future__ import annotations

import json

import pytest

from millstream.base.errors import MillstreamError, NotSupportedError
from millstream.table.errors import ValidationError
from millstream.table.plan import physical as p
from millstream.table.plan.bind.hints import lookup_options
from millstream.table.plan.planner import plan_query
from millstream.table.sql.parser import parse_query

DAY = 86_400_000


@pytest.fixture
def planned(tables):
    """Gives the operators of a query of one kind, over two tables of a changing stream."""
    for name in ("orders", "customers", "cities"):
        tables.execute_sql(
            f"CREATE TABLE {name} (id BIGINT, c BIGINT, v BIGINT) WITH ('connector' = 'datagen')"
        )
    tables.execute_sql("SET 'table.exec.state.ttl' = '5 h'")

    def operators(query, kind):
        found, waiting = [], [plan_query(parse_query(query), tables.plan_context()).physical]
        while waiting:
            node = waiting.pop()
            waiting += node.inputs
            found += [node] if isinstance(node, kind) else []
        return found

    return operators


JOIN = "SELECT {} o.id FROM orders AS o JOIN customers AS c ON o.c = c.id"


def test_state_of_each_side_of_a_join_has_its_time_to_live(planned):
    hint = "/*+ STATE_TTL('o' = '3 d', 'c' = '0 s') */"
    (join,) = planned(JOIN.format(hint), p.RegularJoin)
    assert (join.ttl_left_ms, join.ttl_right_ms) == (3 * DAY, None)
    (join,) = planned(JOIN.format("/*+ STATE_TTL('c' = '1d') */"), p.RegularJoin)
    assert (join.ttl_left_ms, join.ttl_right_ms) == (5 * 3_600_000, DAY)


def test_a_join_as_a_side_keeps_rows_as_the_session_says(planned):
    query = JOIN.format("/*+ STATE_TTL('o' = '1 d', 'c' = '2 d', 'cities' = '3 d') */")
    upper, lower = planned(f"{query} JOIN cities ON c.c = cities.id", p.RegularJoin)
    assert (upper.ttl_left_ms, upper.ttl_right_ms) == (5 * 3_600_000, 3 * DAY)
    assert (lower.ttl_left_ms, lower.ttl_right_ms) == (DAY, 2 * DAY)


def test_state_of_groups_has_its_time_to_live(planned):
    query = "SELECT /*+ STATE_TTL('o' = '2 d') */ c, SUM(v) FROM orders AS o GROUP BY c"
    assert [each.ttl_ms for each in planned(query, p.GroupAggregate)] == [2 * DAY]
    query = "SELECT c, SUM(v) FROM orders AS o GROUP BY c"
    assert [each.ttl_ms for each in planned(query, p.GroupAggregate)] == [5 * 3_600_000]


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        ("STATE_TTL('orders' = '1 d')", 'names the table "orders"'),
        ("STATE_TTL('o' = 'soon')", "no span of time"),
        ("STATE_TTL('o')", "takes pairs"),
        ("STATE_TLL('o' = '1 d')", "STATE_TTL"),
        ("LOOKUP('table' = 'c', 'async' = 'true')", "none of FOR SYSTEM_TIME AS OF"),
    ],
)
def test_hints_that_would_have_no_effect_are_refused(planned, hint, words):
    with pytest.raises(MillstreamError, match=words):
        planned(JOIN.format(f"/*+ {hint} */"), p.RegularJoin)


def test_hint_of_a_select_behind_a_table_is_refused(planned):
    with pytest.raises(ValidationError, match="stands behind a table"):
        planned("SELECT * FROM orders /*+ STATE_TTL('orders' = '1 d') */", p.RegularJoin)


def test_options_of_lookup():
    retry = {"retry-predicate": "lookup_miss", "retry-strategy": "fixed_delay", "fixed-delay": "10s"}
    assert lookup_options({"table": "c", **retry, "max-attempts": "3"}) == {
        "attempts": 4,
        "retry_delay_ms": 10_000,
        "retry_missing": True,
    }
    said = {"async": "true", "output-mode": "allow_unordered", "capacity": "7", "timeout": "3 s"}
    assert lookup_options(said) == {"capacity": 7, "ordered": False, "timeout_ms": 3_000}
    assert lookup_options({"async": "false"}) == {"capacity": 1}
    for wrong, words in [
        ({"asinc": "true"}, "async"),
        ({"capacity": "0"}, "from 1"),
        ({"retry-predicate": "lookup_miss"}, "without 'retry-strategy'"),
        ({"output-mode": "any"}, "allow_unordered"),
    ]:
        with pytest.raises(ValidationError, match=words):
            lookup_options(wrong)
    with pytest.raises(NotSupportedError, match="shuffle"):
        lookup_options({"shuffle": "true"})


VALUES = "(VALUES ('a', 1), ('b', CAST(NULL AS INT)), ('c', 3)) AS t(k, v)"


@pytest.mark.parametrize(
    ("aggregate", "expected"),
    [
        ("JSON_OBJECTAGG(k VALUE v)", {"a": 1, "b": None, "c": 3}),
        ("JSON_OBJECTAGG(k VALUE v NULL ON NULL)", {"a": 1, "b": None, "c": 3}),
        ("JSON_OBJECTAGG(k VALUE v ABSENT ON NULL)", {"a": 1, "c": 3}),
        ("JSON_ARRAYAGG(v)", [1, 3]),
        ("JSON_ARRAYAGG(v ABSENT ON NULL)", [1, 3]),
        ("JSON_ARRAYAGG(v NULL ON NULL)", [1, None, 3]),
    ],
)
def test_nulls_of_json_aggregates(rows, aggregate, expected):
    assert json.loads(rows(f"SELECT {aggregate} FROM {VALUES}")[-1][0]) == expected


def test_nulls_of_arrays_and_edges(rows):
    found = rows(f"SELECT ARRAY_AGG(v), ARRAY_AGG(v IGNORE NULLS), ARRAY_AGG(v RESPECT NULLS) FROM {VALUES}")
    assert found[-1] == ([1, None, 3], [1, 3], [1, None, 3])
    assert rows(f"SELECT FIRST_VALUE(v) IGNORE NULLS FROM {VALUES}")[-1] == (1,)


@pytest.mark.parametrize(
    ("aggregate", "words"),
    [
        ("SUM(v) IGNORE NULLS", "was given IGNORE NULLS"),
        ("FIRST_VALUE(v) RESPECT NULLS", "FIRST_VALUE with RESPECT NULLS"),
        ("JSON_ARRAYAGG(k FORMAT JSON)", "FORMAT JSON"),
    ],
)
def test_null_clauses_without_effect_are_refused(tables, aggregate, words):
    with pytest.raises(MillstreamError, match=words):
        tables.execute_sql(f"SELECT {aggregate} FROM {VALUES}")
