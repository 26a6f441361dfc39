"""Functions that begin an expression (PyFlink's `pyflink.table.expressions`)."""

from __future__ import annotations

from typing import Any

from millstream.base.errors import ConfigurationError
from millstream.table.expressions.building import Built, literal_node, node_of, nodes_of, shown
from millstream.table.expressions.core import Expression, JsonOnNull, TimePointUnit
from millstream.table.sql import ast
from millstream.table.sql.parser import parse_expression
from millstream.types.datatypes import DataType

__all__ = [
    "CURRENT_RANGE",
    "CURRENT_ROW",
    "UNBOUNDED_RANGE",
    "UNBOUNDED_ROW",
    "and_",
    "array",
    "atan2",
    "call",
    "call_sql",
    "coalesce",
    "col",
    "concat",
    "concat_ws",
    "convert_tz",
    "current_database",
    "current_date",
    "current_time",
    "current_timestamp",
    "current_watermark",
    "date_format",
    "descriptor",
    "e",
    "from_unixtime",
    "if_then_else",
    "json",
    "json_array",
    "json_array_agg",
    "json_object",
    "json_object_agg",
    "json_string",
    "lag",
    "lead",
    "lit",
    "local_time",
    "local_timestamp",
    "log",
    "map_",
    "map_from_arrays",
    "negative",
    "not_",
    "null_of",
    "object_of",
    "or_",
    "pi",
    "rand",
    "rand_integer",
    "range_",
    "row",
    "row_interval",
    "source_watermark",
    "temporal_overlaps",
    "timestamp_diff",
    "to_date",
    "to_timestamp",
    "to_timestamp_ltz",
    "unix_timestamp",
    "uuid",
    "with_all_columns",
    "with_columns",
    "without_columns",
]


def _made(
    function: str, name: str, *operands: Any, clauses: tuple[tuple[str, Any], ...] = ()
) -> Expression[Any]:
    given = list(operands)
    while given and given[-1] is None:
        given.pop()
    node = ast.Function(function, nodes_of(given), clauses=clauses)
    return Expression(node, f"{name}({', '.join(map(shown, given))})")


def _operator(function: str, name: str, *operands: Any) -> Expression[Any]:
    node = ast.Operator(function, nodes_of(operands))
    return Expression(node, f"{name}({', '.join(map(shown, operands))})")


# --- columns and literals


def col(name: str) -> Expression[Any]:
    """Return a column by its name; `*` is all of them."""
    return Expression(ast.Star() if name == "*" else ast.Column((name,)), name)


def lit(v: Any, data_type: DataType | None = None) -> Expression[Any]:
    """Return a value as a literal, of its own type or of a given one."""
    return Expression(literal_node(v, data_type), shown(v))


def null_of(data_type: DataType) -> Expression[Any]:
    """Return NULL of a type."""
    return Expression(literal_node(None, data_type), "null")


def range_(start: str | int, end: str | int) -> Expression[Any]:
    """Return columns from one to another, by names or by places from 1, for `with_columns`."""
    ends = [ast.Column((each,)) if isinstance(each, str) else literal_node(each) for each in (start, end)]
    return Expression(ast.Function("RANGE", tuple(ends)), f"rangeTo({start}, {end})")


def with_all_columns() -> Expression[Any]:
    """Return all columns."""
    return Expression(ast.Star(), "withAllColumns()")


def with_columns(head: Any, *tails: Any) -> Expression[Any]:
    """Return columns: by name, by place from 1, or a `range_` of them."""
    return _columns("withColumns", head, *tails)


def without_columns(head: Any, *tails: Any) -> Expression[Any]:
    """Return all columns but some."""
    return _columns("withoutColumns", head, *tails)


def _columns(name: str, *parts: Any) -> Expression[Any]:
    nodes = tuple(ast.Column((each,)) if isinstance(each, str) else node_of(each) for each in parts)
    return Expression(ast.Function(name, nodes), f"{name}({', '.join(map(str, parts))})")


def descriptor(*column_names: str) -> Expression[Any]:
    """Return names of columns, for functions of tables."""
    return Expression(ast.Descriptor(tuple(column_names)), f"DESCRIPTOR({', '.join(column_names)})")


# --- logic


def and_(predicate0: Any, predicate1: Any, *predicates: Any) -> Expression[bool]:
    """Return whether all hold."""
    return _operator("AND", "and", predicate0, predicate1, *predicates)


def or_(predicate0: Any, predicate1: Any, *predicates: Any) -> Expression[bool]:
    """Return whether one holds."""
    return _operator("OR", "or", predicate0, predicate1, *predicates)


def not_(expression: Any) -> Expression[bool]:
    """Return `NOT expression`."""
    return _operator("NOT", "not", expression)


def if_then_else(condition: Any, if_true: Any, if_false: Any) -> Expression[Any]:
    """Return one of two values, by whether a condition holds."""
    node = ast.Case(None, ((node_of(condition), node_of(if_true)),), node_of(if_false))
    return Expression(node, f"ifThenElse({shown(condition)}, {shown(if_true)}, {shown(if_false)})")


