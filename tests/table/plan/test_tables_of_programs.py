"""Tables of the Table API give what their methods say; they run like queries."""

from __future__ import annotations

import datetime
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from millstream.base.errors import TypeMismatchError
from millstream.common import Configuration
from millstream.datastream import StreamExecutionEnvironment
from millstream.table import DataTypes, StreamTableEnvironment, Table
from millstream.table.expressions import (
    CURRENT_ROW,
    UNBOUNDED_RANGE,
    col,
    lit,
    range_,
    row_interval,
    with_columns,
    without_columns,
)
from millstream.table.session.frames import final_rows
from millstream.table.udf import udaf, udf, udtf
from millstream.table.window import Over, Session, Slide, Tumble


@pytest.fixture
def tables() -> StreamTableEnvironment:
    configuration = Configuration()
    configuration.set_string("execution.target", "local")
    return StreamTableEnvironment.create(StreamExecutionEnvironment.get_execution_environment(configuration))


@pytest.fixture
def a(tables: StreamTableEnvironment) -> Table:
    return tables.from_elements([(1, "a", 10), (2, "b", 20), (1, "c", 30), (3, None, 5)], ["k", "s", "v"])


@pytest.fixture
def b(tables: StreamTableEnvironment) -> Table:
    return tables.from_elements([(1, "x"), (2, "y")], ["kk", "n"])


@pytest.fixture
def events(tables: StreamTableEnvironment, tmp_path: Path) -> Table:
    path = tmp_path / "events.csv"
    path.write_text("1,5,2024-01-01 00:00:01\n1,6,2024-01-01 00:00:03\n2,7,2024-01-01 00:00:12\n")
    tables.execute_sql(
        "CREATE TABLE events (k INT, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) "
        f"WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv')"
    )
    return tables.from_path("events")


def rows(table: Table) -> Counter[tuple[Any, ...]]:
    """Return the rows at the end."""
    return Counter(final_rows(table.execute()))


def at(second: int) -> datetime.datetime:
    return datetime.datetime(2024, 1, 1) + datetime.timedelta(seconds=second)


def test_columns_are_computed_added_renamed_and_dropped(a: Table) -> None:
    assert rows(a.select(col("k"), (col("v") + 1).alias("w")).where(col("w") > 20)) == Counter(
        [(2, 21), (1, 31)]
    )
    assert a.add_columns((col("v") * 2).alias("w")).get_schema().get_field_names() == ["k", "s", "v", "w"]
    assert rows(a.add_or_replace_columns((col("v") * 2).alias("v")).select(a.v)) == Counter(
        [(20,), (40,), (60,), (10,)]
    )
    assert a.rename_columns(col("v").alias("w")).get_schema().get_field_names() == ["k", "s", "w"]
    assert a.drop_columns(col("v")).get_schema().get_field_names() == ["k", "s"]
    assert a.alias("x", "y").get_schema().get_field_names() == ["x", "y", "v"]
    assert a.select(with_columns(range_(2, 3))).get_schema().get_field_names() == ["s", "v"]
    assert a.select(without_columns(col("k"))).get_schema().get_field_names() == ["s", "v"]


def test_a_column_that_is_there_is_not_added_again(a: Table) -> None:
    with pytest.raises(ValueError, match='column "v" is there already'):
        a.add_columns((col("v") * 2).alias("v"))


def test_a_wrong_name_gets_a_suggestion(a: Table) -> None:
    with pytest.raises(ValueError, match=r'column "kk" was not found[\s\S]*Did you mean "k"'):
        a.select(col("kk"))


def test_groups_are_aggregated(a: Table) -> None:
    grouped = a.group_by(col("k")).select(col("k"), col("v").sum.alias("s"), col("s").count.alias("n"))
    assert rows(grouped) == Counter([(1, 40, 2), (2, 20, 1), (3, 5, 0)])
    assert rows(a.select(col("v").max, lit(1).count)) == Counter([(30, 4)])
    assert rows(a.select(col("k")).distinct()) == Counter([(1,), (2,), (3,)])


