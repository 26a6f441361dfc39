"""GROUP BY: keys, grouping sets, group windows, and what SELECT may say above it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations, product

from millstream.table.errors import ValidationError
from millstream.table.expressions.rex import (
    AggregateCall,
    InputRef,
    Literal,
    RowExpression,
    RowSchema,
    SortKey,
    transform,
)
from millstream.table.functions.registry import build_call
from millstream.table.plan import nodes
from millstream.table.plan.bind.collector import BoundAggregate, BoundOver
from millstream.table.plan.bind.expressions import ExpressionBinder, Extension
from millstream.table.plan.bind.group_windows import GroupWindow, group_window_of, is_group_window
from millstream.table.plan.bind.placeholders import (
    AGGREGATE,
    GROUPING,
    WINDOW,
    place_of,
)
from millstream.table.plan.bind.scope import Scope, type_with_nullability
from millstream.table.plan.context import PlanContext
from millstream.table.plan.logical import Expand, LogicalNode
from millstream.table.sql import ast
from millstream.types.datatypes import BigIntType, DataType

__all__ = ["Aggregation"]

Element = ast.Expression | ast.GroupingSets
_PROPERTIES = ("START", "END", "ROWTIME", "PROCTIME")


class Aggregation:
    """One GROUP BY.

    Args:
        context: The query's surroundings.
        relation: What is grouped.
        scope: Its columns.
        bind_query: Binds subqueries.

    Attributes:
        groupings: Calls of GROUPING and its like, with their arguments.
        ttl_ms: How long groups are kept, 0 for ever; None as the session says.
    """

    def __init__(
        self,
        context: PlanContext,
        relation: LogicalNode,
        scope: Scope,
        bind_query: Callable[[ast.Query, Scope], LogicalNode],
    ) -> None:
        self._context, self._relation, self._scope = context, relation, scope
        self._bind_query = bind_query
        self._keys: list[RowExpression] = []
        self._sets: list[tuple[int, ...]] | None = None
        self._window: GroupWindow | None = None
        self._properties: list[tuple[str, ast.Function]] = []
        self.groupings: list[tuple[str, tuple[RowExpression, ...]]] = []
        self.ttl_ms: int | None = None
        self._result: RowSchema | None = None
        self._aggregates = 0

    # --- GROUP BY

    def keys_of(self, elements: Sequence[Element]) -> None:
        """Bind the keys of GROUP BY.

        Raises:
            ValidationError: If one does not fit.
        """
        binder = ExpressionBinder(self._context, self._scope, Extension("GROUP BY"))
        sets: list[list[tuple[int, ...]]] = []
        for element in elements:
            if isinstance(element, ast.GroupingSets):
                sets.append(self._grouping_sets(element, binder))
                continue
            if is_group_window(element):
                assert isinstance(element, ast.Function)
                if self._window is not None:
                    raise ValidationError("GROUP BY has two windows", at=element.at)
                self._window = group_window_of(element, binder, self._relation)
                continue
            sets.append([(self._key(element, binder),)])
        if any(len(each) > 1 for each in sets) or any(
            isinstance(each, ast.GroupingSets) for each in elements
        ):
            if self._window is not None:
                raise ValidationError(
                    "GROUP BY has a window function and grouping sets", hint="Use a window table function."
                )
            chosen = [tuple(sorted({key for part in each for key in part})) for each in product(*sets)]
            self._sets = list(dict.fromkeys(chosen))

    def _key(self, element: ast.Expression, binder: ExpressionBinder) -> int:
        bound = binder.bind(element)
        if bound not in self._keys:
            self._keys.append(bound)
        return self._keys.index(bound)

    def _grouping_sets(self, element: ast.GroupingSets, binder: ExpressionBinder) -> list[tuple[int, ...]]:
        parts = [tuple(self._key(each, binder) for each in part) for part in element.sets]
        if element.kind == "ROLLUP":
            chosen = [parts[:count] for count in range(len(parts), -1, -1)]
        elif element.kind == "CUBE":
            chosen = [
                list(each) for count in range(len(parts), -1, -1) for each in combinations(parts, count)
            ]
        else:
            return parts
        return [tuple(key for part in each for key in part) for each in chosen]

    # --- group windows

    def window_property(self, what: str, call: ast.Function) -> DataType:
        """Return the type of a property of the group window (`TUMBLE_START(...)`).

        Raises:
            ValidationError: If the query has no such window.
        """
        if self._window is None:
            raise ValidationError(
                f'"{call.name}" was used, but GROUP BY has no window',
                at=call.at,
                hint=f"Write GROUP BY {call.name.split('_')[0]}(...).",
            )
        binder = ExpressionBinder(self._context, self._scope, Extension("SELECT"))
        named = replace(call, name=call.name.rsplit("_", 1)[0])
        if group_window_of(named, binder, self._relation).window != self._window.window:
            raise ValidationError(
                f'"{call.name}" has other arguments than the window in GROUP BY', at=call.at
            )
        return self._window.property_type(what)

    # --- the relation

    def build(
        self, aggregates: Sequence[BoundAggregate], properties: Sequence[tuple[str, ast.Function]]
    ) -> LogicalNode:
        """Return the aggregated relation."""
        self._properties = list(properties)
        inputs: list[RowExpression] = list(self._keys)
        fixed = len(inputs) if self._sets is not None else 0

        def column(expression: RowExpression) -> int:
            for place in range(fixed, len(inputs)):
                if inputs[place] == expression:
                    return place
            inputs.append(expression)
            return len(inputs) - 1

        calls = [_call_of(each, column) for each in aggregates]
        time = None if self._window is None else column(self._window.time)
        if not inputs and len(self._relation.schema):
            inputs.append(InputRef(0, self._relation.schema.types[0]))  # rows of no column cannot travel
        source: LogicalNode = nodes.project(self._relation, inputs, self._input_names(inputs))
        keys: tuple[int, ...] = tuple(range(len(self._keys)))
        if self._sets is not None:
            source = _expanded(source, keys, tuple(self._sets))
            keys = (*keys, len(source.schema) - 1)
        window = None
        if self._window is not None and time is not None:
            window = self._window.over(source, time)
        names = [f"EXPR${each}" for each in range(len(calls))]
        result = replace(nodes.aggregate(source, keys, calls, names, window), ttl_ms=self.ttl_ms)
        self._result = result.schema
        self._aggregates = len(keys)
        return result

    def _input_names(self, inputs: Sequence[RowExpression]) -> list[str]:
        names = []
        for place, each in enumerate(inputs):
            plain = isinstance(each, InputRef)
            names.append(self._relation.schema.names[each.index] if plain else f"$f{place}")  # type: ignore[union-attr]
        return list(nodes.unique_names(names))

    # --- what is above

    def over_result(self, expression: RowExpression, at: ast.Position | None = None) -> RowExpression:
        """Return an expression of SELECT, HAVING or ORDER BY over the aggregated relation.

        Raises:
            ValidationError: If it reads a column that is neither a key nor in an aggregate.
        """
        schema = self._result
        assert schema is not None, "build() was not called"

        def change(part: RowExpression) -> RowExpression | None:
            if part in self._keys:
                place = self._keys.index(part)
                return InputRef(place, schema.types[place])
            number = place_of(part, AGGREGATE)
            if number is not None:
                place = self._aggregates + number
                return InputRef(place, schema.types[place])
            number = place_of(part, WINDOW)
            if number is not None:
                place = len(schema) - len(_PROPERTIES) + _PROPERTIES.index(self._properties[number][0])
                return InputRef(place, schema.types[place])
            number = place_of(part, GROUPING)
            if number is not None:
                return self._grouping(*self.groupings[number])
            if isinstance(part, InputRef):
                raise self._not_grouped(part, at)
            return None

        return transform(expression, change)

    def over_call(self, over: BoundOver) -> BoundOver:
        """Return an OVER of SELECT over the aggregated relation."""

        def seen(expression: RowExpression) -> RowExpression:
            return self.over_result(expression, over.at)

        call = replace(
            over.call,
            arguments=tuple(map(seen, over.call.arguments)),
            filter=None if over.call.filter is None else seen(over.call.filter),
            order=tuple((seen(each), item) for each, item in over.call.order),
        )
        return replace(
            over,
            call=call,
            partition=tuple(map(seen, over.partition)),
            order=tuple((seen(each), item) for each, item in over.order),
        )

    def _grouping(self, name: str, arguments: tuple[RowExpression, ...]) -> RowExpression:
        wanted = arguments if arguments or name != "GROUP_ID" else ()
        for each in wanted:
            if each not in self._keys:
                raise ValidationError(f"the argument of {name} is no key of GROUP BY")
        numbers = [self._keys.index(each) for each in wanted]
        zero = Literal(0, BigIntType(nullable=False))
        if self._sets is None or name == "GROUP_ID" or self._result is None:
            return zero
        number = InputRef(len(self._keys), self._result.types[len(self._keys)])
        parts: list[RowExpression] = []
        for chosen in self._sets:
            value = 0
            for key in numbers:
                value = value * 2 + (key not in chosen)
            mark = Literal(set_number(len(self._keys), chosen), BigIntType(nullable=False))
            parts += [build_call("=", [number, mark]), Literal(value, BigIntType(nullable=False))]
        return build_call("CASE", [*parts[:-2], parts[-1]]) if len(parts) > 2 else parts[-1]

    def _not_grouped(self, column: InputRef, at: ast.Position | None) -> ValidationError:
        name = self._relation.schema.names[column.index]
        keys = [self._relation.schema.names[each.index] for each in self._keys if isinstance(each, InputRef)]
        return ValidationError(
            f'column "{name}" is used without an aggregate and is not in GROUP BY',
            at=at,
            detail=f"Grouped by: {', '.join(keys) or 'nothing' if self._keys or self._window is None else 'a window'}.",
            hint=f"Add it to GROUP BY, or use an aggregate such as MAX({name}).",
        )


def set_number(keys: int, chosen: tuple[int, ...]) -> int:
    """Return the number of a grouping set: a bit for each key that it leaves out, the first key's the highest."""
    number = 0
    for key in range(keys):
        number = number * 2 + (key not in chosen)
    return number


def _expanded(source: LogicalNode, keys: tuple[int, ...], sets: tuple[tuple[int, ...], ...]) -> LogicalNode:
    types = list(source.schema.types)
    for key in keys:
        if not all(key in chosen for chosen in sets):
            types[key] = type_with_nullability(types[key], nullable=True)
    schema = RowSchema(
        (*source.schema.names, "$e"), (*types, BigIntType(nullable=False)), frozenset(), frozenset()
    )
    return Expand(schema, source, keys, sets)


def _call_of(bound: BoundAggregate, column: Callable[[RowExpression], int]) -> AggregateCall:
    order = []
    for expression, item in bound.order:
        nulls_first = not item.descending if item.nulls_first is None else item.nulls_first
        order.append(SortKey(column(expression), item.descending, nulls_first))
    return AggregateCall(
        bound.function,
        tuple(column(each) for each in bound.arguments),
        bound.type,
        bound.distinct,
        None if bound.filter is None else column(bound.filter),
        tuple(order),
        bound.user_function,
        bound.nulls,
    )
