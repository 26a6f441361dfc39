"""Records gathered for the driver as columns: a tenth of what they take as objects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from millstream.formats.record_columns import RecordColumns, named
from millstream.operators.base import Operator, OperatorSpec
from millstream.operators.sink import CollectOperator
from millstream.operators.weight import estimate_bytes
from millstream.spi.batch import Batch, Columns
from millstream.types.typeinfo import TypeInformation

__all__ = ["CollectColumnsSpec"]


@dataclass(frozen=True)
class CollectColumnsSpec(OperatorSpec):
    """Declares that records are brought to the driver, as record batches if their type is declared, else as lists.

    Attributes:
        collect_id: Names what is collected, unique within the job.
        value_type: Declared type of the records, None if there is none.
    """

    collect_id: str
    value_type: TypeInformation | None = None
    takes_columns = True

    @property
    def collects(self) -> str:
        """The name."""
        return self.collect_id

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
        self._collected.append(collected)
        self._gathered_bytes += size_bytes
