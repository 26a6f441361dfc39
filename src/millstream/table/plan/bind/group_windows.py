"""The old group windows: `GROUP BY TUMBLE(time, INTERVAL ...)`, HOP and SESSION."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.table.errors import ValidationError
from millstream.table.expressions.rex import InputRef, Literal, RowExpression
from millstream.table.plan import nodes
from millstream.table.plan.bind.expressions import ExpressionBinder
from millstream.table.plan.logical import LogicalNode, WindowFunction, WindowKind
from millstream.table.sql import ast
from millstream.types.datatypes import DataType, LocalZonedTimestampType, TimestampType
from millstream.types.further_types import DayTimeIntervalType

__all__ = ["GroupWindow", "group_window_of", "interval_ms", "is_group_window"]

_KINDS = {"TUMBLE": WindowKind.TUMBLE, "HOP": WindowKind.HOP, "SESSION": WindowKind.SESSION}


def is_group_window(expression: object) -> bool:
    """Whether an item of GROUP BY is a window."""
    return isinstance(expression, ast.Function) and expression.name.upper() in _KINDS


@dataclass(frozen=True)
class GroupWindow:
    """A window of GROUP BY.

    Attributes:
        window: Over the relation that is grouped before its projection.
        time: The time attribute there.
    """

    window: WindowFunction
    time: RowExpression

    def over(self, source: LogicalNode, time: int) -> WindowFunction:
        """Return the window over a projection of the relation."""
        old = self.window
        return nodes.window_function(source, old.kind, time, old.size_ms, old.slide_ms, old.offset_ms)

    def property_type(self, what: str) -> DataType:
        """Return the type of START, END, ROWTIME or PROCTIME."""
        if what == "PROCTIME":
            return LocalZonedTimestampType(3, nullable=False)
        if what == "ROWTIME" and isinstance(self.time.type, LocalZonedTimestampType):
            return LocalZonedTimestampType(3, nullable=False)
        return TimestampType(3, nullable=False)


def group_window_of(call: ast.Function, binder: ExpressionBinder, relation: LogicalNode) -> GroupWindow:
    """Bind a window of GROUP BY.

    Raises:
        ValidationError: If its arguments do not fit.
    """
    kind = _KINDS[call.name.upper()]
    sizes = (2, 3) if kind is not WindowKind.HOP else (3, 4)
    if len(call.arguments) not in sizes:
        raise ValidationError(f"{call.name} has {len(call.arguments)} arguments", at=call.at)
    time = binder.bind(call.arguments[0])
    schema = relation.schema
    if not isinstance(time, InputRef) or time.index not in schema.rowtime | schema.proctime:
        raise ValidationError(
            f"the window {call.name} is by something that is no time attribute: {time.type}",
            at=call.arguments[0].at or call.at,
            detail="Windows are by a column with a WATERMARK, or one of PROCTIME().",
            hint="Declare WATERMARK FOR the column in CREATE TABLE.",
        )
    numbers = [interval_ms(binder.bind(each), call.name, each.at) for each in call.arguments[1:]]
    if kind is WindowKind.HOP:
        slide, size, offset = (*numbers, 0)[:3]
    else:
        size, offset = (*numbers, 0)[:2]
        slide = 0
    if size <= 0 or (kind is WindowKind.HOP and slide <= 0):
        raise ValidationError(f"the window {call.name} has no length", at=call.at)
    return GroupWindow(nodes.window_function(relation, kind, time.index, size, slide, offset), time)


def interval_ms(expression: RowExpression, name: str, at: ast.Position | None) -> int:
    """Return a constant span of time in milliseconds.

    Raises:
        ValidationError: If it is none.
    """
    if not isinstance(expression, Literal) or not isinstance(expression.type, DayTimeIntervalType):
        raise ValidationError(
            f"{name} was given {expression.type} where it takes a constant interval of days to seconds", at=at
        )
    return int(expression.value)
