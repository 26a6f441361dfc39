"""Top-N, deduplication, normalization and sorts against loops over the rows that are left."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sql_runs import AFTER, DELETE, INSERT, Change, SqlRun, changelog, schema_of

from millstream.table.expressions.rex import SortKey
from millstream.table.runtime.specs import (
    DeduplicateSpec,
    LimitSpec,
    NormalizeSpec,
    RankSpec,
    SortLimitSpec,
    SortSpec,
    TemporalSortSpec,
)
from millstream.types.datatypes import DataTypes as D

SCHEMA = schema_of(D.STRING(), D.BIGINT(), D.DOUBLE(), D.STRING())
T0 = datetime(2024, 1, 1)
BASE = 1_704_067_200_000


def key_of(row: tuple[Any, ...], keys: tuple[SortKey, ...]) -> tuple[Any, ...]:
    parts: list[Any] = []
    for key in keys:
        value = row[key.index]
        null = value is None
        parts.append(null is not key.nulls_first)
        parts.append(_Reversed(value) if key.descending and not null else (0 if null else value))
    return tuple(parts)


class _Reversed:
    def __init__(self, value: Any) -> None:
        self.value = value

    def __lt__(self, other: Any) -> bool:
        return bool(other.value < self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Reversed) and other.value == self.value


ORDERS = [
    (SortKey(1),),
    (SortKey(1, descending=True, nulls_first=False),),
    (SortKey(2, descending=True, nulls_first=True), SortKey(1)),
    (SortKey(3, descending=True, nulls_first=False), SortKey(1, nulls_first=False), SortKey(2)),
    (SortKey(3), SortKey(2)),
]


def unique_rows(random: Random) -> Any:
    """Rows of which no two are equal in all sort columns, so the order says all."""
    numbers = iter(random.sample(range(10_000), 1_000))

    def make() -> tuple[Any, ...]:
        number = next(numbers)
        return (
            random.choice(["a", "b", None]),
            number,
            random.choice([None, float(number)]),
            random.choice(["x", "yy", None]),
        )

    return make


@pytest.mark.parametrize("retracts", [False, True])
@pytest.mark.parametrize("numbered", [False, True])
@given(seed=st.integers(0, 10**9))
@settings(max_examples=4, deadline=None, derandomize=True)
def test_the_first_rows_of_each_partition_are_there(retracts: bool, numbered: bool, seed: int) -> None:
    random = Random(seed)
    order = random.choice(ORDERS)
    changes, left = changelog(random, 100, unique_rows(random), retracts=retracts)
    start = random.randint(1, 3)
    end = start + random.randint(0, 4)
    partition: tuple[int, ...] = random.choice([(0,), (0, 3), ()])
    spec = RankSpec(
        SCHEMA,
        partition,
        order,
        start,
        end,
        with_number=numbered,
        retracts=retracts,
        unique_keys=random.choice([(), (1,)]) if retracts else (),
    )
    groups: dict[Any, list[tuple[Any, ...]]] = defaultdict(list)
    for row in left:
        groups[tuple(row[place] for place in partition)].append(row)
    expected: Counter[tuple[Any, ...]] = Counter()
    for rows in groups.values():
        ranked = sorted(rows, key=lambda row: key_of(row, (*order, SortKey(1))))
        for number, row in enumerate(ranked, 1):
            if start <= number <= end:
                expected[(*row, number) if numbered else row] += 1
    # Rows that are equal by the order stay in the order of arrival, so only total orders are compared.
    total = any(key.index == 1 for key in order)
    got = SqlRun(spec, [SCHEMA], [partition], random).run([(0, change) for change in changes])
    if total:
        assert got == expected
    else:
        assert got.total() == expected.total()


def test_equal_rows_stay_in_the_order_in_which_they_came() -> None:
    spec = RankSpec(SCHEMA, (0,), (SortKey(1),), 1, 2, with_number=True)
    run = SqlRun(spec, [SCHEMA], [(0,)], Random(0))
    for text in ("first", "second", "third"):
        run.push(0, [(INSERT, ("a", 1, None, text))])
        run.end_epoch()
    assert set(run.folded.rows) == {("a", 1, None, "first", 1), ("a", 1, None, "second", 2)}


def test_the_last_number_may_be_in_a_column() -> None:
    spec = RankSpec(SCHEMA, (0,), (SortKey(2),), 1, 1, end_column=1)
    run = SqlRun(spec, [SCHEMA], [(0,)], Random(0))
    run.push(0, [(INSERT, ("a", 2, float(number), "x")) for number in (5, 3, 4)])
    run.push(0, [(INSERT, ("b", 1, float(number), "x")) for number in (5, 3, 4)])
    run.end_epoch()
    assert {row[:3] for row in run.folded.rows} == {("a", 2, 3.0), ("a", 2, 4.0), ("b", 1, 3.0)}


def test_updates_without_the_row_before_are_told_by_number() -> None:
    spec = RankSpec(SCHEMA, (0,), (SortKey(1),), 1, 2, with_number=True, before=False)
    run = SqlRun(spec, [SCHEMA], [(0,)], Random(0), key=lambda row: (row[0], row[-1]))
    for number in (5, 3, 4, 1):
        run.push(0, [(INSERT, ("a", number, None, None))])
        run.end_epoch()
    assert set(run.folded.rows) == {("a", 1, None, None, 1), ("a", 3, None, None, 2)}
    assert {kind for kind, _ in run.emitted} == {INSERT, AFTER}


@given(seed=st.integers(0, 10**9))
@settings(max_examples=4, deadline=None, derandomize=True)
def test_order_by_with_fetch_is_kept_up_to_date(seed: int) -> None:
    random = Random(seed)
    changes, left = changelog(random, 80, unique_rows(random), retracts=True)
    spec = SortLimitSpec(SCHEMA, (SortKey(1, descending=True, nulls_first=False),), 2, 5, retracts=True)
    got = SqlRun(spec, [SCHEMA], [()], random).run([(0, change) for change in changes])
    assert got == Counter(sorted(left, key=lambda row: -row[1])[2:7])


TIMED = schema_of(D.STRING(), D.BIGINT(), D.TIMESTAMP(3))


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("rowtime", [None, 2])
@given(seed=st.integers(0, 10**9))
@settings(max_examples=3, deadline=None, derandomize=True)
def test_one_row_of_each_key_is_kept(last: bool, rowtime: int | None, seed: int) -> None:
    random = Random(seed)
    kept: dict[Any, tuple[Any, ...]] = {}
    changes: list[Change] = []
    for number in range(80):
        row = (random.choice(["a", "b", "c", None]), number, T0 + timedelta(seconds=random.randint(0, 20)))
        changes.append((INSERT, row))
        before = kept.get(row[0])
        if before is None:
            kept[row[0]] = row
        elif rowtime is None:
            kept[row[0]] = row if last else before
        elif last:
            kept[row[0]] = row if row[2] >= before[2] else before
        else:
            kept[row[0]] = row if row[2] < before[2] else before
    spec = DeduplicateSpec(TIMED, (0,), rowtime, keep_last=last)
    got = SqlRun(spec, [TIMED], [(0,)], random).run([(0, change) for change in changes])
    assert got == Counter(kept.values())


@given(seed=st.integers(0, 10**9))
@settings(max_examples=3, deadline=None, derandomize=True)
def test_upserts_become_changes_with_the_row_before(seed: int) -> None:
    random = Random(seed)
    there: dict[Any, tuple[Any, ...]] = {}
    changes: list[Change] = []
    for number in range(80):
        key = random.choice("abcd")
        if random.random() < 0.3:
            changes.append((DELETE, (key, None, None)))
            there.pop(key, None)
        else:
            there[key] = (key, number, T0)
            changes.append((AFTER, there[key]))
    run = SqlRun(NormalizeSpec(TIMED, (0,)), [TIMED], [(0,)], random)
    assert run.run([(0, change) for change in changes]) == Counter(there.values())


@given(seed=st.integers(0, 10**9))
@settings(max_examples=3, deadline=None, derandomize=True)
def test_a_stream_is_sorted_by_its_time(seed: int) -> None:
    random = Random(seed)
    steps: list[Any] = []
    rows: list[tuple[Any, ...]] = []
    mark = -1
    for number in range(80):
        if random.random() < 0.1:
            mark += random.randint(0, 3_000)
            steps.append(BASE + mark)
            continue
        time = max(0, mark + random.randint(-2_000, 5_000))
        row = ("a", random.randint(0, 3), T0 + timedelta(milliseconds=time))
        steps.append((0, (INSERT, row)))
        if time > mark:
            rows.append(row)
    spec = TemporalSortSpec(TIMED, 2, (SortKey(1, descending=True, nulls_first=False),))
    run = SqlRun(spec, [TIMED], [()], random)
    run.run(steps)
    assert [row for _, row in run.emitted] == sorted(rows, key=lambda row: (row[2], -row[1]))


def test_a_bounded_input_is_sorted_at_its_end() -> None:
    run = SqlRun(SortSpec(TIMED, (SortKey(1),), offset=1, fetch=2), [TIMED], [()], Random(0))
    run.push(0, [(INSERT, ("a", number, None)) for number in (3, 1, 2, 4)])
    run.end_epoch()
    assert run.emitted == []
    run.harness.end_input()
    run.fold()
    assert [row[1] for _, row in run.emitted] == [2, 3]


def test_a_limit_lets_some_rows_pass() -> None:
    run = SqlRun(LimitSpec(offset=2, fetch=3), [TIMED], [()], Random(0))
    for first in (0, 3, 6):
        run.push(0, [(INSERT, ("a", first + number, None)) for number in range(3)])
    run.fold()
    assert [row[1] for _, row in run.emitted] == [2, 3, 4]