def coalesce(*args: Any) -> Expression[Any]:
    """Return the first that is not NULL."""
    return _made("COALESCE", "COALESCE", *args)


# --- over windows


UNBOUNDED_ROW: Expression[Any] = Expression(ast.Function("UNBOUNDED_ROW"), "unboundedRow()")
UNBOUNDED_RANGE: Expression[Any] = Expression(ast.Function("UNBOUNDED_RANGE"), "unboundedRange()")
CURRENT_ROW: Expression[Any] = Expression(ast.Function("CURRENT_ROW"), "currentRow()")
CURRENT_RANGE: Expression[Any] = Expression(ast.Function("CURRENT_RANGE"), "currentRange()")


def row_interval(rows: int) -> Expression[Any]:
    """Return a number of rows, for windows that count."""
    if not isinstance(rows, int) or rows < 1:
        raise ConfigurationError(f"row interval {rows!r} is no number of rows from 1 on")
    return Expression(ast.Function("ROW_INTERVAL", (literal_node(rows),)), f"{rows}.rows")


def lag(expr: Any, offset: Any = 1, default: Any = None) -> Expression[Any]:
    """Return the value some rows before."""
    return _made("LAG", "LAG", expr, offset, default)


def lead(expr: Any, offset: Any = 1, default: Any = None) -> Expression[Any]:
    """Return the value some rows after."""
    return _made("LEAD", "LEAD", expr, offset, default)


# --- time


def current_database() -> Expression[str]:
    """Return the current database's name."""
    return _made("CURRENT_DATABASE", "currentDatabase")


def current_date() -> Expression[Any]:
    """Return the current day of the session's zone."""
    return _made("CURRENT_DATE", "currentDate")


def current_time() -> Expression[Any]:
    """Return the current time of day of the session's zone."""
    return _made("CURRENT_TIME", "currentTime")


def current_timestamp() -> Expression[Any]:
    """Return the current moment."""
    return _made("CURRENT_TIMESTAMP", "currentTimestamp")


def current_watermark(rowtimeAttribute: Any) -> Expression[Any]:
    """Return the watermark of an event-time attribute; NULL before the first."""
    return _made("CURRENT_WATERMARK", "CURRENT_WATERMARK", rowtimeAttribute)


def source_watermark() -> Expression[Any]:
    """Declare that a table's source makes its watermarks."""
    return _made("SOURCE_WATERMARK", "SOURCE_WATERMARK")


def local_time() -> Expression[Any]:
    """Return the current time of day of the session's zone."""
    return _made("LOCALTIME", "localTime")


def local_timestamp() -> Expression[Any]:
    """Return the current time of the session's zone, as TIMESTAMP(3)."""
    return _made("LOCALTIMESTAMP", "localTimestamp")


def to_date(date_str: Any, format: Any = None) -> Expression[Any]:
    """Return a text as DATE; NULL if it is none."""
    return _made("TO_DATE", "toDate", date_str, format)


def to_timestamp(timestamp_str: Any, format: Any = None) -> Expression[Any]:
    """Return a text as TIMESTAMP(3); NULL if it is none."""
    return _made("TO_TIMESTAMP", "toTimestamp", timestamp_str, format)


def to_timestamp_ltz(*args: Any) -> Expression[Any]:
    """Return a number (with a precision of 0 or 3) or a text (with format and zone) as TIMESTAMP_LTZ(3)."""
    if not 1 <= len(args) <= 3:
        raise ConfigurationError(f"to_timestamp_ltz takes one to three arguments, not {len(args)}")
    return _made("TO_TIMESTAMP_LTZ", "toTimestampLtz", *args)


def temporal_overlaps(
    left_time_point: Any, left_temporal: Any, right_time_point: Any, right_temporal: Any
) -> Expression[bool]:
    """Return whether two spans overlap; each is a time with an end or a length."""
    operands = (left_time_point, left_temporal, right_time_point, right_temporal)
    return _operator("OVERLAPS", "temporalOverlaps", *operands)


def date_format(timestamp: Any, format: Any) -> Expression[str]:
    """Return a time by a pattern."""
    return _made("DATE_FORMAT", "dateFormat", timestamp, format)


def timestamp_diff(time_point_unit: TimePointUnit, time_point1: Any, time_point2: Any) -> Expression[int]:
    """Return how many whole units lie between two times."""
    node = ast.Function(
        "TIMESTAMPDIFF", (literal_node(time_point_unit.name), node_of(time_point1), node_of(time_point2))
    )
    text = f"timestampDiff({time_point_unit.name}, {shown(time_point1)}, {shown(time_point2)})"
    return Expression(node, text)


def convert_tz(date_str: Any, tz_from: Any, tz_to: Any) -> Expression[str]:
    """Return a time's text in another zone."""
    return _made("CONVERT_TZ", "convertTz", date_str, tz_from, tz_to)


def from_unixtime(unixtime: Any, format: Any = None) -> Expression[str]:
    """Return seconds since 1970 as a text."""
    return _made("FROM_UNIXTIME", "fromUnixtime", unixtime, format)


