"""Users' aggregate and table aggregate functions, from a query to its rows."""

from __future__ import annotations

import pytest

from millstream.base.errors import NotSupportedError
from millstream.table import DataTypes as D
from millstream.table.errors import ValidationError
from millstream.table.expressions import CURRENT_ROW, col, lit, row_interval
from millstream.table.udf import AggregateFunction, TableAggregateFunction, udaf, udtaf
from millstream.table.window import Over, Session, Tumble
from millstream.types.row import Row

ORDERS = [
    "a,1,2,2024-01-01 00:00:01",
    "a,3,1,2024-01-01 00:00:02",
    "b,5,1,2024-01-01 00:00:03",
    "a,9,1,2024-01-01 00:00:14",
]


class WeightedAverage(AggregateFunction):
    def create_accumulator(self):
        return [0, 0]

    def get_value(self, accumulator):
        return accumulator[0] / accumulator[1] if accumulator[1] else None

    def accumulate(self, accumulator, value, weight):
        accumulator[0] += value * weight
        accumulator[1] += weight

    def retract(self, accumulator, value, weight):
        self.accumulate(accumulator, value, -weight)

    def merge(self, accumulator, accumulators):
        for value, weight in accumulators:
            accumulator[0] += value
            accumulator[1] += weight

    def get_result_type(self):
        return D.DOUBLE()

    def get_accumulator_type(self):
        return D.ARRAY(D.BIGINT())


class Top2(TableAggregateFunction):
    """The two largest values with their places; takes values back."""

    def create_accumulator(self):
        return []

    def accumulate(self, accumulator, value):
        accumulator.append(value)

    def retract(self, accumulator, value):
        accumulator.remove(value)

    def emit_value(self, accumulator):
        for place, value in enumerate(sorted(accumulator, reverse=True)[:2], 1):
            yield Row(value, place)

    def get_result_type(self):
        return D.ROW([D.FIELD("value", D.INT()), D.FIELD("place", D.INT())])

    def get_accumulator_type(self):
        return D.ARRAY(D.INT())


@pytest.fixture
def orders(tables, tmp_path):
    """The table `orders` with event time, and the functions `weighted` and `mean`."""
    (tmp_path / "orders.csv").write_text("\n".join(ORDERS) + "\n")
    tables.execute_sql(
        "CREATE TABLE orders (k STRING, v INT, w INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH "
        f"('connector' = 'filesystem', 'path' = '{tmp_path}/orders.csv', 'format' = 'csv')"
    )
    tables.create_temporary_function("weighted", udaf(WeightedAverage()))
    tables.create_temporary_function("mean", MEAN)
    return tables.from_path("orders")


@udaf(result_type=D.DOUBLE(), func_type="pandas")
def MEAN(values):
    return values.mean()


WEIGHTED = udaf(WeightedAverage())
TOP2 = udtaf(Top2())


def collected(table):
    with table.execute().collect() as found:
        return [tuple(row) for row in found]


TUMBLE = "TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '10' SECOND)"
SESSION = "SESSION(TABLE orders PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' SECOND)"
BOUNDS = "window_start, window_end"
ROWS = "OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT k, weighted(v, w), mean(v) FROM orders GROUP BY k", {("a", 3.5, 13 / 3), ("b", 5.0, 5.0)}),
        ("SELECT weighted(v, w), mean(v) FROM orders", {(3.8, 4.5)}),
        ("SELECT weighted(DISTINCT v, w) FILTER (WHERE v > 1) FROM orders", {(17 / 3,)}),
        (
            f"SELECT k, weighted(v, w), mean(v) FROM TABLE({TUMBLE}) GROUP BY k, {BOUNDS}",
            {("a", 5 / 3, 2.0), ("a", 9.0, 9.0), ("b", 5.0, 5.0)},
        ),
        (
            f"SELECT k, weighted(v, w), mean(v) FROM TABLE({SESSION}) GROUP BY k, {BOUNDS}",
            {("a", 5 / 3, 2.0), ("a", 9.0, 9.0), ("b", 5.0, 5.0)},
        ),
        (
            f"SELECT k, v, weighted(v, w) {ROWS}, mean(v) {ROWS} FROM orders",
            {("a", 1, 1.0, 1.0), ("a", 3, 5 / 3, 2.0), ("a", 9, 6.0, 6.0), ("b", 5, 5.0, 5.0)},
        ),
        (
            "SELECT weighted(m, 1), mean(m) FROM (SELECT k, MAX(v) AS m FROM orders GROUP BY k)",
            {(7.0, 7.0)},
        ),
    ],
)
def test_aggregates_in_sql(orders, rows, query, expected):
    assert set(rows(query)) == expected


@pytest.mark.parametrize(("function", "a"), [(WEIGHTED, 3.5), (MEAN, 13 / 3)])
def test_aggregates_of_groups(orders, function, a):
    call = function(col("v"), col("w")) if function is WEIGHTED else function(col("v"))
    groups = orders.group_by(col("k"))
    expected = {("a", a), ("b", 5.0)}
    assert set(collected(groups.aggregate(call.alias("m")).select(col("k"), col("m")))) == expected
    unnamed = groups.select(col("k"), call, col("v").count)
    assert unnamed.get_schema().get_field_names() == ["k", "EXPR$0", "EXPR$1"], (
        "as in PyFlink's basic_operations"
    )
    assert {row[:2] for row in collected(unnamed)} == expected


