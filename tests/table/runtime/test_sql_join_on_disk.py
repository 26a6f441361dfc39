"""Joins whose rows are on disk, with hardly any of them in memory, against DuckDB's join of the rows that are left."""

from __future__ import annotations

import datetime
import tempfile
from collections import Counter
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from sql_runs import AFTER, BEFORE, DELETE, INSERT, Change, SqlRun, changelog, schema_of

from millstream.base.errors import StateAccessError
from millstream.table.expressions.rex import Call, InputRef
from millstream.table.plan.logical import JoinKind
from millstream.table.runtime.specs import JoinSpec
from millstream.table.runtime.spill.run_store import RunStore
from millstream.types.datatypes import DataTypes as D

LEFT = schema_of(D.BIGINT(), D.STRING(), D.INT())
RIGHT = schema_of(D.INT(), D.INT())
CONDITION = Call("<", (InputRef(2, D.INT()), InputRef(4, D.INT())), D.BOOLEAN())
BUDGETS = (1, 200_000, 280_000)
"""Bytes: nothing stays in memory, a few keys do, most do (arrays have room for 1,024 rows at first)."""

JOINS = {
    JoinKind.INNER: "JOIN",
    JoinKind.LEFT: "LEFT JOIN",
    JoinKind.RIGHT: "RIGHT JOIN",
    JoinKind.FULL: "FULL JOIN",
    JoinKind.SEMI: "SEMI JOIN",
    JoinKind.ANTI: "ANTI JOIN",
}


def on_disk(budget: int) -> dict[str, Any]:
    return {"state.backend.type": "rocksdb", "millstream.state.cache-bytes": budget}


def joined(
    left: Counter[tuple[Any, ...]], right: Counter[tuple[Any, ...]], kind: JoinKind, *, condition: bool
) -> Counter[tuple[Any, ...]]:
    with duckdb.connect() as database:
        database.execute("CREATE TABLE l (k BIGINT, s VARCHAR, n INT); CREATE TABLE r (k INT, n INT)")
        for name, rows in (("l", left), ("r", right)):
            if rows:
                marks = ", ".join("?" * len(next(iter(rows))))
                database.executemany(f"INSERT INTO {name} VALUES ({marks})", list(map(list, rows.elements())))
        also = "AND l.n < r.n" if condition else ""
        return Counter(database.execute(f"SELECT * FROM l {JOINS[kind]} r ON l.k = r.k {also}").fetchall())


def makers(random: Random, keys: int) -> tuple[Any, Any]:
    def key() -> int | None:
        return None if random.random() < 0.1 else random.randint(0, keys)

    return (
        lambda: (key(), random.choice(["a", "bb", None]), random.choice([None, 1, 2, 3])),
        lambda: (key(), random.choice([None, 1, 2, 3])),
    )


def mixed(random: Random, left: list[Change], right: list[Change]) -> list[Any]:
    steps: list[Any] = []
    left, right = left[::-1], right[::-1]
    while left or right:
        side = 0 if left and (not right or random.random() < 0.5) else 1
        steps.append((side, (left, right)[side].pop()))
    return steps


def check(kind: JoinKind, seed: int) -> None:
    random = Random(seed)
    make_left, make_right = makers(random, random.choice([3, 30]))
    retracts = [random.random() < 0.5, random.random() < 0.5]
    changes_left, left = changelog(random, 40, make_left, retracts=retracts[0])
    changes_right, right = changelog(random, 40, make_right, retracts=retracts[1])
    condition = random.random() < 0.5
    spec = JoinSpec(
        LEFT,
        RIGHT,
        (0,),
        (0,),
        kind,
        CONDITION if condition else None,
        left_retracts=retracts[0],
        right_retracts=retracts[1],
    )
    run = SqlRun(spec, [LEFT, RIGHT], [(0,), (0,)], random, options=on_disk(random.choice(BUDGETS)))
    assert run.run(mixed(random, changes_left, changes_right)) == joined(
        left, right, kind, condition=condition
    )


@pytest.mark.parametrize("kind", list(JOINS))
@given(seed=st.integers(0, 10**9))
@settings(max_examples=1, deadline=None, phases=[Phase.generate])
def test_a_join_on_disk_is_that_of_the_rows_that_are_left(kind: JoinKind, seed: int) -> None:
    check(kind, seed)


@pytest.mark.long
@pytest.mark.parametrize("kind", list(JOINS))
@given(seed=st.integers(0, 10**9))
@settings(max_examples=40, deadline=None)
def test_many_joins_on_disk(kind: JoinKind, seed: int) -> None:
    check(kind, seed)


