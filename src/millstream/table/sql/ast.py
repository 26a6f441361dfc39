"""The tree of a SQL text. Only `parser.py` makes it of text; the Table API makes the same nodes by itself.

Every node knows where it stands (`at`), so that messages can show it. Names are as written, quoted or not; nothing is
resolved here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from millstream.types.datatypes import DataType

__all__ = [
    "Alias",
    "Between",
    "Case",
    "Cast",
    "Column",
    "Cte",
    "Derived",
    "Descriptor",
    "Exists",
    "Expression",
    "FrameBound",
    "Function",
    "GroupingSets",
    "InList",
    "InQuery",
    "IntervalLiteral",
    "IsTest",
    "JoinRelation",
    "Lateral",
    "Like",
    "LiteralValue",
    "NamedArgument",
    "Operator",
    "OrderItem",
    "Position",
    "Query",
    "Relation",
    "Select",
    "SelectItem",
    "SetQuery",
    "Star",
    "Subquery",
    "TableArgument",
    "TableFunction",
    "TableName",
    "TemporalTable",
    "Unnest",
    "ValuesQuery",
    "WindowSpec",
    "With",
]


@dataclass(frozen=True, slots=True)
class Position:
    """Where something stands in the text: line and column from 1, and how many characters it takes."""

    line: int
    column: int
    length: int = 1


# --- expressions


@dataclass(frozen=True)
class Expression:
    """A scalar expression."""

    at: Position | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True)
class Column(Expression):
    """A name with dots: column, `alias.column`, nested field."""

    parts: tuple[str, ...]


@dataclass(frozen=True)
class Star(Expression):
    """`*` or `alias.*`."""

    qualifier: tuple[str, ...] = ()


@dataclass(frozen=True)
class LiteralValue(Expression):
    """A literal: NULL has value None and type None; numbers carry Flink's type (INT, BIGINT, DECIMAL, DOUBLE)."""

    value: Any
    type: DataType | None


@dataclass(frozen=True)
class IntervalLiteral(Expression):
    """`INTERVAL '1:30' HOUR TO MINUTE`: text and units as written, `value` in months or milliseconds.

    `months` says which of the two.
    """

    value: int
    months: bool
    text: str = ""


@dataclass(frozen=True)
class Operator(Expression):
    """A prefix or infix operator: `+ - * / % = <> < <= > >= || AND OR NOT`, `IS DISTINCT FROM`, `IS NOT DISTINCT FROM`;
    unary minus is `NEGATE`, plus `POSITIVE`. `OVERLAPS` has four operands."""

    name: str
    operands: tuple[Expression, ...]


@dataclass(frozen=True)
class IsTest(Expression):
    """`x IS [NOT] NULL | TRUE | FALSE | UNKNOWN | JSON [VALUE|OBJECT|ARRAY|SCALAR]`."""

    operand: Expression
    test: str
    negated: bool = False


@dataclass(frozen=True)
class Between(Expression):
    """`x [NOT] BETWEEN [SYMMETRIC] low AND high`."""

    operand: Expression
    low: Expression
    high: Expression
    negated: bool = False
    symmetric: bool = False


@dataclass(frozen=True)
class Like(Expression):
    """`x [NOT] LIKE | SIMILAR TO pattern [ESCAPE e]`."""

    operand: Expression
    pattern: Expression
    escape: Expression | None = None
    negated: bool = False
    similar: bool = False


@dataclass(frozen=True)
class InList(Expression):
    """`x [NOT] IN (a, b)`."""

    operand: Expression
    options: tuple[Expression, ...]
    negated: bool = False


@dataclass(frozen=True)
class InQuery(Expression):
    """`x [NOT] IN (SELECT ...)`; `operand` may be a ROW call. `x > SOME | ALL (SELECT ...)`: `comparison`, `every`."""

    operand: Expression
    query: Query
    negated: bool = False
    comparison: str = "="
    every: bool = False


