"""The class of expressions of the Table API: they make the nodes that SQL texts make."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Generic, TypeVar

from millstream.base.errors import ConfigurationError
from millstream.table.expressions.aggregates_members import AggregatesMembers
from millstream.table.expressions.building import node_of, shown
from millstream.table.expressions.collections_members import CollectionsMembers
from millstream.table.expressions.json_members import JsonMembers
from millstream.table.expressions.numbers_members import NumbersMembers
from millstream.table.expressions.strings_members import StringsMembers
from millstream.table.expressions.times_members import TimesMembers
from millstream.table.expressions.units import (
    JsonExistsOnError,
    JsonOnNull,
    JsonQueryOnEmptyOrError,
    JsonQueryWrapper,
    JsonType,
    JsonValueOnEmptyOrError,
    TimeIntervalUnit,
    TimePointUnit,
)
from millstream.table.sql import ast
from millstream.types.datatypes import DataType

__all__ = [
    "Expression",
    "JsonExistsOnError",
    "JsonOnNull",
    "JsonQueryOnEmptyOrError",
    "JsonQueryWrapper",
    "JsonType",
    "JsonValueOnEmptyOrError",
    "TimeIntervalUnit",
    "TimePointUnit",
]

T = TypeVar("T")


def _binary(function: str, name: str, *, reverse: bool = False) -> Callable[[Any, Any], Any]:
    def operator(self: Expression[Any], other: Any) -> Expression[Any]:
        operands = (other, self) if reverse else (self, other)
        return self._operator(function, name, *operands)

    return operator


class Expression(
    NumbersMembers,
    StringsMembers,
    TimesMembers,
    CollectionsMembers,
    AggregatesMembers,
    JsonMembers,
    Generic[T],
):
    """A column, a literal, or what is computed of them.

    Operators and members make further expressions; nothing is checked before a table is made of them.
    """

    def __abs__(self) -> Expression[T]:
        return self.abs

    __eq__: Callable[[Any, Any], Any] = _binary("=", "equals")
    __ne__: Callable[[Any, Any], Any] = _binary("<>", "notEquals")
    __lt__ = _binary("<", "lessThan")
    __gt__ = _binary(">", "greaterThan")
    __le__ = _binary("<=", "lessThanOrEqual")
    __ge__ = _binary(">=", "greaterThanOrEqual")
    __hash__ = object.__hash__

    __and__ = _binary("AND", "and")
    __or__ = _binary("OR", "or")
    __rand__ = _binary("AND", "and")
    __ror__ = _binary("OR", "or")

    def __invert__(self) -> Expression[Any]:
        return self.is_not_true

    __add__ = _binary("+", "plus")
    __sub__ = _binary("-", "minus")
    __mul__ = _binary("*", "times")
    __truediv__ = _binary("/", "divide")
    __mod__ = _binary("%", "mod")
    __radd__ = _binary("+", "plus", reverse=True)
    __rsub__ = _binary("-", "minus", reverse=True)
    __rmul__ = _binary("*", "times")
    __rtruediv__ = _binary("/", "divide", reverse=True)
    __rmod__ = _binary("%", "mod", reverse=True)

    def __pow__(self, other: Any) -> Expression[Any]:
        return self._call("POWER", "power", self, other)

    def __rpow__(self, other: Any) -> Expression[Any]:
        return self._call("POWER", "power", other, self)

    def __neg__(self) -> Expression[T]:
        return self._operator("NEGATE", "minusPrefix", self)

    def __getitem__(self, index: Any) -> Expression[Any]:
        return self.at(index)

    def __getattr__(self, name: str) -> Expression[Any]:
        if name.startswith("_"):
            raise AttributeError(name)
        return self.get(name)

    def __bool__(self) -> bool:
        raise ConfigurationError(
            f"expression {self} has no truth value",
            hint="Use & for AND, | for OR, and ~ for NOT, with parentheses around comparisons.",
        )

    # --- tests and conditions

    def log(self, base: Any = None) -> Expression[Any]:
        """Return the natural logarithm, or that of a base."""
        return self._call("LOG", "log", self) if base is None else self._call("LOG", "log", base, self)

    def between(self, lower_bound: Any, upper_bound: Any) -> Expression[Any]:
        """Return `self BETWEEN lower_bound AND upper_bound`."""
        bounds = node_of(lower_bound), node_of(upper_bound)
        text = f"between({self}, {shown(lower_bound)}, {shown(upper_bound)})"
        return self._of(ast.Between(self.node, *bounds), text)

    def not_between(self, lower_bound: Any, upper_bound: Any) -> Expression[Any]:
        """Return `self NOT BETWEEN lower_bound AND upper_bound`."""
        bounds = node_of(lower_bound), node_of(upper_bound)
        text = f"notBetween({self}, {shown(lower_bound)}, {shown(upper_bound)})"
        return self._of(ast.Between(self.node, *bounds, negated=True), text)

    def then(self, if_true: Any, if_false: Any) -> Expression[Any]:
        """Return one of two values, by whether this holds."""
        node = ast.Case(None, ((self.node, node_of(if_true)),), node_of(if_false))
        return self._of(node, f"ifThenElse({self}, {shown(if_true)}, {shown(if_false)})")

    def if_null(self, null_replacement: Any) -> Expression[T]:
        """Return `IFNULL(self, null_replacement)`."""
        return self._call("IFNULL", "ifNull", self, null_replacement)

    def _test(self, test: str, name: str, negated: bool) -> Expression[Any]:
        return self._of(ast.IsTest(self.node, test, negated), f"{name}({self})")

    @property
    def is_null(self) -> Expression[Any]:
        """Return `self IS NULL`."""
        return self._test("NULL", "isNull", False)

    @property
    def is_not_null(self) -> Expression[Any]:
        """Return `self IS NOT NULL`."""
        return self._test("NULL", "isNotNull", True)

    @property
    def is_true(self) -> Expression[Any]:
        """Return `self IS TRUE`."""
        return self._test("TRUE", "isTrue", False)

    @property
    def is_false(self) -> Expression[Any]:
        """Return `self IS FALSE`."""
        return self._test("FALSE", "isFalse", False)

    @property
    def is_not_true(self) -> Expression[Any]:
        """Return `self IS NOT TRUE`."""
        return self._test("TRUE", "isNotTrue", True)

    @property
    def is_not_false(self) -> Expression[Any]:
        """Return `self IS NOT FALSE`."""
        return self._test("FALSE", "isNotFalse", True)

    def in_(self, first_element_or_table: Any, *remaining_elements: Any) -> Expression[Any]:
        """Return whether this is among values, or among the rows of a table of one column."""
        if type(first_element_or_table).__name__ == "Table":
            return self._of(ast.InQuery(self.node, first_element_or_table), f"in({self}, table)")
        options = (first_element_or_table, *remaining_elements)
        text = f"in({self}, {', '.join(map(shown, options))})"
        return self._of(ast.InList(self.node, tuple(map(node_of, options))), text)

    def like(self, pattern: Any = None, escape: Any = None) -> Expression[Any]:
        """Return `self LIKE pattern`."""
        sign = None if escape is None else node_of(escape)
        return self._of(ast.Like(self.node, node_of(pattern), sign), f"like({self}, {shown(pattern)})")

    def similar(self, pattern: Any = None) -> Expression[Any]:
        """Return `self SIMILAR TO pattern`."""
        node = ast.Like(self.node, node_of(pattern), similar=True)
        return self._of(node, f"similar({self}, {shown(pattern)})")

    # --- names, types, order

    def alias(self, name: str, *extra_names: str) -> Expression[T]:
        """Return the same under a name; an expression of several columns takes several."""
        names = (name, *extra_names)
        text = f"as({self}, {', '.join(map(shown, names))})"
        return type(self)(self.node, text, names, self.order)

    def as_argument(self, name: str) -> Expression[T]:
        """Return the same as a function's argument of a name."""
        return self._of(ast.NamedArgument(name, self.node), f"asArgument({self}, {shown(name)})")

    def cast(self, data_type: DataType) -> Expression[Any]:
        """Return `CAST(self AS data_type)`."""
        return self._of(ast.Cast(self.node, data_type), f"cast({self}, {data_type})")

    def try_cast(self, data_type: DataType) -> Expression[Any]:
        """Return `TRY_CAST(self AS data_type)`."""
        return self._of(ast.Cast(self.node, data_type, True), f"TRY_CAST({self}, {data_type})")

    @property
    def asc(self) -> Expression[T]:
        """Sort by this, smallest first."""
        return type(self)(self.node, f"asc({self})", self.names, ast.OrderItem(self.node))

    @property
    def desc(self) -> Expression[T]:
        """Sort by this, largest first."""
        return type(self)(self.node, f"desc({self})", self.names, ast.OrderItem(self.node, True))

    @property
    def distinct(self) -> Expression[T]:
        """Return an aggregate for which equal arguments count once."""
        if not isinstance(self.node, ast.Function):
            raise ConfigurationError(f"{self} is no aggregate", hint="Write col('a').count.distinct.")
        return self._of(replace(self.node, distinct=True), f"distinct({self})")

    # --- text and rows, where the order of arguments differs

    def trim_leading(self, character: Any = None) -> Expression[Any]:
        """Return `TRIM(LEADING character FROM self)`."""
        return self._trimmed("LEADING", character)

    def trim_trailing(self, character: Any = None) -> Expression[Any]:
        """Return `TRIM(TRAILING character FROM self)`."""
        return self._trimmed("TRAILING", character)

    def trim(self, character: Any = None) -> Expression[Any]:
        """Return `TRIM(BOTH character FROM self)`."""
        return self._trimmed("BOTH", character)

    def _trimmed(self, side: str, character: Any) -> Expression[Any]:
        sign = " " if character is None else character
        node = ast.Function("TRIM", (node_of(side), node_of(sign), self.node))
        return self._of(node, f"trim({side}, {shown(sign)}, {self})")

    def replace(self, search: Any = None, replacement: Any = None) -> Expression[Any]:
        """Return `REPLACE(self, search, replacement)`."""
        return self._call("REPLACE", "replace", self, search, replacement)

    def position(self, haystack: Any = None) -> Expression[Any]:
        """Return where this stands in another text, from 1; 0 if nowhere."""
        return self._call("POSITION", "position", self, haystack)

    def get(self, name_or_index: str | int) -> Expression[Any]:
        """Return a field of a row, by name or by place from 0."""
        text = f"get({self}, {shown(name_or_index)})"
        if isinstance(name_or_index, int):
            return self._of(ast.Function("ITEM", (self.node, node_of(name_or_index + 1))), text)
        return self._of(ast.Function("FIELD", (self.node, node_of(name_or_index))), text)

    @property
    def flatten(self) -> Expression[Any]:
        """Return all fields of a row as columns."""
        return self._call("FLATTEN", "flatten", self)

    def instr(self, s: Any) -> Expression[Any]:
        """Return where a text first stands in this one, from 1; 0 if nowhere."""
        return self._call("INSTR", "instr", self, s)