def upserts(random: Random, count: int, make: Any) -> tuple[list[Change], Counter[tuple[Any, ...]]]:
    """Return changes by a unique key, the columns 0 and 1."""
    there: dict[Any, tuple[Any, ...]] = {}
    changes: list[Change] = []
    for _ in range(count):
        row = make()
        key = row[:2]
        if key in there and random.random() < 0.3:
            changes.append((DELETE, there.pop(key)))
            continue
        if key in there:
            changes.append((BEFORE, there[key]))
        changes.append((AFTER if key in there else INSERT, row))
        there[key] = row
    return changes, Counter(there.values())


def check_unique(kind: JoinKind, seed: int) -> None:
    random = Random(seed)
    make_left, make_right = makers(random, 8)
    changes_left, left = upserts(random, 50, make_left)
    changes_right, right = changelog(random, 40, make_right, retracts=True)
    spec = JoinSpec(LEFT, RIGHT, (0,), (0,), kind, CONDITION, left_unique=(0, 1))
    run = SqlRun(spec, [LEFT, RIGHT], [(0,), (0,)], random, options=on_disk(random.choice(BUDGETS)))
    assert run.run(mixed(random, changes_left, changes_right)) == joined(left, right, kind, condition=True)


@pytest.mark.parametrize("kind", [JoinKind.INNER, JoinKind.FULL])
@given(seed=st.integers(0, 10**9))
@settings(max_examples=1, deadline=None, phases=[Phase.generate])
def test_rows_with_a_unique_key_replace_those_on_disk(kind: JoinKind, seed: int) -> None:
    check_unique(kind, seed)


@pytest.mark.long
@pytest.mark.parametrize("kind", list(JOINS))
@given(seed=st.integers(0, 10**9))
@settings(max_examples=25, deadline=None)
def test_many_joins_with_a_unique_key_on_disk(kind: JoinKind, seed: int) -> None:
    check_unique(kind, seed)


MOMENT = datetime.datetime(2024, 1, 2, 3, 4, 5, 678_000)
MANY = schema_of(
    D.STRING(),
    D.INT(),
    D.DOUBLE(),
    D.DECIMAL(20, 3),
    D.TIMESTAMP(3),
    D.DATE(),
    D.BOOLEAN(),
    D.BYTES(),
    D.ARRAY(D.INT()),
    D.MAP(D.STRING(), D.INT()),
)
ROW = ("k", 1, 1.5, Decimal("12.345"), MOMENT, MOMENT.date(), True, b"x", [1, None], {"a": 1})
EMPTY = ("k", *[None] * 9)


@pytest.mark.parametrize("turns", [("rocksdb", "hashmap"), ("hashmap", "rocksdb"), ("rocksdb", "rocksdb")])
def test_rows_of_all_types_go_from_one_state_to_the_other(turns: tuple[str, str]) -> None:
    spec = JoinSpec(MANY, MANY, (0, 1), (0, 1), JoinKind.FULL, null_safe=(True, True))
    snapshot: Any = None
    run: Any = None
    for backend in turns:
        options = {**on_disk(1), "state.backend.type": backend}
        before, run = run, SqlRun(spec, [MANY, MANY], [(0, 1), (0, 1)], Random(0), options=options)
        if snapshot is not None:
            run.folded = before.folded
            run.harness.close()
            run.harness = run._build(2, snapshot)
            run.push(1, [(INSERT, ROW), (INSERT, EMPTY)])
            run.push(0, [(DELETE, EMPTY)])
        else:
            run.push(0, [(INSERT, ROW), (INSERT, EMPTY), (INSERT, EMPTY)])
        run.end_epoch()
        found = {(kind, tuple(map(str, row))) for kind, row in run.emitted}
        snapshot = run.harness.snapshot()
        run.harness.close()
    nothing = (None,) * 10
    expected = [
        (DELETE, ROW + nothing),
        (INSERT, ROW + ROW),
        (DELETE, EMPTY + nothing),
        (INSERT, EMPTY + EMPTY),
    ]
    assert found == {(kind, tuple(map(str, row))) for kind, row in expected}


def test_checkpoints_hold_what_changed() -> None:
    spec = JoinSpec(RIGHT, RIGHT, (0,), (0,), JoinKind.INNER)
    run = SqlRun(spec, [RIGHT, RIGHT], [(0,), (0,)], Random(0), options=on_disk(1))
    run.push(0, [(INSERT, (number, number)) for number in range(20_000)])
    run.harness.snapshot()
    run.push(0, [(INSERT, (7, 70)), (DELETE, (8, 8))])
    snapshot = run.harness.snapshot(incremental=True)
    run.harness.close()
    ((whole, changes),) = snapshot.files
    assert len(changes) < len(whole) / 20
    run.harness = run._build(3, snapshot)
    run.push(1, [(INSERT, (number, 1)) for number in (7, 8, 9)])
    run.end_epoch()
    run.harness.close()
    assert sorted(row for _, row in run.emitted) == [(7, 7, 7, 1), (7, 70, 7, 1), (9, 9, 9, 1)]