def test_tables_are_joined(a: Table, b: Table) -> None:
    inner = a.join(b).where(col("k") == col("kk")).select(col("s"), col("n"))
    assert rows(inner) == Counter([("a", "x"), ("c", "x"), ("b", "y")])
    left = a.left_outer_join(b, col("k") == col("kk")).select(col("v"), col("n"))
    assert rows(left) == Counter([(10, "x"), (30, "x"), (20, "y"), (5, None)])
    assert rows(b.right_outer_join(a, col("k") == col("kk")).select(col("v"), col("n"))) == rows(left)
    assert sum(rows(a.full_outer_join(b, col("k") == col("kk"))).values()) == 4


def test_a_join_of_equal_names_says_what_to_do(a: Table) -> None:
    with pytest.raises(ValueError, match=r"both have the column k, s, v[\s\S]*rename_columns"):
        a.join(a)


def test_sets_of_rows(a: Table, b: Table) -> None:
    one, two = a.select(col("k")), b.select(col("kk"))
    assert rows(one.union_all(two)) == Counter({(1,): 3, (2,): 2, (3,): 1})
    assert rows(one.union(two)) == Counter([(1,), (2,), (3,)])
    assert rows(one.minus(two)) == Counter([(3,)])
    assert rows(one.minus_all(two)) == Counter([(1,), (3,)])
    assert rows(one.intersect(two)) == Counter([(1,), (2,)])
    assert rows(one.intersect_all(one)) == Counter({(1,): 2, (2,): 1, (3,): 1})


def test_the_first_rows_of_an_order(a: Table) -> None:
    assert rows(a.order_by(col("v").desc).fetch(2).select(col("v"))) == Counter([(30,), (20,)])
    assert rows(a.order_by(col("v").asc).limit(2, 1).select(col("v"))) == Counter([(10,), (20,)])
    with pytest.raises(ValueError, match="without LIMIT"):
        a.order_by(col("v")).explain()


def test_functions_of_rows(a: Table) -> None:
    pair = DataTypes.ROW([DataTypes.FIELD("p", DataTypes.BIGINT()), DataTypes.FIELD("q", DataTypes.STRING())])

    @udf(result_type=pair)
    def whole(row: Any) -> Any:
        return row[0] * 2, str(row[1])

    @udtf(result_types=[DataTypes.STRING(), DataTypes.INT()])
    def letters(text: Any) -> Any:
        for letter in text or "":
            yield letter * 2, 1

    assert rows(a.map(whole)) == Counter([(2, "a"), (4, "b"), (2, "c"), (6, "None")])
    found = a.join_lateral(letters(col("s")).alias("u", "w")).select(col("k"), col("u"))
    assert rows(found) == Counter([(1, "aa"), (2, "bb"), (1, "cc")])
    kept = a.left_outer_join_lateral(letters(col("s")).alias("u", "w")).select(col("k"), col("u"))
    assert rows(kept) == rows(found) + Counter([(3, None)])
    assert rows(a.flat_map(letters(col("s"))).alias("u", "w").select(col("u"))) == Counter(
        [("aa",), ("bb",), ("cc",)]
    )


def test_an_aggregate_function_of_the_user(a: Table) -> None:
    result = DataTypes.ROW([DataTypes.FIELD("m", DataTypes.DOUBLE()), DataTypes.FIELD("n", DataTypes.INT())])

    @udaf(result_type=result, func_type="pandas")
    def both(values: Any) -> Any:
        return float(values.mean()), len(values)

    found = (
        a.group_by(col("k")).aggregate(both(col("v")).alias("m", "n")).select(col("k"), col("m"), col("n"))
    )
    assert rows(found) == Counter([(1, 20.0, 2), (2, 20.0, 1), (3, 5.0, 1)])


