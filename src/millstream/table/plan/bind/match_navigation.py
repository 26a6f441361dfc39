"""What conditions and measures of MATCH_RECOGNIZE may refer to: columns of variables, rows of a match, times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from millstream.base.errors import NotSupportedError
from millstream.table.errors import ValidationError
from millstream.table.expressions.rex import InputRef, RowExpression, RowSchema, inputs_of, map_inputs
from millstream.table.functions.registry import (
    aggregate_type,
    build_call,
    find_function,
    is_aggregate,
    is_window_only,
)
from millstream.table.functions.user import called_function
from millstream.table.plan.bind.expressions import ExpressionBinder, Extension
from millstream.table.plan.bind.placeholders import placeholder
from millstream.table.plan.bind.scope import Scope, ScopeColumn, type_with_nullability
from millstream.table.plan.matching import Navigation
from millstream.table.sql import ast
from millstream.types.datatypes import DataType, LocalZonedTimestampType, TimestampType

__all__ = ["NAVIGATION", "MatchNames", "MatchReferences", "Navigations"]

NAVIGATION = "$NAV"
"""A placeholder: the k-th navigation."""

AGGREGATES = ("COUNT", "SUM", "AVG", "MIN", "MAX")
"""Aggregates of the rows of a match that are there."""


@dataclass(frozen=True)
class MatchNames:
    """The names in sight. Column c of variable number v is place `(v + 1) * width + c`, of all rows place `c`.

    Attributes:
        scope: The names.
        variables: In order.
        width: How many columns the relation has.
        types: Of the columns.
    """

    scope: Scope
    variables: tuple[str, ...]
    width: int
    types: tuple[DataType, ...]

    @staticmethod
    def of(schema: RowSchema, variables: Sequence[str]) -> MatchNames:
        """Return the names of a relation's columns, plain and behind each variable."""
        width = len(schema)
        columns = [
            ScopeColumn(
                (variable,) if variable else (),
                name,
                number * width + place,
                type_with_nullability(schema.types[place], nullable=True),
                hidden=bool(variable),
            )
            for number, variable in enumerate(("", *variables))
            for place, name in enumerate(schema.names)
        ]
        return MatchNames(Scope(tuple(columns)), tuple(variables), width, schema.types)

    def variable_of(self, place: int) -> str:
        """Return the variable of a place; empty for all rows."""
        number = place // self.width
        return self.variables[number - 1] if number else ""


@dataclass
class Navigations:
    """The navigations of a clause, as they are found.

    Attributes:
        names: The names in sight.
        column: Returns the place of an expression over the relation's columns.
        time_type: Of the time attribute.
        items: Found so far.
    """

    names: MatchNames
    column: Callable[[RowExpression], int]
    time_type: DataType
    items: list[Navigation] = field(default_factory=list)

    def add(self, navigation: Navigation) -> int:
        """Return the number of a navigation."""
        if navigation not in self.items:
            self.items.append(navigation)
        return self.items.index(navigation)

    def last_of(self, reference: InputRef) -> int:
        """Return the number of what a plain column of a variable means: its value in the last row."""
        width = self.names.width
        place = reference.index % width
        column = self.column(InputRef(place, self.names.types[place]))
        return self.add(
            Navigation("LAST", self.names.variable_of(reference.index), column, 0, reference.type)
        )

    def located(self, expression: RowExpression, what: str, at: ast.Position | None) -> tuple[str, int]:
        """Return the variable that an expression is of, and the column that it is.

        Raises:
            ValidationError: If it refers to several variables.
        """
        names = self.names
        variables = sorted({names.variable_of(place) for place in inputs_of(expression)})
        if len(variables) > 1:
            shown = ", ".join(each or "all rows" for each in variables)
            raise ValidationError(
                f"{what} is of several pattern variables: {shown}",
                at=at,
                detail="It is of the rows of one variable, or of all rows.",
                hint="Let each column in it have the same variable before it.",
            )
        moved = map_inputs(expression, lambda place: place % names.width)
        if isinstance(moved, InputRef):
            moved = InputRef(moved.index, names.types[moved.index])
        return (variables or [""])[0], self.column(moved)


