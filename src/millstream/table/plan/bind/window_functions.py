"""Window table functions: `TABLE(TUMBLE(TABLE t, DESCRIPTOR(time), INTERVAL ...))`, HOP, CUMULATE, SESSION."""

from __future__ import annotations

from collections.abc import Callable

from millstream.table.errors import ValidationError, did_you_mean
from millstream.table.expressions.rex import InputRef
from millstream.table.plan import nodes
from millstream.table.plan.bind.expressions import ExpressionBinder, Extension
from millstream.table.plan.bind.group_windows import interval_ms
from millstream.table.plan.bind.scope import Scope
from millstream.table.plan.context import PlanContext
from millstream.table.plan.logical import LogicalNode, WindowKind
from millstream.table.sql import ast

__all__ = ["bind_window_function", "is_window_function"]

_PARAMETERS = {
    "TUMBLE": ("DATA", "TIMECOL", "SIZE", "OFFSET"),
    "HOP": ("DATA", "TIMECOL", "SLIDE", "SIZE", "OFFSET"),
    "CUMULATE": ("DATA", "TIMECOL", "STEP", "SIZE", "OFFSET"),
    "SESSION": ("DATA", "TIMECOL", "GAP"),
}
"""Parameters in order; the last OFFSET may be left out."""


def is_window_function(call: ast.Function) -> bool:
    """Whether a table function makes windows."""
    return call.name.upper() in _PARAMETERS


def bind_window_function(
    context: PlanContext, call: ast.Function, bind_relation: Callable[[ast.Relation], LogicalNode]
) -> LogicalNode:
    """Bind a window table function.

    Raises:
        ValidationError: If its arguments do not fit.
    """
    name = call.name.upper()
    given = _arguments(name, call)
    table = given["DATA"]
    if isinstance(table, ast.Subquery):
        table = ast.TableArgument(ast.Derived(table.query, at=table.at), at=table.at)
    if not isinstance(table, ast.TableArgument):
        raise ValidationError(
            f"the first argument of {name} is no table",
            at=call.at,
            hint="Write TABLE before its name, or a query in parentheses.",
        )
    source = bind_relation(table.relation)
    time = _time(name, given["TIMECOL"], source, call)
    binder = ExpressionBinder(context, Scope.of(source.schema), Extension(name))
    spans = {
        key: interval_ms(binder.bind(value), name, value.at or call.at)
        for key, value in given.items()
        if key not in ("DATA", "TIMECOL")
    }
    partition = []
    for each in table.partition:
        bound = binder.bind(each)
        if not isinstance(bound, InputRef):
            raise ValidationError(f"PARTITION BY of {name} names no column", at=each.at)
        partition.append(bound.index)
    if partition and name != "SESSION":
        raise ValidationError(f"{name} has PARTITION BY", at=call.at, detail="Only SESSION has partitions.")
    size = spans.get("SIZE", spans.get("GAP", 0))
    slide = spans.get("SLIDE", spans.get("STEP", 0))
    _check_sizes(name, size, slide, call)
    return nodes.window_function(
        source, WindowKind[name], time, size, slide, spans.get("OFFSET", 0), partition
    )


def _check_sizes(name: str, size: int, slide: int, call: ast.Function) -> None:
    if size <= 0 or (name in ("HOP", "CUMULATE") and slide <= 0):
        raise ValidationError(f"{name} has a length of 0 or less", at=call.at)
    if name == "CUMULATE" and size % slide:
        raise ValidationError(
            f"{name} has a size of {size} ms and a step of {slide} ms",
            at=call.at,
            detail="The size is a multiple of the step.",
        )


def _arguments(name: str, call: ast.Function) -> dict[str, ast.Expression]:
    parameters = _PARAMETERS[name]
    found: dict[str, ast.Expression] = {}
    for place, argument in enumerate(call.arguments):
        if isinstance(argument, ast.NamedArgument):
            key = argument.name.upper()
            if key not in parameters:
                raise ValidationError(
                    f'{name} has no parameter "{argument.name}"',
                    at=argument.at,
                    detail=f"It has: {', '.join(parameters)}.",
                    hint=did_you_mean(argument.name, parameters),
                )
            found[key] = argument.value
        elif place < len(parameters):
            found[parameters[place]] = argument
        else:
            raise ValidationError(f"{name} has {len(call.arguments)} arguments", at=call.at)
    if name == "SESSION" and "GAP" not in found:
        found = {("GAP" if key == "SIZE" else key): value for key, value in found.items()}
    missing = [each for each in parameters if each not in found and each != "OFFSET"]
    if missing:
        raise ValidationError(
            f"{name} lacks the argument {missing[0]}",
            at=call.at,
            detail=f"It takes: {', '.join(parameters)}; OFFSET may be left out.",
        )
    return found


def _time(name: str, descriptor: ast.Expression, source: LogicalNode, call: ast.Function) -> int:
    if not isinstance(descriptor, ast.Descriptor) or len(descriptor.columns) != 1:
        raise ValidationError(
            f"the time column of {name} is no DESCRIPTOR of one column", at=descriptor.at or call.at
        )
    column, names = descriptor.columns[0], source.schema.names
    if column not in names:
        raise ValidationError(
            f'column "{column}" was not found in the table of {name}',
            at=descriptor.at or call.at,
            detail=f"There are: {', '.join(names)}.",
            hint=did_you_mean(column, names),
        )
    place = names.index(column)
    if place not in source.schema.rowtime | source.schema.proctime:
        raise ValidationError(
            f'the window function {name} requires a time attribute, but "{column}" is {source.schema.types[place]}',
            at=descriptor.at or call.at,
            detail="A time attribute is a column with a WATERMARK, or one of PROCTIME().",
            hint=f"Declare WATERMARK FOR {column} AS ... in CREATE TABLE.",
        )
    return place
