"""Some aggregates of the same rows, by slot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.operators.base import OperatorContext
from millstream.table.expressions.rex import AggregateCall, RowSchema
from millstream.table.functions.aggregate_calls import UserAggregate, user_aggregate
from millstream.table.functions.kernels.values import Setting
from millstream.table.runtime.aggregates.accumulator import Settings, add_at
from millstream.table.runtime.aggregates.build import build_accumulator
from millstream.table.runtime.arrays import arrow_type, arrow_types
from millstream.table.runtime.evaluation import function_context
from millstream.table.runtime.growing import Lane
from millstream.types.numpy_views import as_numpy

__all__ = ["AggregateTable"]


class AggregateTable:
    """Accumulators of some aggregates, and how many rows each slot has.

    Args:
        calls: The aggregates.
        schema: Columns that they are of.
        retracts: Whether rows may be taken back.
        users: What computes users' functions, by place of the call; None makes it.

    Attributes:
        rows: How many rows each slot has.
    """

    def __init__(
        self,
        calls: Sequence[AggregateCall],
        schema: RowSchema,
        *,
        retracts: bool,
        users: dict[int, UserAggregate] | None = None,
    ) -> None:
        self._calls = list(calls)
        self._schema = schema
        self._retracts = retracts
        if users is None:
            users = {
                place: user_aggregate(call, [schema.types[each] for each in call.arguments])
                for place, call in enumerate(calls)
                if call.user_function is not None
            }
        self._users = users
        self.rows = Lane(np.int64)
        kinds = arrow_types(schema)
        self.result_kinds = [arrow_type(call.type) for call in calls]
        self._accumulators = [
            build_accumulator(
                Settings(
                    call,
                    tuple(kinds[place] for place in call.arguments),
                    result,
                    retracts,
                    self.rows,
                    tuple(schema.types[place] for place in call.arguments),
                    every=call.filter is None
                    and not call.distinct
                    and not any(schema.types[place].nullable for place in call.arguments),
                ),
                users.get(number),
            )
            for number, (call, result) in enumerate(zip(calls, self.result_kinds, strict=True))
        ]

    def another(self) -> AggregateTable:
        """Return a table of the same aggregates without slots, with the same users' functions."""
        return AggregateTable(self._calls, self._schema, retracts=self._retracts, users=self._users)

    def open(self, context: OperatorContext) -> None:
        """Open users' functions."""
        if self._users:
            setting = Setting(functions=function_context(context))
            for user in self._users.values():
                user.open(setting)

    def close(self) -> None:
        """Close users' functions."""
        for user in self._users.values():
            user.close()

    @property
    def partial_kinds(self) -> list[pa.DataType] | None:
        """Arrow types of `partials`; None if some do not travel."""
        kinds: list[pa.DataType] = [pa.int64()]
        for accumulator in self._accumulators:
            if accumulator.partial_kinds is None:
                return None
            kinds += accumulator.partial_kinds
        return kinds

    def reach(self, count: int) -> None:
        """Make room for so many slots."""
        self.rows.reach(count)
        for accumulator in self._accumulators:
            accumulator.reach(count)

    def add(self, slots: Any, weights: Any | None, columns: Sequence[pa.Array]) -> None:
        """Add rows, in order.

        Args:
            slots: The slot of each row.
            weights: +1 or -1 for each; None if all come.
            columns: All columns of the rows.
        """
        add_at(self.rows.array, slots, 1 if weights is None else weights)
        chosen: dict[int, Any] = {}
        for call, accumulator in zip(self._calls, self._accumulators, strict=True):
            arguments = [columns[place] for place in call.arguments]
            arguments += [columns[key.index] for key in call.order]
            if call.filter is None:
                accumulator.add(slots, weights, arguments)
                continue
            mask = chosen.get(call.filter)
            if mask is None:
                mask = chosen[call.filter] = pc.fill_null(columns[call.filter], fill_value=False)
            kept = as_numpy(mask)
            accumulator.add(
                slots[kept],
                None if weights is None else weights[kept],
                [argument.filter(mask) for argument in arguments],
            )

    def results(self, slots: Any) -> list[pa.Array]:
        """Return the results of slots."""
        return [accumulator.results(slots) for accumulator in self._accumulators]

    def given_rows(self, place: int, slots: Any) -> list[list[Any]]:
        """Return what a table aggregate function gives for each slot: nothing for those without rows."""
        function, accumulator = self._users[place], self._accumulators[place]
        states = accumulator.entries(slots)
        some = self.rows.array[slots] > 0
        return [
            function.rows(function.create() if state is None else state) if exists else []
            for state, exists in zip(states, some.tolist(), strict=True)
        ]

    def rows_column(self, place: int, rows: Sequence[Any]) -> pa.Array:
        """Return what `given_rows` gave as a column of the function's type."""
        return self._users[place].results(rows)

    def clear(self, slots: Any) -> None:
        """Have slots begin anew, with nothing."""
        self.rows.array[slots] = 0
        for accumulator in self._accumulators:
            accumulator.clear(slots)

    def keep(self, slots: Any) -> None:
        """Have some slots only, numbered anew in the order given."""
        self.rows.keep(slots)
        for accumulator in self._accumulators:
            accumulator.keep(slots)

    def partials(self, slots: Any) -> list[Any]:
        """Return columns that stand for what slots have."""
        columns: list[Any] = [pa.array(self.rows.array[slots])]
        for accumulator in self._accumulators:
            columns += accumulator.partials(slots)
        return columns

    def add_partials(self, slots: Any, columns: Sequence[Any]) -> None:
        """Add rows of `partials`, in order."""
        np.add.at(self.rows.array, slots, as_numpy(columns[0]))
        start = 1
        for accumulator in self._accumulators:
            width = 1 if accumulator.partial_kinds is None else len(accumulator.partial_kinds)
            accumulator.add_partials(slots, columns[start : start + width])
            start += width

    def entries(self, slots: Any) -> list[tuple[Any, ...]]:
        """Return what slots have, as plain values."""
        parts = [accumulator.entries(slots) for accumulator in self._accumulators]
        return list(zip(self.rows.array[slots].tolist(), *parts, strict=True))

    def restore(self, slots: Any, entries: Sequence[tuple[Any, ...]]) -> None:
        """Take over what `entries` gave, into slots that have nothing yet."""
        if not entries:
            return
        rows, *parts = zip(*entries, strict=True)
        self.rows.array[slots] = rows
        for accumulator, part in zip(self._accumulators, parts, strict=True):
            accumulator.restore(slots, part)
