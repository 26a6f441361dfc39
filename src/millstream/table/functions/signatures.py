"""What a function takes and gives, as data: tables in `definitions/` are written in these words.

A signature is a text of parameters: `string, int, [int]`; brackets mark what may be left out, `...` behind the last
one that it repeats. Each word is a `Parameter` of `PARAMETERS`: which types it takes, and what they are cast to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from millstream.table.expressions.rex import Literal, RowExpression
from millstream.table.functions import types as kinds
from millstream.types import datatypes as t
from millstream.types import further_types as f

__all__ = [
    "PARAMETERS",
    "Category",
    "FunctionDefinition",
    "Parameter",
    "Signature",
    "always",
    "as_argument",
    "common",
    "nullable",
    "signature",
]

Types = Sequence[t.DataType]
Result = Callable[[Types], t.DataType]
Binder = Callable[[Sequence[RowExpression]], RowExpression | None]  # None: the operands do not fit


class Category:
    """Names of kinds of functions."""

    SCALAR = "scalar"
    AGGREGATE = "aggregate"
    WINDOW = "window"
    TABLE = "table"
    GROUPING = "grouping"


@dataclass(frozen=True)
class Parameter:
    """What one argument may be.

    Attributes:
        takes: Whether a type fits.
        gives: The type it is cast to; None leaves it.
        literal: Whether it has to be a constant.
        shown: How messages call it.
    """

    takes: Callable[[t.DataType], bool]
    gives: t.DataType | None = None
    literal: bool = False
    shown: str = ""


def _is(*classes: type[t.DataType]) -> Callable[[t.DataType], bool]:
    return lambda kind: isinstance(kind, classes)


def _zoned(kind: t.DataType) -> bool:
    return isinstance(kind, t.TimestampType)


def _not_bitmap(kind: t.DataType) -> bool:
    return not isinstance(kind, f.BitmapType)


PARAMETERS: dict[str, Parameter] = {
    "any": Parameter(lambda kind: True, shown="<ANY>"),
    "string": Parameter(kinds.is_string, shown="<CHARACTER>"),
    "text": Parameter(_not_bitmap, t.VarCharType(), shown="<ANY>"),
    "binary": Parameter(kinds.is_binary, shown="<BINARY>"),
    "bytes_or_string": Parameter(
        lambda kind: kinds.is_binary(kind) or kinds.is_string(kind), shown="<BINARY> or <CHARACTER>"
    ),
    "boolean": Parameter(_is(t.BooleanType), shown="<BOOLEAN>"),
    "numeric": Parameter(kinds.is_numeric, shown="<NUMERIC>"),
    "exact": Parameter(kinds.is_exact, shown="<EXACT_NUMERIC>"),
    "double": Parameter(kinds.is_numeric, t.DoubleType(), shown="<NUMERIC>"),
    "integer": Parameter(kinds.is_integer, shown="<INTEGER>"),
    "int": Parameter(kinds.is_integer, t.IntType(), shown="<INTEGER>"),
    "bigint": Parameter(kinds.is_integer, t.BigIntType(), shown="<INTEGER>"),
    "number_as_bigint": Parameter(kinds.is_numeric, t.BigIntType(), shown="<NUMERIC>"),
    "unit": Parameter(kinds.is_string, literal=True, shown="<UNIT>"),
    "literal_int": Parameter(kinds.is_integer, t.IntType(), literal=True, shown="<INTEGER literal>"),
    "literal_string": Parameter(kinds.is_string, literal=True, shown="<CHARACTER literal>"),
    "literal_boolean": Parameter(_is(t.BooleanType), literal=True, shown="<BOOLEAN literal>"),
    "date": Parameter(_is(t.DateType), shown="<DATE>"),
    "time_point": Parameter(kinds.is_time_point, shown="<DATETIME>"),
    "temporal": Parameter(
        lambda kind: kinds.is_time_point(kind) or kinds.is_interval(kind),
        shown="<DATETIME> or <INTERVAL>",
    ),
    "timestamp": Parameter(_zoned, shown="<TIMESTAMP>"),
    "interval": Parameter(kinds.is_interval, shown="<INTERVAL>"),
    "array": Parameter(_is(t.ArrayType), shown="<ARRAY>"),
    "map": Parameter(_is(t.MapType), shown="<MAP>"),
    "collection": Parameter(
        _is(t.ArrayType, t.MapType, f.MultisetType), shown="<ARRAY>, <MAP> or <MULTISET>"
    ),
    "row": Parameter(_is(t.RowType), shown="<ROW>"),
    "variant": Parameter(_is(f.VariantType), shown="<VARIANT>"),
    "bitmap": Parameter(_is(f.BitmapType), shown="<BITMAP>"),
    "int_array": Parameter(
        lambda kind: isinstance(kind, t.ArrayType) and kinds.is_integer(kind.element_type),
        t.ArrayType(t.IntType()),
        shown="<ARRAY<INT>>",
    ),
    "string_array": Parameter(
        lambda kind: isinstance(kind, t.ArrayType) and kinds.is_string(kind.element_type),
        shown="<ARRAY<STRING>>",
    ),
}


@dataclass(frozen=True)
class Signature:
    """One way to call a function.

    Attributes:
        parameters: Words of `PARAMETERS`.
        required: How many arguments there are at least.
        repeats: Whether the last parameter may come again.
        result: The result's type of the arguments' types; its nullability counts.
    """

    parameters: tuple[str, ...]
    required: int
    repeats: bool
    result: Result

    def parameter(self, place: int) -> Parameter | None:
        """Return what stands at a place; None if nothing does."""
        if place < len(self.parameters):
            return PARAMETERS[self.parameters[place]]
        return PARAMETERS[self.parameters[-1]] if self.repeats else None

    def takes(self, operands: Sequence[RowExpression]) -> bool:
        """Whether the arguments fit."""
        if len(operands) < self.required:
            return False
        for place, operand in enumerate(operands):
            parameter = self.parameter(place)
            if parameter is None or (parameter.literal and not isinstance(operand, Literal)):
                return False
            if not isinstance(operand.type, f.NullType) and not parameter.takes(operand.type):
                return False
        return True

    def text(self, name: str) -> str:
        """Return how it is called: `SUBSTRING(<CHARACTER>, <INTEGER>, [<INTEGER>])`."""
        shown = []
        for place, word in enumerate(self.parameters):
            one = PARAMETERS[word].shown
            if self.repeats and place == len(self.parameters) - 1:
                one += "..."
            shown.append(f"[{one}]" if place >= self.required else one)
        return f"{name}({', '.join(shown)})"


def signature(parameters: str, result: t.DataType | Result) -> Signature:
    """Read a signature; a plain type as the result is nullable if an argument is.

    >>> signature("string, int, [int]", t.VarCharType()).required
    2
    """
    words, required, repeats = [], 0, False
    for word in filter(None, (part.strip() for part in parameters.split(","))):
        name = word.strip("[]")
        if name.endswith("..."):
            name, repeats = name[:-3], True
        words.append(name)
        required += not word.startswith("[")
    rule = _if_argument(result) if isinstance(result, t.DataType) else result
    return Signature(tuple(words), required, repeats, rule)


def _if_argument(kind: t.DataType) -> Result:
    def result(types: Types) -> t.DataType:
        return kinds.with_nullable(kind, any(each.nullable for each in types))

    return result


def nullable(kind: t.DataType | Result) -> Result:
    """Return a rule whose result may always be NULL."""
    if isinstance(kind, t.DataType):
        fixed = kinds.with_nullable(kind, True)
        return lambda types: fixed
    rule = kind
    return lambda types: kinds.with_nullable(rule(types), True)


def always(kind: t.DataType | Result) -> Result:
    """Return a rule whose result is never NULL."""
    if isinstance(kind, t.DataType):
        fixed = kinds.with_nullable(kind, False)
        return lambda types: fixed
    rule = kind
    return lambda types: kinds.with_nullable(rule(types), False)


def as_argument(place: int) -> Result:
    """Return the rule that the result has an argument's type, nullable if any argument is."""

    def result(types: Types) -> t.DataType:
        return kinds.with_nullable(types[place], any(each.nullable for each in types))

    return result


def common(types: Types) -> t.DataType:
    """Return the common type of all arguments; NULL's if they have none (the binder refuses before)."""
    return kinds.common_type(types) or f.NullType()


@dataclass(frozen=True)
class FunctionDefinition:
    """A built-in function.

    Attributes:
        name: In upper case.
        signatures: Ways to call it; the first that fits counts.
        category: One of `Category`.
        syntax: How it is written, for the documentation.
        group: Heading of the documentation.
        example: An expression; its value is computed for the documentation.
        aliases: Other names.
        bind: Makes the expression of the arguments where a signature does not say it all.
        deterministic: Whether equal arguments give equal results.
        fails: Whether a value may make it fail, so that CASE must not compute it for other rows.
        common_from: Place from which on arguments are cast to their common type; None for none.
    """

    name: str
    signatures: tuple[Signature, ...] = ()
    category: str = Category.SCALAR
    syntax: tuple[str, ...] = ()
    group: str = ""
    example: str = ""
    aliases: tuple[str, ...] = ()
    bind: Binder | None = field(default=None, compare=False)
    deterministic: bool = True
    fails: bool = False
    common_from: int | None = None
