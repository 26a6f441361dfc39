"""OVER against loops over all rows."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sql_runs import INSERT, SqlRun, schema_of

from millstream.base.errors import NotSupportedError
from millstream.table.expressions.rex import AggregateCall, SortKey
from millstream.table.plan.logical import OverFrame
from millstream.table.runtime.epoch_operator import LATE_ROWS_DROPPED
from millstream.table.runtime.specs import OverSpec
from millstream.types.datatypes import DataTypes as D

SCHEMA = schema_of(D.STRING(), D.BIGINT(), D.TIMESTAMP(3), D.STRING(), D.INT(False))
T0 = datetime(2024, 1, 1)
BASE = 1_704_067_200_000
CALLS = (
    AggregateCall("COUNT", (), D.BIGINT(False)),
    AggregateCall("SUM", (1,), D.BIGINT()),
    AggregateCall("MIN", (3,), D.STRING()),
    AggregateCall("MAX", (1,), D.BIGINT()),
    AggregateCall("FIRST_VALUE", (1,), D.BIGINT()),
    AggregateCall("LAST_VALUE", (1,), D.BIGINT()),
    AggregateCall("COUNT", (1,), D.BIGINT(False), distinct=True),
)


def results(rows: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    there = [row[1] for row in rows if row[1] is not None]
    texts = [row[3] for row in rows if row[3] is not None]
    return (
        len(rows),
        sum(there) if there else None,
        min(texts, default=None),
        max(there, default=None),
        there[0] if there else None,
        there[-1] if there else None,
        len(set(there)),
    )


def timed_rows(random: Random, count: int) -> tuple[list[Any], list[tuple[Any, ...]]]:
    """Return rows with watermarks between them, all in time."""
    steps: list[Any] = []
    rows: list[tuple[Any, ...]] = []
    mark = -1
    for number in range(count):
        if random.random() < 0.1:
            mark += random.randint(0, 3_000)
            steps.append(BASE + mark)
            continue
        time = mark + 1 + random.randint(0, 40) * 100
        row = (
            random.choice(["a", "b", None]),
            random.choice([None, 1, 2, 3, -4]),
            T0 + timedelta(milliseconds=time),
            random.choice(["x", "yy", None]),
            number,
        )
        steps.append((0, (INSERT, row)))
        rows.append(row)
    return steps, rows


def framed(
    rows: list[tuple[Any, ...]], frame: OverFrame, partition: tuple[int, ...]
) -> Counter[tuple[Any, ...]]:
    groups: dict[Any, list[tuple[Any, ...]]] = defaultdict(list)
    for row in rows:
        groups[tuple(row[place] for place in partition)].append(row)
    found: Counter[tuple[Any, ...]] = Counter()
    for group in groups.values():
        ordered = sorted(group, key=lambda row: row[2])
        for place, row in enumerate(ordered):
            if frame.rows:
                first = 0 if frame.preceding is None else max(0, place - frame.preceding)
                inside = ordered[first : place + 1]
            else:
                reach = timedelta.max if frame.preceding is None else timedelta(milliseconds=frame.preceding)
                inside = [each for each in ordered if each[2] <= row[2] and row[2] - each[2] <= reach]
            found[(*row, *results(inside))] += 1
    return found


@pytest.mark.parametrize("partition", [(0,), ()])
@pytest.mark.parametrize(
    "frame",
    [
        OverFrame(rows=True, preceding=None),
        OverFrame(rows=False, preceding=None),
        OverFrame(rows=True, preceding=3),
        OverFrame(rows=False, preceding=1_500),
    ],
    ids=str,
)
@given(seed=st.integers(0, 10**9))
@settings(max_examples=2, deadline=None, derandomize=True)
def test_frames_are_of_the_rows_before(frame: OverFrame, partition: tuple[int, ...], seed: int) -> None:
    random = Random(seed)
    steps, rows = timed_rows(random, 100)
    spec = OverSpec(SCHEMA, partition, SortKey(2), True, frame, CALLS)
    run = SqlRun(spec, [SCHEMA], [partition], random)
    got = run.run(steps)
    # The order of rows of the same time is that of arrival at the operator, so with ties only RANGE says which.
    if frame.rows:
        assert Counter(row[:5] for row in got.elements()) == Counter(rows)
        in_order = [tuple(row[:5]) for _, row in run.emitted]
        assert got == framed(in_order, frame, partition)
    else:
        wanted = framed(rows, frame, partition)
        without_order = [*range(5), 5, 6, 7, 8, 11]  # FIRST_VALUE and LAST_VALUE go by arrival among equals
        assert Counter(tuple(row[place] for place in without_order) for row in got.elements()) == Counter(
            tuple(row[place] for place in without_order) for row in wanted.elements()
        )


@given(seed=st.integers(0, 10**9))
@settings(max_examples=3, deadline=None, derandomize=True)
def test_places_of_rows(seed: int) -> None:
    random = Random(seed)
    steps, rows = timed_rows(random, 100)
    calls = (
        AggregateCall("ROW_NUMBER", (), D.BIGINT(False)),
        AggregateCall("RANK", (), D.BIGINT(False)),
        AggregateCall("DENSE_RANK", (), D.BIGINT(False)),
        AggregateCall("LAG", (1,), D.BIGINT()),
        AggregateCall("COUNT", (), D.BIGINT(False)),
    )
    spec = OverSpec(SCHEMA, (0,), SortKey(2), True, OverFrame(rows=True, preceding=None), calls)
    run = SqlRun(spec, [SCHEMA], [(0,)], random)
    got = run.run(steps)
    by_key: dict[Any, list[tuple[Any, ...]]] = defaultdict(list)
    for _, row in run.emitted:
        by_key[row[0]].append(row[:5])
    wanted: Counter[tuple[Any, ...]] = Counter()
    for group in by_key.values():
        assert group == sorted(group, key=lambda row: row[2])
        for place, row in enumerate(group):
            rank = sum(each[2] < row[2] for each in group) + 1
            dense = len({each[2] for each in group if each[2] < row[2]}) + 1
            lag = group[place - 1][1] if place else None
            wanted[(*row, place + 1, rank, dense, lag, place + 1)] += 1
    assert got == wanted
    assert Counter(row[:5] for row in got.elements()) == Counter(rows)


def test_late_rows_are_dropped_and_counted() -> None:
    spec = OverSpec(SCHEMA, (0,), SortKey(2), True, OverFrame(rows=True, preceding=None), CALLS[:1])
    run = SqlRun(spec, [SCHEMA], [(0,)], Random(0))
    run.watermark(BASE + 1_000)
    run.push(0, [(INSERT, ("a", 1, T0, None, 0)), (INSERT, ("a", 1, T0 + timedelta(seconds=2), None, 0))])
    assert run.harness.counter(LATE_ROWS_DROPPED) == 1
    run.harness.end_input()
    assert len(run.harness.take()) == 1


@given(seed=st.integers(0, 10**9))
@settings(max_examples=2, deadline=None, derandomize=True)
def test_by_processing_time_rows_count_as_they_come(seed: int) -> None:
    random = Random(seed)
    rows = [(random.choice("ab"), random.randint(0, 5), None, None, number) for number in range(60)]
    spec = OverSpec(SCHEMA, (0,), None, False, OverFrame(rows=True, preceding=2), CALLS[:2])
    run = SqlRun(spec, [SCHEMA], [(0,)], random)
    got = run.run([(0, (INSERT, row)) for row in rows])
    wanted = Counter()
    for place, row in enumerate(rows):
        inside = [each for each in rows[: place + 1] if each[0] == row[0]][-3:]
        wanted[(*row, len(inside), sum(each[1] for each in inside))] += 1
    assert got == wanted


def test_what_needs_all_rows_is_refused_in_a_stream() -> None:
    call = AggregateCall("CUME_DIST", (), D.DOUBLE(False))
    spec = OverSpec(SCHEMA, (0,), SortKey(2), True, OverFrame(rows=False, preceding=None), (call,))
    run = SqlRun(spec, [SCHEMA], [(0,)], Random(0))
    run.push(0, [(INSERT, ("a", 1, T0, None, 0))])
    run.watermark(BASE + 1)
    with pytest.raises(NotSupportedError, match="CUME_DIST needs all rows"):
        run.end_epoch()
