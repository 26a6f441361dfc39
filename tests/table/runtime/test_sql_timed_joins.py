"""Joins by time and window, and look-ups, against loops over all rows."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sql_runs import AFTER, BEFORE, DELETE, INSERT, SqlRun, schema_of

from millstream.spi.lookup import AsyncLookup, LookupCache
from millstream.table.expressions.rex import Call, InputRef, SortKey
from millstream.table.plan.logical import JoinKind
from millstream.table.runtime.specs import (
    IntervalJoinSpec,
    LookupJoinSpec,
    TemporalJoinSpec,
    WindowDeduplicateSpec,
    WindowJoinSpec,
    WindowRankSpec,
)
from millstream.types.datatypes import DataTypes as D

T0 = datetime(2024, 1, 1)
BASE = 1_704_067_200_000
TIMED = schema_of(D.STRING(), D.INT(), D.TIMESTAMP(3))
LESS = Call("<", (InputRef(1, D.INT()), InputRef(4, D.INT())), D.BOOLEAN())


def at(millis: int) -> datetime:
    return T0 + timedelta(milliseconds=millis)


def timed_steps(
    random: Random, count: int, ahead: int = 8_000
) -> tuple[list[Any], list[list[tuple[Any, ...]]]]:
    """Return rows of two inputs that are all in time, with watermarks between them."""
    steps: list[Any] = []
    rows: list[list[tuple[Any, ...]]] = [[], []]
    mark = -1
    for _ in range(count):
        if random.random() < 0.1:
            mark += random.randint(0, 3_000)
            steps.append(BASE + mark)
            continue
        side = random.randint(0, 1)
        row = (
            random.choice(["a", "b", None]),
            random.choice([None, 1, 2, 3]),
            at(mark + 1 + random.randint(0, ahead)),
        )
        steps.append((side, (INSERT, row)))
        rows[side].append(row)
    return steps, rows


def outer(
    left: list[tuple[Any, ...]], right: list[tuple[Any, ...]], kind: JoinKind, match: Any
) -> Counter[tuple[Any, ...]]:
    result: Counter[tuple[Any, ...]] = Counter()
    width = len(TIMED)
    met = set()
    for one in left:
        found = [place for place, other in enumerate(right) if match(one, other)]
        met.update(found)
        if kind is JoinKind.SEMI:
            result[one] += bool(found)
        elif kind is JoinKind.ANTI:
            result[one] += not found
        else:
            for place in found:
                result[one + right[place]] += 1
            if not found and kind in (JoinKind.LEFT, JoinKind.FULL):
                result[one + (None,) * width] += 1
    if kind in (JoinKind.RIGHT, JoinKind.FULL):
        for place, other in enumerate(right):
            if place not in met:
                result[(None,) * width + other] += 1
    return +result


def less(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return one[1] is not None and other[1] is not None and one[1] < other[1]


@pytest.mark.parametrize("kind", [JoinKind.INNER, JoinKind.LEFT, JoinKind.RIGHT, JoinKind.FULL])
@given(seed=st.integers(0, 10**9))
@settings(max_examples=3, deadline=None, derandomize=True)
def test_rows_within_bounds_are_joined(kind: JoinKind, seed: int) -> None:
    random = Random(seed)
    steps, (left, right) = timed_steps(random, 100)
    lower = random.randint(-3_000, 1_000)
    upper = lower + random.randint(0, 3_000)
    spec = IntervalJoinSpec(TIMED, TIMED, (0,), (0,), kind, 2, 2, lower, upper, LESS)

    def match(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
        apart = (other[2] - one[2]) / timedelta(milliseconds=1)
        return one[0] is not None and one[0] == other[0] and lower <= apart <= upper and less(one, other)

    assert SqlRun(spec, [TIMED, TIMED], [(0,), (0,)], random).run(steps) == outer(left, right, kind, match)


def test_rows_that_wait_for_no_partner_are_forgotten() -> None:
    spec = IntervalJoinSpec(TIMED, TIMED, (0,), (0,), JoinKind.LEFT, 2, 2, -1_000, 1_000)
    run = SqlRun(spec, [TIMED, TIMED], [(0,), (0,)], Random(0))
    run.push(0, [(INSERT, ("a", 1, at(0))), (INSERT, ("a", 2, at(5_000)))])
    run.push(1, [(INSERT, ("a", 3, at(0)))])
    run.end_epoch()
    assert run.harness.keyed_state_entries() == 2
    run.watermark(BASE + 1_000)
    run.end_epoch()
    (left,) = [len(entry) for _, _, held in run.harness.operators[0].snapshot_entries() for _, entry in held]
    assert left == 1


WINDOWED = schema_of(D.STRING(), D.INT(), D.TIMESTAMP(3), D.TIMESTAMP(3))


def windowed_steps(random: Random, count: int, inputs: int) -> tuple[list[Any], list[list[tuple[Any, ...]]]]:
    steps: list[Any] = []
    rows: list[list[tuple[Any, ...]]] = [[] for _ in range(inputs)]
    mark = -1
    numbers = iter(random.sample(range(10_000), count))
    for _ in range(count):
        if random.random() < 0.1:
            mark += random.randint(0, 2_000)
            steps.append(BASE + mark)
            continue
        start = max(0, mark // 1_000 + random.randint(-2, 4)) * 1_000
        number = random.choice([None, 1, 2, 3]) if inputs == 2 else next(numbers)
        row = (random.choice(["a", "b", None]), number, at(start), at(start + 1_000))
        side = random.randrange(inputs)
        steps.append((side, (INSERT, row)))
        if start + 999 > mark:
            rows[side].append(row)
    return steps, rows


@pytest.mark.parametrize("kind", list(JoinKind))
@given(seed=st.integers(0, 10**9))
@settings(max_examples=2, deadline=None, derandomize=True)
def test_rows_of_equal_windows_are_joined(kind: JoinKind, seed: int) -> None:
    random = Random(seed)
    steps, (left, right) = windowed_steps(random, 100, 2)
    condition = Call("<", (InputRef(1, D.INT()), InputRef(5, D.INT())), D.BOOLEAN())
    spec = WindowJoinSpec(WINDOWED, WINDOWED, (0,), (0,), kind, (2, 3), (2, 3), condition)

    def match(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
        return one[0] is not None and one[0] == other[0] and one[2:] == other[2:] and less(one, other)

    got = SqlRun(spec, [WINDOWED, WINDOWED], [(0,), (0,)], random).run(steps)
    wanted: Counter[tuple[Any, ...]] = Counter()
    for row, often in outer(left, right, kind, match).items():
        if row[:3] == (None,) * 3 and len(row) == 7:
            row = (None, *row)
        elif len(row) == 7:
            row = (*row, None)
        wanted[row] += often
    assert got == wanted


@given(seed=st.integers(0, 10**9))
@settings(max_examples=3, deadline=None, derandomize=True)
def test_the_first_rows_of_windows(seed: int) -> None:
    random = Random(seed)
    steps, (rows,) = windowed_steps(random, 120, 1)
    spec = WindowRankSpec(
        WINDOWED, (0,), (SortKey(1, descending=True, nulls_first=False),), (2, 3), 1, 2, True
    )
    groups: dict[Any, list[tuple[Any, ...]]] = defaultdict(list)
    for row in rows:
        groups[(row[0], *row[2:])].append(row)
    wanted = Counter(
        (*row, number)
        for each in groups.values()
        for number, row in enumerate(sorted(each, key=lambda row: -row[1])[:2], 1)
    )
    assert SqlRun(spec, [WINDOWED], [(0,)], random).run(steps) == wanted


@pytest.mark.parametrize("last", [False, True])
@given(seed=st.integers(0, 10**9))
@settings(max_examples=2, deadline=None, derandomize=True)
def test_one_row_of_each_key_and_window(last: bool, seed: int) -> None:
    random = Random(seed)
    schema = schema_of(D.STRING(), D.INT(), D.TIMESTAMP(3), D.TIMESTAMP(3), D.TIMESTAMP(3))
    steps, _ = windowed_steps(random, 120, 1)
    kept: dict[Any, tuple[Any, ...]] = {}
    mark, timed = -1, []
    for step in steps:
        if isinstance(step, int):
            mark = step - BASE
            timed.append(step)
            continue
        row = step[1][1]
        row = (*row, row[2] + timedelta(milliseconds=random.randint(0, 5)))
        timed.append((0, (INSERT, row)))
        if (row[3] - T0) / timedelta(milliseconds=1) - 1 > mark:
            before = kept.get(row[:1] + row[2:4])
            if before is None or (row[4] >= before[4] if last else row[4] < before[4]):
                kept[row[:1] + row[2:4]] = row
    spec = WindowDeduplicateSpec(schema, (0,), 4, (2, 3), keep_last=last)
    assert SqlRun(spec, [schema], [(0,)], random).run(timed) == Counter(kept.values())


@pytest.mark.parametrize("kind", [JoinKind.INNER, JoinKind.LEFT])
@given(seed=st.integers(0, 10**9))
@settings(max_examples=4, deadline=None, derandomize=True)
def test_rows_have_the_version_of_their_time(kind: JoinKind, seed: int) -> None:
    random = Random(seed)
    steps: list[Any] = []
    left: list[tuple[Any, ...]] = []
    versions: dict[Any, list[tuple[datetime, Any]]] = defaultdict(list)
    there: dict[Any, tuple[Any, ...]] = {}
    mark, times = -1, {"a": 0, "b": 0}
    for _ in range(120):
        choice = random.random()
        if choice < 0.1:
            mark += random.randint(0, 1_500)
            steps.append(BASE + mark)
        elif choice < 0.6:
            row = (
                random.choice(["a", "b", None]),
                random.choice([1, 2]),
                at(mark + 1 + random.randint(0, 4_000)),
            )
            steps.append((0, (INSERT, row)))
            left.append(row)
        else:
            key = random.choice("ab")
            times[key] = max(times[key], mark) + random.randint(1, 700)
            row = (key, random.choice([None, 1, 2, 3]), at(times[key]))
            if key in there and random.random() < 0.3:
                steps.append((1, (DELETE, (*there.pop(key)[:2], at(times[key])))))
                versions[key].append((at(times[key]), None))
                continue
            if key in there:
                steps.append((1, (BEFORE, there[key])))
            steps.append((1, (AFTER if key in there else INSERT, row)))
            there[key] = row
            versions[key].append((row[2], row))
    wanted: Counter[tuple[Any, ...]] = Counter()
    for row in left:
        before = [version for time, version in versions[row[0]] if time <= row[2]] if row[0] else []
        version = before[-1] if before else None
        if version is not None and less(row, version):
            wanted[row + version] += 1
        elif kind is JoinKind.LEFT:
            wanted[(*row, None, None, None)] += 1
    spec = TemporalJoinSpec(TIMED, TIMED, (0,), (0,), kind, 2, 2, LESS)
    assert SqlRun(spec, [TIMED, TIMED], [(0,), (0,)], random).run(steps) == wanted


class Prices(AsyncLookup):
    """Has rows in memory; fails at first."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.asked: list[Any] = []

    async def lookup(self, keys: Sequence[Any]) -> Mapping[Any, Any]:
        await asyncio.sleep(0)
        if self.failures:
            self.failures -= 1
            raise ConnectionError("not yet")
        self.asked += keys
        rows = {"a": [("a", 2, T0)], "b": [("b", 1, T0), ("b", 3, None)]}
        return {key: rows[key] for key in keys if key in rows}


