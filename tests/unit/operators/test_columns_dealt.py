from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.operators.partitioners import (
    Broadcast,
    ColumnSelector,
    CustomPartitioning,
    Forward,
    Global,
    KeyGroups,
    Rebalance,
    Rescale,
    Shuffle,
)
from millstream.spi.batch import Columns, Rows
from millstream.types.row import Row


class By:
    """A selector that tells its fields."""

    def __init__(self, *fields):
        self.fields = fields

    def __call__(self, row):
        return row[self.fields[0]] if len(self.fields) == 1 else tuple(row[field] for field in self.fields)


VALUES = {
    "n": st.none() | st.integers(-(2**40), 2**40),
    "s": st.none() | st.text(max_size=4),
    "x": st.floats(allow_nan=False),
    "t": st.booleans(),
}
RECORDS = st.lists(st.builds(Row, **VALUES), min_size=1, max_size=30)
IN_PLACE = [Forward(), Global(), Broadcast()]
BY_FIELDS = [KeyGroups(By(*fields)) for fields in (["n"], ["s"], ["x"], ["t"], ["n", "s"], ["x", "t", "n"])]


def dealt(partitioning, receivers, batches, *, columns):
    selector = partitioning.build(1, 2, receivers, 128)
    parts = {}
    for rows in batches:
        rows = Rows(list(rows), list(range(len(rows))))
        made = selector.split_columns(Columns.from_rows(rows)) if columns else selector.split(rows)
        for target, part in made:
            part = part.to_rows()
            parts.setdefault(target, []).extend(zip(part.values, part.timestamps, strict=True))
    return parts


@given(st.sampled_from(IN_PLACE + BY_FIELDS), st.lists(RECORDS, min_size=1, max_size=3), st.integers(2, 5))
def test_columns_go_where_their_rows_would_go(partitioning, batches, receivers):
    assert dealt(partitioning, receivers, batches, columns=True) == dealt(
        partitioning, receivers, batches, columns=False
    )


@given(
    st.sampled_from([Rebalance(), Rescale()]), st.lists(RECORDS, min_size=1, max_size=3), st.integers(2, 5)
)
def test_columns_dealt_in_turn_are_as_many_for_each(partitioning, batches, receivers):
    columns = dealt(partitioning, receivers, batches, columns=True)
    rows = dealt(partitioning, receivers, batches, columns=False)
    assert {target: len(part) for target, part in columns.items()} == {
        target: len(part) for target, part in rows.items()
    }
    everything = [str(record) for part in columns.values() for record in part]
    assert sorted(everything) == sorted(str(record) for part in rows.values() for record in part)


def test_shuffled_columns_are_shared_out_evenly_and_alike_in_each_run():
    rows = [Row(n=n, s="", x=0.0, t=True) for n in range(30_000)]
    columns = dealt(Shuffle(), 3, [rows], columns=True)
    assert sorted(row.n for part in columns.values() for row, _ in part) == list(range(30_000))
    assert all(9_500 < len(part) < 10_500 for part in columns.values())
    assert dealt(Shuffle(), 3, [rows], columns=True) == columns


@pytest.mark.parametrize(
    "partitioning",
    [KeyGroups(lambda row: row.n), CustomPartitioning(lambda key, count: 0, lambda row: row.n)],
)
def test_who_has_to_see_each_record_gets_rows(partitioning):
    assert not isinstance(partitioning.build(0, 1, 3, 128), ColumnSelector)


def test_everything_goes_to_one_subtask_and_the_end_to_all():
    assert list(Global().targets(0, 1, 3)) == [0, 1, 2]
    assert set(dealt(Global(), 3, [[Row(n=1, s="", x=0.0, t=True)] * 5], columns=False)) == {0}
