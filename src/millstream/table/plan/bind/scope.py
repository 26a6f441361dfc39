"""Which columns a name can mean at a place of a query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from millstream.table.errors import ValidationError, did_you_mean
from millstream.table.expressions.rex import Call, InputRef, Literal, RowExpression, RowSchema
from millstream.table.sql.ast import Position
from millstream.types.datatypes import CharType, DataType, RowType

__all__ = ["OUTER", "Scope", "ScopeColumn", "field_of"]

OUTER = "$OUTER"
"""A call that stands for a column of the query around: `$OUTER(levels up, place)`."""


@dataclass(frozen=True)
class ScopeColumn:
    """A column that can be named.

    Attributes:
        qualifiers: The name of its table or alias: the last part counts most, a full name has three.
        name: Its name.
        index: Its place in the relation.
        type: Its type.
        hidden: Whether `*` leaves it out.
    """

    qualifiers: tuple[str, ...]
    name: str
    index: int
    type: DataType
    hidden: bool = False


@dataclass(frozen=True)
class Scope:
    """The columns in sight, and those of the query around.

    Attributes:
        columns: In order.
        parent: Of the query around; None outside of subqueries.
    """

    columns: tuple[ScopeColumn, ...] = ()
    parent: Scope | None = None

    @staticmethod
    def of(schema: RowSchema, qualifiers: Sequence[str] = (), parent: Scope | None = None) -> Scope:
        """Return the scope of one relation."""
        columns = tuple(
            ScopeColumn(tuple(qualifiers), name, index, data_type)
            for index, (name, data_type) in enumerate(zip(schema.names, schema.types, strict=True))
        )
        return Scope(columns, parent)

    def beside(self, other: Scope) -> Scope:
        """Return the scope of a join: the other's columns follow."""
        width = max((each.index for each in self.columns), default=-1) + 1
        return self.joined(other, width)

    def joined(self, other: Scope, width: int) -> Scope:
        """Return the scope of a join whose left side has `width` columns."""
        moved = tuple(replace(each, index=each.index + width) for each in other.columns)
        return Scope(self.columns + moved, self.parent)

    def renamed(self, qualifier: str, names: Sequence[str], schema: RowSchema) -> Scope:
        """Return the scope behind `AS qualifier (names)`."""
        return Scope.of(replace(schema, names=tuple(names) or schema.names), (qualifier,), self.parent)

    # --- looking up

    def resolve(self, parts: tuple[str, ...], at: Position | None) -> RowExpression:
        """Return what a name with dots means: a column, its nested fields, or a column of the query around.

        Raises:
            ValidationError: If it means nothing, or several columns.
        """
        level, scope = 0, self
        while True:
            found = scope._find(parts, at)
            if found is not None:
                column, rest = found
                expression: RowExpression = InputRef(column.index, column.type)
                if level:
                    expression = outer(level, column.index, column.type)
                for name in rest:
                    expression = field_of(expression, name, at)
                return expression
            if scope.parent is None:
                raise self._missing(parts, at)
            level, scope = level + 1, scope.parent

    def _find(
        self, parts: tuple[str, ...], at: Position | None
    ) -> tuple[ScopeColumn, tuple[str, ...]] | None:
        for size in range(min(len(parts) - 1, 3), 0, -1):
            qualifier, name = parts[:size], parts[size]
            matches = [
                each for each in self.columns if each.name == name and each.qualifiers[-size:] == qualifier
            ]
            if matches:
                return self._only(matches, parts[: size + 1], at), parts[size + 1 :]
        matches = [each for each in self.columns if each.name == parts[0]]
        shown = [each for each in matches if not each.hidden] or matches
        return (self._only(shown, parts[:1], at), parts[1:]) if shown else None

    def _only(self, matches: list[ScopeColumn], parts: tuple[str, ...], at: Position | None) -> ScopeColumn:
        if len(matches) == 1:
            return matches[0]
        name = ".".join(parts)
        owners = [".".join((*each.qualifiers, each.name)) for each in matches]
        raise ValidationError(
            f'column "{name}" is ambiguous',
            at=at,
            detail=f"It can be {' or '.join(owners)}.",
            hint="Write the table's name or alias before it.",
        )

    def _missing(self, parts: tuple[str, ...], at: Position | None) -> ValidationError:
        name = parts[-1]
        qualifiers = {each.qualifiers[-1] for each in self._all() if each.qualifiers}
        if len(parts) > 1 and not any(parts[0] in (each.name, *each.qualifiers) for each in self._all()):
            return ValidationError(
                f'table "{parts[0]}" was not found in the query',
                at=at,
                detail=f"In sight are: {', '.join(sorted(qualifiers)) or 'no tables'}.",
                hint=did_you_mean(parts[0], qualifiers),
            )
        seen = [
            each.name
            for each in self._all()
            if len(parts) == 1 or not each.qualifiers or each.qualifiers[-1] == parts[-2]
        ]
        where = f' in table "{parts[-2]}"' if len(parts) > 1 else ""
        return ValidationError(
            f'column "{name}" was not found{where}',
            at=at,
            detail=f"There are: {', '.join(dict.fromkeys(seen)) or 'no columns'}.",
            hint=did_you_mean(name, seen),
        )

    def _all(self) -> Iterator[ScopeColumn]:
        yield from self.columns
        if self.parent is not None:
            yield from self.parent._all()

    # --- stars

    def star(self, qualifier: tuple[str, ...], at: Position | None) -> list[tuple[RowExpression, str]]:
        """Return columns and names of `*` or `qualifier.*`; of a column of a row type its fields.

        Raises:
            ValidationError: If there is no such table.
        """
        columns = [
            each
            for each in self.columns
            if (not qualifier and not each.hidden)
            or (qualifier and each.qualifiers[-len(qualifier) :] == qualifier)
        ]
        if columns:
            return [(InputRef(each.index, each.type), each.name) for each in columns]
        if not qualifier:
            raise ValidationError("* was used where there is no table", at=at)
        row = self.resolve(qualifier, at)
        if not isinstance(row.type, RowType):
            raise ValidationError(
                f'"{".".join(qualifier)}.*" was used, but the column is {row.type}',
                at=at,
                detail="Tables and columns of a row type have fields.",
            )
        return [(field_of(row, each.name, at), each.name) for each in row.type.fields]