def test_aggregate_of_a_window_has_its_properties(orders):
    windowed = orders.window(Tumble.over(lit(10).seconds).on(col("ts")).alias("w10"))
    groups = windowed.group_by(col("w10"), col("k")).aggregate(MEAN(col("v")).alias("m"))
    found = collected(groups.select(col("k"), col("m"), col("w10").start.alias("s"), col("w10").end))
    shown = {(k, m, str(start)[14:19], str(end)[14:19]) for k, m, start, end in found}
    assert shown == {
        ("a", 2.0, "00:00", "00:10"),
        ("b", 5.0, "00:00", "00:10"),
        ("a", 9.0, "00:10", "00:20"),
    }
    assert groups.select(col("*")).get_schema().get_field_names() == ["k", "m"]


def test_session_windows_of_the_table_api_merge(orders):
    windowed = orders.window(Session.with_gap(lit(5).seconds).on(col("ts")).alias("s"))
    found = windowed.group_by(col("s")).select(WEIGHTED(col("v"), col("w")), MEAN(col("v")))
    assert set(collected(found)) == {(2.5, 3.0), (9.0, 9.0)}


def test_aggregates_over_windows(orders):
    window = Over.partition_by(col("k")).order_by(col("ts")).preceding(row_interval(1)).following(CURRENT_ROW)
    found = orders.over_window(window.alias("w1")).select(
        col("v"), MEAN(col("v")).over(col("w1")), WEIGHTED(col("v"), col("w")).over(col("w1"))
    )
    assert set(collected(found)) == {(1, 1.0, 1.0), (3, 2.0, 5 / 3), (9, 6.0, 6.0), (5, 5.0, 5.0)}


def test_table_aggregate_by_key_and_of_all_rows(orders):
    by_key = orders.group_by(col("k")).flat_aggregate(TOP2(col("v")).alias("v", "n"))
    assert set(collected(by_key.select(col("k"), col("v"), col("n")))) == {
        ("a", 9, 1),
        ("a", 3, 2),
        ("b", 5, 1),
    }
    assert set(collected(by_key.select(col("*")))) == {("a", 9, 1), ("a", 3, 2), ("b", 5, 1)}
    every = orders.flat_aggregate(TOP2(col("v")))
    assert set(collected(every.select(col("value"), col("place")))) == {(9, 1), (5, 2)}


def test_table_aggregate_of_rows_that_change(orders):
    """The largest value by key is updated: what the function gave before is taken back."""
    largest = orders.group_by(col("k")).select(col("v").max.alias("v"))
    found = largest.flat_aggregate(TOP2(col("v"))).select(col("value"), col("place"))
    assert sorted(collected(found)) == [(5, 2), (9, 1)]
    assert "GroupTableAggregate(select=[TOP2" in found.explain().replace("Top2", "TOP2")


def test_table_aggregate_of_whole_rows_of_a_table_aggregate(orders):
    """PyFlink's documentation has this form: a function without arguments gets rows."""

    class Largest(TableAggregateFunction):
        def create_accumulator(self):
            return [None]

        def accumulate(self, accumulator, row):
            if accumulator[0] is None or row[0] > accumulator[0]:
                accumulator[0] = row[0]

        def emit_value(self, accumulator):
            yield Row(accumulator[0])

        def get_result_type(self):
            return D.ROW([D.FIELD("a", D.INT())])

        def get_accumulator_type(self):
            return D.ARRAY(D.INT())

    largest = udtaf(Largest())
    found = orders.select(col("v"), col("k")).group_by(col("k")).flat_aggregate(largest).select(col("a"))
    assert sorted(collected(found)) == [(5,), (9,)]
    again = orders.select(col("v")).flat_aggregate(largest.alias("b")).select(col("b"))
    assert collected(again) == [(9,)]


def test_alias_of_a_table_aggregate_of_one_value_names_it(orders):
    class Each(Top2):
        def emit_value(self, accumulator):
            return iter(accumulator)

    each = udtaf(Each(), result_type=D.INT())
    assert sorted(collected(orders.flat_aggregate(each(col("v")).alias("n")).select(col("n")))) == [
        (1,),
        (3,),
        (5,),
        (9,),
    ]
    whole = udtaf(Each(), result_type=D.ROW([D.FIELD("a", D.INT()), D.FIELD("b", D.INT())]))
    found = orders.select(col("v"), col("w")).flat_aggregate(whole.alias("x", "y")).select(col("y"))
    assert sorted(collected(found)) == [(1,), (1,), (1,), (2,)]


def test_refusals_of_table_aggregates(orders):
    with pytest.raises(ValidationError, match="no call of a table aggregate function"):
        orders.group_by(col("k")).flat_aggregate(MEAN(col("v"))).select(col("k"))
    with pytest.raises(ValidationError, match="alias names 1 columns, and the function gives 2"):
        orders.flat_aggregate(TOP2(col("v")).alias("x")).select(col("x"))
    windowed = orders.window(Tumble.over(lit(10).seconds).on(col("ts")).alias("w10"))
    with pytest.raises(NotSupportedError, match="grouped by a window"):
        windowed.group_by(col("w10")).flat_aggregate(TOP2(col("v")))
