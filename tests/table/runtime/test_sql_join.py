"""Joins against a plain loop over the rows that are left."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sql_runs import INSERT, Change, SqlRun, changelog, schema_of

from millstream.table.expressions.rex import Call, InputRef
from millstream.table.plan.logical import JoinKind
from millstream.table.runtime.specs import JoinSpec
from millstream.types.datatypes import DataTypes as D
from millstream.types.row import RowKind

LEFT = schema_of(D.BIGINT(), D.STRING(), D.INT())
RIGHT = schema_of(D.BIGINT(), D.INT())
CONDITION = Call("<", (InputRef(2, D.INT()), InputRef(4, D.INT())), D.BOOLEAN())


def rows(random: Random) -> tuple[Any, Any]:
    def key() -> int | None:
        return None if random.random() < 0.1 else random.randint(0, 6)

    return (
        lambda: (key(), random.choice(["a", "b", None]), random.choice([None, 1, 2, 3])),
        lambda: (key(), random.choice([None, 1, 2, 3])),
    )


def joined(
    left: Counter[tuple[Any, ...]],
    right: Counter[tuple[Any, ...]],
    kind: JoinKind,
    *,
    condition: bool,
    keyed: bool = True,
) -> Counter[tuple[Any, ...]]:
    def match(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
        if keyed and (one[0] is None or one[0] != other[0]):
            return False
        return not condition or (one[2] is not None and other[1] is not None and one[2] < other[1])

    result: Counter[tuple[Any, ...]] = Counter()
    for one, often in left.items():
        found = [(other, many) for other, many in right.items() if match(one, other)]
        if kind is JoinKind.SEMI:
            result[one] += often * bool(found)
        elif kind is JoinKind.ANTI:
            result[one] += often * (not found)
        else:
            for other, many in found:
                result[one + other] += often * many
            if not found and kind in (JoinKind.LEFT, JoinKind.FULL):
                result[(*one, None, None)] += often
    if kind in (JoinKind.RIGHT, JoinKind.FULL):
        for other, many in right.items():
            if not any(match(one, other) for one in left):
                result[(None, None, None, *other)] += many
    return +result


def mixed(random: Random, left: list[Change], right: list[Change]) -> list[Any]:
    steps: list[Any] = []
    left, right = left[::-1], right[::-1]
    while left or right:
        side = 0 if left and (not right or random.random() < 0.5) else 1
        steps.append((side, (left, right)[side].pop()))
    return steps


@pytest.mark.parametrize("condition", [False, True])
@pytest.mark.parametrize("kind", list(JoinKind))
@given(seed=st.integers(0, 10**9))
@settings(max_examples=2, deadline=None, derandomize=True)
def test_a_join_is_that_of_the_rows_that_are_left(kind: JoinKind, condition: bool, seed: int) -> None:
    random = Random(seed)
    make_left, make_right = rows(random)
    retracts = [random.random() < 0.6, random.random() < 0.6]
    changes_left, left = changelog(random, 60, make_left, retracts=retracts[0])
    changes_right, right = changelog(random, 60, make_right, retracts=retracts[1])
    keyed = random.random() < 0.8
    keys: tuple[int, ...] = (0,) if keyed else ()
    spec = JoinSpec(
        LEFT,
        RIGHT,
        keys,
        keys,
        kind,
        CONDITION if condition else None,
        left_retracts=retracts[0],
        right_retracts=retracts[1],
    )
    run = SqlRun(spec, [LEFT, RIGHT], [keys, keys], random)
    assert run.run(mixed(random, changes_left, changes_right)) == joined(
        left, right, kind, condition=condition, keyed=keyed
    )


def upserts(
    random: Random, count: int, make: Any, *, before: bool
) -> tuple[list[Change], Counter[tuple[Any, ...]]]:
    """Return changes by a unique key, the columns 0 and 1."""
    there: dict[Any, tuple[Any, ...]] = {}
    changes: list[Change] = []
    from sql_runs import AFTER, BEFORE, DELETE

    for _ in range(count):
        row = make()
        key = row[:2]
        if key in there:
            if random.random() < 0.3:
                changes.append((DELETE, there.pop(key)))
                continue
            if before:
                changes.append((BEFORE, there[key]))
            changes.append((AFTER, row))
        else:
            changes.append((INSERT, row))
        there[key] = row
    return changes, Counter(there.values())


@pytest.mark.parametrize("kind", list(JoinKind))
@pytest.mark.parametrize("before", [False, True])
@given(seed=st.integers(0, 10**9))
@settings(max_examples=2, deadline=None, derandomize=True)
def test_rows_with_a_unique_key_replace_those_before(kind: JoinKind, before: bool, seed: int) -> None:
    random = Random(seed)
    make_left, make_right = rows(random)
    changes_left, left = upserts(random, 60, make_left, before=before)
    changes_right, right = changelog(random, 60, make_right, retracts=True)
    spec = JoinSpec(
        LEFT,
        RIGHT,
        (0,),
        (0,),
        kind,
        CONDITION,
        left_unique=(0, 1),
        left_upserts=not before,
        left_retracts=True,
    )
    run = SqlRun(spec, [LEFT, RIGHT], [(0,), (0,)], random)
    assert run.run(mixed(random, changes_left, changes_right)) == joined(left, right, kind, condition=True)
    assert run.folded.kinds[RowKind.UPDATE_BEFORE] == run.folded.kinds[RowKind.UPDATE_AFTER]


@given(seed=st.integers(0, 10**9))
@settings(max_examples=4, deadline=None, derandomize=True)
def test_not_in_leaves_nothing_where_a_null_is_among_the_values(seed: int) -> None:
    random = Random(seed)

    def make_left() -> tuple[Any, ...]:
        return (random.choice([None, 1, 2, 3]), "a", 1)

    def make_right() -> tuple[Any, ...]:
        return (None if random.random() < 0.1 else random.choice([1, 2, 7, 8, 9]), 1)

    changes_left, left = changelog(random, 20, make_left, retracts=True)
    changes_right, right = changelog(random, 8, make_right, retracts=True)
    spec = JoinSpec(LEFT, RIGHT, (0,), (0,), JoinKind.ANTI, null_aware=True)
    run = SqlRun(spec, [LEFT, RIGHT], [(), ()], random)
    values = {each[0] for each in right}
    expected = Counter(
        {
            one: often
            for one, often in left.items()
            if not right or (None not in values and one[0] is not None and one[0] not in values)
        }
    )
    assert run.run(mixed(random, changes_left, changes_right)) == expected


def test_rows_that_take_the_place_of_others_are_updates_of_an_inner_join():
    """A row of another key in its place is one that goes and one that comes, as in Flink."""
    spec = JoinSpec(LEFT, RIGHT, (0,), (0,), JoinKind.INNER, left_unique=(1,), left_retracts=True)
    run = SqlRun(spec, [LEFT, RIGHT], [(0,), (0,)], Random(0), disturbed=False)
    width = len(LEFT)

    def row(*values):
        return (*values, *([None] * (width - len(values))))[:width]

    def end(changes):
        run.push(0, changes)
        run.end_epoch()
        shown, run.emitted = [kind for kind, _ in run.emitted], []
        return shown

    insert, before, after, delete = RowKind
    one = (1, *([None] * (len(RIGHT) - 1)))
    run.push(1, [(insert, one), (insert, (2, *one[1:]))])
    assert end([(insert, row(1, "a")), (insert, row(1, "b"))]) == [insert, insert]
    assert end([(before, row(1, "a")), (after, row(1, "a", 9))]) == [before, after]
    assert end([(before, row(1, "a", 9)), (after, row(2, "a", 9))]) == [delete, insert]
    assert end([(delete, row(1, "b")), (insert, row(1, "c"))]) == [delete, insert]
    run.harness.close()
