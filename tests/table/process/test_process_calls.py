"""Calls of process table functions in SQL and the Table API; what is refused, with its place; state over restarts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import pytest
from ptf_functions import FUNCTIONS, Greeting, Memory, PassRow, RowState, Upserting

from millstream.base.errors import JobExecutionError
from millstream.table import (
    ArgumentHint,
    ArgumentTrait,
    EnvironmentSettings,
    ProcessTableFunction,
    Row,
    RowKind,
    StateHint,
    TableEnvironment,
)
from millstream.table.errors import ValidationError
from millstream.table.expressions import col, descriptor, lit, map_


@dataclass
class Scored:
    name: str
    score: int


SET, ROWS = ArgumentTrait.SET_SEMANTIC_TABLE, ArgumentTrait.ROW_SEMANTIC_TABLE


@pytest.fixture
def tables():
    environment = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    environment.get_config().set("execution.target", "local")
    environment.get_config().set("parallelism.default", "1")
    for name, function in FUNCTIONS.items():
        environment.create_temporary_system_function(name, function())
    environment.create_temporary_system_function("Carts", Carts())
    environment.execute_sql(
        "CREATE TEMPORARY VIEW t AS SELECT * FROM (VALUES ('Bob', 12), ('Alice', 42), ('Bob', 99)) AS T(name, score)"
    )
    environment.execute_sql("CREATE TEMPORARY VIEW u AS SELECT name, COUNT(*) AS c FROM t GROUP BY name")
    environment.execute_sql(
        "CREATE TEMPORARY TABLE timed (k STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH "
        "('connector' = 'datagen', 'number-of-rows' = '3')"
    )
    return environment


def rows_of(table):
    with table.execute().collect() as rows:
        return [tuple(row) for row in rows]


MEMORY = [
    ("Bob", "Hello Bob 1 after null"),
    ("Alice", "Hello Alice 1 after null"),
    ("Bob", "Hello Bob 2 after Bob/12"),
]


def test_the_table_api_calls_objects_classes_and_names(tables):
    t = tables.from_path("t")
    assert rows_of(t.partition_by(col("name")).process(Memory())) == MEMORY
    assert rows_of(t.partition_by(col("name")).process("Memory")) == MEMORY
    assert rows_of(t.process(Greeting)) == [("Hello Bob",), ("Hello Alice",), ("Hello Bob",)]
    two = t.partition_by(col("name")).process(
        RowState(), lit(1).as_argument("most"), lit("a").as_argument("uid")
    )
    assert [row[2] for row in rows_of(two)] == [1, 1, 1]
    copies = tables.from_call(PassRow, t.as_argument("input"), lit(1).as_argument("n"))
    assert rows_of(copies)[0] == ("Bob", 12, "copy 0")
    assert rows_of(tables.from_call("Gen", 2)) == [(0,), (1,)]


def test_changes_as_rows_and_back(tables):
    u = tables.from_path("u")
    log = u.to_changelog(
        descriptor("code").as_argument("op"), map_("INSERT, UPDATE_AFTER", "I").as_argument("op_mapping")
    )
    assert log.get_schema().get_field_names() == ["code", "name", "c"]
    assert sorted(rows_of(log)) == [("I", "Alice", 1), ("I", "Bob", 2)]
    assert sorted(rows_of(u.to_changelog().from_changelog())) == [("Alice", 1), ("Bob", 2)]
    keyed = u.partition_by(col("name")).to_changelog()
    assert keyed.get_schema().get_field_names() == ["name", "op", "c"]
    assert sorted(rows_of(keyed)) == [("Alice", "INSERT", 1), ("Bob", "INSERT", 2)]


def test_upserts_of_a_function_are_normalized_where_the_row_before_is_needed(tables):
    tables.execute_sql(
        "CREATE TEMPORARY VIEW w AS SELECT * FROM (VALUES ('a', 1), ('a', 2), ('b', 5), ('a', 0)) AS T(k, v)"
    )
    with tables.execute_sql("SELECT SUM(v) AS s FROM Upserting(TABLE w PARTITION BY k)").collect() as rows:
        found = [(row.get_row_kind(), row[0]) for row in rows]
    assert found == [(RowKind.INSERT, 5)]
    plan = tables.explain_sql("SELECT SUM(v) AS s FROM Upserting(TABLE w PARTITION BY k)")
    assert "ChangelogNormalize" in plan
    assert "ChangelogNormalize" not in tables.explain_sql("SELECT * FROM Upserting(TABLE w PARTITION BY k)")


@pytest.mark.parametrize(
    ("call", "mode"),
    [
        ("Kinds(TABLE u PARTITION BY name)", "[INSERT, UPDATE_AFTER]"),
        ("Kinds(TABLE u PARTITION BY c)", "[INSERT, UPDATE_BEFORE, UPDATE_AFTER]"),
        ("KindsBefore(TABLE u PARTITION BY name)", "[INSERT, UPDATE_BEFORE, UPDATE_AFTER]"),
        ("KindsFull(TABLE u PARTITION BY name)", "[INSERT, UPDATE_AFTER]"),
        ("KindsRow(TABLE u)", "[INSERT, UPDATE_BEFORE, UPDATE_AFTER]"),
        ("Kinds(TABLE t PARTITION BY name)", "[INSERT]"),
    ],
)
def test_a_table_has_the_changes_that_flink_gives_it(tables, call, mode):
    """Of the first two Flink 2.3's EXPLAIN says [I,UA] and [I,UB,UA]."""
    found = rows_of(tables.sql_query(f"SELECT what FROM {call}"))
    assert {what.split("] ", 1)[1] for (what,) in found} == {mode}


