"""The connectors `print`, which shows rows where the program runs, and `blackhole`, which drops them."""

from __future__ import annotations

from typing import Any

from millstream.operators.sink import PrintSpec
from millstream.table.connectors.base import SinkRequest, TableConnector
from millstream.table.connectors.conversion import DiscardSpec
from millstream.table.connectors.row_text import RowTextSpec
from millstream.table.plan.changes import ChangelogMode

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
        spec = PrintSpec(self.options.text("print-identifier"), self.options.flag("standard-error", False))
        texts = RowTextSpec(self.table.write_schema.types)
        named = stream._transform(f"{self.table.name}[rows]", texts)
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
