"""Scalar expressions: from the tree of a text to typed expressions over one row.

What is more than an expression of a row (aggregates, OVER, subqueries, properties of windows) goes to an `Extension`,
which notes it and gives a placeholder back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from millstream.table.errors import ValidationError
from millstream.table.expressions.rex import Call, Literal, RowExpression
from millstream.table.functions.registry import build_call, build_cast, is_aggregate, is_window_only
from millstream.table.functions.user import called_function
from millstream.table.plan.bind.scope import Scope, field_of
from millstream.table.plan.context import PlanContext
from millstream.table.sql import ast
from millstream.types.datatypes import BooleanType, DataType
from millstream.types.further_types import DayTimeIntervalType, NullType, YearMonthIntervalType

__all__ = ["ExpressionBinder", "Extension", "boolean", "interval_type", "null_literal"]


class Extension:
    """What a place of a query allows beyond expressions of a row; this one: nothing.

    Args:
        clause: The place, for messages (`WHERE`).
    """

    def __init__(self, clause: str) -> None:
        self.clause = clause

    def bind_function(self, call: ast.Function, binder: ExpressionBinder) -> RowExpression | None:
        """Return a placeholder for a call that is no plain function; None if it is one.

        Raises:
            ValidationError: If such a call may not stand here.
        """
        if call.over is not None:
            raise ValidationError(
                f'"{call.name}" has OVER in {self.clause}',
                at=call.at,
                detail="OVER may stand in SELECT and ORDER BY.",
                hint="Compute it in a subquery and refer to its column.",
            )
        if is_aggregate(call.name) or self._is_user_aggregate(call, binder):
            raise ValidationError(
                f'aggregate function "{call.name}" was used in {self.clause}',
                at=call.at,
                detail="Aggregates may stand in SELECT, HAVING and ORDER BY.",
                hint="Use HAVING." if self.clause == "WHERE" else None,
            )
        return None

    def bind_subquery(
        self, node: ast.InQuery | ast.Exists | ast.Subquery, binder: ExpressionBinder
    ) -> RowExpression:
        """Return a placeholder for a subquery.

        Raises:
            ValidationError: If none may stand here.
        """
        raise ValidationError(f"a subquery was used in {self.clause}", at=node.at)

    @staticmethod
    def _is_user_aggregate(call: ast.Function, binder: ExpressionBinder) -> bool:
        found = called_function(call, binder.context.catalog)
        return found is not None and bool(getattr(found, "is_aggregate", False))


class ExpressionBinder:
    """Binds expressions over one scope.

    Args:
        context: The query's surroundings.
        scope: The columns in sight.
        extension: What else the place allows.
    """

    def __init__(self, context: PlanContext, scope: Scope, extension: Extension) -> None:
        self.context = context
        self.scope = scope
        self.extension = extension

    def bind(self, node: ast.Expression) -> RowExpression:
        """Return the typed expression.

        Raises:
            ValidationError: If a name or a type does not fit; says where.
        """
        method = self._METHODS.get(type(node))
        if method is None:
            raise ValidationError(
                f"{type(node).__name__} cannot stand in {self.extension.clause}", at=node.at
            )
        return method(self, node)

    def condition(self, node: ast.Expression) -> RowExpression:
        """Return a BOOLEAN expression.

        Raises:
            ValidationError: If it is of another type.
        """
        bound = self.bind(node)
        if isinstance(bound, Literal) and bound.value is None:
            return build_cast(bound, BooleanType())
        if not isinstance(bound.type, BooleanType):
            raise ValidationError(
                f"the condition of {self.extension.clause} is {bound.type}, not BOOLEAN", at=node.at
            )
        return bound

    def call(self, name: str, operands: Sequence[RowExpression], at: ast.Position | None) -> RowExpression:
        """Return a call of a built-in function."""
        return build_call(name, operands, at)

    # --- kinds of nodes

    def _column(self, node: ast.Column) -> RowExpression:
        return self.scope.resolve(node.parts, node.at)

    def _literal(self, node: ast.LiteralValue) -> RowExpression:
        return null_literal() if node.type is None else Literal(node.value, node.type)

    def _interval(self, node: ast.IntervalLiteral) -> RowExpression:
        return Literal(node.value, interval_type(months=node.months))

    def _operator(self, node: ast.Operator) -> RowExpression:
        return self.call(node.name, [self.bind(each) for each in node.operands], node.at)

    def _is_test(self, node: ast.IsTest) -> RowExpression:
        name = f"IS {'NOT ' if node.negated else ''}{node.test}"
        return self.call(name, [self.bind(node.operand)], node.at)

    def _between(self, node: ast.Between) -> RowExpression:
        value, low, high = map(self.bind, (node.operand, node.low, node.high))
        inside = self._within(value, low, high, node.at)
        if node.symmetric:
            inside = self.call("OR", [inside, self._within(value, high, low, node.at)], node.at)
        return self._negated(inside, node)

    def _within(
        self, value: RowExpression, low: RowExpression, high: RowExpression, at: ast.Position | None
    ) -> RowExpression:
        sides = [self.call(">=", [value, low], at), self.call("<=", [value, high], at)]
        return self.call("AND", sides, at)

    def _like(self, node: ast.Like) -> RowExpression:
        operands = [self.bind(node.operand), self.bind(node.pattern)]
        if node.escape is not None:
            operands.append(self.bind(node.escape))
        return self._negated(self.call("SIMILAR TO" if node.similar else "LIKE", operands, node.at), node)

    def _in_list(self, node: ast.InList) -> RowExpression:
        value = self.bind(node.operand)
        options = [self.bind(each) for each in node.options]
        if all(isinstance(each, Literal) for each in options):
            return self._negated(self.call("IN", [value, *options], node.at), node)
        found = self.call("=", [value, options[0]], node.at)
        for each in options[1:]:
            found = self.call("OR", [found, self.call("=", [value, each], node.at)], node.at)
        return self._negated(found, node)

    def _negated(self, bound: RowExpression, node: Any) -> RowExpression:
        return self.call("NOT", [bound], node.at) if node.negated else bound

    def _case(self, node: ast.Case) -> RowExpression:
        operand = None if node.operand is None else self.bind(node.operand)
        parts: list[RowExpression] = []
        for condition, value in node.branches:
            if operand is None:
                parts.append(self.condition(condition))
            else:
                parts.append(self.call("=", [operand, self.bind(condition)], condition.at))
            parts.append(self.bind(value))
        parts.append(null_literal() if node.default is None else self.bind(node.default))
        return self.call("CASE", parts, node.at)

    def _cast(self, node: ast.Cast) -> RowExpression:
        operand = self.bind(node.operand)
        try:
            return build_cast(operand, node.type, attempt=node.attempt)
        except ValidationError as error:
            error.position = error.position or node.at
            raise

    def _function(self, node: ast.Function) -> RowExpression:
        special = self.extension.bind_function(node, self)
        if special is not None:
            return special
        if node.name == "FIELD" and isinstance(node.arguments[1], ast.LiteralValue):
            return field_of(self.bind(node.arguments[0]), str(node.arguments[1].value), node.at)
        self._check_plain(node)
        operands = [self.bind(each) for each in node.arguments]
        return build_function(self.context, node, operands)

    def _check_plain(self, node: ast.Function) -> None:
        if is_window_only(node.name):
            raise ValidationError(
                f'"{node.name}" was used without OVER', at=node.at, hint=f"Write {node.name}(...) OVER (...)."
            )
        wrong = "DISTINCT" if node.distinct else "FILTER" if node.filter is not None else ""
        wrong = wrong or ("WITHIN GROUP" if node.order else "") or ("*" if node.star else "")
        if wrong:
            raise ValidationError(
                f'"{node.name}" was used with {wrong}', at=node.at, detail="It is no aggregate function."
            )

    def _subquery(self, node: Any) -> RowExpression:
        return self.extension.bind_subquery(node, self)

    def _named(self, node: ast.NamedArgument) -> RowExpression:
        return self.bind(node.value)

    def _star(self, node: ast.Star) -> RowExpression:
        raise ValidationError(
            f"* was used in {self.extension.clause}", at=node.at, detail="It may stand in SELECT."
        )

    def _descriptor(self, node: ast.Descriptor) -> RowExpression:
        raise ValidationError(
            "DESCRIPTOR was used as a value",
            at=node.at,
            detail="It names columns of a table function's table.",
        )

    _METHODS: ClassVar[dict[type[ast.Expression], Callable[[Any, Any], RowExpression]]] = {
        ast.Between: _between,
        ast.Case: _case,
        ast.Cast: _cast,
        ast.Column: _column,
        ast.Descriptor: _descriptor,
        ast.Exists: _subquery,
        ast.Function: _function,
        ast.InList: _in_list,
        ast.InQuery: _subquery,
        ast.IntervalLiteral: _interval,
        ast.IsTest: _is_test,
        ast.Like: _like,
        ast.LiteralValue: _literal,
        ast.NamedArgument: _named,
        ast.Operator: _operator,
        ast.Star: _star,
        ast.Subquery: _subquery,
    }


def build_function(
    context: PlanContext, node: ast.Function, operands: Sequence[RowExpression]
) -> RowExpression:
    """Return a call of a user's function of that name, else of the built-in one.

    Raises:
        ValidationError: If there is none, or it does not take these arguments.
    """
    definition = called_function(node, context.catalog)
    if definition is not None:
        from millstream.table.functions.user import build_user_call

        return build_user_call(definition, operands, node.at)
    if node.clauses:
        build: Callable[..., RowExpression] = build_call
        return build(node.name, operands, node.at, clauses=node.clauses)
    return build_call(node.name, operands, node.at)


def boolean(*, nullable: bool) -> DataType:
    """Return BOOLEAN."""
    return BooleanType(nullable)


def null_literal() -> Literal:
    """Return NULL without a type of its own."""
    return Literal(None, NullType())


def interval_type(*, months: bool) -> DataType:
    """Return the type of interval literals."""
    return YearMonthIntervalType(nullable=False) if months else DayTimeIntervalType(nullable=False)


def constant(expression: RowExpression) -> Any:
    """Return the value of an expression without columns; raises if it has some."""
    from millstream.table.expressions.compiling import constant_value

    return constant_value(expression)


def is_placeholder(expression: RowExpression) -> bool:
    """Whether an expression stands for something that is computed elsewhere."""
    return isinstance(expression, Call) and expression.function.startswith("$")