def test_group_windows(events: Table) -> None:
    tumbling = events.window(Tumble.over(lit(10).seconds).on(col("ts")).alias("w"))
    found = tumbling.group_by(col("w"), col("k")).select(col("k"), col("w").start, col("v").sum.alias("s"))
    assert rows(found) == Counter([(1, at(0), 11), (2, at(10), 7)])
    sliding = events.window(Slide.over(lit(10).seconds).every(lit(5).seconds).on(col("ts")).alias("w"))
    found = sliding.group_by(col("w")).select(col("w").start.alias("b"), col("v").count.alias("n"))
    assert rows(found) == Counter([(at(-5), 2), (at(0), 2), (at(5), 1), (at(10), 1)])
    sessions = events.window(Session.with_gap(lit(5).seconds).on(col("ts")).alias("w"))
    found = sessions.group_by(col("w")).select(col("w").end.alias("e"), col("v").count.alias("n"))
    assert rows(found) == Counter([(at(8), 2), (at(17), 1)])


def test_over_windows(events: Table) -> None:
    parts = Over.partition_by(col("k")).order_by(col("ts"))
    whole = events.over_window(parts.preceding(UNBOUNDED_RANGE).alias("w"))
    assert rows(whole.select(col("k"), col("v").sum.over(col("w")).alias("s"))) == Counter(
        [(1, 5), (1, 11), (2, 7)]
    )
    last = events.over_window(parts.preceding(row_interval(1)).following(CURRENT_ROW).alias("w"))
    assert rows(last.select(col("k"), col("v").min.over(col("w")).alias("s"))) == Counter(
        [(1, 5), (1, 5), (2, 7)]
    )


def test_rows_become_a_frame(a: Table) -> None:
    frame = a.group_by(col("k")).select(col("k"), col("v").sum.alias("s")).to_pandas()
    assert sorted(frame["s"]) == [5, 20, 40]


def test_a_table_stands_in_a_text(tables: StreamTableEnvironment, a: Table) -> None:
    assert rows(tables.sql_query(f"SELECT COUNT(*) FROM {a}")) == Counter([(4,)])


def test_what_is_no_window_is_refused(a: Table) -> None:
    with pytest.raises(TypeMismatchError, match="Tumble"):
        a.window(Tumble.over(lit(1).seconds))  # type: ignore[arg-type]


def test_the_resolved_schema_has_names_and_types(a: Table) -> None:
    schema = a.get_resolved_schema()
    assert schema.get_column_names() == ["k", "s", "v"]
    assert schema.get_column("s").get_data_type() == DataTypes.STRING()


def test_a_pipeline_knows_its_sink(tables: StreamTableEnvironment, a: Table) -> None:
    tables.execute_sql("CREATE TABLE hole (k BIGINT, s STRING, v BIGINT) WITH ('connector' = 'blackhole')")
    pipeline = a.insert_into("hole")
    assert "hole" in str(pipeline.get_sink_identifier())
    pipeline.execute().wait()


def test_the_schema_is_printed(a: Table, capsys: pytest.CaptureFixture[str]) -> None:
    a.print_schema()
    assert capsys.readouterr().out == "(\n  `k` BIGINT,\n  `s` STRING,\n  `v` BIGINT\n)\n"


def test_a_pipeline_is_compiled_and_executed_later(
    tables: StreamTableEnvironment, a: Table, tmp_path: Path
) -> None:
    tables.execute_sql(
        "CREATE TABLE out_t (k BIGINT, v BIGINT) WITH ('connector' = 'filesystem', "
        f"'path' = '{tmp_path / 'out'}', 'format' = 'csv')"
    )
    tables.create_temporary_view("a_view", a)
    tables.execute_sql(
        "CREATE TABLE source_t (k BIGINT, v BIGINT) WITH ('connector' = 'filesystem', "
        f"'path' = '{tmp_path / 'in'}', 'format' = 'csv')"
    )
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "rows.csv").write_text("1,10\n2,20\n")
    pipeline = tables.from_path("source_t").filter(col("v") > 10).insert_into("out_t")
    plan = tmp_path / "plan.json"
    pipeline.compile_plan().write_to_file(plan)
    tables.execute_sql(f"EXECUTE PLAN '{plan}'").wait()
    written = "".join(each.read_text() for each in (tmp_path / "out").rglob("*") if each.is_file())
    assert written.strip() == "2,20"
    plan.write_text(plan.read_text().replace('"sha256": "', '"sha256": "0'))
    with pytest.raises(ValueError, match="was changed"):
        tables.execute_sql(f"EXECUTE PLAN '{plan}'")
