"""TO_CHANGELOG and FROM_CHANGELOG: changes as rows with their kind, and back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from millstream.table.errors import ValidationError, did_you_mean
from millstream.table.expressions.rex import InputRef, Literal, RowSchema
from millstream.table.functions.user import called_function
from millstream.table.plan import nodes
from millstream.table.plan.bind.expressions import ExpressionBinder, Extension
from millstream.table.plan.bind.process_functions import (
    arguments_of,
    column_places,
    descriptor_of,
    sort_keys,
    table_of,
)
from millstream.table.plan.bind.scope import Scope
from millstream.table.plan.context import PlanContext
from millstream.table.plan.logical import FromChangelog, LogicalNode, ToChangelog
from millstream.table.sql import ast
from millstream.types.datatypes import CharType, VarCharType

__all__ = ["bind_changelog_function", "is_changelog_function"]

BindRelation = Callable[[ast.Relation], LogicalNode]

_KINDS = ("INSERT", "UPDATE_BEFORE", "UPDATE_AFTER", "DELETE")
_NAMES = {
    "TO_CHANGELOG": ("input", "op", "op_mapping", "produces_full_deletes"),
    "FROM_CHANGELOG": ("input", "op", "op_mapping"),
}
_TEXT = "input => TABLE t [PARTITION BY k], op => DESCRIPTOR(name), op_mapping => MAP['INSERT', 'I'], uid => STRING"


def is_changelog_function(call: ast.Function, context: PlanContext) -> bool:
    """Whether a call is one of TO_CHANGELOG or FROM_CHANGELOG."""
    return call.name.upper() in _NAMES and called_function(call, context.catalog) is None


@dataclass(frozen=True)
class _Call:
    """A call whose table is bound."""

    tree: ast.Function
    given: dict[str, ast.Expression]
    context: PlanContext
    source: LogicalNode
    partition: tuple[int, ...]
    table: ast.TableArgument

    @property
    def name(self) -> str:
        return self.tree.name.upper()

    @property
    def schema(self) -> RowSchema:
        return self.source.schema

    def op(self) -> tuple[str, ast.Position | None]:
        """Return the name of the column with the kind, and where it stands."""
        tree = self.given.get("op")
        if tree is None:
            return "op", self.tree.at
        columns = descriptor_of(self.tree, "op", tree)
        if len(columns) != 1:
            raise ValidationError(
                f"op of {self.name} names {len(columns)} columns", at=tree.at, detail="It names one."
            )
        return columns[0], tree.at

    def mapping(self) -> list[tuple[str, str, ast.Position | None]] | None:
        """Return the pairs of texts of `op_mapping`; keys between commas come one by one."""
        tree = self.given.get("op_mapping")
        if tree is None:
            return None
        at = tree.at or self.tree.at
        if not isinstance(tree, ast.Function) or tree.name.upper() != "MAP" or not tree.arguments:
            raise ValidationError(
                f"op_mapping of {self.name} is no MAP of texts",
                at=at,
                hint="Write op_mapping => MAP['INSERT', 'I', 'DELETE', 'D'].",
            )
        texts = [self._text(each, at) for each in tree.arguments]
        pairs = zip(texts[::2], texts[1::2], strict=True)
        mapped = [(part.strip(), value, at) for key, value in pairs for part in key.split(",")]
        values = texts[1::2]
        twice = [value for value in values if values.count(value) > 1]
        if twice and self.name == "FROM_CHANGELOG":
            raise ValidationError(
                f"op_mapping of FROM_CHANGELOG names the kind {twice[0]!r} twice",
                at=at,
                hint="Put codes of the same kind in one text, between commas: MAP['c, r', 'INSERT'].",
            )
        return mapped

    def _text(self, tree: ast.Expression, at: ast.Position | None) -> str:
        bound = ExpressionBinder(self.context, Scope(()), Extension(f"op_mapping of {self.name}")).bind(tree)
        if not isinstance(bound, Literal) or not isinstance(bound.value, str):
            raise ValidationError(
                f"op_mapping of {self.name} has something that is no text between quotes", at=tree.at or at
            )
        return bound.value


def bind_changelog_function(
    context: PlanContext, call: ast.Function, bind_relation: BindRelation
) -> LogicalNode:
    """Bind a call.

    Raises:
        ValidationError: If its arguments do not fit.
    """
    name = call.name.upper()
    given = arguments_of(call, _NAMES[name], ["input"], _TEXT)
    if "on_time" in given:
        raise ValidationError(
            f"{name} was called with on_time",
            at=given["on_time"].at or call.at,
            detail="It has no timers, and its columns stay as they are.",
        )
    source, table = table_of(context, call, "input", given["input"], bind_relation)
    partition = column_places(context, call, table.partition, source.schema)
    bound = _Call(call, given, context, source, partition, table)
    return _to(bound) if name == "TO_CHANGELOG" else _from(bound)


def _kind(text: str, bound: _Call, at: ast.Position | None) -> int:
    if text in _KINDS:
        return _KINDS.index(text)
    raise ValidationError(
        f"op_mapping of {bound.name} names the kind {text!r}",
        at=at,
        detail=f"Kinds are: {', '.join(_KINDS)}.",
        hint=did_you_mean(text.upper(), _KINDS),
    )


def _to(bound: _Call) -> ToChangelog:
    if bound.table.order:
        raise ValidationError("TO_CHANGELOG has ORDER BY", at=bound.table.at or bound.tree.at)
    codes: list[str | None] = list(_KINDS)
    mapping = bound.mapping()
    if mapping is not None:
        codes = [None] * len(_KINDS)
        for key, value, at in mapping:
            kind = _kind(key, bound, at)
            if codes[kind] is not None:
                raise ValidationError(f"op_mapping of TO_CHANGELOG names {key} twice", at=at)
            codes[kind] = value
    op, at = bound.op()
    schema, first = bound.schema, bound.partition
    if op in schema.names:
        raise ValidationError(
            f'column "{op}" of TO_CHANGELOG is there already',
            at=at,
            detail=f"The table has: {', '.join(schema.names)}.",
            hint="Give it another name: op => DESCRIPTOR(name).",
        )
    rest = [place for place in range(len(schema)) if place not in first]
    names = [*(schema.names[each] for each in first), op, *(schema.names[each] for each in rest)]
    types = [
        *(schema.types[each] for each in first),
        VarCharType(nullable=False),
        *(schema.types[each] for each in rest),
    ]
    given = RowSchema(tuple(names), tuple(types))
    return ToChangelog(given, bound.source, first, (codes[0], codes[1], codes[2], codes[3]))


def _from(bound: _Call) -> FromChangelog:
    schema = bound.schema
    op, at = bound.op()
    if op not in schema.names:
        raise ValidationError(
            f'column "{op}" was not found in the table of FROM_CHANGELOG',
            at=at,
            detail=f"There are: {', '.join(schema.names)}. It says which change a row is.",
            hint=did_you_mean(op, schema.names) or "Name it: op => DESCRIPTOR(name).",
        )
    place = schema.names.index(op)
    if not isinstance(schema.types[place], (CharType, VarCharType)):
        raise ValidationError(
            f'column "{op}" of FROM_CHANGELOG is {schema.types[place]}',
            at=at,
            detail="It says the kind as a STRING.",
        )
    if place in bound.partition:
        raise ValidationError(f'FROM_CHANGELOG is partitioned by "{op}", the column with the kind', at=at)
    codes = _codes(bound)
    order = sort_keys(bound.context, bound.tree, bound.table.order, schema)
    rest = [each for each in range(len(schema)) if each != place and each not in bound.partition]
    columns = nodes.refs(schema, [*bound.partition, *rest])
    names = tuple(schema.names[each.index] for each in columns if isinstance(each, InputRef))
    given = RowSchema(names, tuple(each.type for each in columns))
    return FromChangelog(given, bound.source, bound.partition, place, codes, order)


def _codes(bound: _Call) -> tuple[tuple[str, int], ...]:
    mapping = bound.mapping()
    if mapping is None:
        return tuple((name, kind) for kind, name in enumerate(_KINDS))
    codes: dict[str, int] = {}
    for key, value, at in mapping:
        if key in codes:
            raise ValidationError(f"op_mapping of FROM_CHANGELOG names the code {key!r} twice", at=at)
        codes[key] = _kind(value, bound, at)
    kinds = set(codes.values())
    if 2 in kinds and 1 not in kinds and not bound.partition:
        raise ValidationError(
            "op_mapping of FROM_CHANGELOG has UPDATE_AFTER and no UPDATE_BEFORE",
            at=bound.given["op_mapping"].at or bound.tree.at,
            detail="Without a key nothing says which row is replaced.",
            hint="Add UPDATE_BEFORE, or PARTITION BY the columns that are the key.",
        )
    return tuple(codes.items())
