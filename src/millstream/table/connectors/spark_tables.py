"""The connector `spark`: tables of the Spark session that jobs run in, as bounded sources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millstream.graph.launcher import spark_session
from millstream.table.connectors.base import TableConnector
from millstream.table.connectors.conversion import ToSqlSpec

__all__ = ["SparkConnector"]


class SparkConnector(TableConnector):
    """Reads a table or view of Spark's catalog.

    Spark writes the columns that are wanted to Parquet files when the job starts, a file for each of its partitions;
    the subtasks read several of them at a time. Later changes of the table are not seen by the job.

    ============  ==========================================
    option        meaning
    ============  ==========================================
    ``table``     name of the table in Spark, `database.name`
    ``location``  a directory for those files that all hosts share, as of `from_spark`
    ============  ==========================================
    """

    name = "spark"

    def check(self) -> None:
        """Check the options."""
        self.options.required("table", "default.orders")
        self.options.text("location")
        self.options.check_all_read()

    def is_bounded(self) -> bool:
        """Return True."""
        return True

    def scan(self, environment: Any, columns: Sequence[int]) -> Any:
        """Return the rows of the table."""
        self.check()
        table = self.table
        names = tuple(table.schema.names[place] for place in columns)
        types = tuple(table.schema.types[place] for place in columns)
        session = spark_session(environment._configuration)
        frame = session.table(self.options.required("table"))
        # Without a column Parquet files would not know how many rows they have.
        wanted = list(names) or [table.schema.names[0]]
        frame = frame.select(*("`" + name.replace("`", "``") + "`" for name in wanted))
        stream = environment.from_spark(
            frame, source_name=f"{table.name}[spark]", location=self.options.text("location")
        )
        return stream._transform(
            f"{table.name}[columns]", ToSqlSpec(names, types, f'table "{table.full_name}"')
        )
