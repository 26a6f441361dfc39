"""Results of windows of which all rows are at hand: no key is looked up, and nothing is kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.operators.columnar.aggregates import Aggregate
from millstream.operators.columnar.groups import Groups, KeyedRows
from millstream.operators.columnar.key_index import numbered
from millstream.operators.columnar.slot_values import plain
from millstream.operators.columnar.window_results import WINDOW_START, portions

__all__ = ["aggregate_whole"]


def aggregate_whole(
    starts: Any, rows: KeyedRows, key_names: Sequence[str], aggregates: Sequence[Aggregate], kinds: Groups
) -> Iterator[tuple[Any, list[pa.Array]]]:
    """Yield the starts of windows, with their key columns and aggregates: one row for each key, in order of time.

    Equal keys of these rows are put together, and named by their first row.

    Args:
        starts: Of the window of each row.
        rows: Key columns, and what is aggregated.
        key_names: Names of the key columns.
        aggregates: What is computed.
        kinds: Knows the types of all rows before, and learns those of these.
    """
    keys = [plain(key) for key in rows.keys]
    groups = Groups([WINDOW_START], aggregates)
    groups.learn((None, kinds.kinds[1]))
    slots = groups.add_rows(rows._replace(keys=[pa.array(_numbers(starts, keys, key_names))]))
    kinds.learn(([key.type for key in keys], groups.kinds[1]))
    first = np.empty(len(groups), np.int64)
    first[slots[::-1]] = np.arange(len(slots))[::-1]
    windows = starts[first]
    key_kinds = kinds.kinds[0]
    assert key_kinds is not None, "types that were just learnt"
    for portion in portions(np.argsort(windows, kind="stable")):
        places = pa.array(first[portion])
        columns = [key.take(places).cast(kind) for key, kind in zip(keys, key_kinds, strict=True)]
        yield windows[portion], [*columns, *groups.columns(portion)[1:]]


def _numbers(starts: Any, keys: list[pa.Array], key_names: Sequence[str]) -> Any:
    """Return a number for each row, the same for those of one window and key."""
    # NaNs are one key, and only an index knows.
    has_floats = any(pa.types.is_floating(key.type) for key in keys)
    numbers = None if has_floats else numbered([*keys, pa.array(starts)])
    if numbers is None:
        return Groups([WINDOW_START, *key_names], []).add([pa.array(starts), *keys], [])
    return numbers
