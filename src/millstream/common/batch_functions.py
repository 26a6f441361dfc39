"""Functions of whole batches with keyed state; PyFlink has none."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from millstream.common.functions import Function
from millstream.common.state import ValueState

__all__ = ["KeyedBatchFunction"]


class KeyedBatchFunction(Function):
    """Processes the rows of one key group at a time; `KeyedStream.process_batches` takes it.

    Example:
        >>> import pandas
        >>> from millstream.common import Row, Types
        >>> from millstream.datastream.functions import KeyedBatchFunction
        >>> from millstream.datastream.state import ValueStateDescriptor
        >>> from millstream.testing import MiniCluster
        >>> class Totals(KeyedBatchFunction):
        ...     def open(self, runtime_context):
        ...         self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))
        ...     def process_batch(self, frame: pandas.DataFrame, ctx):
        ...         prices = frame.groupby("user", sort=False)["price"].sum()
        ...         users = prices.index.tolist()
        ...         before = [value or 0 for value in ctx.values(self.total, users)]
        ...         totals = (prices + before).tolist()
        ...         ctx.update(self.total, users, totals)
        ...         return pandas.DataFrame({"user": users, "total": totals})
        >>> with MiniCluster() as cluster:
        ...     sales = [Row(user="ann", price=3), Row(user="bob", price=5), Row(user="ann", price=4)]
        ...     keyed = cluster.environment().from_collection(sales).key_by("user")
        ...     cluster.collect(keyed.process_batches(Totals()))[-1]
        Row(user='ann', total=7)
    """

    class Context(ABC):
        """What a call may use: keys, and the states that `open` asked for; valid during the call.

        Attributes:
            key_group: The key group of the rows.
        """

        key_group: int

        @abstractmethod
        def row_keys(self) -> list[Any]:
            """Return the key of each row: the key field's value, a tuple of several."""

        @abstractmethod
        def set_current_key(self, key: Any) -> None:
            """Choose the key that states act on; one of those of the rows.

            Raises:
                StateAccessError: If the key belongs to another key group.
            """

        @abstractmethod
        def values(self, state: ValueState[Any], keys: Sequence[Any]) -> list[Any]:
            """Return the value that a state has for each key, None where it has none.

            Raises:
                StateAccessError: If a key belongs to another key group.
            """

        @abstractmethod
        def update(self, state: ValueState[Any], keys: Sequence[Any], values: Sequence[Any]) -> None:
            """Set a state's value for each key; None clears it.

            Raises:
                StateAccessError: If a key belongs to another key group.
                ValueError: If there are not as many values as keys.
            """

    @abstractmethod
    def process_batch(self, batch: Any, ctx: Context) -> Any:
        """Process some rows of one key group, all that a batch has of it.

        Args:
            batch: In the form that the parameter is annotated with; a `pyarrow.RecordBatch` without annotation.
            ctx: Keys and state.

        Returns:
            A batch in any form, or None for nothing.
        """
