"""Calls of process table functions: `SELECT * FROM f(input => TABLE t PARTITION BY k, on_time => DESCRIPTOR(ts))`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from millstream.table.errors import ValidationError, did_you_mean
from millstream.table.expressions.rex import InputRef, Literal, RowExpression, RowSchema, SortKey, inputs_of
from millstream.table.functions.coercion import coerce
from millstream.table.functions.process_signature import IMPLICIT, Argument, ProcessSignature
from millstream.table.functions.types import common_type, same_kind
from millstream.table.functions.user import FunctionKind, UserFunction, called_function
from millstream.table.plan import nodes
from millstream.table.plan.bind.expressions import ExpressionBinder, Extension
from millstream.table.plan.bind.scope import Scope
from millstream.table.plan.context import PlanContext
from millstream.table.plan.logical import LogicalNode, ProcessTable
from millstream.table.plan.processing import ProcessClause, TableInput
from millstream.table.process_functions import ArgumentTrait
from millstream.table.sql import ast
from millstream.types.datatypes import DataType, LocalZonedTimestampType, RowType, TimestampType
from millstream.types.further_types import NullType

__all__ = [
    "arguments_of",
    "bind_process_function",
    "column_places",
    "descriptor_of",
    "is_process_function",
    "sort_keys",
    "table_of",
    "text_of",
]

BindRelation = Callable[[ast.Relation], LogicalNode]
_UID = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]*")


def is_process_function(call: ast.Function, context: PlanContext) -> bool:
    """Whether a call is one of a process table function that takes tables."""
    found = called_function(call, context.catalog)
    return found is not None and found.kind is FunctionKind.PROCESS_TABLE and bool(found.process.tables)


def bind_process_function(
    context: PlanContext, call: ast.Function, bind_relation: BindRelation
) -> LogicalNode:
    """Bind a call of a process table function.

    Raises:
        ValidationError: If its arguments do not fit; says which, and where.
    """
    function = called_function(call, context.catalog)
    assert function is not None and function.kind is FunctionKind.PROCESS_TABLE
    signature: ProcessSignature = function.process
    names = [each.name for each in signature.arguments]
    required = [each.name for each in signature.arguments if not each.optional]
    given = arguments_of(call, names, required, signature.text)
    inputs: list[LogicalNode] = []
    tables: list[TableInput] = []
    values: list[RowExpression | None] = []
    for argument in signature.arguments:
        tree = given.get(argument.name)
        if argument.is_table:
            assert tree is not None
            source, declared = _table(context, call, argument, tree, bind_relation)
            inputs.append(source)
            tables.append(declared)
            values.append(None)
        else:
            values.append(None if tree is None else _value(context, call, argument, tree))
    _check_together(call, inputs, tables)
    on_time = given.get("on_time")
    tables = _timed(call, inputs, tables, on_time)
    uid = _uid(call, function, given.get("uid"))
    clause = ProcessClause(function, tuple(tables), tuple(values), uid, on_time is not None)
    return ProcessTable(_schema(inputs, clause), tuple(inputs), clause)


# --- arguments


def arguments_of(
    call: ast.Function, names: Sequence[str], required: Sequence[str], text: str
) -> dict[str, ast.Expression]:
    """Return the arguments of a call by name; those that are DEFAULT, or left out, are not among them.

    Raises:
        ValidationError: If one is missing, is there twice, or is none of the function.
    """
    every = [*names, *IMPLICIT]
    found: dict[str, ast.Expression] = {}
    named = False
    for place, argument in enumerate(call.arguments):
        if isinstance(argument, ast.NamedArgument):
            name = _argument_name(call, argument, every)
            named, value = True, argument.value
        elif named:
            raise ValidationError(
                f'function "{call.name}" has an argument without a name behind one with a name',
                at=argument.at or call.at,
                detail=f"It takes: {text}.",
            )
        elif place >= len(every):
            raise ValidationError(
                f'function "{call.name}" was called with {len(call.arguments)} arguments',
                at=call.at,
                detail=f"It takes: {text}.",
            )
        else:
            name, value = every[place], argument
        if name in found:
            raise ValidationError(
                f'argument "{name}" of function "{call.name}" was given twice', at=argument.at
            )
        if not (isinstance(value, ast.Function) and value.name == "DEFAULT" and not value.arguments):
            found[name] = value
        elif name in required:
            raise ValidationError(
                f'argument "{name}" of function "{call.name}" is DEFAULT, and has none',
                at=value.at or call.at,
            )
    missing = [each for each in required if each not in found]
    if missing:
        raise ValidationError(
            f'function "{call.name}" lacks the argument "{missing[0]}"',
            at=call.at,
            detail=f"It takes: {text}.",
        )
    return found


def _argument_name(call: ast.Function, argument: ast.NamedArgument, names: Sequence[str]) -> str:
    if argument.name in names:
        return argument.name
    same = [each for each in names if each.lower() == argument.name.lower()]
    if same:
        return same[0]
    raise ValidationError(
        f'function "{call.name}" has no argument "{argument.name}"',
        at=argument.at,
        detail=f"It has: {', '.join(names)}.",
        hint=did_you_mean(argument.name, names),
    )


def _value(
    context: PlanContext, call: ast.Function, argument: Argument, tree: ast.Expression
) -> RowExpression:
    at = tree.at or call.at
    if isinstance(tree, (ast.TableArgument, ast.Descriptor)):
        raise ValidationError(
            f'argument "{argument.name}" of function "{call.name}" is no table',
            at=at,
            detail=f"It is {argument.type}.",
        )
    binder = ExpressionBinder(context, Scope(()), Extension(f"an argument of {call.name}"))
    bound = binder.bind(tree)
    assert argument.type is not None
    if inputs_of(bound):
        raise ValidationError(f'argument "{argument.name}" of function "{call.name}" names a column', at=at)
    if not _fits(bound.type, argument.type):
        raise ValidationError(
            f'argument "{argument.name}" of function "{call.name}" is {bound.type}, not {argument.type}',
            at=at,
        )
    return coerce(bound, argument.type)


def _fits(given: DataType, wanted: DataType) -> bool:
    """Whether a value is cast where no CAST is written."""
    if isinstance(given, NullType) or same_kind(given, wanted):
        return True
    found = common_type([given, wanted])
    return found is not None and same_kind(found, wanted)


# --- tables


def table_of(
    context: PlanContext, call: ast.Function, name: str, tree: ast.Expression, bind_relation: BindRelation
) -> tuple[LogicalNode, ast.TableArgument]:
    """Return the relation of a table argument, and its tree.

    Raises:
        ValidationError: If it is no table.
    """
    del context
    if isinstance(tree, ast.Subquery):
        tree = ast.TableArgument(ast.Derived(tree.query, at=tree.at), at=tree.at)
    if not isinstance(tree, ast.TableArgument):
        raise ValidationError(
            f'argument "{name}" of function "{call.name}" is no table',
            at=tree.at or call.at,
            hint=f"Write {name} => TABLE t, or {name} => (SELECT ...).",
        )
    return bind_relation(tree.relation), tree


def column_places(
    context: PlanContext, call: ast.Function, trees: Sequence[ast.Expression], schema: RowSchema
) -> tuple[int, ...]:
    """Return the places of the columns of PARTITION BY.

    Raises:
        ValidationError: If one is no column, or comes twice.
    """
    binder = ExpressionBinder(context, Scope.of(schema), Extension(f"PARTITION BY of {call.name}"))
    places: list[int] = []
    for each in trees:
        bound = binder.bind(each)
        if not isinstance(bound, InputRef):
            raise ValidationError(
                f"PARTITION BY of {call.name} has an expression that is no column",
                at=each.at or call.at,
                hint="Compute it in a subquery, and name its column.",
            )
        if bound.index in places:
            raise ValidationError(
                f'PARTITION BY of {call.name} names "{schema.names[bound.index]}" twice',
                at=each.at or call.at,
            )
        places.append(bound.index)
    return tuple(places)


def sort_keys(
    context: PlanContext, call: ast.Function, items: Sequence[ast.OrderItem], schema: RowSchema
) -> tuple[SortKey, ...]:
    """Return ORDER BY of a table argument.

    Raises:
        ValidationError: If one is no column, or the first is no time attribute, ascending.
    """
    binder = ExpressionBinder(context, Scope.of(schema), Extension(f"ORDER BY of {call.name}"))
    keys = []
    for item in items:
        bound = binder.bind(item.expression)
        if not isinstance(bound, InputRef):
            raise ValidationError(
                f"ORDER BY of {call.name} has an expression that is no column",
                at=item.expression.at or call.at,
            )
        first = item.descending if item.nulls_first is None else item.nulls_first  # here NULLs are largest
        keys.append(SortKey(bound.index, item.descending, first))
    if keys and (keys[0].index not in schema.rowtime or keys[0].descending):
        raise ValidationError(
            f'ORDER BY of {call.name} begins with "{schema.names[keys[0].index]}"'
            f"{', descending' if keys[0].descending else ''}",
            at=items[0].expression.at or call.at,
            detail="It begins with the column that has a WATERMARK, ascending.",
        )
    return tuple(keys)


def _table(
    context: PlanContext,
    call: ast.Function,
    argument: Argument,
    tree: ast.Expression,
    bind_relation: BindRelation,
) -> tuple[LogicalNode, TableInput]:
    source, table = table_of(context, call, argument.name, tree, bind_relation)
    at = table.at or call.at
    what = f'table argument "{argument.name}" of function "{call.name}"'
    if not argument.is_set:
        if table.partition or table.order:
            raise ValidationError(
                f"{what} has {'PARTITION BY' if table.partition else 'ORDER BY'}",
                at=at,
                detail="It has row semantics: its rows have nothing to do with each other.",
            )
        return _as_declared(source, argument, what, at), TableInput(argument)
    if not table.partition and not argument.has(ArgumentTrait.OPTIONAL_PARTITION_BY):
        raise ValidationError(
            f"{what} requires a PARTITION BY clause",
            at=at,
            detail="It has set semantics: rows belong together by key.",
            hint=f"Write {argument.name} => TABLE t PARTITION BY k.",
        )
    schema = source.schema
    partition = column_places(context, call, table.partition, schema)
    order = sort_keys(context, call, table.order, schema)
    return _as_declared(source, argument, what, at), TableInput(argument, partition, order)


def _as_declared(source: LogicalNode, argument: Argument, what: str, at: ast.Position | None) -> LogicalNode:
    """Return a table with the columns that the function declares, cast where that loses nothing."""
    wanted, schema = argument.type, source.schema
    if not isinstance(wanted, RowType):
        return source
    if len(wanted) != len(schema):
        raise ValidationError(
            f"{what} has {len(schema)} columns, and is declared with {len(wanted)}",
            at=at,
            detail=f"They are: {', '.join(schema.names)}. Declared: {wanted}.",
        )
    columns: list[RowExpression] = []
    for reference, field in zip(nodes.refs(schema), wanted.fields, strict=True):
        if _same_type(reference.type, field.data_type):
            columns.append(reference)
            continue
        if not _fits(reference.type, field.data_type):
            raise ValidationError(
                f'{what} has a column "{field.name}" of {reference.type}, and is declared with {field.data_type}',
                at=at,
            )
        columns.append(coerce(reference, field.data_type))
    if all(isinstance(each, InputRef) for each in columns) and tuple(wanted.field_names()) == schema.names:
        return source
    return nodes.project(source, columns, wanted.field_names())


def _same_type(one: DataType, other: DataType) -> bool:
    return str(one).removesuffix(" NOT NULL") == str(other).removesuffix(" NOT NULL")


def _check_together(call: ast.Function, inputs: Sequence[LogicalNode], tables: Sequence[TableInput]) -> None:
    """Check that several tables are partitioned alike."""
    if len(tables) < 2:
        return
    first, source = tables[0], inputs[0]
    for other, node in zip(tables[1:], inputs[1:], strict=True):
        kinds = [source.schema.types[each] for each in first.partition]
        theirs = [node.schema.types[each] for each in other.partition]
        if len(kinds) != len(theirs) or not all(map(_same_type, kinds, theirs)):
            raise ValidationError(
                f'tables "{first.argument.name}" and "{other.argument.name}" of function "{call.name}" are not '
                "partitioned alike",
                at=call.at,
                detail=f"PARTITION BY has columns of the types [{_listed(kinds)}] and [{_listed(theirs)}].",
                hint="Cast them to the same types in a subquery.",
            )


def _listed(kinds: Sequence[DataType]) -> str:
    return ", ".join(map(str, kinds))


# --- on_time and uid


def descriptor_of(call: ast.Function, name: str, tree: ast.Expression) -> tuple[str, ...]:
    """Return the columns that a DESCRIPTOR names.

    Raises:
        ValidationError: If it is none.
    """
    if not isinstance(tree, ast.Descriptor):
        raise ValidationError(
            f'argument "{name}" of function "{call.name}" is no DESCRIPTOR',
            at=tree.at or call.at,
            hint=f"Write {name} => DESCRIPTOR(column).",
        )
    return tree.columns


def _timed(
    call: ast.Function,
    inputs: Sequence[LogicalNode],
    tables: Sequence[TableInput],
    tree: ast.Expression | None,
) -> list[TableInput]:
    """Return the tables with the places of the columns that `on_time` names."""
    columns = () if tree is None else descriptor_of(call, "on_time", tree)
    at = call.at if tree is None else tree.at or call.at
    for column in columns:
        if not any(column in each.schema.names for each in inputs):
            names = [name for each in inputs for name in each.schema.names]
            raise ValidationError(
                f'on_time of function "{call.name}" names the column "{column}", which is in none of its tables',
                at=at,
                detail=f"There are: {', '.join(names)}.",
                hint=did_you_mean(column, names),
            )
    found = []
    for node, table in zip(inputs, tables, strict=True):
        mine = [each for each in columns if each in node.schema.names]
        name = table.argument.name
        if len(mine) > 1:
            raise ValidationError(
                f'on_time of function "{call.name}" names {len(mine)} columns of table "{name}": {", ".join(mine)}',
                at=at,
            )
        if not mine and table.argument.has(ArgumentTrait.REQUIRE_ON_TIME):
            raise ValidationError(
                f'table argument "{name}" of function "{call.name}" requires a time attribute',
                at=at,
                hint="Add on_time => DESCRIPTOR(column), with a column that has a WATERMARK.",
            )
        if not mine:
            found.append(table)
            continue
        place = node.schema.names.index(mine[0])
        kind = node.schema.types[place]
        if place not in node.schema.rowtime:
            raise ValidationError(
                f'on_time of function "{call.name}" names "{mine[0]}", which is no time attribute, but {kind}',
                at=at,
                detail="A time attribute is a column with a WATERMARK.",
                hint=f"Declare WATERMARK FOR {mine[0]} AS ... in CREATE TABLE.",
            )
        found.append(replace(table, time=place))
    times = {
        type(_time_type(node, table))
        for node, table in zip(inputs, found, strict=True)
        if table.time is not None
    }
    if len(times) > 1:
        raise ValidationError(
            f'on_time of function "{call.name}" names columns of TIMESTAMP and of TIMESTAMP_LTZ', at=at
        )
    return found


def _time_type(node: LogicalNode, table: TableInput) -> DataType:
    assert table.time is not None
    return node.schema.types[table.time]


def text_of(call: ast.Function, name: str, tree: ast.Expression, context: PlanContext) -> str:
    """Return the text of an argument that is a literal.

    Raises:
        ValidationError: If it is none.
    """
    binder = ExpressionBinder(context, Scope(()), Extension(f"an argument of {call.name}"))
    bound = binder.bind(tree)
    if not isinstance(bound, Literal) or not isinstance(bound.value, str):
        raise ValidationError(
            f'argument "{name}" of function "{call.name}" is no text between quotes', at=tree.at or call.at
        )
    return bound.value


def _uid(call: ast.Function, function: UserFunction, tree: ast.Expression | None) -> str:
    if tree is None:
        return function.name
    value = tree.value if isinstance(tree, ast.LiteralValue) else None
    if not isinstance(value, str) or not _UID.fullmatch(value):
        raise ValidationError(
            f'uid of function "{call.name}" is no text between quotes of letters, digits, _ and -',
            at=tree.at or call.at,
            detail="State in checkpoints is known by it. It begins with a letter or _.",
        )
    return value


# --- the result


def _schema(inputs: Sequence[LogicalNode], clause: ProcessClause) -> RowSchema:
    names: list[str] = []
    types: list[DataType] = []
    for node, table in zip(inputs, clause.tables, strict=True):
        places = range(len(node.schema)) if table.passes_all else table.partition
        names += [node.schema.names[each] for each in places]
        types += [node.schema.types[each] for each in places]
    given = clause.function.row_type
    names += given.field_names()
    types += given.field_types()
    rowtime = set()
    if clause.on_time:
        rowtime.add(len(names))
        names.append("rowtime")
        node, table = next(
            (node, table) for node, table in zip(inputs, clause.tables, strict=True) if table.time is not None
        )
        local = isinstance(_time_type(node, table), LocalZonedTimestampType)
        types.append((LocalZonedTimestampType if local else TimestampType)(3))
    return RowSchema(nodes.unique_names(names), tuple(types), frozenset(rowtime))