@dataclass(frozen=True)
class Exists(Expression):
    """`EXISTS (SELECT ...)`."""

    query: Query


@dataclass(frozen=True)
class Subquery(Expression):
    """A scalar subquery."""

    query: Query


@dataclass(frozen=True)
class Case(Expression):
    """`CASE [operand] WHEN .. THEN .. ELSE .. END`."""

    operand: Expression | None
    branches: tuple[tuple[Expression, Expression], ...]
    default: Expression | None


@dataclass(frozen=True)
class Cast(Expression):
    """`CAST(x AS type)`, `TRY_CAST`."""

    operand: Expression
    type: DataType
    attempt: bool = False


@dataclass(frozen=True)
class NamedArgument(Expression):
    """`name => value` of a call."""

    name: str
    value: Expression


@dataclass(frozen=True)
class Descriptor(Expression):
    """`DESCRIPTOR(a, b)`."""

    columns: tuple[str, ...]


@dataclass(frozen=True)
class TableArgument(Expression):
    """`TABLE name` or `(SELECT ...)` as an argument, with PARTITION BY and ORDER BY."""

    relation: Relation
    partition: tuple[Expression, ...] = ()
    order: tuple[OrderItem, ...] = ()


@dataclass(frozen=True)
class Function(Expression):
    """A call, of built-in functions too. Special syntax becomes plain arguments under Flink's function name.

    `EXTRACT(u FROM x)` is EXTRACT(literal unit, x); `TRIM(BOTH a FROM b)` is TRIM(literal 'BOTH', a, b);
    `POSITION(a IN b)` POSITION(a, b); `SUBSTRING(a FROM b FOR c)`, `OVERLAY(...)` likewise;
    `FLOOR(t TO HOUR)` FLOOR(t, literal unit);
    `ARRAY[..]`, `MAP[..]`, `ROW(..)`, `x[i]` (ITEM), `x.f` behind a call (FIELD with a literal name);
    `JSON_VALUE(j, p RETURNING t DEFAULT d ON EMPTY ...)`: options in `clauses`. Niladic functions have no arguments.

    Attributes:
        name: As written; dotted names of catalogs and databases joined by dots.
        distinct: `COUNT(DISTINCT x)`.
        filter: `FILTER (WHERE ...)`.
        order: Of `WITHIN GROUP (ORDER BY ...)` or inside the parentheses.
        over: Makes it an OVER aggregate.
        nulls: `IGNORE NULLS` / `RESPECT NULLS`.
        star: `COUNT(*)`.
        clauses: Words of special syntax with their values.
    """

    name: str
    arguments: tuple[Expression, ...] = ()
    distinct: bool = False
    filter: Expression | None = None
    order: tuple[OrderItem, ...] = ()
    over: WindowSpec | str | None = None
    nulls: str = ""
    star: bool = False
    clauses: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class OrderItem:
    """One item of ORDER BY; `nulls_first` None is the default."""

    expression: Expression
    descending: bool = False
    nulls_first: bool | None = None


@dataclass(frozen=True)
class FrameBound:
    """`UNBOUNDED PRECEDING` (amount None), `n PRECEDING`, `CURRENT ROW` (amount 0 as LiteralValue), `n FOLLOWING`."""

    amount: Expression | None
    following: bool = False
    current: bool = False


@dataclass(frozen=True)
class WindowSpec:
    """What is in the parentheses of OVER; `base` names a window of the WINDOW clause."""

    partition: tuple[Expression, ...] = ()
    order: tuple[OrderItem, ...] = ()
    rows: bool | None = None
    lower: FrameBound | None = None
    upper: FrameBound | None = None
    base: str = ""


# --- relations


@dataclass(frozen=True)
class Relation:
    """What stands behind FROM."""

    at: Position | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True)
class BoundRelation(Relation):
    """A table of the Table API: `node` is its bound plan."""

    node: Any


