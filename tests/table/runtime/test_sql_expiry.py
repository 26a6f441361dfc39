"""State that is forgotten when it was not used for long (`table.exec.state.ttl`)."""

from __future__ import annotations

from random import Random
from typing import Any

from sql_runs import AFTER, DELETE, INSERT, SqlRun, schema_of

from millstream.table.expressions.rex import AggregateCall, SortKey
from millstream.table.plan.logical import JoinKind, OverFrame
from millstream.table.runtime.specs import (
    DeduplicateSpec,
    GroupAggregateSpec,
    JoinSpec,
    NormalizeSpec,
    OverSpec,
    RankSpec,
)
from millstream.types.datatypes import DataTypes as D

SCHEMA = schema_of(D.STRING(), D.BIGINT())
COUNT = (AggregateCall("COUNT", (), D.BIGINT(False)),)


def emitted(
    spec: Any, steps: list[tuple[int, str, int]], *, inputs: int = 1, restores: bool = False
) -> list[Any]:
    """Return what comes of one row at each time: (time, key, number), of the last input."""
    run = SqlRun(spec, [SCHEMA] * inputs, [(0,)] * inputs, Random(0))
    for time, key, number in steps:
        run.harness.set_processing_time(time)
        run.now_ms = time
        side = inputs - 1 if number >= 0 else 0
        run.push(side, [(INSERT, (key, abs(number)))])
        run.end_epoch()
        if restores:
            run.harness = run._build(2, run.harness.snapshot())
    return run.emitted


STEPS = [(0, "a", 1), (500, "a", 2), (1_400, "a", 3), (2_400, "a", 4)]


def test_a_group_begins_anew_after_its_time_to_live() -> None:
    for restores in (False, True):
        rows = emitted(
            GroupAggregateSpec(SCHEMA, (0,), COUNT, before=False, ttl_ms=1_000), STEPS, restores=restores
        )
        assert rows == [(INSERT, ("a", 1)), (AFTER, ("a", 2)), (AFTER, ("a", 3)), (INSERT, ("a", 1))]


def test_groups_that_expired_take_no_room() -> None:
    run = SqlRun(GroupAggregateSpec(SCHEMA, (0,), COUNT, ttl_ms=1_000), [SCHEMA], [(0,)], Random(0))
    run.push(0, [(INSERT, (str(number), 1)) for number in range(100)])
    run.end_epoch()
    assert run.harness.keyed_state_entries() == 100
    for time in (500, 1_000):
        run.harness.set_processing_time(time)
        run.push(0, [(INSERT, ("new", 1))])
        run.end_epoch()
    assert run.harness.keyed_state_entries() == 1


def test_rows_of_a_join_expire_one_by_one() -> None:
    spec = JoinSpec(SCHEMA, SCHEMA, (0,), (0,), JoinKind.INNER, ttl_left_ms=1_000)
    for restores in (False, True):
        steps = [(0, "a", -1), (500, "a", -2), (900, "a", 7), (1_200, "a", 8), (1_600, "a", 9)]
        rows = [row[1::2] for _, row in emitted(spec, steps, inputs=2, restores=restores)]
        assert sorted(rows) == [(1, 7), (2, 7), (2, 8)]


def test_partitions_and_keys_begin_anew() -> None:
    top = RankSpec(SCHEMA, (0,), (SortKey(1),), 1, 1, with_number=True, ttl_ms=1_000)
    assert [kind for kind, _ in emitted(top, STEPS)] == [INSERT, INSERT]
    first = DeduplicateSpec(SCHEMA, (0,), ttl_ms=1_000)
    assert [row[1] for _, row in emitted(first, [(0, "a", 1), (500, "a", 2), (1_500, "a", 3)])] == [1, 3]
    normal = NormalizeSpec(SCHEMA, (0,), before=False, ttl_ms=1_000)
    assert [kind for kind, _ in emitted(normal, [(0, "a", 1), (500, "a", 1), (1_500, "a", 1)])] == [
        INSERT,
        AFTER,
        INSERT,
    ]
    over = OverSpec(SCHEMA, (0,), None, False, OverFrame(rows=True, preceding=None), COUNT, ttl_ms=1_000)
    assert [row[2] for _, row in emitted(over, STEPS)] == [1, 2, 3, 1]


def test_a_delete_of_what_expired_is_nothing() -> None:
    spec = NormalizeSpec(SCHEMA, (0,), ttl_ms=1_000)
    run = SqlRun(spec, [SCHEMA], [(0,)], Random(0))
    run.push(0, [(INSERT, ("a", 1))])
    run.end_epoch()
    run.harness.set_processing_time(1_000)
    run.push(0, [(DELETE, ("a", 1))])
    run.harness.end_epoch()
    assert run.harness.take() == []
