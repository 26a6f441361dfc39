"""The connector `collect`, and how the rows of a query come to the program."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from millstream.operators.base import Operator
from millstream.operators.sink import CollectOperator, CollectSpec
from millstream.spi.batch import Batch, Columns
from millstream.table.connectors.base import SinkRequest, TableConnector
from millstream.table.plan.changes import ChangelogMode

__all__ = ["CollectConnector", "CollectSqlSpec", "CollectedBatch"]


@dataclass(frozen=True, slots=True)
class CollectedBatch:
    """Rows of a query on their way to the program.

    Attributes:
        data: A `pyarrow.RecordBatch`.
        kinds: Kinds of the rows, an int8 array; None if all are inserted.
    """

    data: Any
    kinds: Any


@dataclass(frozen=True)
class CollectSqlSpec(CollectSpec):
    """Declares that the columns of a query are brought to the program, as `CollectedBatch`."""

    takes_columns = True

    def build(self) -> Operator:
        """Make the running half."""
        return _CollectSql()


class _CollectSql(CollectOperator):
    def process(self, batch: Batch) -> None:
        """Gather a batch."""
        assert isinstance(batch, Columns), "streams of SQL are columns"
        if len(batch):
            self._collected.append(CollectedBatch(batch.data, batch.kinds))
            self._gathered_bytes += batch.nbytes


class CollectConnector(TableConnector):
    """A sink whose rows the program reads: `results(name)` after the job has begun.

    Option: `name`, under which the rows are found; the table's name by default.
    """

    name = "collect"

    def check(self) -> None:
        """Check the options."""
        self.options.text("name")
        self.options.check_all_read()

    def accepts(self, mode: ChangelogMode) -> ChangelogMode:
        """Take any change."""
        return mode

    def sink(self, stream: Any, request: SinkRequest) -> Any:
        """Bring the rows to the program."""
        self.check()
        collect_id = self.options.text("name") or self.table.name
        return stream._transform(f"Sink: {self.table.full_name}", CollectSqlSpec(collect_id))


def collected_rows(batches: Iterator[CollectedBatch]) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Yield kind and values of each row of batches that come."""
    for batch in batches:
        columns = [column.to_pylist() for column in batch.data.columns]
        count = batch.data.num_rows
        rows = list(zip(*columns, strict=True)) if columns else [()] * count
        kinds = [0] * count if batch.kinds is None else batch.kinds.to_pylist()
        yield from zip(kinds, rows, strict=True)