@pytest.mark.parametrize("kind", [JoinKind.INNER, JoinKind.LEFT])
def test_rows_are_joined_with_what_is_looked_up(kind: JoinKind) -> None:
    prices = Prices(failures=1)
    spec = LookupJoinSpec(
        TIMED, prices, (0,), TIMED, kind, LESS, cache=LookupCache(), attempts=2, retry_delay_ms=1
    )
    run = SqlRun(spec, [TIMED], [()], Random(0))
    rows = [("a", 1, T0), ("c", 1, T0), ("b", 2, None), (None, 1, T0), ("a", 9, T0)]
    run.push(0, [(INSERT, row) for row in rows])
    run.push(0, [(INSERT, rows[0])])
    run.end_epoch()
    pairs = [(*rows[0], "a", 2, T0), (*rows[2], "b", 3, None)]
    if kind is JoinKind.INNER:
        expected = pairs
    else:
        padding = (None,) * 3
        expected = [pairs[0], (*rows[1], *padding), pairs[1], (*rows[3], *padding), (*rows[4], *padding)]
    assert [row for _, row in run.emitted] == [*expected, pairs[0]]
    run.harness.close()


def test_a_lookup_that_fails_fails_the_job() -> None:
    spec = LookupJoinSpec(TIMED, Prices(failures=5), (0,), TIMED, JoinKind.INNER, attempts=2)
    run = SqlRun(spec, [TIMED], [()], Random(0))
    run.push(0, [(INSERT, ("a", 1, T0))])
    with pytest.raises(ConnectionError):
        run.end_epoch()
    run.harness.close()