def unix_timestamp(date_str: Any = None, format: Any = None) -> Expression[int]:
    """Return the current seconds since 1970, or those of a text."""
    return _made("UNIX_TIMESTAMP", "unixTimestamp", date_str, format)


# --- collections


def array(head: Any, *tail: Any) -> Expression[Any]:
    """Return an array of values."""
    return _made("ARRAY", "array", head, *tail)


def row(head: Any, *tail: Any) -> Expression[Any]:
    """Return a row of values."""
    return _made("ROW", "row", head, *tail)


def map_(key: Any, value: Any, *tail: Any) -> Expression[Any]:
    """Return a map of keys and values in turn."""
    return _made("MAP", "map", key, value, *tail)


def map_from_arrays(key: Any, value: Any) -> Expression[Any]:
    """Return a map of an array of keys and one of values."""
    return _made("MAP_FROM_ARRAYS", "MAP_FROM_ARRAYS", key, value)


def object_of(class_name: Any, *args: Any) -> Expression[Any]:
    """Return an object of a class with fields: names and values in turn."""
    return _made("OBJECT_OF", "OBJECT_OF", class_name, *args)


# --- numbers and text


def pi() -> Expression[float]:
    """Return pi."""
    return _made("PI", "pi")


def e() -> Expression[float]:
    """Return Euler's number."""
    return _made("E", "e")


def rand(seed: Any = None) -> Expression[float]:
    """Return a random number from 0 to below 1."""
    return _made("RAND", "rand", seed)


def rand_integer(bound: Any, seed: Any = None) -> Expression[int]:
    """Return a random integer from 0 to below a bound."""
    if seed is None:
        return _made("RAND_INTEGER", "randInteger", bound)
    return _made("RAND_INTEGER", "randInteger", seed, bound)


def atan2(y: Any, x: Any) -> Expression[float]:
    """Return the angle of a point."""
    return _made("ATAN2", "atan2", y, x)


def negative(v: Any) -> Expression[Any]:
    """Return `-v`."""
    return _operator("NEGATE", "minusPrefix", v)


def log(v: Any, base: Any = None) -> Expression[float]:
    """Return the natural logarithm, or that of a base."""
    return _made("LOG", "log", v) if base is None else _made("LOG", "log", base, v)


def concat(first: Any, *others: Any) -> Expression[str]:
    """Return texts behind one another; NULL if one is."""
    return _made("CONCAT", "concat", first, *others)


def concat_ws(separator: Any, first: Any, *others: Any) -> Expression[str]:
    """Return texts with a separator between them, without those that are NULL."""
    return _made("CONCAT_WS", "concatWs", separator, first, *others)


def uuid() -> Expression[str]:
    """Return a random UUID."""
    return _made("UUID", "uuid")


# --- JSON


def json(value: Any) -> Expression[str]:
    """Return a text as JSON that is, inside `json_object` and `json_array`."""
    return _made("JSON", "JSON", value)


def json_string(value: Any) -> Expression[str]:
    """Return a value as a JSON text."""
    return _made("JSON_STRING", "JSON_STRING", value)


def json_object(on_null: JsonOnNull = JsonOnNull.NULL, *args: Any) -> Expression[str]:
    """Return a JSON object of keys and values in turn."""
    return _json("JSON_OBJECT", on_null, *args)


def json_array(on_null: JsonOnNull = JsonOnNull.ABSENT, *args: Any) -> Expression[str]:
    """Return a JSON array of values."""
    return _json("JSON_ARRAY", on_null, *args)


def json_object_agg(on_null: JsonOnNull, key_expr: Any, value_expr: Any) -> Expression[str]:
    """Return a JSON object of the keys and values of many rows."""
    return _json("JSON_OBJECTAGG", on_null, key_expr, value_expr)


def json_array_agg(on_null: JsonOnNull, item_expr: Any) -> Expression[str]:
    """Return a JSON array of the values of many rows."""
    return _json("JSON_ARRAYAGG", on_null, item_expr)


def _json(name: str, on_null: JsonOnNull, *operands: Any) -> Expression[str]:
    node = ast.Function(name, nodes_of(operands), clauses=(("ON NULL", on_null.name),))
    return Expression(node, f"{name}({', '.join(map(shown, operands))})")


# --- calls


def call(f: Any, *args: Any) -> Expression[Any]:
    """Return a call of a function: by its name, or one that `udf` and the others gave."""
    if isinstance(f, str):
        return _made(f, f, *args)
    if isinstance(f, Built) or not hasattr(f, "declared"):
        raise ConfigurationError(f"{f!r} is no function", hint="Make one with udf, udtf, udaf or udtaf.")
    name = f._name
    node = ast.Function(name, nodes_of(args), clauses=(("USER FUNCTION", f),))
    return Expression(node, f"{name}({', '.join(map(shown, args))})")


def call_sql(sql_expression: str) -> Expression[Any]:
    """Return the expression that a SQL text is."""
    return Expression(parse_expression(sql_expression), sql_expression)
