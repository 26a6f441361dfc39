"""Window aggregations against loops over all rows."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sql_runs import INSERT, SqlRun, schema_of

from millstream.table.expressions.rex import AggregateCall
from millstream.table.plan.logical import WindowKind
from millstream.table.runtime.epoch_operator import LATE_ROWS_DROPPED
from millstream.table.runtime.specs import WindowAggregateSpec
from millstream.types.datatypes import DataTypes as D

SCHEMA = schema_of(D.STRING(), D.BIGINT(), D.TIMESTAMP(3))
CALLS = (
    AggregateCall("COUNT", (), D.BIGINT(False)),
    AggregateCall("SUM", (1,), D.BIGINT()),
    AggregateCall("MAX", (1,), D.BIGINT()),
    AggregateCall("COUNT", (1,), D.BIGINT(False), distinct=True),
)
T0 = datetime(2024, 1, 1)
BASE = 1_704_067_200_000


def results(values: list[int | None]) -> tuple[Any, ...]:
    there = [value for value in values if value is not None]
    return (
        len(values),
        sum(there) if there else None,
        max(there, default=None),
        len(set(there)),
    )


def windows_of(kind: WindowKind, time: int, size: int, slide: int, offset: int) -> list[tuple[int, int]]:
    if kind is WindowKind.TUMBLE:
        start = time - (time - offset) % size
        return [(start, start + size)]
    if kind is WindowKind.HOP:
        last = time - (time - offset) % slide
        starts = range(last, time - size, -slide)
        return [(start, start + size) for start in starts]
    start = time - (time - offset) % size
    return [(start, end) for end in range(start + slide, start + size + 1, slide) if end > time]


def steps_and_kept(random: Random, count: int) -> tuple[list[Any], list[tuple[Any, int, int]]]:
    """Return rows around watermarks, and each row with its time and the watermark before it."""
    steps: list[Any] = []
    rows: list[tuple[Any, int, int]] = []
    mark = -1
    for _ in range(count):
        if random.random() < 0.12:
            mark += random.randint(0, 4_000)
            steps.append(BASE + mark)
            continue
        time = max(0, mark + random.randint(-6_000, 8_000))
        row = (
            random.choice(["a", "b", None]),
            random.choice([None, 1, 2, 3]),
            T0 + timedelta(milliseconds=time),
        )
        steps.append((0, (INSERT, row)))
        rows.append((row, time, mark))
    return steps, rows


SHAPES = [
    (WindowKind.TUMBLE, 5_000, 0, 0),
    (WindowKind.TUMBLE, 5_000, 0, 1_500),
    (WindowKind.HOP, 6_000, 2_000, 0),
    (WindowKind.HOP, 5_000, 2_000, 500),
    (WindowKind.HOP, 2_000, 5_000, 0),
    (WindowKind.CUMULATE, 6_000, 2_000, 0),
]


@pytest.mark.parametrize("keys", [(0,), ()])
@pytest.mark.parametrize(("kind", "size", "slide", "offset"), SHAPES)
@given(seed=st.integers(0, 10**9))
@settings(max_examples=2, deadline=None, derandomize=True)
def test_windows_have_the_rows_that_came_in_time(
    kind: WindowKind, size: int, slide: int, offset: int, keys: tuple[int, ...], seed: int
) -> None:
    random = Random(seed)
    steps, rows = steps_and_kept(random, 150)
    spec = WindowAggregateSpec(
        SCHEMA,
        keys,
        CALLS,
        kind,
        2,
        size_ms=size,
        slide_ms=slide,
        offset_ms=offset,
        properties=("start", "end", "time"),
    )
    expected: dict[Any, list[Any]] = defaultdict(list)
    for row, time, mark in rows:
        for start, end in windows_of(kind, time + BASE, size, slide, offset):
            if end - 1 > BASE + mark:
                expected[(*(row[place] for place in keys), start - BASE, end - BASE)].append(row[1])
    run = SqlRun(spec, [SCHEMA], [keys], random)
    got = run.run(steps)
    wanted = Counter(
        (
            *key[:-2],
            *results(values),
            T0 + timedelta(milliseconds=key[-2]),
            T0 + timedelta(milliseconds=key[-1]),
            T0 + timedelta(milliseconds=key[-1] - 1),
        )
        for key, values in expected.items()
    )
    assert got == wanted


def test_late_rows_are_dropped_and_counted() -> None:
    spec = WindowAggregateSpec(
        SCHEMA, (0,), CALLS[:1], WindowKind.TUMBLE, 2, size_ms=1_000, properties=("start",)
    )
    run = SqlRun(spec, [SCHEMA], [(0,)], Random(0))
    run.push(0, [(INSERT, ("a", 1, T0))])
    run.watermark(BASE + 999)
    run.end_epoch()
    run.push(
        0, [(INSERT, ("a", 1, T0)), (INSERT, ("a", 1, None)), (INSERT, ("a", 2, T0 + timedelta(seconds=1)))]
    )
    assert run.harness.counter(LATE_ROWS_DROPPED) == 1
    run.harness.end_input()
    run.fold()
    assert [row for _, row in run.emitted] == [("a", 1, T0), ("a", 1, T0 + timedelta(seconds=1))]


def test_windows_of_processing_time_fire_by_the_clock() -> None:
    spec = WindowAggregateSpec(
        SCHEMA, (0,), CALLS[:1], WindowKind.TUMBLE, 2, size_ms=1_000, processing=True, properties=("end",)
    )
    run = SqlRun(spec, [SCHEMA], [(0,)], Random(0))
    run.harness.set_processing_time(BASE + 100)
    run.push(0, [(INSERT, ("a", 1, None)), (INSERT, ("a", 1, None))])
    run.end_epoch()
    assert run.emitted == []
    assert run.harness.next_processing_time == BASE + 999
    run.harness.set_processing_time(BASE + 999)
    run.end_epoch()
    assert [row for _, row in run.emitted] == [("a", 2, T0 + timedelta(seconds=1))]


def sessions(times: list[tuple[int, Any]], gap: int) -> list[tuple[int, int, list[Any]]]:
    found: list[tuple[int, int, list[Any]]] = []
    for time, value in sorted(times, key=lambda each: each[0]):
        if found and time <= found[-1][1]:
            start, end, values = found.pop()
            found.append((start, max(end, time + gap), [*values, value]))
        else:
            found.append((time, time + gap, [value]))
    return found


@pytest.mark.parametrize("keys", [(0,), ()])
@given(seed=st.integers(0, 10**9))
@settings(max_examples=3, deadline=None, derandomize=True)
def test_sessions_end_where_nothing_comes_for_the_gap(keys: tuple[int, ...], seed: int) -> None:
    random = Random(seed)
    steps: list[Any] = []
    by_key: dict[Any, list[tuple[int, Any]]] = defaultdict(list)
    mark = -1
    for _ in range(150):
        if random.random() < 0.1:
            mark += random.randint(0, 3_000)
            steps.append(BASE + mark)
            continue
        time = mark + 1 + random.randint(0, 12_000)
        row = (
            random.choice(["a", "b", None]),
            random.choice([None, 1, 2, 3]),
            T0 + timedelta(milliseconds=time),
        )
        steps.append((0, (INSERT, row)))
        by_key[tuple(row[place] for place in keys)].append((time, row[1]))
    spec = WindowAggregateSpec(
        SCHEMA, keys, CALLS, WindowKind.SESSION, 2, size_ms=700, properties=("start", "end")
    )
    got = SqlRun(spec, [SCHEMA], [keys], random).run(steps)
    wanted = Counter(
        (*key, *results(values), T0 + timedelta(milliseconds=start), T0 + timedelta(milliseconds=end))
        for key, times in by_key.items()
        for start, end, values in sessions(times, 700)
    )
    assert got == wanted


@given(seed=st.integers(0, 10**9))
@settings(max_examples=2, deadline=None, derandomize=True)
def test_rows_that_have_their_windows_are_aggregated_by_these(seed: int) -> None:
    random = Random(seed)
    schema = schema_of(D.STRING(), D.BIGINT(), D.TIMESTAMP(3), D.TIMESTAMP(3))
    steps: list[Any] = []
    expected: dict[Any, list[Any]] = defaultdict(list)
    mark = -1
    for _ in range(120):
        if random.random() < 0.1:
            mark += random.randint(0, 3_000)
            steps.append(BASE + mark)
            continue
        start = max(0, mark // 1_000 + random.randint(-2, 5)) * 1_000
        end = start + random.choice([1_000, 3_000])
        bounds = (T0 + timedelta(milliseconds=start), T0 + timedelta(milliseconds=end))
        row = (random.choice("ab"), random.choice([None, 1, 2]), *bounds)
        steps.append((0, (INSERT, row)))
        if end - 1 > mark:
            expected[(row[0], *bounds)].append(row[1])
    spec = WindowAggregateSpec(
        schema, (0,), CALLS, WindowKind.TUMBLE, 2, size_ms=0, properties=("start", "end"), attached=(2, 3)
    )
    got = SqlRun(spec, [schema], [(0,)], random).run(steps)
    assert got == Counter((key[0], *results(values), *key[1:]) for key, values in expected.items())
