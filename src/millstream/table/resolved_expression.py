"""Expressions whose type is known (PyFlink's `pyflink.table.resolved_expression`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from millstream.base.errors import TypeMismatchError
from millstream.table.expressions.core import Expression
from millstream.table.sql import ast
from millstream.table.sql.unparse import unparse
from millstream.types.datatypes import DataType

__all__ = ["ResolvedExpression"]

T = TypeVar("T")


class ResolvedExpression(Expression[T]):
    """An expression with the type of its values: of computed columns and watermarks.

    Members that compute make plain expressions again.

    Args:
        node: Of the tree that SQL texts make.
        data_type: Of its values.
        children: Its operands.
        text: How Flink shows it; its SQL text by default.
    """

    def __init__(
        self,
        node: ast.Expression,
        data_type: DataType,
        children: Sequence[ResolvedExpression[Any]] = (),
        text: str = "",
    ) -> None:
        super().__init__(node, text or unparse(node))
        self._data_type = data_type
        self._children = tuple(children)

    @staticmethod
    def of(expression: Any, data_type: DataType) -> ResolvedExpression[Any]:
        """Say which type an expression has (millstream's own).

        Args:
            expression: SQL text, or an expression.
            data_type: Of its values.

        Raises:
            TypeMismatchError: If it is neither.
        """
        if isinstance(expression, str):
            from millstream.table.sql.parser import parse_expression  # the parser, only for texts

            return ResolvedExpression(parse_expression(expression), data_type)
        if not isinstance(expression, Expression):
            raise TypeMismatchError(
                f"{expression!r} is no expression", hint="Give SQL text, or an expression: col(...)."
            )
        return ResolvedExpression(expression.node, data_type, text=str(expression))

    def get_output_data_type(self) -> DataType:
        """Return the type of its values."""
        return self._data_type

    def get_resolved_children(self) -> list[ResolvedExpression[Any]]:
        """Return its operands."""
        return list(self._children)

    def as_serializable_string(self) -> str:
        """Return it as SQL text."""
        return unparse(self.node)

    def as_summary_string(self) -> str:
        """Return it as people read it."""
        return self._text

    def __str__(self) -> str:
        return self.as_summary_string()

    def _of(self, node: ast.Expression, text: str) -> Any:
        return Expression(node, text)
