"""WATERMARK FOR at a table's source, split by split, as Flink pushes it there.

A subtask may read several splits (partitions of a topic), one ahead of another. Behind the source nobody can tell
them apart, so its watermarks are made there: of the record's columns, by the expression over all that is computed in
between ::

    source ──► columns by name ──► computed columns ──► WATERMARK FOR ts AS ts - INTERVAL '1' SECOND
      ▲                                                     │ as one expression over the names
      └─────────────────────────────────────────────────────┘

Where that cannot be (a user's function, what is not the same whenever it is computed, a conversion that is not by
name), watermarks are made behind, of a subtask's rows as they come.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from millstream.common.watermark_strategy import WatermarkAlignment, WatermarkStrategy
from millstream.operators.source import SourceSpec
from millstream.table.connectors.conversion import ToSqlSpec
from millstream.table.expressions.rex import (
    Call,
    RowExpression,
    RowSchema,
    inputs_of,
    map_inputs,
)
from millstream.table.functions.registry import is_deterministic
from millstream.table.plan.rewrite.substitute import substitute
from millstream.table.runtime import specs
from millstream.table.runtime.event_time import ExpressionWatermarks

__all__ = ["push_watermarks"]


def push_watermarks(
    transformation: Any,
    rowtime: RowExpression,
    watermark: RowExpression,
    idle_ms: int | None,
    zone: str,
    alignment: WatermarkAlignment | None = None,
) -> bool:
    """Have the source above an operator make a table's watermarks, if it can.

    Args:
        transformation: The operator whose columns the expressions are over; its source's spec is changed.
        rowtime: The event time of a row.
        watermark: The watermark of a row.
        idle_ms: After how long without rows a split counts as idle; None never.
        zone: The session's time zone.
        alignment: With which sources it is aligned; None with none.

    Returns:
        Whether it does; if not, nothing was changed.
    """
    expressions: Sequence[RowExpression] = (rowtime, watermark)
    while isinstance(transformation.spec, specs.CalcSpec):
        spec = transformation.spec
        if spec.condition is not None or len(transformation.inputs) != 1:
            return False
        expressions = [substitute(each, spec.expressions) for each in expressions]
        transformation = transformation.inputs[0].source
    if not isinstance(transformation.spec, ToSqlSpec) or not all(map(_hangs_on_the_row, expressions)):
        return False
    conversion = transformation.spec
    source = transformation.inputs[0].source
    if conversion.by_place or not isinstance(source.spec, SourceSpec):
        return False
    strategy = WatermarkStrategy(
        _over_names(conversion, expressions, zone), idle_timeout_ms=idle_ms, alignment=alignment
    )
    if source.spec.strategy == WatermarkStrategy.no_watermarks():
        source.spec = replace(source.spec, strategy=strategy)
    return bool(source.spec.strategy == strategy)  # a source that several queries read has it already


def _over_names(
    conversion: ToSqlSpec, expressions: Sequence[RowExpression], zone: str
) -> ExpressionWatermarks:
    """Return watermarks by expression with a conversion of the columns that the expressions read, and no others."""
    used = sorted(frozenset().union(*map(inputs_of, expressions)))
    names = tuple(conversion.names[place] for place in used)
    types = tuple(conversion.types[place] for place in used)
    rowtime, watermark = (map_inputs(each, used.index) for each in expressions)
    pruned = replace(conversion, names=names, types=types)
    return ExpressionWatermarks(pruned, RowSchema(names, types), rowtime, watermark, zone)


def _hangs_on_the_row(expression: RowExpression) -> bool:
    """Return whether an expression gives the same whenever it is computed, and costs no call of a user's function."""
    if not isinstance(expression, Call):
        return True
    if expression.user_function is not None or not is_deterministic(expression):
        return False
    return all(map(_hangs_on_the_row, expression.operands))