def test_views_and_rows_in_state(tables):
    tables.execute_sql(
        "CREATE TEMPORARY VIEW w AS SELECT * FROM (VALUES ('a', 1), ('a', 2), ('a', 1), ('a', 0), ('a', 9), ('a', 3)) "
        "AS T(k, v)"
    )
    assert [
        row[1:] for row in rows_of(tables.sql_query("SELECT * FROM Viewing(TABLE w PARTITION BY k)"))
    ] == [
        ("[1]", "{1=1}"),
        ("[1, 2]", "{1=1, 2=1}"),
        ("[1, 2, 1]", "{1=2, 2=1}"),
        ("[1, 2, 1]", "{1=2, 2=1}"),  # cleared behind the call
        ("[]", "{1=2, 2=1}"),
        ("[3]", "{3=1}"),
    ]
    assert rows_of(tables.sql_query("SELECT n FROM RowState(TABLE w PARTITION BY k, 3)")) == [
        (1,), (2,), (3,), (1,), (2,), (3,)
    ]  # fmt: skip


REFUSED = {
    "SELECT * FROM Memory(TABLE t)": ("requires a PARTITION BY clause", 22),
    "SELECT * FROM Greeting(TABLE t PARTITION BY name)": ("has PARTITION BY", 24),
    "SELECT * FROM Greeting('x')": ("is no table", 24),
    "SELECT * FROM RowState(input => TABLE t PARTITION BY name)": ('lacks the argument "most"', 15),
    "SELECT * FROM RowState(input => TABLE t PARTITION BY name, most => 1, least => 2)": (
        'no argument "least"',
        71,
    ),
    "SELECT * FROM RowState(input => TABLE t PARTITION BY name, most => 1, most => 2)": ("given twice", 71),
    "SELECT * FROM Greeting(TABLE t, 1, 2, 3)": ("called with 4 arguments", 15),
    "SELECT * FROM RowState(input => TABLE t PARTITION BY name, most => 'x')": ("not INT", 68),
    "SELECT * FROM Memory(TABLE t PARTITION BY nam)": ('column "nam" was not found', 43),
    "SELECT * FROM Memory(TABLE t PARTITION BY UPPER(name))": ("no column", 43),
    "SELECT * FROM FollowUp(input => TABLE timed PARTITION BY k)": ("requires a time attribute", 15),
    "SELECT * FROM Kinds(input => TABLE timed PARTITION BY k, on_time => DESCRIPTOR(v))": (
        "no time attribute",
        69,
    ),
    "SELECT * FROM Kinds(input => TABLE timed PARTITION BY k, on_time => DESCRIPTOR(x))": ('column "x"', 69),
    "SELECT * FROM Kinds(input => TABLE timed PARTITION BY k, on_time => DESCRIPTOR(ts, v))": (
        "2 columns",
        69,
    ),
    "SELECT * FROM Memory(input => TABLE t PARTITION BY name, uid => '%')": ("uid of function", 65),
    "SELECT * FROM `Both`(TABLE t PARTITION BY name, TABLE t PARTITION BY score)": (
        "not partitioned alike",
        15,
    ),
    "SELECT * FROM Sorted(input => TABLE timed PARTITION BY k ORDER BY v)": ('begins with "v"', 67),
    "SELECT * FROM Sorted(input => TABLE timed PARTITION BY k ORDER BY (ts DESC))": ("descending", 68),
    "SELECT * FROM Typed(input => TABLE timed PARTITION BY k)": ("declared with 2", 30),
    "SELECT Memory(name) FROM t": ("used as a value", 8),
    "SELECT * FROM t, LATERAL TABLE(Memory(TABLE t PARTITION BY name))": ("behind LATERAL", 32),
    "SELECT * FROM TO_CHANGELOG(input => TABLE u, op => DESCRIPTOR(name))": ("is there already", 52),
    "SELECT * FROM TO_CHANGELOG(input => TABLE u, op => DESCRIPTOR(a, b))": ("names 2 columns", 52),
    "SELECT * FROM TO_CHANGELOG(input => TABLE u, op_mapping => MAP['NOPE', 'I'])": (
        "names the kind 'NOPE'",
        60,
    ),
    "SELECT * FROM TO_CHANGELOG(TABLE u, DEFAULT, MAP['INSERT, DELETE', 'I', 'INSERT', 'x'])": ("twice", 46),
    "SELECT * FROM TO_CHANGELOG(input => TABLE u, op_mapping => MAP['INSERT', UPPER('i')])": ("no text", 74),
    "SELECT * FROM TO_CHANGELOG(input => TABLE timed, on_time => DESCRIPTOR(ts))": ("on_time", 61),
    "SELECT * FROM FROM_CHANGELOG(input => TABLE t)": ('column "op" was not found', 15),
    "SELECT * FROM FROM_CHANGELOG(input => TABLE t, op => DESCRIPTOR(score))": ("is INT", 54),
    "SELECT * FROM FROM_CHANGELOG(TABLE t, DESCRIPTOR(name), MAP['c', 'NOPE'])": (
        "names the kind 'NOPE'",
        57,
    ),
    "SELECT * FROM FROM_CHANGELOG(TABLE t, DESCRIPTOR(name), MAP['c', 'INSERT', 'd', 'INSERT'])": (
        "twice",
        57,
    ),
    "SELECT * FROM FROM_CHANGELOG(TABLE t, DESCRIPTOR(name), MAP['u', 'UPDATE_AFTER'])": (
        "no UPDATE_BEFORE",
        57,
    ),
}


