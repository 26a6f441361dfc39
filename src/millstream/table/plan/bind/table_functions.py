"""Table functions and UNNEST: calls that give rows."""

from __future__ import annotations

from typing import Any

from millstream.table.errors import ValidationError
from millstream.table.expressions.rex import Call, RowExpression, RowSchema
from millstream.table.functions.user import FunctionKind, called_function
from millstream.table.plan.bind.expressions import ExpressionBinder, Extension
from millstream.table.plan.bind.scope import Scope, type_with_nullability
from millstream.table.plan.context import PlanContext
from millstream.table.plan.logical import Correlate, JoinKind, LogicalNode
from millstream.table.sql import ast
from millstream.types.datatypes import ArrayType, DataType, IntType, MapType, RowField, RowType
from millstream.types.further_types import MultisetType

__all__ = ["bind_table_function", "correlate"]


def bind_table_function(
    context: PlanContext, call: ast.Function, scope: Scope, relations: Any
) -> tuple[Call, RowSchema]:
    """Return a bound call and the columns it gives.

    Raises:
        ValidationError: If there is no such function, or it does not take these arguments.
    """
    del relations
    binder = ExpressionBinder(context, scope, Extension(f"an argument of {call.name}"))
    operands = [binder.bind(each) for each in call.arguments]
    if call.name.startswith("UNNEST"):
        return _unnest(call, operands)
    definition = called_function(call, context.catalog)
    if definition is not None:
        from millstream.table.functions.user import build_user_call

        if definition.kind is FunctionKind.PROCESS_TABLE:  # one that takes no tables
            from millstream.table.functions.process_definition import as_table_function

            definition = as_table_function(definition)
        made = build_user_call(definition, operands, call.at)
        return _checked(made, call), _columns(made.type)
    from millstream.table.functions.registry import build_call

    bound = build_call(call.name, operands, call.at)
    return _checked(bound, call), _columns(bound.type)


def _checked(bound: RowExpression, call: ast.Function) -> Call:
    if not isinstance(bound, Call) or not _gives_rows(bound):
        raise ValidationError(
            f'"{call.name}" is no table function', at=call.at, hint="Call it in SELECT or WHERE."
        )
    return bound


def _gives_rows(call: Call) -> bool:
    if call.user_function is not None:
        return call.user_function.kind in (FunctionKind.TABLE, FunctionKind.TABLE_AGGREGATE)
    return call.function in (
        "STRING_SPLIT",
        "SPLIT",
        "UNNEST",
        "GENERATE_SERIES",
        "REPLICATE_ROWS",
        "JSON_TABLE",
    )


def _columns(data_type: DataType) -> RowSchema:
    if isinstance(data_type, RowType):
        return RowSchema(tuple(data_type.field_names()), tuple(data_type.field_types()))
    return RowSchema(("EXPR$0",), (data_type,))


def _unnest(call: ast.Function, operands: list[RowExpression]) -> tuple[Call, RowSchema]:
    fields: list[RowField] = []
    for operand in operands:
        fields += _elements(operand.type, call, len(fields))
    if call.name.endswith("ORDINALITY"):
        fields.append(RowField("ORDINALITY", IntType(nullable=False)))
    names = list(dict.fromkeys(each.name for each in fields))
    if len(names) != len(fields):
        fields = [RowField(f"f{place}", each.data_type) for place, each in enumerate(fields)]
    row = RowType(fields, nullable=False)
    return Call(call.name, tuple(operands), row), _columns(row)


def _elements(data_type: DataType, call: ast.Function, start: int) -> list[RowField]:
    if isinstance(data_type, MapType):
        return [RowField("KEY", data_type.key_type), RowField("VALUE", data_type.value_type)]
    if isinstance(data_type, (ArrayType, MultisetType)):
        element = data_type.element_type
        if isinstance(element, RowType):
            return [
                RowField(each.name, type_with_nullability(each.data_type, nullable=True))
                if element.nullable
                else each
                for each in element.fields
            ]
        return [RowField(f"f{start}" if start else "EXPR$0", element)]
    raise ValidationError(
        f"UNNEST was given {data_type}", at=call.at, detail="It takes ARRAY, MAP and MULTISET."
    )


def correlate(
    left: LogicalNode, call: Call, columns: RowSchema, kind: JoinKind, condition: RowExpression | None
) -> Correlate:
    """Return each row joined with what a table function gives."""
    right = columns.types
    if kind is JoinKind.LEFT:
        right = tuple(type_with_nullability(each, nullable=True) for each in right)
    below = left.schema
    schema = RowSchema(below.names + columns.names, below.types + right, below.rowtime, below.proctime)
    return Correlate(schema, left, call, kind, condition)
