"""The connectors `print`, which shows rows where the program runs, and `blackhole`, which drops them."""

from __future__ import annotations

from typing import Any

from millstream.base.errors import ConfigurationError
from millstream.operators.sink import PrintSpec
from millstream.table.connectors.base import SinkRequest, TableConnector
from millstream.table.connectors.conversion import DiscardSpec, FromSqlSpec
from millstream.table.plan.changes import ChangelogMode
from millstream.types.datatypes import RowField, RowType
from millstream.types.sql_types import row_type_info
from millstream.types.typeinfo import RowTypeInfo

__all__ = ["BlackholeConnector", "PrintConnector"]


class PrintConnector(TableConnector):
    """Prints `prefix> +I[1, a]`.

    Options: `print-identifier` (put before each row), `standard-error`, `sink.parallelism`.
    """

    name = "print"

    def check(self) -> None:
        """Check the options."""
        options = self.options
        options.text("print-identifier")
        options.flag("standard-error", False)
        options.integer("sink.parallelism", smallest=1)
        options.check_all_read()

    def accepts(self, mode: ChangelogMode) -> ChangelogMode:
        """Take any change."""
        return mode

    def sink(self, stream: Any, request: SinkRequest) -> Any:
        """Print each row with its kind."""
        self.check()
        schema = self.table.write_schema
        fields = [RowField(name, kind) for name, kind in zip(schema.names, schema.types, strict=True)]
        value_type = row_type_info(RowType(fields), RowTypeInfo)
        if value_type is None:
            raise ConfigurationError(
                f'table "{self.table.full_name}" has a column whose type cannot be printed'
            )
        names = FromSqlSpec(schema.names, schema.types, keeps_kinds=True)
        spec = PrintSpec(
            self.options.text("print-identifier"), self.options.flag("standard-error", False), value_type
        )
        named = stream._transform(f"{self.table.name}[rows]", names)
        ended = named._transform(f"Sink: {self.table.full_name}", spec)
        return with_parallelism(ended, self.options.integer("sink.parallelism", smallest=1))


class BlackholeConnector(TableConnector):
    """Drops rows; for measuring."""

    name = "blackhole"

    def check(self) -> None:
        """Check that there are no options."""
        self.options.check_all_read()

    def accepts(self, mode: ChangelogMode) -> ChangelogMode:
        """Take any change."""
        return mode

    def sink(self, stream: Any, request: SinkRequest) -> Any:
        """Drop each row."""
        self.check()
        return stream._transform(f"Sink: {self.table.full_name}", DiscardSpec())


def with_parallelism(stream: Any, parallelism: int | None) -> Any:
    """Set the parallelism of an operator that ends a stream, if one is given."""
    if parallelism is not None:
        stream.set_parallelism(parallelism)
    return stream