@dataclass(frozen=True)
class TableName(Relation):
    """A table or view by name, with hints `/*+ OPTIONS('k'='v') */`."""

    parts: tuple[str, ...]
    hints: tuple[tuple[str, tuple[Any, ...]], ...] = ()


@dataclass(frozen=True)
class Derived(Relation):
    """`(query)`."""

    query: Query


@dataclass(frozen=True)
class Alias(Relation):
    """`relation AS name (columns)`."""

    relation: Relation
    name: str
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class TemporalTable(Relation):
    """`relation FOR SYSTEM_TIME AS OF period`."""

    relation: Relation
    period: Expression


@dataclass(frozen=True)
class TableFunction(Relation):
    """`TABLE(f(...))` and `LATERAL TABLE(f(...))`."""

    call: Function


@dataclass(frozen=True)
class Unnest(Relation):
    """`UNNEST(a, b) [WITH ORDINALITY]`."""

    arguments: tuple[Expression, ...]
    ordinality: bool = False


@dataclass(frozen=True)
class Lateral(Relation):
    """`LATERAL (query)`: may refer to what stands before it."""

    relation: Relation


@dataclass(frozen=True)
class JoinRelation(Relation):
    """`left kind JOIN right`: kind INNER, LEFT, RIGHT, FULL, CROSS, SEMI, ANTI; comma is CROSS."""

    left: Relation
    right: Relation
    kind: str
    condition: Expression | None = None
    using: tuple[str, ...] = ()
    natural: bool = False


@dataclass(frozen=True)
class MatchRecognize(Relation):
    """`relation MATCH_RECOGNIZE (...)`: clauses as the parser reads them."""

    relation: Relation
    partition: tuple[Expression, ...]
    order: tuple[OrderItem, ...]
    measures: tuple[tuple[Expression, str], ...]
    rows_per_match: str
    after_match: tuple[str, str]
    pattern: Any
    within: Expression | None
    subsets: tuple[tuple[str, tuple[str, ...]], ...]
    defines: tuple[tuple[str, Expression], ...]
    pattern_at: Position | None = field(default=None, compare=False, repr=False, kw_only=True)


# --- queries


@dataclass(frozen=True)
class Query:
    """A query: with ORDER BY, OFFSET and LIMIT (FETCH) of its own."""

    at: Position | None = field(default=None, compare=False, repr=False, kw_only=True)
    order: tuple[OrderItem, ...] = field(default=(), kw_only=True)
    offset: Expression | None = field(default=None, kw_only=True)
    limit: Expression | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class SelectItem:
    """An expression with its alias."""

    expression: Expression
    alias: str = ""


@dataclass(frozen=True)
class GroupingSets:
    """`GROUPING SETS | CUBE | ROLLUP (...)` as an item of GROUP BY: `kind`, and lists of expressions."""

    kind: str
    sets: tuple[tuple[Expression, ...], ...]


@dataclass(frozen=True)
class Select(Query):
    """SELECT; `group` is None without GROUP BY, () of `GROUP BY ()`."""

    items: tuple[SelectItem, ...]
    source: Relation | None = None
    where: Expression | None = None
    group: tuple[Expression | GroupingSets, ...] | None = None
    having: Expression | None = None
    distinct: bool = False
    windows: tuple[tuple[str, WindowSpec], ...] = ()
    qualify: Expression | None = None
    hints: tuple[tuple[str, tuple[Any, ...]], ...] = ()


@dataclass(frozen=True)
class SetQuery(Query):
    """`left UNION | INTERSECT | EXCEPT [ALL] right`."""

    left: Query
    right: Query
    kind: str
    all: bool = False


@dataclass(frozen=True)
class ValuesQuery(Query):
    """VALUES: rows of expressions."""

    rows: tuple[tuple[Expression, ...], ...]


@dataclass(frozen=True)
class Cte:
    """`name (columns) AS (query)` of WITH."""

    name: str
    query: Query
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class With(Query):
    """`WITH ctes query`."""

    ctes: tuple[Cte, ...]
    query: Query
