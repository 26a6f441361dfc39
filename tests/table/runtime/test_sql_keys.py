"""Keys of every type go to the subtask that their state belongs to, and come back from a checkpoint as they were."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from millstream.state.key_groups import key_group, key_groups_of_columns
from millstream.table.runtime.key_slots import KeySlots

MOMENT = datetime.datetime(2024, 1, 1, 1, 2, 3, 4)
CASES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int8(), [1, None]),
    (pa.int64(), [1, None, -5, 2**60]),
    (pa.string(), ["a", None, "longer than eight bytes"]),
    (pa.binary(), [b"x", None]),
    (pa.bool_(), [True, False, None]),
    (pa.float64(), [1.5, None, float("nan"), -0.0, 0.0, 2.0]),
    (pa.float32(), [1.5, None, 2.0]),
    (pa.date32(), [datetime.date(2024, 1, 1), None]),
    (pa.time32("ms"), [datetime.time(1, 2, 3), None]),
    (pa.time64("us"), [datetime.time(1, 2, 3, 4), None]),
    (pa.timestamp("us"), [MOMENT, None]),
    (pa.timestamp("ns"), [MOMENT, None]),
    (pa.timestamp("us", "UTC"), [MOMENT, None]),
    (pa.timestamp("ns", "UTC"), [MOMENT, None]),
    (pa.decimal128(10, 2), [Decimal("1.20"), None, Decimal("-3.00")]),
    (pa.decimal128(38, 2), [Decimal("1.20"), None, Decimal("-3.00")]),
    (pa.list_(pa.int32()), [[1, 2], None, []]),
    (pa.struct([("a", pa.int32()), ("b", pa.string())]), [{"a": 1, "b": None}, None]),
    (pa.map_(pa.string(), pa.int32()), [[("a", 1)], None]),
]


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize(("kind", "values"), CASES, ids=[str(kind) for kind, _ in CASES])
def test_a_key_belongs_where_it_is_sent(kind: pa.DataType, values: list[Any], several: bool) -> None:
    columns = [pa.array(values, kind)]
    if several:
        columns.append(pa.array(range(len(values))))
    slots = KeySlots([column.type for column in columns])
    places = slots.of(columns, len(values))
    keys = slots.keys(places)
    assert key_groups_of_columns(columns, 128).tolist() == [key_group(key, 128) for key in keys]
    restored = KeySlots([column.type for column in columns])
    again = restored.of_keys(keys)
    assert [str(column) for column in restored.columns(again)] == [str(column) for column in columns]
    assert restored.of(columns, len(values)).tolist() == again.tolist()


@pytest.mark.parametrize(("kind", "values"), CASES, ids=[str(kind) for kind, _ in CASES])
def test_keys_that_are_kept_have_their_places_in_the_order_given(
    kind: pa.DataType, values: list[Any]
) -> None:
    slots = KeySlots([kind])
    slots.of([pa.array(values, kind)], len(values))
    kept = np.arange(len(slots))[::-1]
    before = slots.columns(kept)
    slots.keep(kept)
    assert [str(column) for column in slots.columns(np.arange(len(slots)))] == [str(each) for each in before]
