"""The writer half of the Delta sink: what it has to know of the table."""

from __future__ import annotations

from millstream.base.errors import ConfigurationError
from millstream.connectors.delta.columns import can_partition
from millstream.connectors.delta.table import Table, columns_of, name_of
from millstream.connectors.staged_parquet import Layout, ParquetStagingWriter
from millstream.formats.row_columns import RowColumns
from millstream.spi.sink import WriterContext
from millstream.types.datatypes import RowType

__all__ = ["DeltaWriter", "check_partitions", "find_layout"]


def check_partitions(row_type: RowType, partition_columns: tuple[str, ...]) -> None:
    """See whether rows can be written to a table that is partitioned so.

    Raises:
        ConfigurationError: If not.
    """
    types = {field.name: field.data_type for field in row_type}
    for name in partition_columns:
        if name not in types:
            raise ConfigurationError(
                f"partition column {name!r} is no field of the records",
                detail=f"These are {', '.join(types)}.",
            )
        if not can_partition(types[name]):
            raise ConfigurationError(
                f"a Delta table is not partitioned by column {name!r} of the type {types[name]}",
                hint="Partition by texts, whole numbers, dates or booleans.",
            )
    if len(types) == len(partition_columns):
        raise ConfigurationError("a Delta table needs a column that it is not partitioned by")


def find_layout(path: str, row_type: RowType | None, partition_columns: tuple[str, ...] | None) -> Layout:
    """Look at a table.

    Raises:
        SinkError: If there is none, or it is not as the sink was told.
        NotSupportedError: If such tables are not written.
    """
    table = Table(path)
    table.refuse_computed()
    found = table.row_type() if row_type is None else row_type
    partitions = table.partition_columns if partition_columns is None else partition_columns
    columns = columns_of(RowColumns(found).schema)
    table.check_fits(columns, partitions)
    table.check_nulls([field.name for field in found if field.data_type.nullable])
    check_partitions(found, partitions)
    return Layout(path, found, partitions, columns)


class DeltaWriter(ParquetStagingWriter):
    """Stages the records of one subtask."""

    def __init__(
        self,
        path: str,
        row_type: RowType | None,
        partition_columns: tuple[str, ...] | None,
        application: str,
        context: WriterContext,
    ) -> None:
        super().__init__(name_of(path), application, context)
        self._declared = path, row_type, partition_columns

    def find_layout(self) -> Layout:
        """Look at the table."""
        return find_layout(*self._declared)
