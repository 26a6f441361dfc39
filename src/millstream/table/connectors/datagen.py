"""The connector `datagen`: rows of random values or of sequences (options in `table/datagen.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millstream.common.watermark_strategy import WatermarkStrategy
from millstream.spi.source import Boundedness
from millstream.table.connectors.base import TableConnector
from millstream.table.connectors.conversion import ToSqlSpec
from millstream.table.datagen import build_datagen_source
from millstream.table.schema import Schema
from millstream.table.table_descriptor import TableDescriptor

__all__ = ["DatagenConnector"]


class DatagenConnector(TableConnector):
    """Makes rows: a value depends on its row's number and a seed only."""

    name = "datagen"

    def _source(self) -> Any:
        schema = Schema(
            [(column.name, column.type) for column in self.table.physical if column.type is not None]
        )
        options = {key: value for key, value in self.table.options.items() if key != "connector"}
        return build_datagen_source(TableDescriptor("datagen", schema, options))

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
        stream = environment.from_source(
            self._source(), WatermarkStrategy.no_watermarks(), f"{self.table.name}[datagen]"
        )
        parallelism = self.options.integer("scan.parallelism", smallest=1)
        if parallelism is not None:
            stream.set_parallelism(parallelism)
        names = tuple(schema.names[place] for place in columns)
        types = tuple(schema.types[place] for place in columns)
        spec = ToSqlSpec(names, types, f'table "{self.table.full_name}"')
        return stream._transform(f"{self.table.name}[columns]", spec)
