"""All functions by name: their expressions, result types, and what to say if a call does not fit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from millstream.table.errors import ValidationError, did_you_mean
from millstream.table.expressions.rex import Call, Literal, RowExpression
from millstream.table.functions.coercion import build_cast, coerce, to_common
from millstream.table.functions.definitions import (
    aggregates,
    arithmetic,
    bitmaps,
    collections,
    json,
    numbers,
    objects,
    predicates,
    strings,
    times,
)
from millstream.table.functions.signatures import Category, FunctionDefinition, Signature
from millstream.table.functions.types import with_nullable
from millstream.types import datatypes as t
from millstream.types import further_types as f

if TYPE_CHECKING:
    from millstream.table.sql.ast import Position

__all__ = [
    "aggregate_type",
    "build_call",
    "build_cast",
    "built_in_functions",
    "find_function",
    "function_names",
    "is_aggregate",
    "is_deterministic",
    "is_window_only",
    "may_fail",
]


def _by_name(tables: Iterable[Sequence[FunctionDefinition]]) -> dict[str, FunctionDefinition]:
    found: dict[str, FunctionDefinition] = {}
    for table in tables:
        for definition in table:
            for name in (definition.name, *definition.aliases):
                assert name not in found, f"function {name} is defined twice"
                found[name] = definition
    return found


_FAMILIES = (
    arithmetic,
    predicates,
    numbers,
    strings,
    times,
    collections,
    objects,
    json,
    bitmaps,
    aggregates,
)
_FUNCTIONS = _by_name(module.DEFINITIONS for module in _FAMILIES)


def find_function(name: str) -> FunctionDefinition | None:
    """Return a built-in function by its name in any case, or by an alias; None if there is none."""
    return _FUNCTIONS.get(name.upper())


def built_in_functions() -> list[FunctionDefinition]:
    """Return all built-in functions and operators, family by family."""
    return [definition for module in _FAMILIES for definition in module.DEFINITIONS]


def function_names() -> list[str]:
    """Return the names of all built-in functions and operators, aliases included, sorted."""
    return sorted(_FUNCTIONS)


def is_aggregate(name: str) -> bool:
    """Whether a built-in function aggregates rows (window functions such as RANK do not count)."""
    definition = find_function(name)
    return definition is not None and definition.category == Category.AGGREGATE


def is_window_only(name: str) -> bool:
    """Whether a built-in function stands with OVER only: RANK, LAG, ..."""
    definition = find_function(name)
    return definition is not None and definition.category == Category.WINDOW


def aggregate_type(
    name: str,
    argument_types: Sequence[t.DataType],
    distinct: bool = False,
    *,
    may_be_empty: bool = False,
    at: Position | None = None,
) -> t.DataType:
    """Return the type that a built-in aggregate or window function gives.

    Args:
        name: In any case.
        argument_types: None of COUNT(*).
        distinct: Whether equal arguments count once; changes no type.
        may_be_empty: Whether there may be no row (no GROUP BY, or FILTER): then all but counts are nullable.
        at: Where the call stands.

    Raises:
        ValidationError: If there is no such aggregate or the arguments do not fit.
    """
    definition = find_function(name)
    if definition is None or definition.category not in (Category.AGGREGATE, Category.WINDOW):
        aggregates_known = [each for each in _FUNCTIONS if is_aggregate(each) or is_window_only(each)]
        raise ValidationError(
            f'aggregate function "{name}" does not exist', at=at, hint=did_you_mean(name, aggregates_known)
        )
    operands = [Literal(None, kind) for kind in argument_types]
    found = next((each for each in definition.signatures if each.takes(operands)), None)
    if found is None:
        raise _no_match(definition, operands, at)
    result = found.result(argument_types)
    if may_be_empty and definition.name not in _NEVER_NULL:
        return with_nullable(result, True)
    return result


_NEVER_NULL = frozenset(("COUNT", "$SUM0", "COLLECT", "JSON_OBJECTAGG", "JSON_ARRAYAGG"))


def is_deterministic(call: Call) -> bool:
    """Whether a call alone (not its operands) gives the same result for the same operands."""
    if call.user_function is not None:
        return bool(getattr(call.user_function, "deterministic", True))
    definition = _FUNCTIONS.get(call.function)
    return definition is None or definition.deterministic


def may_fail(expression: RowExpression) -> bool:
    """Whether computing an expression can raise for some values; user functions always may."""
    if not isinstance(expression, Call):
        return False
    if expression.user_function is not None or any(map(may_fail, expression.operands)):
        return True
    if expression.function == "CAST":
        return _cast_fails(expression.operands[0].type, expression.type)
    if expression.function in ("/", "%") and _nonzero(expression.operands[1]):
        return False
    if expression.function == "/" and isinstance(expression.type, t.DoubleType):
        return False
    definition = _FUNCTIONS.get(expression.function)
    return definition is not None and definition.fails


def _nonzero(divisor: RowExpression) -> bool:
    return isinstance(divisor, Literal) and bool(divisor.value)


def _cast_fails(source: t.DataType, target: t.DataType) -> bool:
    if isinstance(source, t.DoubleType) and isinstance(target, t.DecimalType):
        return True  # NaN is no DECIMAL
    textual = isinstance(source, t.VarCharType | f.VariantType)
    return textual and not isinstance(target, t.VarCharType | t.VarBinaryType)


def build_call(
    name: str,
    operands: Sequence[RowExpression],
    at: Position | None = None,
    clauses: Sequence[tuple[str, Any]] = (),
) -> RowExpression:
    """Return the expression of a call of a built-in function or operator; operands are cast as it wants them.

    Besides functions there are `BETWEEN`, `IN`, `CASE`, `LIKE` and the other operators by their words; `CASE` takes
    conditions and values in turn and the default.

    Args:
        name: In any case.
        operands: The arguments.
        at: Where the call stands.
        clauses: Of special syntax, as the parser gives them (`ON EMPTY`, `RETURNING`, ...).

    Raises:
        ValidationError: If there is no such function or the operands do not fit.
    """
    definition = find_function(name)
    if definition is None:
        raise ValidationError(
            f'function "{name}" does not exist',
            at=at,
            hint=did_you_mean(name, _FUNCTIONS) or "`SHOW FUNCTIONS` lists what there is.",
        )
    if definition.category in (Category.AGGREGATE, Category.WINDOW):
        raise ValidationError(
            f'aggregate function "{name.upper()}" stands where a value is computed for each row',
            at=at,
            hint="Aggregates stand in SELECT, HAVING and ORDER BY of a grouped query, or have OVER.",
        )
    with_clauses = json.CLAUSE_BINDERS.get(definition.name) if clauses else None
    bound = with_clauses(operands, clauses) if with_clauses else _bind(definition, operands)
    if bound is None:
        raise _no_match(definition, operands, at)
    return bound


def _bind(definition: FunctionDefinition, operands: Sequence[RowExpression]) -> RowExpression | None:
    if definition.bind is not None:
        return definition.bind(operands)
    found = next((each for each in definition.signatures if each.takes(operands)), None)
    if found is None:
        return None
    arguments = _as_wanted(found, operands)
    start = definition.common_from
    if start is not None:
        converted = to_common(arguments[start:])
        if converted is None:
            return None
        arguments = [*arguments[:start], *converted]
    return Call(definition.name, tuple(arguments), found.result([each.type for each in arguments]))


def _as_wanted(found: Signature, operands: Sequence[RowExpression]) -> list[RowExpression]:
    wanted = []
    for place, operand in enumerate(operands):
        parameter = found.parameter(place)
        gives = None if parameter is None else parameter.gives
        wanted.append(operand if gives is None else coerce(operand, gives))
    return wanted


def _no_match(
    definition: FunctionDefinition, operands: Sequence[RowExpression], at: Position | None
) -> ValidationError:
    seen = ", ".join(str(each.type) for each in operands)
    forms = [each.text(definition.name) for each in definition.signatures] or list(definition.syntax)
    return ValidationError(
        f'"{definition.name}" does not take arguments of types ({seen})',
        at=at,
        detail=f"It is {' or '.join(forms)}.",
        hint="Cast the arguments to types it takes.",
    )