class MatchReferences(Extension):
    """Allows what refers to rows of a match.

    Args:
        clause: The place, for messages.
        found: Gets the navigations.
    """

    def __init__(self, clause: str, found: Navigations) -> None:
        super().__init__(clause)
        self._found = found
        self._inside = ""

    def bind_function(self, call: ast.Function, binder: ExpressionBinder) -> RowExpression | None:
        """Note a navigation."""
        name = call.name.upper()
        if call.over is not None:
            return super().bind_function(call, binder)
        if name in ("FIRST", "LAST"):
            return self._navigation(name, call, binder)
        if name in ("PREV", "NEXT"):
            return self._physical(name, call, binder)
        if name in ("RUNNING", "FINAL") and len(call.arguments) == 1:
            return binder.bind(call.arguments[0])  # the same where a match gives one row
        if name in ("CLASSIFIER", "MATCH_NUMBER"):
            raise ValidationError(
                f"{name}() is used in {self.clause}",
                at=call.at,
                detail=f"{name} is not supported in MATCH_RECOGNIZE.",
                hint="COUNT(A.column) > 0 tells whether a variable has rows."
                if name == "CLASSIFIER"
                else None,
            )
        if name == "MATCH_ROWTIME":
            return self._rowtime(call)
        if name == "MATCH_PROCTIME":
            return build_call("PROCTIME", [], call.at)
        if (is_aggregate(name) and not is_window_only(name)) or self._is_user_aggregate(call, binder):
            return self._aggregate(name, call, binder)
        return None

    def _once(self, call: ast.Function) -> None:
        if self._inside:
            raise ValidationError(
                f"{call.name} stands in {self._inside}",
                at=call.at,
                detail="FIRST, LAST and aggregates in MATCH_RECOGNIZE are of columns, not of each other.",
            )

    def _argument(self, call: ast.Function, binder: ExpressionBinder) -> RowExpression:
        self._once(call)
        self._inside = call.name
        try:
            return binder.bind(call.arguments[0])
        finally:
            self._inside = ""

    def _navigation(self, name: str, call: ast.Function, binder: ExpressionBinder) -> RowExpression:
        if not 1 <= len(call.arguments) <= 2 or call.distinct or call.filter is not None or call.star:
            raise ValidationError(
                f"{name} is used with {len(call.arguments)} arguments",
                at=call.at,
                detail=f"It is {name}(column) or {name}(column, rows), the rows a constant.",
            )
        offset = _offset(name, call)
        argument = self._argument(call, binder)
        variable, column = self._found.located(argument, f"{name}(...)", call.at)
        kind = type_with_nullability(argument.type, nullable=True)
        return self._noted(Navigation(name, variable, column, offset, kind))

    def _physical(self, name: str, call: ast.Function, binder: ExpressionBinder) -> RowExpression:
        if len(call.arguments) == 2 and _offset(name, call) == 0:
            return self._argument(call, binder)
        raise ValidationError(
            f"{name} is used in {self.clause}",
            at=call.at,
            detail="Physical offsets within a partition are not supported.",
            hint="LAST(A.column, 1) is the row of A before its last one.",
        )

    def _rowtime(self, call: ast.Function) -> RowExpression:
        if len(call.arguments) > 1:
            raise ValidationError("MATCH_ROWTIME has several arguments", at=call.at)
        local = isinstance(self._found.time_type, LocalZonedTimestampType)
        kind = (LocalZonedTimestampType if local else TimestampType)(3, nullable=False)
        return self._noted(Navigation("ROWTIME", "", None, 0, kind))

    def _aggregate(self, name: str, call: ast.Function, binder: ExpressionBinder) -> RowExpression:
        if called_function(call, binder.context.catalog) is not None or name not in AGGREGATES:
            raise NotSupportedError(
                f"the aggregate {call.name} in MATCH_RECOGNIZE",
                detail=f"There are: {', '.join(AGGREGATES)}.",
                hint="Aggregate the rows with GROUP BY or OVER in a subquery.",
            )
        self._check_plain_aggregate(name, call)
        if call.star or not call.arguments:
            self._once(call)
            kind = aggregate_type("COUNT", ())
            return self._noted(Navigation("COUNT", "", None, 0, kind))
        argument = self._argument(call, binder)
        variable, column = self._found.located(argument, f"{name}(...)", call.at)
        found = find_function(name)
        assert found is not None
        kind = aggregate_type(found.name, (argument.type,), may_be_empty=True, at=call.at)
        return self._noted(Navigation(name, variable, column, 0, kind))

    @staticmethod
    def _check_plain_aggregate(name: str, call: ast.Function) -> None:
        wrong = "DISTINCT" if call.distinct else "FILTER" if call.filter is not None else ""
        wrong = wrong or ("ORDER BY" if call.order else "")
        if wrong:
            raise ValidationError(
                f"{name} has {wrong} in MATCH_RECOGNIZE",
                at=call.at,
                detail="DISTINCT aggregations are not supported in MATCH_RECOGNIZE."
                if wrong == "DISTINCT"
                else "Aggregates there are of all rows of a variable.",
            )
        if len(call.arguments) > 1 or (call.star and name != "COUNT"):
            raise ValidationError(f"{name} has one argument", at=call.at)

    def _noted(self, navigation: Navigation) -> RowExpression:
        return placeholder(NAVIGATION, self._found.add(navigation), navigation.type)


def _offset(name: str, call: ast.Function) -> int:
    if len(call.arguments) < 2:
        return 0
    node = call.arguments[1]
    value = node.value if isinstance(node, ast.LiteralValue) else None
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValidationError(
            f"{name} has a number of rows that is no constant from 0", at=node.at or call.at
        )
    return value
