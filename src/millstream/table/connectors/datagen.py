"""The connector `datagen`: rows of random values or of sequences (options in `table/datagen.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from millstream.common.watermark_strategy import WatermarkStrategy
from millstream.operators.base import Operator, OperatorSpec
from millstream.spi.batch import Batch, Columns
from millstream.spi.source import Boundedness
from millstream.table.connectors.base import TableConnector
from millstream.table.datagen import build_datagen_columns, build_datagen_source
from millstream.table.functions.python_values import from_python
from millstream.table.runtime.changes import columns_batch
from millstream.table.schema import Schema
from millstream.table.table_descriptor import TableDescriptor
from millstream.types.datatypes import DataType

__all__ = ["DatagenConnector"]


@dataclass(frozen=True)
class GeneratedColumnsSpec(OperatorSpec):
    """Declares that rows of Python values become columns of SQL: exactly these, named f0, f1, ...

    Attributes:
        names: Names of the fields in the rows, in the order of the columns.
        types: Of the columns.
    """

    names: tuple[str, ...]
    types: tuple[DataType, ...]
    takes_columns = True

    def build(self) -> Operator:
        """Make the running half."""
        return _GeneratedColumns(self)


class _GeneratedColumns(Operator):
    def __init__(self, spec: GeneratedColumnsSpec) -> None:
        self._spec = spec

    def process(self, batch: Batch) -> None:
        """Convert a batch."""
        if isinstance(batch, Columns):  # as they are to be
            self.output.emit(batch)
            return
        rows = batch.to_rows().values
        arrays = [
            from_python([row[name] for row in rows], kind, "datagen")
            for name, kind in zip(self._spec.names, self._spec.types, strict=True)
        ]
        self.output.emit(columns_batch(arrays, None, len(rows)))


class DatagenConnector(TableConnector):
    """Makes rows: a value depends on its row's number, the time of row 0 and a seed only."""

    name = "datagen"

    def _described(self) -> TableDescriptor:
        schema = Schema(
            [(column.name, column.type) for column in self.table.physical if column.type is not None]
        )
        options = {key: value for key, value in self.table.options.items() if key != "connector"}
        return TableDescriptor("datagen", schema, options)

    def _source(self) -> Any:
        return build_datagen_source(self._described())

    def check(self) -> None:
        """Check the options, by making the source."""
        self._source()

    def is_bounded(self) -> bool:
        """Return whether a number of rows, or a sequence, ends it."""
        bounded: bool = self._source().get_boundedness() is Boundedness.BOUNDED
        return bounded

    def scan(self, environment: Any, columns: Sequence[int]) -> Any:
        """Return the rows."""
        self.check_metadata()
        schema = self.table.schema
        names = tuple(schema.names[place] for place in columns)
        source = build_datagen_columns(self._described(), names) if names else None
        stream = environment.from_source(
            self._source() if source is None else source,
            WatermarkStrategy.no_watermarks(),
            f"{self.table.name}[datagen]",
        )
        parallelism = self.options.integer("scan.parallelism", smallest=1)
        if parallelism is not None:
            stream.set_parallelism(parallelism)
        types = tuple(schema.types[place] for place in columns)
        spec = GeneratedColumnsSpec(names, types)
        return stream._transform(f"{self.table.name}[columns]", spec)
