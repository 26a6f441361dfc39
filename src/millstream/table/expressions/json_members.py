"""Members of `Expression` that make functions of JSON."""

from __future__ import annotations

from typing import Any, Self

from millstream.table.expressions.building import Built, node_of, shown
from millstream.table.expressions.units import (
    JsonExistsOnError,
    JsonQueryOnEmptyOrError,
    JsonQueryWrapper,
    JsonType,
    JsonValueOnEmptyOrError,
)
from millstream.table.sql import ast
from millstream.types.datatypes import DataType
from millstream.types.further_types import DataTypes

__all__ = ["JsonMembers"]

_WRAPPERS = {
    JsonQueryWrapper.WITHOUT_ARRAY: "WITHOUT",
    JsonQueryWrapper.CONDITIONAL_ARRAY: "WITH CONDITIONAL",
    JsonQueryWrapper.UNCONDITIONAL_ARRAY: "WITH UNCONDITIONAL",
}


class JsonMembers(Built):
    """Functions of JSON texts."""

    def _with_clauses(self, name: str, path: str, clauses: tuple[tuple[str, Any], ...], text: str) -> Self:
        return self._of(ast.Function(name, (self.node, node_of(path)), clauses=clauses), text)

    def is_json(self, json_type: JsonType | None = None) -> Self:
        """Return whether a text is JSON, or JSON of a kind."""
        test = "JSON" if json_type is None else f"JSON {json_type.name}"
        return self._of(ast.IsTest(self.node, test), f"IS_JSON({self})")

    def json_exists(self, path: str, on_error: JsonExistsOnError | None = None) -> Self:
        """Return whether there is something at a path."""
        clauses = () if on_error is None else (("ON ERROR", on_error.name),)
        return self._with_clauses("JSON_EXISTS", path, clauses, f"JSON_EXISTS({self}, {shown(path)})")

    def json_value(
        self,
        path: str,
        returning_type: DataType = DataTypes.STRING(),  # noqa: B008 - types do not change
        on_empty: JsonValueOnEmptyOrError = JsonValueOnEmptyOrError.NULL,
        default_on_empty: Any = None,
        on_error: JsonValueOnEmptyOrError = JsonValueOnEmptyOrError.NULL,
        default_on_error: Any = None,
    ) -> Self:
        """Return the scalar at a path."""

        def case(word: JsonValueOnEmptyOrError, default: Any) -> Any:
            return node_of(default) if word is JsonValueOnEmptyOrError.DEFAULT else word.name

        clauses = (
            ("RETURNING", returning_type),
            ("ON EMPTY", case(on_empty, default_on_empty)),
            ("ON ERROR", case(on_error, default_on_error)),
        )
        return self._with_clauses("JSON_VALUE", path, clauses, f"JSON_VALUE({self}, {shown(path)})")

    def json_query(
        self,
        path: str,
        wrapping_behavior: JsonQueryWrapper = JsonQueryWrapper.WITHOUT_ARRAY,
        on_empty: JsonQueryOnEmptyOrError = JsonQueryOnEmptyOrError.NULL,
        on_error: JsonQueryOnEmptyOrError = JsonQueryOnEmptyOrError.NULL,
    ) -> Self:
        """Return the array or object at a path."""
        clauses = (
            ("WRAPPER", _WRAPPERS[wrapping_behavior]),
            ("ON EMPTY", on_empty.name.replace("_", " ")),
            ("ON ERROR", on_error.name.replace("_", " ")),
        )
        return self._with_clauses("JSON_QUERY", path, clauses, f"JSON_QUERY({self}, {shown(path)})")

    def json_quote(self) -> Self:
        """Return `JSON_QUOTE(self)`."""
        return self._call("JSON_QUOTE", "JSON_QUOTE", self)

    def json_unquote(self) -> Self:
        """Return `JSON_UNQUOTE(self)`."""
        return self._call("JSON_UNQUOTE", "JSON_UNQUOTE", self)