def stores(run: SqlRun) -> list[Any]:
    return [side.store for operator in run.harness.operators for side in operator._held.sides]


@pytest.mark.parametrize("retracts", [False, True])
def test_what_expired_leaves_the_disk(retracts: bool) -> None:
    spec = JoinSpec(
        RIGHT,
        RIGHT,
        (0,),
        (0,),
        JoinKind.INNER,
        left_retracts=retracts,
        right_retracts=retracts,
        ttl_left_ms=1_000,
        ttl_right_ms=3_000,
    )
    run = SqlRun(spec, [RIGHT, RIGHT], [(0,), (0,)], Random(0), options=on_disk(1))
    sizes = []
    for time in range(0, 4_000, 250):
        run.harness.set_processing_time(time)
        run.push(0, [(INSERT, (number, time)) for number in range(500)])
        run.push(1, [(INSERT, (1_000, time))])
        run.end_epoch()
        sizes.append(stores(run)[0].count)
    assert max(sizes) <= 2 * 2_500
    run.push(1, [(INSERT, (3, 0))])
    run.end_epoch()
    run.harness.close()
    assert sorted(row[1] for _, row in run.emitted) == [3_000, 3_250, 3_500, 3_750]


def test_rows_that_are_gone_leave_the_disk() -> None:
    spec = JoinSpec(RIGHT, RIGHT, (0,), (0,), JoinKind.INNER)
    run = SqlRun(spec, [RIGHT, RIGHT], [(0,), (0,)], Random(0), options=on_disk(1))
    for turn in range(40):
        rows = [(number, turn) for number in range(50)]
        run.push(0, [(INSERT, row) for row in rows])
        run.end_epoch()
        run.push(0, [(DELETE, row) for row in rows])
        run.end_epoch()
    assert stores(run)[0].count < 40 * 100 / 3
    run.push(1, [(INSERT, (3, 0))])
    run.end_epoch()
    run.harness.close()
    assert not run.emitted


def test_a_full_disk_says_so(tmp_path: Path) -> None:
    schema = pa.schema([("f0", pa.int64())])
    store = RunStore(tmp_path / "rows", schema)
    (tmp_path / "rows").rmdir()
    with pytest.raises(StateAccessError, match="could not be written") as raised:
        store.add(np.array([1], np.uint64), pa.RecordBatch.from_pylist([{"f0": 1}], schema))
    assert "localdir" in str(raised.value)


@given(seed=st.integers(0, 10**9))
@settings(max_examples=2, deadline=None, phases=[Phase.generate])
def test_a_store_finds_the_newest_of_each_row(seed: int) -> None:
    random = Random(seed)
    schema = pa.schema(
        [("id", pa.int64()), ("weight", pa.int64()), ("stamp", pa.int64()), ("f0", pa.string())]
    )
    ttl = random.choice([None, 30])
    expected: dict[int, tuple[int, int, int, str]] = {}
    with tempfile.TemporaryDirectory() as directory:
        store = RunStore(Path(directory) / "rows", schema, ttl, slice_rows=random.choice([1, 5, 1000]))
        for now in range(45):
            store.expire(now)
            changed = {}
            for _ in range(random.randint(1, 6)):
                number = random.randint(0, 40)
                changed[number] = (number, random.choice([0, 1, 2]), now, "x" * random.randint(0, 3))
            expected |= changed
            keys = np.array([number % 7 for number in changed], np.uint64)
            rows = [dict(zip(schema.names, row, strict=True)) for row in changed.values()]
            store.add(keys, pa.RecordBatch.from_pylist(rows, schema))
            if random.random() < 0.3:
                store.settled = store.newest
            there = {row for row in expected.values() if row[1] and (ttl is None or row[2] + ttl > now)}
            asked = sorted(random.sample(range(9), random.randint(1, 9)))
            found = store.find(np.array(asked, np.uint64))
            rows = [] if found is None else [tuple(row.values()) for row in found.to_pylist()]
            assert sorted(rows) == sorted(row for row in there if row[0] % 7 in asked)
            scanned = [
                (int(key), *row.values())
                for numbers, part in store.scan()
                for key, row in zip(numbers, part.to_pylist(), strict=True)
            ]
            assert sorted(scanned) == sorted((row[0] % 7, *row) for row in there)
            assert [each[0] for each in scanned] == sorted(each[0] for each in scanned)
        assert store.runs < 25
        store.close()
        assert not list((Path(directory) / "rows").iterdir())
