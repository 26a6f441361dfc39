"""ON CONFLICT DO ERROR and DO NOTHING under random epochs, checkpoints and parallelisms, against the rule itself."""

from __future__ import annotations

from collections import Counter, defaultdict
from random import Random
from typing import Any

import pytest
from sql_runs import AFTER, BEFORE, DELETE, INSERT, SqlRun, schema_of

from millstream.base.errors import SinkError
from millstream.table.runtime.specs import ConflictSpec
from millstream.types.datatypes import DataTypes as D

SCHEMA = schema_of(D.INT(), D.STRING(), D.INT())
"""The sink's primary key, the query's upsert key, a value."""


def spec(*, fails: bool, upsert_key: tuple[int, ...] | None = (1,)) -> ConflictSpec:
    return ConflictSpec(SCHEMA, (0,), upsert_key, fails, "t")


def changes_of(random: Random, count: int) -> list[Any]:
    """Changes of few upsert keys, whose primary keys change and may be the same, and watermarks."""
    steps: list[Any] = []
    there: dict[str, tuple[Any, ...]] = {}
    watermark = 0
    for _ in range(count):
        choice = random.random()
        name = random.choice("abcdef")
        if choice < 0.2:
            watermark += 1
            steps.append(watermark)
        elif choice < 0.35 and name in there:
            steps.append((0, (DELETE, there.pop(name))))
        else:
            row = (random.randint(0, 4), name, random.randint(0, 9))
            if name in there:
                steps.append((0, (BEFORE, there[name])))
            steps.append((0, (AFTER if name in there else INSERT, row)))
            there[name] = row
    return steps


def kept(steps: list[Any]) -> Counter[Any]:
    """The sink's rows where the first one stays."""
    sink: dict[int, tuple[Any, ...]] = {}
    waiting: dict[int, list[Any]] = defaultdict(list)
    for step in [*steps, 1 << 60]:
        if not isinstance(step, int):
            kind, row = step[1]
            waiting[row[0]].append((kind in (INSERT, AFTER), row))
            continue
        for key, changes in waiting.items():
            rows = {sink[key][1]: sink[key]} if key in sink else {}
            for comes, row in changes:
                if comes:
                    rows[row[1]] = row
                else:
                    rows.pop(row[1], None)
            left = list(rows.values())
            if not left:
                sink.pop(key, None)
            elif len(left) == 1 or key not in sink:
                sink[key] = left[0]
        waiting.clear()
    return Counter(sink.values())


@pytest.mark.parametrize("seed", range(6))
def test_the_first_row_of_a_key_stays(seed: int) -> None:
    random = Random(seed)
    steps = changes_of(random, 200)
    run = SqlRun(spec(fails=False), [SCHEMA], [(0,)], random, key=lambda row: row[0])
    assert run.run(steps) == kept(steps)


def test_a_row_that_moves_between_two_watermarks_is_no_conflict() -> None:
    run = SqlRun(spec(fails=True), [SCHEMA], [(0,)], Random(0), disturbed=False)
    run.push(0, [(INSERT, (1, "a", 1))])
    run.watermark(1)
    run.push(0, [(AFTER, (1, "b", 2)), (DELETE, (1, "a", 1))])
    run.watermark(2)
    run.end_epoch()
    assert run.emitted == [(INSERT, (1, "a", 1)), (AFTER, (1, "b", 2))]
    run.harness.close()


def test_two_rows_at_a_watermark_fail_the_job() -> None:
    run = SqlRun(spec(fails=True), [SCHEMA], [(0,)], Random(0), disturbed=False)
    run.push(0, [(INSERT, (1, "a", 1)), (INSERT, (2, "b", 1)), (INSERT, (1, "c", 1))])
    with pytest.raises(SinkError, match=r'2 rows for "t" have the primary key 1') as raised:
        run.watermark(1)
        run.end_epoch()
    assert "'a'" in str(raised.value) and "'c'" in str(raised.value)


def test_without_an_upsert_key_equal_rows_are_conflicts_too() -> None:
    run = SqlRun(spec(fails=True, upsert_key=None), [SCHEMA], [(0,)], Random(0), disturbed=False)
    run.push(0, [(INSERT, (1, "a", 1)), (INSERT, (1, "a", 1))])
    with pytest.raises(SinkError, match="2 rows"):
        run.watermark(1)
        run.end_epoch()


def test_all_rows_of_one_key_are_put_together() -> None:
    run = SqlRun(spec(fails=False), [SCHEMA], [(0,)], Random(0), disturbed=False)
    rows = [(1, str(number), number) for number in range(20_000)]
    run.push(0, [(INSERT, row) for row in rows])
    run.push(0, [(DELETE, row) for row in rows[:-1]])
    run.watermark(1)
    run.end_epoch()
    assert run.emitted == [(INSERT, rows[-1])]
    run.harness.close()


def test_rows_of_collections_are_told_apart_and_taken_back() -> None:
    schema = schema_of(D.INT(), D.ARRAY(D.INT()), D.MAP(D.STRING(), D.DOUBLE()))
    run = SqlRun(ConflictSpec(schema, (0,), None, True, "t"), [schema], [(0,)], Random(0), disturbed=False)
    first, second = (1, [1, None], {"a": float("nan")}), (1, [2], {})
    run.push(0, [(INSERT, first), (INSERT, second), (DELETE, (1, [1, None], {"a": float("nan")}))])
    run.watermark(1)
    run.end_epoch()
    assert run.emitted == [(INSERT, second)]
    run.harness.close()
