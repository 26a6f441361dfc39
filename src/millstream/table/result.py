"""What executing a statement gives (PyFlink's `pyflink.table.table_result`), and how it is printed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any

from millstream.base.clock import SystemClock
from millstream.base.errors import JobExecutionError, NotSupportedError
from millstream.common.job_client import JobClient
from millstream.table.expressions.rex import RowSchema
from millstream.table.session.tableau import Tableau, print_line
from millstream.types.datatypes import DataType
from millstream.types.row import Row, RowKind

if TYPE_CHECKING:
    from millstream.table.catalog import ResolvedSchema
    from millstream.table.table_schema import TableSchema

__all__ = ["CloseableIterator", "ResultKind", "TableResult"]


class ResultKind(Enum):
    """What a result holds: SUCCESS nothing but "OK", SUCCESS_WITH_CONTENT rows.

    Example:
        >>> from millstream.table import EnvironmentSettings, TableEnvironment
        >>> t_env = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
        >>> t_env.execute_sql("CREATE TABLE t (id INT) WITH ('connector' = 'datagen')").get_result_kind()
        <ResultKind.SUCCESS: 0>
        >>> t_env.execute_sql("SHOW TABLES").get_result_kind()
        <ResultKind.SUCCESS_WITH_CONTENT: 1>
    """

    SUCCESS = 0
    SUCCESS_WITH_CONTENT = 1


class CloseableIterator:
    """Rows of a result, to be closed: that cancels the job unless it has ended. May be used in a `with` statement."""

    def __init__(self, rows: Iterator[Row], close: Callable[[], None]) -> None:
        self._rows = rows
        self._close = close

    def __iter__(self) -> CloseableIterator:
        return self

    def __next__(self) -> Row:
        return next(self._rows)

    def next(self) -> Row:
        """Return the next row.

        Raises:
            StopIteration: If there is none.
        """
        return next(self)

    def close(self) -> None:
        """Cancel the job unless it has ended."""
        self._close()

    def __enter__(self) -> CloseableIterator:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class TableResult:
    """The result of a statement.

    Args:
        kind: What it holds.
        schema: Names and types of its columns.
        batches: Gives the rows, as `(kinds, RecordBatch)`; asked once.
        job: The job that makes them; None if there is none.
        close: Ends the job.
        shows_kinds: Whether `print` shows the kind of each row.
        raw: The text that `print` shows instead of a table.
        fixed_widths: Whether columns are as wide as their types want, so that rows can be printed as they come.

    Example:
        >>> from millstream.common import Configuration
        >>> from millstream.table import TableEnvironment
        >>> options = {"execution.target": "local", "execution.runtime-mode": "BATCH"}
        >>> t_env = TableEnvironment.create(Configuration.from_dict(options))
        >>> result = t_env.execute_sql("SELECT id, id * 2 AS doubled FROM (VALUES (1), (2)) AS v (id)")
        >>> result.get_resolved_schema().get_column_names()
        ['id', 'doubled']
        >>> with result.collect() as rows:
        ...     [row["doubled"] for row in rows]
        [2, 4]
    """

    def __init__(
        self,
        kind: ResultKind,
        schema: RowSchema,
        batches: Callable[[], Iterator[tuple[Any, Any]]],
        *,
        job: JobClient | None = None,
        close: Callable[[], None] | None = None,
        shows_kinds: bool = False,
        raw: str | None = None,
        fixed_widths: bool = False,
        max_width: int = 30,
        zone: str = "UTC",
    ) -> None:
        self._kind = kind
        self._schema = schema
        self._batches = batches
        self._job = job
        self._close = close or (lambda: None)
        self._shows_kinds = shows_kinds
        self._raw = raw
        self._fixed_widths = fixed_widths
        self._max_width = max_width
        self._zone = zone
        self._taken = False

    @staticmethod
    def ok() -> TableResult:
        """Return the result of a statement that only does something."""
        from millstream.types.datatypes import VarCharType

        return TableResult(
            ResultKind.SUCCESS,
            RowSchema(("result",), (VarCharType(),)),
            lambda: _batches_of([("OK",)], [VarCharType()]),
            raw="OK",
        )

    @staticmethod
    def of_rows(
        columns: Sequence[tuple[str, DataType]], rows: Sequence[Sequence[Any]], raw: str | None = None
    ) -> TableResult:
        """Return rows that are known already."""
        schema = RowSchema(tuple(name for name, _ in columns), tuple(kind for _, kind in columns))
        return TableResult(
            ResultKind.SUCCESS_WITH_CONTENT, schema, lambda: _batches_of(rows, schema.types), raw=raw
        )

    def attach(self, job: JobClient, close: Callable[[], None]) -> None:
        """Have the result tell of a job."""
        self._job = job
        self._close = close

    def get_result_kind(self) -> ResultKind:
        """Return what it holds."""
        return self._kind

    @property
    def zone(self) -> str:
        """The time zone that moments are shown in."""
        return self._zone

    def get_job_client(self) -> JobClient | None:
        """Return the job's client; None if there is no job."""
        return self._job

    @property
    def schema(self) -> RowSchema:
        """Names and types of the columns, as the planner has them (millstream's own)."""
        return self._schema

    def get_resolved_schema(self) -> ResolvedSchema:
        """Return the columns with names and types."""
        from millstream.table.catalog import ResolvedSchema

        return ResolvedSchema.physical(self._schema.names, self._schema.types)

    def get_table_schema(self) -> TableSchema:
        """Return names and types of the columns."""
        from millstream.table.table_schema import TableSchema

        return TableSchema(self._schema.names, self._schema.types)

    def wait(self, timeout_ms: int | None = None) -> None:
        """Wait until the job has ended; of a query until its first row is there.

        Args:
            timeout_ms: How long at most; None without limit.

        Raises:
            JobExecutionError: If the job fails, or the time is over.
        """
        if self._job is None:
            return
        ends = self._job.get_job_execution_result()
        if timeout_ms is not None:
            clock = SystemClock()
            deadline = clock.monotonic() + timeout_ms / 1000
            while not ends.done():
                if clock.monotonic() > deadline:
                    raise JobExecutionError(f"the job did not end within {timeout_ms} ms")
                clock.wait(0.01)
        ends.result()

    def collect(self) -> CloseableIterator:
        """Return the rows as they come; each knows its kind. To be closed, at best by `with`."""
        return CloseableIterator(self._rows(), self._close)

    def collect_batches(self) -> Iterator[tuple[Any, Any]]:
        """Yield kinds (an int8 array, or None) and `pyarrow.RecordBatch`es as they come (millstream's own)."""
        if self._taken:
            raise NotSupportedError("a result was read twice", hint="Execute the statement again.")
        self._taken = True
        return self._batches()

    def print(self) -> None:
        """Print the result as Flink does; returns when the job has ended."""
        if self._raw is not None:
            self.wait()
            print_line(self._raw)
            return
        tableau = Tableau(
            self._schema,
            shows_kinds=self._shows_kinds,
            fixed_widths=self._fixed_widths,
            max_width=self._max_width,
            zone=self._zone,
        )
        try:
            tableau.print(self.collect_batches())
        except KeyboardInterrupt:
            self._close()
            raise

    def _rows(self) -> Iterator[Row]:
        from millstream.table.session.values import python_rows

        names = list(self._schema.names)
        for kinds, batch in self.collect_batches():
            for kind, values in python_rows(kinds, batch, self._schema.types):
                row = Row(*values)
                row.set_field_names(names)
                row.set_row_kind(RowKind(kind))
                yield row

    def __repr__(self) -> str:
        return f"TableResult({self._kind.name}, columns: {', '.join(self._schema.names)})"


def _batches_of(rows: Sequence[Sequence[Any]], types: Sequence[DataType]) -> Iterator[tuple[Any, Any]]:
    import pyarrow as pa

    from millstream.table.functions.types import arrow_type

    arrays = [pa.array([row[place] for row in rows], arrow_type(kind)) for place, kind in enumerate(types)]
    yield None, pa.record_batch(arrays, names=[f"f{place}" for place in range(len(types))])
