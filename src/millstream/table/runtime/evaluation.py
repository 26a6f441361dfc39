"""Expressions over an operator's columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.operators.base import OperatorContext
from millstream.table.expressions.compiling import ExpressionProgram, Setting
from millstream.table.expressions.rex import RowExpression, RowSchema
from millstream.table.functions.kernels.values import Value
from millstream.table.udf import FunctionContext
from millstream.types.numpy_views import as_numpy

__all__ = ["Expressions", "function_context"]


def function_context(context: OperatorContext) -> FunctionContext:
    """Return what users' functions are opened with."""
    return FunctionContext(
        context.metrics,
        dict(context.job_parameters),
        context.name,
        f"{context.name} ({context.subtask_index + 1}/{context.parallelism})",
        context.parallelism,
        context.max_parallelism,
        context.subtask_index,
        context.attempt,
    )


class Expressions:
    """Computes expressions of batches.

    Args:
        expressions: What is computed.
        schema: Columns that they are over.
        zone: The session's time zone.
        condition: Of the rows that `evaluate_kept` computes them for.

    Attributes:
        setting: What expressions know beside their operands.
    """

    def __init__(
        self,
        expressions: Sequence[RowExpression],
        schema: RowSchema,
        zone: str = "UTC",
        condition: RowExpression | None = None,
    ) -> None:
        self._program = ExpressionProgram(expressions, schema, condition)
        self.setting = Setting(zone=zone)
        self._context: OperatorContext | None = None

    def open(self, context: OperatorContext) -> None:
        """Make ready, before the first batch."""
        self._context = context
        self.setting.functions = function_context(context)
        self._program.open(self.setting)

    def close(self) -> None:
        """Close user functions."""
        self._program.close()

    def evaluate(self, columns: Sequence[pa.Array], count: int, watermark_ms: int | None = None) -> list[Any]:
        """Return a column for each expression."""
        self._set_time(watermark_ms)
        return _as_columns(self._program.evaluate_columns(columns, count), count)

    def evaluate_kept(
        self, columns: Sequence[pa.Array], count: int, watermark_ms: int | None = None
    ) -> tuple[list[Any], Any | None]:
        """Return a column for each expression, of the rows for which the condition is TRUE, and their places.

        None in place of the latter if these are all rows.
        """
        self._set_time(watermark_ms)
        values, mask = self._program.evaluate_kept(columns, count)
        if mask is None:
            return _as_columns(values, count), None
        places = np.flatnonzero(mask)
        return _as_columns(values, len(places)), places

    def _set_time(self, watermark_ms: int | None) -> None:
        assert self._context is not None, "expressions that were not opened"
        self.setting.now_ms = self._context.time.now_ms
        self.setting.watermark_ms = watermark_ms

    def holds(self, columns: Sequence[pa.Array], count: int) -> Any:
        """Return for each row whether the only expression, a condition, is TRUE; numpy's."""
        (column,) = self.evaluate(columns, count)
        return as_numpy(pc.fill_null(column, fill_value=False)).astype(bool, copy=False)


def _as_columns(values: Sequence[Value], count: int) -> list[Any]:
    return [pa.repeat(value, count) if isinstance(value, pa.Scalar) else value for value in values]
