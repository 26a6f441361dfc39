"""ON CONFLICT DO ERROR and DO NOTHING: what a sink is told of rows of several upsert keys with one primary key.

Changes of a key wait for the next watermark. Then they are put together with the row that the sink has::

    none is left     -D of the row that the sink has
    one is left      +I, or +U if the sink has another
    several          DO ERROR fails the job; DO NOTHING has the sink keep its row, or the first one

The rule is Flink's (FLIP-558). Changes wait in the operator's state, with a timer for each key that has some.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.base.errors import SinkError
from millstream.common.state import ListStateDescriptor, ValueStateDescriptor
from millstream.operators.base import Operator, OperatorSpec
from millstream.spi.batch import Batch, Columns, Rows
from millstream.state.keyed import NO_KEY
from millstream.state.keys import canonical_keys
from millstream.table.expressions.rex import RowSchema
from millstream.table.functions.python_values import from_python, to_python
from millstream.table.runtime.arrays import arrow_types, conform
from millstream.table.runtime.changes import DELETE, INSERT, UPDATE_AFTER, columns_batch
from millstream.types.arrow_values import values_of

__all__ = ["ConflictOperator", "ConflictSpec"]

_PENDING, _CURRENT = "pending", "current"
"""State: (whether it comes, row) of what waits; the row that the sink has."""

Row = tuple[Any, ...]


@dataclass(frozen=True)
class ConflictSpec(OperatorSpec):
    """Declares what becomes of rows with the same primary key.

    Attributes:
        input: Columns of the input.
        key: Places of the sink's primary key.
        upsert_key: Places of columns that tell the input's rows apart; None for all columns.
        fails: Whether several rows of a key fail the job (ERROR); else the first stays (NOTHING).
        table: The sink's name, for messages.
    """

    input: RowSchema
    key: tuple[int, ...]
    upsert_key: tuple[int, ...] | None
    fails: bool
    table: str
    is_keyed = True
    takes_columns = True

    @property
    def state_form(self) -> str:
        """What is kept."""
        return f"{len(self.input)} columns"

    def build(self) -> Operator:
        """Make the running half."""
        return ConflictOperator(self)


class ConflictOperator(Operator):
    """Has changes wait for the watermark; the subtask's thread calls it."""

    def __init__(self, spec: ConflictSpec) -> None:
        self._spec = spec
        self._kinds = arrow_types(spec.input)
        self._identity = spec.upsert_key or tuple(range(len(spec.input)))
        self._by_key = bool(spec.upsert_key)
        self._rows: list[Row] = []
        self._row_kinds: list[int] = []

    def open(self) -> None:
        """Get the state."""
        state = self.context.keyed_state
        assert state is not None, "a keyed operator without keyed state"
        state.track()
        self._state = state
        self._pending = state.get_state(ListStateDescriptor(_PENDING))
        self._current = state.get_state(ValueStateDescriptor(_CURRENT))

    def process(self, batch: Batch) -> None:
        """Have the changes of a batch wait."""
        if not len(batch):
            return
        data = Columns.from_rows(batch) if isinstance(batch, Rows) else batch
        columns = [conform(each, kind) for each, kind in zip(data.data.columns, self._kinds, strict=True)]
        comes = np.ones(len(data), bool) if data.kinds is None else np.isin(np.asarray(data.kinds), (0, 2))
        places = self._spec.key
        if len(places) == 1:
            keys = canonical_keys(values_of(columns[places[0]]))
        else:
            keys = canonical_keys(list(zip(*(values_of(columns[each]) for each in places), strict=True)))
        state, due_ms = self._state, self.watermark_ms + 1
        rows = zip(*map(to_python, columns, self._spec.input.types), strict=True)
        for key, row, come in zip(keys, rows, comes.tolist(), strict=True):
            state.current_key = key
            if state.touched is not None:
                state.touched.add(key)
            self._pending.add((come, row))
            state.event_timers.register(due_ms, key)
        state.current_key = NO_KEY

    def process_watermark(self, timestamp_ms: int) -> None:
        """Tell the sink of what waited, then hand the watermark on."""
        self._settle(timestamp_ms, None)
        self.watermark_ms = timestamp_ms
        self.output.emit_watermark(timestamp_ms)

    def advance_watermark(self, timestamp_ms: int) -> bool:
        """Tell the sink of as many keys as the epoch has room for; if that is all, hand the watermark on."""
        if not self._settle(timestamp_ms, self.context.budget.take_timers):
            return False
        self.watermark_ms = timestamp_ms
        self.output.emit_watermark(timestamp_ms)
        return True

    def _settle(self, timestamp_ms: int, grant: Callable[[], int] | None) -> bool:
        timers = self._state.event_timers
        next_ms = timers.next_timestamp()
        if next_ms is None or next_ms > timestamp_ms:
            return True
        done = timers.fire_until(timestamp_ms, self._settle_key, grant)
        self._state.current_key = NO_KEY
        self._hand_on()
        return done

    def _settle_key(self, timestamp_ms: int, key: Any) -> None:
        del timestamp_ms
        state = self._state
        state.current_key = key
        if state.touched is not None:
            state.touched.add(key)
        before: Row | None = self._current.value()
        left = self._put_together(before)
        self._pending.clear()
        if len(left) > 1:
            if self._spec.fails:
                raise SinkError(
                    f'primary key constraint violation: {len(left)} rows for "{self._spec.table}" have the primary key '
                    f"{key!r}",
                    detail=f"They are: {left[0]} and {left[1]}.",
                    hint="Use ON CONFLICT DO NOTHING to keep the first one, or DO DEDUPLICATE to keep the last one.",
                )
            if before is None:
                self._tell(INSERT, left[0])
        elif not left:
            if before is not None:
                self._tell(DELETE, before)
        elif before is None:
            self._tell(INSERT, left[0])
        elif before != left[0]:
            self._tell(UPDATE_AFTER, left[0])

    def _put_together(self, before: Row | None) -> list[Row]:
        """Return the rows of the current key that are there, in the order in which they came."""
        pending = self._pending.get() or ()
        changes = [(True, before), *pending] if before is not None else list(pending)
        if not changes:
            return []
        rows: dict[int, Row] = {}
        places: defaultdict[Any, deque[int]] = defaultdict(deque)
        names = canonical_keys([tuple(row[place] for place in self._identity) for _, row in changes])
        for at, ((comes, row), name) in enumerate(zip(changes, names, strict=True)):
            mine = places[name]
            if not comes:
                if mine:
                    del rows[mine.popleft()]
            elif mine and self._by_key:
                rows[mine[0]] = row
            else:
                rows[at] = row
                mine.append(at)
        return list(rows.values())

    def _tell(self, kind: int, row: Row) -> None:
        self._rows.append(row)
        self._row_kinds.append(kind)
        if kind == DELETE:
            self._current.clear()
        else:
            self._current.update(row)

    def _hand_on(self) -> None:
        if not self._rows:
            return
        columns: list[pa.Array] = [
            from_python(values, kind, f'the sink "{self._spec.table}"')
            for values, kind in zip(zip(*self._rows, strict=True), self._spec.input.types, strict=True)
        ]
        kinds = np.array(self._row_kinds, np.int8)
        self._rows, self._row_kinds = [], []
        self.output.emit(columns_batch(columns, kinds if kinds.any() else None, len(kinds)))