def outer(level: int, index: int, data_type: DataType) -> RowExpression:
    """Return the reference to a column of a query around."""
    from millstream.types.datatypes import IntType

    place = tuple(Literal(each, IntType(nullable=False)) for each in (level, index))
    return Call(OUTER, place, data_type)


def field_of(row: RowExpression, name: str, at: Position | None) -> RowExpression:
    """Return a field of a row.

    Raises:
        ValidationError: If the expression is no row or has no such field.
    """
    if not isinstance(row.type, RowType):
        raise ValidationError(
            f'field "{name}" was read of a value of type {row.type}', at=at, detail="Only rows have fields."
        )
    for each in row.type.fields:
        if each.name == name:
            found = each.data_type
            if row.type.nullable and not found.nullable:
                found = type_with_nullability(found, nullable=True)
            return Call("FIELD", (row, Literal(name, CharType(max(len(name), 1), nullable=False))), found)
    names = row.type.field_names()
    raise ValidationError(
        f'field "{name}" was not found',
        at=at,
        detail=f"The row has: {', '.join(names)}.",
        hint=did_you_mean(name, names),
    )


def type_with_nullability(data_type: DataType, *, nullable: bool) -> DataType:
    """Return the same type, with or without NULL."""
    import copy

    if data_type.nullable == nullable:
        return data_type
    changed = copy.copy(data_type)
    changed.nullable = nullable
    return changed
