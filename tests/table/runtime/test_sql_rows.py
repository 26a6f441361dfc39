"""Lateral joins, checks before sinks, and which row a sink's key has."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sql_runs import INSERT, SqlRun, changelog, schema_of

from millstream.base.errors import SinkError
from millstream.table.expressions.rex import Call, InputRef, Literal
from millstream.table.plan.logical import JoinKind
from millstream.table.runtime.constraints import NULL_ROWS_DROPPED
from millstream.table.runtime.specs import CorrelateSpec, MaterializeSpec, SinkConstraintSpec
from millstream.types.datatypes import DataTypes as D
from millstream.types.further_types import MultisetType


def unnest(
    values: list[Any],
    kind: Any,
    *given: Any,
    join: JoinKind = JoinKind.INNER,
    name: str = "UNNEST",
    condition: Any = None,
) -> list[tuple[Any, ...]]:
    schema = schema_of(D.INT(), kind)
    output = schema_of(D.INT(), kind, *given)
    call = Call(name, (InputRef(1, kind),), D.ROW([]))
    spec = CorrelateSpec(schema, call, output, join, condition)
    run = SqlRun(spec, [schema], [()], Random(0))
    run.push(0, [(INSERT, (place, value)) for place, value in enumerate(values)])
    run.fold()
    return [(row[0], *row[2:]) for _, row in run.emitted]


def test_an_array_gives_a_row_for_each_element() -> None:
    array = D.ARRAY(D.INT())
    assert unnest([[1, None], [], None, [3]], array, D.INT()) == [(0, 1), (0, None), (3, 3)]
    left = unnest([[1, None], [], None, [3]], array, D.INT(), join=JoinKind.LEFT)
    assert left == [(0, 1), (0, None), (1, None), (2, None), (3, 3)]
    numbered = unnest([[7, 8], [9]], array, D.INT(), D.INT(), name="UNNEST WITH ORDINALITY")
    assert numbered == [(0, 7, 1), (0, 8, 2), (1, 9, 1)]
    condition = Call(">", (InputRef(2, D.INT()), Literal(1, D.INT(False))), D.BOOLEAN())
    assert unnest([[1, 2], [1]], array, D.INT(), condition=condition) == [(0, 2)]
    assert unnest([[1, 2], [1]], array, D.INT(), join=JoinKind.LEFT, condition=condition) == [
        (0, 2),
        (1, None),
    ]


def test_maps_and_arrays_of_rows_give_columns() -> None:
    assert unnest([{"a": 1, "b": 2}], D.MAP(D.STRING(), D.INT()), D.STRING(), D.INT()) == [
        (0, "a", 1),
        (0, "b", 2),
    ]
    rows = D.ARRAY(D.ROW([D.FIELD("x", D.INT()), D.FIELD("y", D.STRING())]))
    assert unnest([[{"x": 1, "y": "a"}, {"x": 2, "y": None}]], rows, D.INT(), D.STRING()) == [
        (0, 1, "a"),
        (0, 2, None),
    ]


def test_a_multiset_gives_each_element_as_often_as_it_is_there() -> None:
    assert unnest([{"a": 2, "b": 1}, None, {"c": 1}], MultisetType(D.STRING()), D.STRING()) == [
        (0, "a"),
        (0, "a"),
        (0, "b"),
        (2, "c"),
    ]


NAMED = schema_of(D.INT(), D.VARCHAR(3), D.CHAR(3), D.BINARY(2), names=("id", "name", "code", "raw"))


def constrained(rows: list[tuple[Any, ...]], **settings: Any) -> SqlRun:
    run = SqlRun(SinkConstraintSpec(NAMED, **settings), [NAMED], [()], Random(0))
    run.push(0, [(INSERT, row) for row in rows])
    run.fold()
    return run


def test_null_in_a_column_that_has_none_fails_or_is_left_out() -> None:
    rows = [(1, "a", None, None), (None, "b", None, None)]
    with pytest.raises(SinkError, match="column 'id' is NOT NULL"):
        constrained(rows, not_null=(0,))
    run = constrained(rows, not_null=(0,), drop=True)
    assert [row[0] for _, row in run.emitted] == [1]
    assert run.harness.counter(NULL_ROWS_DROPPED) == 1


def test_values_are_cut_and_padded_to_their_length() -> None:
    run = constrained([(1, "abcd", "x", b"123"), (2, None, None, b"1")], lengths=(1, 2, 3))
    assert [row[1:] for _, row in run.emitted] == [("abc", "x  ", b"12"), (None, None, b"1\0")]
    with pytest.raises(SinkError, match="'abcd'"):
        constrained([(1, "abcd", "x", b"1")], lengths=(1,), fail_lengths=True)


PAIRS = schema_of(D.INT(), D.INT())


@given(seed=st.integers(0, 10**9))
@settings(max_examples=4, deadline=None, derandomize=True)
def test_a_sink_has_the_last_row_of_its_key_that_is_there(seed: int) -> None:
    random = Random(seed)
    numbers = iter(range(1_000))
    changes, left = changelog(random, 80, lambda: (random.randint(0, 3), next(numbers)), retracts=True)
    spec = MaterializeSpec(PAIRS, (0,), random.choice([None, (1,)]))
    run = SqlRun(spec, [PAIRS], [(0,)], random, key=lambda row: row[0])
    wanted: dict[Any, Any] = {}
    for row in left:
        wanted[row[0]] = max(wanted.get(row[0], row), row)
    assert run.run([(0, change) for change in changes]) == Counter(wanted.values())
