"""Queries of ranges of tokens, and what is declared of a source of Cassandra."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.base.errors import ConfigurationError
from millstream.connectors.cassandra.queries import Select
from millstream.connectors.cassandra.token_ranges import MOST_SPLITS, Ring, bounds, number_of_splits
from millstream.datastream.connectors.cassandra import CassandraSource

MURMUR = Ring(-(2**63), 2**63 - 1)
RANGE = 'token("k") > ? AND token("k") <= ?'


@pytest.mark.parametrize(
    ("query", "ranged"),
    [
        ("SELECT a FROM s.t", f"SELECT a FROM s.t WHERE {RANGE}"),
        ("SELECT * FROM s.t;  ", f"SELECT * FROM s.t WHERE {RANGE}"),
        (
            "select a from s.t where b = 1 allow filtering",
            f"select a from s.t where {RANGE} AND b = 1 allow filtering",
        ),
        ("SELECT a FROM s.t ALLOW FILTERING", f"SELECT a FROM s.t WHERE {RANGE} ALLOW FILTERING"),
        ("SELECT a FROM s.t PER PARTITION LIMIT 3", f"SELECT a FROM s.t WHERE {RANGE} PER PARTITION LIMIT 3"),
        (
            "SELECT a -- from x.y\nFROM /* where */ s . t WHERE b = 'GROUP BY ? limit'",
            f"SELECT a -- from x.y\nFROM /* where */ s . t WHERE {RANGE} AND b = 'GROUP BY ? limit'",
        ),
        ('SELECT "from", "order" FROM "S"."T"', f'SELECT "from", "order" FROM "S"."T" WHERE {RANGE}'),
        ("SELECT token(k), count_of FROM s.t", f"SELECT token(k), count_of FROM s.t WHERE {RANGE}"),
    ],
)
def test_range_of_tokens_is_put_into_a_query(query, ranged):
    assert Select.of(query).ranged(["k"]) == ranged


def test_names_are_as_the_cluster_has_them():
    select = Select.of('SELECT a FROM Shop."My""Orders"')
    assert (select.keyspace, select.table) == ("shop", 'My"Orders')
    assert Select.of_table("shop", 'My"Orders', ["A"]).ranged(["x", "Y"]) == (
        'SELECT "A" FROM "shop"."My""Orders" WHERE token("x", "Y") > ? AND token("x", "Y") <= ?'
    )


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("", "has to be a SELECT"),
        ("DELETE FROM s.t", "has to be a SELECT"),
        ("SELECT a FROM t", "keyspace and table"),
        ("SELECT a", "keyspace and table"),
        ("SELECT count(*) FROM s.t", "count of each range"),
        ("SELECT max (a) FROM s.t", "max of each range"),
        ("SELECT a FROM s.t LIMIT 5", "LIMIT would be of each range"),
        ("SELECT a FROM s.t GROUP BY a", "GROUP BY"),
        ("SELECT a FROM s.t WHERE b = 1 ORDER BY a", "ORDER BY"),
        ("SELECT a FROM s.t WHERE token(k) > 5", "source's own"),
        ("SELECT a FROM s.t WHERE b = ?", "write its value"),
    ],
)
def test_query_that_is_not_of_ranges(query, why):
    with pytest.raises(ConfigurationError, match=why):
        CassandraSource.builder().set_query(query)


@given(st.integers(1, 3_000), st.sampled_from([MURMUR, Ring(-1, 2**127), Ring(-1, 10)]))
def test_ranges_are_the_whole_ring_and_nothing_twice(splits, ring):
    ranges = [bounds(keys) for keys in ring.cut(splits)]
    assert ranges[0][0] == ring.before and ranges[-1][1] == ring.last
    assert all(before[1] == after[0] for before, after in pairwise(ranges))
    sizes = [end - start for start, end in ranges]
    assert max(sizes) - min(sizes) <= 1


def test_share_of_the_ring():
    assert MURMUR.share([(0, -(2**63)), (-(2**63), 0)]) == pytest.approx(1)
    assert MURMUR.share([(2**62, -(2**62))]) == pytest.approx(0.5)
    assert MURMUR.share([(5, 5)]) == 1


def test_number_of_splits():
    assert number_of_splits(0, 10, 4) == 4
    assert number_of_splits(95, 10, 4) == 10
    assert number_of_splits(10**18, 10, 4) == MOST_SPLITS


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda new: new.set_table("s.t").build(), "has no cluster"),
        (lambda new: new.set_host("h").build(), "reads is not said"),
        (lambda new: new.set_host("h").set_table("s.t").set_query("SELECT a FROM s.t").build(), "said twice"),
        (
            lambda new: new.set_host("h").set_query("SELECT a FROM s.t").set_columns("a").build(),
            "named twice",
        ),
        (lambda new: new.set_table("orders"), "keyspace.table"),
        (lambda new: new.set_max_split_memory_size(1_000), "10 MiB"),
        (lambda new: new.set_number_of_splits(0), "number of splits is 0"),
        (lambda new: new.set_fetch_size(0), "fetch size is 0"),
        (lambda new: new.set_consistency_level("ONE"), "is no ConsistencyLevel"),
        (lambda new: new.set_cluster_builder("h"), "is no ClusterBuilder"),
    ],
)
def test_what_is_declared_wrongly(declare, message):
    with pytest.raises(ConfigurationError, match=message):
        declare(CassandraSource.builder())
