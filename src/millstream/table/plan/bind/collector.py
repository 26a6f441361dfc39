"""Notes the aggregates, OVERs, subqueries and window properties in a SELECT's expressions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from millstream.table.errors import ValidationError
from millstream.table.expressions.rex import RowExpression
from millstream.table.functions.registry import aggregate_type, find_function, is_aggregate, is_window_only
from millstream.table.functions.user import called_function
from millstream.table.plan.bind.expressions import ExpressionBinder, Extension
from millstream.table.plan.bind.null_treatment import null_treatment
from millstream.table.plan.bind.placeholders import AGGREGATE, GROUPING, OVER, WINDOW, placeholder
from millstream.table.plan.bind.scope import Scope
from millstream.table.plan.bind.subqueries import Pending, Subqueries
from millstream.table.plan.logical import LogicalNode
from millstream.table.sql import ast
from millstream.types.datatypes import BigIntType, DataType

__all__ = ["BoundAggregate", "BoundOver", "Collector", "Order"]

Order = tuple[tuple[RowExpression, ast.OrderItem], ...]

WINDOW_PROPERTIES = {
    f"{kind}_{what}": (kind, what)
    for kind in ("TUMBLE", "HOP", "SESSION")
    for what in ("START", "END", "ROWTIME", "PROCTIME")
}
GROUPING_FUNCTIONS = ("GROUPING", "GROUPING_ID", "GROUP_ID")


@dataclass(frozen=True)
class BoundAggregate:
    """An aggregate whose arguments are expressions still.

    Attributes:
        function: Its name.
        arguments: Its arguments.
        type: Of the result.
        distinct: Whether equal arguments count once.
        filter: Which rows count.
        order: Of WITHIN GROUP.
        user_function: A user's definition.
        nulls: What is said of NULLs, as `AggregateCall.nulls`.
    """

    function: str
    arguments: tuple[RowExpression, ...]
    type: DataType
    distinct: bool = False
    filter: RowExpression | None = None
    order: Order = ()
    user_function: object | None = None
    nulls: str = ""


@dataclass(frozen=True)
class BoundOver:
    """An aggregate with OVER."""

    call: BoundAggregate
    partition: tuple[RowExpression, ...]
    order: Order
    window: ast.WindowSpec
    at: ast.Position | None = None


@dataclass
class Collector(Extension):
    """Allows aggregates, OVERs and subqueries, and notes them.

    Attributes:
        clause: The place, for messages.
        bind_query: Binds a subquery, given the scope around it.
        aggregates: Noted so far; None where none may stand.
        overs: Noted so far; None where none may stand.
        subqueries: Noted so far.
        windows: Names of the WINDOW clause.
        properties: Calls of TUMBLE_START and its like, with what they give.
        group_window: Finds the type of a property of the group window; None if there is no such window.
        groupings: Calls of GROUPING and its like.
        may_be_empty: Whether aggregates may be of no row at all: there is no GROUP BY.
    """

    clause: str
    bind_query: Callable[[ast.Query, Scope], LogicalNode]
    subqueries: Subqueries
    aggregates: list[BoundAggregate] | None = None
    overs: list[BoundOver] | None = None
    windows: dict[str, ast.WindowSpec] = field(default_factory=dict)
    properties: list[tuple[str, ast.Function]] = field(default_factory=list)
    group_window: Callable[[str, ast.Function], DataType] | None = None
    groupings: list[tuple[str, tuple[RowExpression, ...]]] | None = None
    may_be_empty: bool = False

    def __post_init__(self) -> None:
        self._inside = ""

    def bind_function(self, call: ast.Function, binder: ExpressionBinder) -> RowExpression | None:
        """Note an aggregate, an OVER or a property of the group window."""
        name = call.name.upper()
        if call.over is not None:
            return self._over(call, binder)
        if name in WINDOW_PROPERTIES:
            return self._property(name, call)
        if name in GROUPING_FUNCTIONS and self.groupings is not None:
            return self._grouping(name, call, binder)
        if is_aggregate(call.name) or self._is_user_aggregate(call, binder):
            if is_window_only(call.name):
                return None
            return self._aggregate(call, binder)
        return None

    # --- aggregates

    def _aggregate(self, call: ast.Function, binder: ExpressionBinder) -> RowExpression:
        if self.aggregates is None:
            super().bind_function(call, binder)
            raise AssertionError("an aggregate was refused")
        if self._inside:
            raise ValidationError(
                f'aggregate function "{call.name}" stands in "{self._inside}"',
                at=call.at,
                detail="Aggregates of aggregates need two queries.",
                hint="Compute the inner one in a subquery.",
            )
        self._inside = call.name
        try:
            bound = self._bound(call, binder)
        finally:
            self._inside = ""
        if bound not in self.aggregates:
            self.aggregates.append(bound)
        return placeholder(AGGREGATE, self.aggregates.index(bound), bound.type)

    def _bound(self, call: ast.Function, binder: ExpressionBinder) -> BoundAggregate:
        arguments = () if call.star else tuple(binder.bind(each) for each in call.arguments)
        condition = None if call.filter is None else binder.condition(call.filter)
        order = tuple((binder.bind(each.expression), each) for each in call.order)
        definition = called_function(call, binder.context.catalog)
        types = tuple(each.type for each in arguments)
        nulls = null_treatment(call, user=definition is not None)
        try:
            if definition is not None:
                return BoundAggregate(
                    call.name,
                    arguments,
                    definition.result_type,
                    call.distinct,
                    condition,
                    order,
                    definition,
                )
            known = find_function(call.name)
            name = call.name.upper() if known is None else known.name
            empty = self.may_be_empty or call.filter is not None
            result = aggregate_type(name, types, call.distinct, may_be_empty=empty)
        except ValidationError as error:
            error.position = error.position or call.at
            raise
        return BoundAggregate(name, arguments, result, call.distinct, condition, order, nulls=nulls)

    # --- OVER

    def _over(self, call: ast.Function, binder: ExpressionBinder) -> RowExpression:
        if self.overs is None or self._inside:
            Extension.bind_function(self, call, binder)
            raise ValidationError(f'"{call.name}" with OVER stands in an aggregate', at=call.at)
        window = self._window_of(call)
        plain = replace(call, over=None)
        known = is_aggregate(call.name) or is_window_only(call.name) or self._is_user_aggregate(call, binder)
        if not known:
            raise ValidationError(f'"{call.name}" is no aggregate function, but has OVER', at=call.at)
        bound = BoundOver(
            self._bound(plain, binder),
            tuple(binder.bind(each) for each in window.partition),
            tuple((binder.bind(each.expression), each) for each in window.order),
            window,
            call.at,
        )
        if bound not in self.overs:
            self.overs.append(bound)
        return placeholder(OVER, self.overs.index(bound), bound.call.type)

    def _window_of(self, call: ast.Function) -> ast.WindowSpec:
        over = call.over
        if isinstance(over, str):
            if over not in self.windows:
                raise ValidationError(
                    f'window "{over}" was not found',
                    at=call.at,
                    detail=f"The query declares: {', '.join(self.windows) or 'none'}.",
                )
            return self.windows[over]
        assert over is not None, "a call without OVER"
        if over.base:
            base = self.windows.get(over.base)
            if base is None:
                raise ValidationError(f'window "{over.base}" was not found', at=call.at)
            return ast.WindowSpec(
                over.partition or base.partition,
                over.order or base.order,
                base.rows if over.rows is None else over.rows,
                over.lower or base.lower,
                over.upper or base.upper,
            )
        return over

    # --- group windows and grouping sets

    def _property(self, name: str, call: ast.Function) -> RowExpression:
        if self.group_window is None:
            raise ValidationError(
                f'"{call.name}" was used without a window',
                at=call.at,
                detail=f"It belongs to GROUP BY {WINDOW_PROPERTIES[name][0]}(...) with the same arguments.",
                hint="With window table functions use the columns window_start and window_end.",
            )
        what = WINDOW_PROPERTIES[name][1]
        data_type = self.group_window(what, call)
        self.properties.append((what, call))
        return placeholder(WINDOW, len(self.properties) - 1, data_type)

    def _grouping(self, name: str, call: ast.Function, binder: ExpressionBinder) -> RowExpression:
        assert self.groupings is not None
        self.groupings.append((name, tuple(binder.bind(each) for each in call.arguments)))
        return placeholder(GROUPING, len(self.groupings) - 1, BigIntType(nullable=False))

    # --- subqueries

    def bind_subquery(
        self, node: ast.InQuery | ast.Exists | ast.Subquery, binder: ExpressionBinder
    ) -> RowExpression:
        """Bind a subquery and note it."""
        relation = self.bind_query(node.query, binder.scope)
        if isinstance(node, ast.Exists):
            return self.subqueries.add(Pending("EXISTS", relation, at=node.at))
        if isinstance(node, ast.Subquery):
            if len(relation.schema) != 1:
                raise ValidationError(
                    f"a scalar subquery has {len(relation.schema)} columns", at=node.at, detail="It has one."
                )
            return self.subqueries.add(Pending("SCALAR", relation, at=node.at))
        operands = self._operands(node, binder)
        if len(operands) != len(relation.schema):
            raise ValidationError(
                f"{len(operands)} values are compared with a subquery of {len(relation.schema)} columns",
                at=node.at,
            )
        pending = Pending("IN", relation, operands, node.comparison, node.every, node.at)
        found = self.subqueries.add(pending)
        return binder.call("NOT", [found], node.at) if node.negated else found

    @staticmethod
    def _operands(node: ast.InQuery, binder: ExpressionBinder) -> tuple[RowExpression, ...]:
        operand = node.operand
        if isinstance(operand, ast.Function) and operand.name.upper() == "ROW":
            return tuple(binder.bind(each) for each in operand.arguments)
        return (binder.bind(operand),)