@pytest.mark.parametrize("query", REFUSED)
def test_a_wrong_call_is_refused_at_its_place(tables, query):
    words, column = REFUSED[query]
    with pytest.raises(ValidationError, match="line 1") as raised:
        tables.sql_query(query)
    assert words in str(raised.value)
    assert f"(line 1, column {column})" in str(raised.value)


REFUSED_PLANS = {
    "SELECT * FROM Memory(TABLE u PARTITION BY name)": "does not support consuming update changes.*GroupAggregate",
    "SELECT * FROM Greeting(TABLE u)": "does not support consuming update changes",
    "SELECT * FROM FROM_CHANGELOG(input => (SELECT name AS op, c FROM u))": "does not support consuming update",
    "SELECT * FROM Memory(TABLE t PARTITION BY name) UNION ALL SELECT * FROM "
    "Memory(input => (SELECT * FROM t WHERE score > 0) PARTITION BY name)": 'have the uid "Memory"',
}


@pytest.mark.parametrize("query", REFUSED_PLANS)
def test_a_call_that_cannot_run_is_refused_before_it_does(tables, query):
    with pytest.raises(ValidationError, match=REFUSED_PLANS[query]):
        tables.execute_sql(query)


def test_batch_mode_has_no_process_table_functions():
    environment = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    environment.create_temporary_system_function("Greeting", Greeting())
    with pytest.raises(ValidationError, match="in batch mode"):
        environment.execute_sql("SELECT * FROM Greeting((SELECT 'a' AS name))")


def test_equal_calls_are_one_operator(tables):
    query = "SELECT * FROM Memory(input => TABLE t PARTITION BY name, uid => 'x')"
    both = tables.sql_query(f"{query} UNION ALL {query}")
    assert sorted(rows_of(both)) == sorted(MEMORY * 2)


@dataclass
class Cart:
    items: dict[str, int] = field(default_factory=dict)


class Carts(ProcessTableFunction):
    """Rows of dataclasses in, a map in state and out."""

    def get_result_type(self):
        return "ROW<items MAP<STRING, INT>>"

    def eval(self, cart: Annotated[Cart, StateHint()], item: Annotated[Scored, ArgumentHint(SET)]):
        cart.items[str(item.score)] = len(cart.items) + 1
        self.collect((dict(cart.items),))


