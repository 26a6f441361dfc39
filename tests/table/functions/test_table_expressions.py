"""The Table API's expressions make the nodes that the same SQL text makes, and show what Flink shows."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import pytest

from millstream.base.errors import ConfigurationError, TypeMismatchError
from millstream.table.expression import (
    Expression,
    JsonExistsOnError,
    JsonQueryWrapper,
    JsonType,
    JsonValueOnEmptyOrError,
    TimeIntervalUnit,
    TimePointUnit,
)
from millstream.table.expressions import (
    UNBOUNDED_ROW,
    and_,
    array,
    call,
    call_sql,
    coalesce,
    col,
    concat,
    if_then_else,
    lit,
    map_,
    not_,
    null_of,
    or_,
    row,
    row_interval,
    temporal_overlaps,
    timestamp_diff,
)
from millstream.table.sql import ast
from millstream.table.sql.parser import parse_expression
from millstream.table.types import DataTypes
from millstream.table.udf import udf

a, b, s = col("a"), col("b"), col("s")

SAME: list[tuple[Expression[Any], str]] = [
    (a + 1, "a + 1"),
    (1 - a, "1 - a"),
    (a * b / 2 % 3, "a * b / 2 % 3"),
    (-a, "-a"),
    (a**2, "POWER(a, 2)"),
    (abs(a), "ABS(a)"),
    (a == b, "a = b"),
    (a != 1, "a <> 1"),
    ((a > 1) & (b <= 2) | (a < 0), "(a > 1 AND b <= 2) OR a < 0"),
    (~(a > 1), "(a > 1) IS NOT TRUE"),
    (a.is_null, "a IS NULL"),
    (a.is_not_false, "a IS NOT FALSE"),
    (a.between(1, 2), "a BETWEEN 1 AND 2"),
    (a.not_between(1, 2), "a NOT BETWEEN 1 AND 2"),
    (a.in_(1, 2), "a IN (1, 2)"),
    (s.like("x%"), "s LIKE 'x%'"),
    (s.like("x!%", "!"), "s LIKE 'x!%' ESCAPE '!'"),
    (s.similar("x"), "s SIMILAR TO 'x'"),
    ((a > 1).then("x", "y"), "CASE WHEN a > 1 THEN 'x' ELSE 'y' END"),
    (if_then_else(a > 1, 1, 2), "CASE WHEN a > 1 THEN 1 ELSE 2 END"),
    (a.if_null(0), "IFNULL(a, 0)"),
    (coalesce(a, b, 0), "COALESCE(a, b, 0)"),
    (a.cast(DataTypes.STRING()), "CAST(a AS STRING)"),
    (s.try_cast(DataTypes.INT()), "TRY_CAST(s AS INT)"),
    (s.substring(2, 3), "SUBSTRING(s FROM 2 FOR 3)"),
    (s.upper_case, "UPPER(s)"),
    (s.trim(), "TRIM(s)"),
    (s.trim_leading("x"), "TRIM(LEADING 'x' FROM s)"),
    (lit("x").position(s), "POSITION('x' IN s)"),
    (s.overlay("x", 2), "OVERLAY(s PLACING 'x' FROM 2)"),
    (concat(s, "x"), "CONCAT(s, 'x')"),
    (a.log(), "LOG(a)"),
    (a.log(2), "LOG(2, a)"),
    (a.round(2), "ROUND(a, 2)"),
    (col("t").floor(TimeIntervalUnit.HOUR), "FLOOR(t TO HOUR)"),
    (col("t").extract(TimeIntervalUnit.DAY), "EXTRACT(DAY FROM t)"),
    (timestamp_diff(TimePointUnit.DAY, col("t"), col("u")), "TIMESTAMPDIFF(DAY, t, u)"),
    (col("t") + lit(5).minutes, "t + INTERVAL '5' MINUTE"),
    (col("t") - lit(2).years, "t - INTERVAL '2' YEAR"),
    (temporal_overlaps(a, b, a, b), "(a, b) OVERLAPS (a, b)"),
    (col("x").at(1), "x[1]"),
    (array(1, 2), "ARRAY[1, 2]"),
    (map_("k", 1), "MAP['k', 1]"),
    (row(1, "x"), "ROW(1, 'x')"),
    (col("x").cardinality, "CARDINALITY(x)"),
    (a.sum, "SUM(a)"),
    (a.count.distinct, "COUNT(DISTINCT a)"),
    (s.list_agg("-"), "LISTAGG(s, '-')"),
    (and_(a > 1, b > 1), "a > 1 AND b > 1"),
    (not_(or_(a > 1, b > 1)), "NOT (a > 1 OR b > 1)"),
    (s.is_json(JsonType.ARRAY), "s IS JSON ARRAY"),
    (s.json_exists("$.a", JsonExistsOnError.TRUE), "JSON_EXISTS(s, '$.a' TRUE ON ERROR)"),
    (call("my_function", a), "my_function(a)"),
    (call_sql("a + 1"), "a + 1"),
    (lit(datetime.date(2024, 1, 31)), "DATE '2024-01-31'"),
    (lit(decimal.Decimal("1.50")), "1.50"),
    (null_of(DataTypes.INT()), "CAST(NULL AS INT)"),
]


def _bare(node: Any) -> Any:
    """Return a node without the texts of literals, which only messages show."""
    if isinstance(node, ast.IntervalLiteral):
        return ("interval", node.value, node.months)
    if isinstance(node, tuple):
        return tuple(map(_bare, node))
    if not isinstance(node, ast.Expression):
        return node
    parts = {name: _bare(value) for name, value in vars(node).items() if name != "at"}
    return type(node).__name__, tuple(sorted(parts.items(), key=lambda item: item[0]))


@pytest.mark.parametrize(("expression", "text"), SAME, ids=[text for _, text in SAME])
def test_expressions_make_the_nodes_of_sql(expression: Expression[Any], text: str) -> None:
    assert _bare(expression.node) == _bare(parse_expression(text))


def test_json_clauses_are_those_of_the_parser() -> None:
    built = s.json_value("$.a", DataTypes.INT(), JsonValueOnEmptyOrError.DEFAULT, 1)
    parsed = parse_expression("JSON_VALUE(s, '$.a' RETURNING INT DEFAULT 1 ON EMPTY NULL ON ERROR)")
    assert isinstance(built.node, ast.Function) and isinstance(parsed, ast.Function)
    assert dict(built.node.clauses) == dict(parsed.clauses)
    query = s.json_query("$.a", JsonQueryWrapper.CONDITIONAL_ARRAY)
    assert ("WRAPPER", "WITH CONDITIONAL") in query.node.clauses  # type: ignore[attr-defined]


def test_expressions_show_what_flink_shows() -> None:
    assert str(a + 1) == "plus(a, 1)"
    assert str((a == 1) & b.is_null) == "and(equals(a, 1), isNull(b))"
    assert str(s.substring(1, 2)) == "substring(s, 1, 2)"
    assert str(a.alias("x", "y")) == "as(a, 'x', 'y')"


def test_names_and_orders_stay_beside_the_node() -> None:
    named = (a + 1).alias("x")
    assert named.names == ("x",) and named.node == (a + 1).node
    assert a.desc.order == ast.OrderItem(a.node, True) and a.asc.order == ast.OrderItem(a.node)


def test_user_functions_are_called_in_line() -> None:
    double = udf(lambda n: n, result_type=DataTypes.INT(), name="double")
    node = double(a, 2).node
    assert isinstance(node, ast.Function) and node.name == "double"
    assert dict(node.clauses)["USER FUNCTION"] is double


def test_windows_and_rows() -> None:
    assert a.sum.over("w").node == ast.Function("SUM", (a.node,), over="w")
    assert row_interval(10).node == ast.Function("ROW_INTERVAL", (lit(10).node,))
    assert UNBOUNDED_ROW.node == ast.Function("UNBOUNDED_ROW")


def test_truth_values_and_strange_literals_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="no truth value"):
        bool(a == 1)
    with pytest.raises(TypeMismatchError, match="object"):
        lit(object())
    with pytest.raises(ConfigurationError, match="no function"):
        call(len, a)
