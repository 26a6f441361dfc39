"""Records gathered for the driver as columns: a tenth of what they take as objects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from millstream.formats.record_columns import RecordColumns, named
from millstream.operators.base import Operator
from millstream.operators.sink import CollectOperator, CollectSpec
from millstream.operators.weight import estimate_bytes
from millstream.spi.batch import Batch, Columns
from millstream.types.arrow_values import records_of
from millstream.types.typeinfo import TypeInformation

__all__ = ["CollectColumnsSpec", "Gathered"]


@dataclass(frozen=True, slots=True)
class Gathered:
    """Some records on their way to the driver.

    Attributes:
        data: A `pyarrow.RecordBatch`, or the records themselves.
    """

    data: Any

    def records(self) -> list[Any]:
        """Return the records."""
        return self.data if isinstance(self.data, list) else records_of(self.data)


@dataclass(frozen=True)
class CollectColumnsSpec(CollectSpec):
    """Declares that records are brought to the driver, `Gathered`: columns if their type is declared, or they are some.

    Attributes:
        value_type: Declared type of the records, None if there is none.
    """

    value_type: TypeInformation | None = None
    takes_columns = True

    def build(self) -> Operator:
        """Make the running half."""
        return CollectColumnsOperator(self.value_type)


class CollectColumnsOperator(CollectOperator):
    """Gathers batches for the driver."""

    def __init__(self, value_type: TypeInformation | None) -> None:
        super().__init__()
        columns = RecordColumns(value_type)
        # Of values that are not declared each subtask would find types of its own: the driver sees all.
        self._columns = columns if columns.schema is not None else None

    def process(self, batch: Batch) -> None:
        """Gather a batch."""
        if type(batch) is Columns:
            data = named(batch.data) if self._columns is None else self._columns.stored(batch.data)
            self._gather(data, data.nbytes)
            return
        values = batch.to_rows().values
        if self._columns is None:
            self._gather(values, estimate_bytes(values))
        else:
            data = self._columns.batch(values)
            self._gather(data, data.nbytes)

    def _gather(self, collected: Any, size_bytes: int) -> None:
        self._collected.append(Gathered(collected))
        self._gathered_bytes += size_bytes