def test_dataclasses_as_state_and_as_rows(tables):
    found = rows_of(tables.sql_query("SELECT * FROM Carts(TABLE t PARTITION BY name)"))
    assert found == [("Bob", {"12": 1}), ("Alice", {"42": 1}), ("Bob", {"12": 1, "99": 2})]


def test_uids_of_operators_do_not_depend_on_where_objects_are(tables):
    from millstream.table.plan.digest import uid_of
    from millstream.table.plan.planner import plan_query

    def uids(query):
        """Those of a call, and of the operator behind it, of a function that was made anew."""
        tables.create_temporary_function("fresh", Memory())
        sink = plan_query(tables.sql_query(query).node, tables.plan_context()).physical
        return uid_of(sink.input), uid_of(sink.input.input)

    query = "SELECT UPPER(name) AS n FROM fresh(input => TABLE t PARTITION BY name, uid => 'mine') WHERE name <> 'x'"
    first = uids(query)
    tables.drop_temporary_function("fresh")
    assert uids(query) == first
    assert first[1] == "ProcessTableFunction-mine"


class Fails(ProcessTableFunction[str]):
    def eval(self, ctx: ProcessTableFunction.Context, input: Annotated[Row, ArgumentHint(SET)], what: str):
        if what == "state":
            ctx.clear_state("nope")
        if what == "table":
            ctx.table_semantics_for("nope")
        if what == "timer":
            ctx.time_context().register_on_time(1)
        if what == "kind":
            self.collect(Row.of_kind(RowKind.DELETE, "x"))
        if what == "type":
            self.collect(5)


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("state", 'no state entry "nope"'),
        ("table", 'no table argument "nope"'),
        ("timer", "no method on_timer"),
        ("kind", "gave a row of kind DELETE"),
        ("type", "does not fit its type"),
    ],
)
def test_what_a_function_does_wrong_is_named(tables, what, words):
    with pytest.raises(JobExecutionError, match=words):
        rows_of(tables.from_path("t").partition_by(col("name")).process(Fails(), what))


def declared(**methods):
    return type("F", (ProcessTableFunction,), {"get_result_type": lambda self: "STRING", **methods})


def bare(self, input): ...


def no_key(
    self, s: Annotated[Row, StateHint(type="ROW<n INT>")], input: Annotated[Row, ArgumentHint(ROWS)]
): ...


def untyped_state(self, s: Annotated[Row, StateHint()], input: Annotated[Row, ArgumentHint(SET)]): ...


def number_state(self, s: Annotated[int, StateHint()], input: Annotated[Row, ArgumentHint(SET)]): ...


def state_behind(
    self, input: Annotated[Row, ArgumentHint(SET)], s: Annotated[Row, StateHint(type="ROW<n INT>")]
): ...


def two_rows(self, a: Annotated[Row, ArgumentHint(ROWS)], b: Annotated[Row, ArgumentHint(ROWS)]): ...


def full_delete(self, a: Annotated[Row, ArgumentHint(SET, ArgumentTrait.REQUIRE_FULL_DELETE)]): ...


def untyped(self, x: object): ...


def uid(self, uid: int): ...


def many(self, *rows: int): ...


@pytest.mark.parametrize(
    ("method", "words"),
    [
        (bare, 'parameter "input".* is not annotated'),
        (no_key, "state entries and no table of set semantics"),
        (untyped_state, "is a Row without a type"),
        (number_state, "is a state entry of <class 'int'>"),
        (state_behind, "behind an argument"),
        (two_rows, "not all of set semantics"),
        (full_delete, "without SUPPORT_UPDATES"),
        (untyped, "says no type"),
        (uid, "as an argument that every function has"),
        (many, r"the parameter \*rows"),
    ],
)
def test_a_wrong_function_is_refused(tables, method, words):
    with pytest.raises(ValidationError, match=words):
        tables.create_temporary_function("f", declared(eval=method)())


def test_a_function_says_what_it_gives(tables):
    class Untyped(ProcessTableFunction):
        def eval(self, n: int): ...

    with pytest.raises(ValidationError, match="does not say the type of its rows"):
        tables.from_call(Untyped, 1)


def test_collect_outside_of_a_call():
    with pytest.raises(RuntimeError, match="outside of eval"):
        Upserting().collect(1)
