"""Calls of process table functions, changelog functions and ON CONFLICT that Flink 2.3 answered.

`benchmarks/process_flink.py` asks Flink (its functions are in benchmarks/java/FlinkProcess.java) and writes
`flink_process.json`. Rows and watermarks come in the order of the steps, one by one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

RECORDED = Path(__file__).parent / "flink_process.json"

Case = dict[str, Any]
NAMES = "name STRING, score INT"
TIMED = "k STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS SOURCE_WATERMARK()"
LOCAL = "k STRING, v INT, ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS SOURCE_WATERMARK()"
COUNTS = "name STRING, c BIGINT, PRIMARY KEY (name) NOT ENFORCED"


def steps(text: str) -> list[Any]:
    """Read steps: `t +I Bob 12`, `wm 5000`; `-` is NULL, numbers are numbers."""
    found: list[Any] = []
    for line in text.split(";"):
        table, *words = line.split()
        if table == "wm":
            found.append(int(words[0]))
        else:
            found.append([table, words[0], [read(word) for word in words[1:]]])
    return found


def read(word: str) -> Any:
    if word == "-":
        return None
    return int(word) if word.lstrip("-").isdigit() else word


PEOPLE = steps("t +I Bob 12; t +I Alice 42; t +I Bob 99; t +I Bob 100; t +I - 3; t +I Alice 400; t +I - 4")
VIEWED = steps("t +I a 1; t +I a 2; t +I b 2; t +I a 1; t +I a 0; t +I a 9; t +I b 7; t +I a 3")
UPDATES = steps(
    "u +I Bob 1; u +I Alice 5; u -U Bob 1; u +U Bob 2; u -D Alice 5; u -U Bob 2; u +U Bob 3; u +I Alice 7; u -D Bob 3"
)
UPSERTS = steps("u +I Bob 1; u +I Alice 5; u +U Bob 2; u -D Alice 5; u +U Bob 3; u +U Alice 7; u -D Bob 3")
EVENTS = steps(
    "e +I a 1 1000; e +I b 2 2000; wm 2000; e +I a 3 4000; wm 6500; e +I a 4 7000; e +I b 5 3000; wm 12000"
)
LATE = steps(
    "e +I a 1 5000; wm 5000; e +I a 2 3000; e +I a 3 5000; e +I a 4 5001; wm 6000; e +I b 5 1000; wm 9000"
)
SHUFFLED = steps(
    "e +I a 3 3000; e +I a 1 1000; e +I b 9 2000; e +I a 2 1000; wm 2000; e +I a 5 2000; e +I a 4 2500; e +I b 7 4000; "
    "e +I b 8 4000; wm 4000; e +I a 6 9000"
)
TWO = steps("t +I a 1; v +I a 10; v +I b 20; t +I b 2; t +I a 3; v +I a 30; v +I - 5; t +I - 6")
TIMERS = steps(
    "e +I a 1 1000; wm 1000; e +I b 1 2000; e +I a 2 3000; wm 3000; e +I b 3 4000; wm 19500; wm 20500; wm 30000"
)
AGAIN = steps("e +I a 7 1000; e +I b 7 1000; wm 1500; e +I b 6 1600; wm 5000; wm 7000; wm 20000")
PAST = steps("e +I a 5 1000; wm 5000; e +I a 5 6000; e +I b 1 6000; wm 7000; e +I b 4 8000; wm 30000")


FAILING = (
    "from_changelog, an unknown code",
    "from_changelog, no code",
    "error: two rows",
    "error: two rows, one goes",
)
"""Those whose jobs fail while they run."""


def case(name: str, sql: str, given: list[Any], **tables: tuple[str, str]) -> Case:
    return {"name": name, "sql": sql, "tables": tables, "steps": given, "fails": name in FAILING}


def insert(columns: str) -> tuple[str, str]:
    return ("insert", columns)


T = {"t": insert(NAMES)}
K = {"t": insert("k STRING, v INT")}
E = {"e": insert(TIMED)}
L = {"e": insert(LOCAL)}
RETRACT = {"u": ("all", COUNTS.replace(", PRIMARY KEY (name) NOT ENFORCED", ""))}
KEYED = {"u": ("all", COUNTS)}
UPSERT = {"u": ("upsert", COUNTS)}
KEYS_ONLY = {"u": ("upsert-keys", COUNTS)}
BOTH = {"t": insert("k STRING, v INT"), "v": insert("k STRING, v INT")}

TIMED_PLAY = "SELECT * FROM TimerPlay(input => TABLE e PARTITION BY k, on_time => DESCRIPTOR(ts))"

FUNCTIONS = [
    case("row semantics", "SELECT * FROM Greeting(TABLE t)", PEOPLE, **T),
    case("row semantics by name", "SELECT * FROM Greeting(input => TABLE t, uid => 'x')", PEOPLE, **T),
    case("set semantics", "SELECT * FROM Memory(TABLE t PARTITION BY name)", PEOPLE, **T),
    case("set semantics of a subquery", "SELECT * FROM Memory(input => "
         "(SELECT name, score + 1 FROM t WHERE score > 10) PARTITION BY name)", PEOPLE, **T),
    case("set semantics by two columns", "SELECT * FROM Memory(TABLE t PARTITION BY (name, score))", PEOPLE, **T),
    case("optional partitioning, none", "SELECT * FROM OptionalMemory(TABLE t)", PEOPLE, **T),
    case("optional partitioning, one", "SELECT * FROM OptionalMemory(TABLE t PARTITION BY name)", PEOPLE, **T),
    case("a row as state", "SELECT * FROM RowState(TABLE t PARTITION BY name, 3)", PEOPLE, **T),
    case("clear all state", "SELECT * FROM RowState(input => TABLE t PARTITION BY name, most => 1)", PEOPLE, **T),
    case("views", "SELECT * FROM Viewing(TABLE t PARTITION BY k)", VIEWED, **K),
    case("columns through, rows", "SELECT * FROM PassRow(TABLE t, 2)", PEOPLE[:3], **T),
    case("columns through, sets", "SELECT * FROM PassSet(TABLE t PARTITION BY name)", PEOPLE, **T),
    case("a filter behind a call", "SELECT UPPER(name), `EXPR$0` FROM PassRow(TABLE t, 2) WHERE score < 50",
         PEOPLE, **T),
    case("values only", "SELECT * FROM Gen(3)", [], **T),
    case("types are cast", "SELECT * FROM Typed(input => (SELECT name, CAST(score AS BIGINT) AS v FROM t) "
         "PARTITION BY name, k => 7)", PEOPLE, **T),
    case("an optional argument", "SELECT * FROM Typed(input => (SELECT name, CAST(score AS BIGINT) AS v FROM t) "
         "PARTITION BY name)", PEOPLE, **T),
    case("timers", "SELECT * FROM FollowUp(TABLE e PARTITION BY k, DESCRIPTOR(ts))", EVENTS, **E),
    case("timers by name", "SELECT * FROM FollowUp(input => TABLE e PARTITION BY k, on_time => DESCRIPTOR(ts))",
         LATE, **E),
    case("timers of local time", TIMED_PLAY,
         TIMERS, **L),
    case("timers set again and cleared", TIMED_PLAY,
         TIMERS, **E),
    case("timers set by timers", TIMED_PLAY,
         AGAIN, **E),
    case("timers in the past", TIMED_PLAY,
         PAST, **E),
    case("on_time of row semantics", "SELECT * FROM Greeting(input => (SELECT k AS name, ts FROM e), "
         "on_time => DESCRIPTOR(ts))", EVENTS, **E),
    case("on_time through a window", "SELECT k, window_start, COUNT(*) FROM TABLE(TUMBLE(DATA => (SELECT * "
         "FROM FollowUp(input => TABLE e PARTITION BY k, on_time => DESCRIPTOR(ts))), TIMECOL => DESCRIPTOR(rowtime), "
         "SIZE => INTERVAL '5' SECOND)) GROUP BY k, window_start, window_end", EVENTS, **E),
    case("order by time", "SELECT * FROM Sorted(input => TABLE e PARTITION BY k ORDER BY ts)", SHUFFLED, **E),
    case("order by time and value", "SELECT * FROM Sorted(input => TABLE e PARTITION BY k ORDER BY (ts, v DESC))",
         SHUFFLED, **E),
    case("late rows in an order", "SELECT * FROM Sorted(input => TABLE e PARTITION BY k ORDER BY ts)", LATE, **E),
    case("timers in an order", "SELECT * FROM SortTimers(input => TABLE e PARTITION BY k ORDER BY ts, "
         "on_time => DESCRIPTOR(ts))", SHUFFLED, **E),
    case("two tables", "SELECT * FROM `Both`(TABLE t PARTITION BY k, TABLE v PARTITION BY k)", TWO, **BOTH),
    case("two tables by name", "SELECT * FROM `Both`(b => TABLE v PARTITION BY k, a => TABLE t PARTITION BY k)",
         TWO, **BOTH),
    case("updates by row", "SELECT * FROM KindsRow(TABLE u)", UPDATES, **RETRACT),
    case("updates by set", "SELECT * FROM Kinds(TABLE u PARTITION BY name)", UPDATES, **RETRACT),
    case("updates by upsert key", "SELECT * FROM Kinds(TABLE u PARTITION BY name)", UPDATES, **KEYED),
    case("updates by another column", "SELECT * FROM Kinds(TABLE u PARTITION BY c)", UPDATES, **KEYED),
    case("updates with the row before", "SELECT * FROM KindsBefore(TABLE u PARTITION BY name)", UPDATES, **KEYED),
    case("upserts", "SELECT * FROM Kinds(TABLE u PARTITION BY name)", UPSERTS, **UPSERT),
    case("upserts with the row before", "SELECT * FROM KindsBefore(TABLE u PARTITION BY name)", UPSERTS, **UPSERT),
    case("upserts by row", "SELECT * FROM KindsRow(TABLE u)", UPSERTS, **UPSERT),
    case("upserts whose deletes have keys", "SELECT * FROM Kinds(TABLE u PARTITION BY name)",
         [["u", "-D", ["Alice", None]] if step[1] == "-D" else step for step in UPSERTS if step[2][0] == "Alice"],
         **KEYS_ONLY),
    case("upserts, full deletes", "SELECT * FROM KindsFull(TABLE u PARTITION BY name)",
         [["u", "-D", ["Alice", None]] if step[1] == "-D" else step for step in UPSERTS if step[2][0] == "Alice"],
         **KEYS_ONLY),
    case("a function that retracts", "SELECT * FROM Retracting(TABLE t PARTITION BY k)", VIEWED, **K),
    case("a sum of what a function retracts", "SELECT SUM(v) FROM Retracting(TABLE t PARTITION BY k)", VIEWED, **K),
    case("a function that upserts", "SELECT * FROM Upserting(TABLE t PARTITION BY k)", VIEWED, **K),
]  # fmt: skip

CHANGELOGS = [
    case("to_changelog", "SELECT * FROM TO_CHANGELOG(input => TABLE u)", UPDATES, **RETRACT),
    case("to_changelog of inserts", "SELECT * FROM TO_CHANGELOG(input => TABLE t)", PEOPLE, **T),
    case("to_changelog of upserts", "SELECT * FROM TO_CHANGELOG(input => TABLE u)", UPSERTS, **UPSERT),
    case("to_changelog, its column", "SELECT * FROM TO_CHANGELOG(input => TABLE u, op => DESCRIPTOR(kind))", UPDATES,
         **RETRACT),
    case("to_changelog, its codes", "SELECT * FROM TO_CHANGELOG(TABLE u, DESCRIPTOR(o), "
         "MAP['INSERT, UPDATE_AFTER', 'u', 'DELETE', 'd'])", UPDATES, **KEYED),
    case("to_changelog, some kinds", "SELECT * FROM TO_CHANGELOG(input => TABLE u, "
         "op_mapping => MAP['UPDATE_BEFORE', 'b'])", UPDATES, **RETRACT),
    case("to_changelog of an aggregate", "SELECT * FROM TO_CHANGELOG(input => (SELECT name, SUM(score) AS s FROM t "
         "GROUP BY name))", PEOPLE, **T),
    case("to_changelog by key", "SELECT * FROM TO_CHANGELOG(input => TABLE u PARTITION BY name)", UPDATES, **KEYED),
    case("from_changelog", "SELECT * FROM FROM_CHANGELOG(input => TABLE t)",
         steps("t +I INSERT a 1; t +I INSERT b 5; t +I UPDATE_BEFORE a 1; t +I UPDATE_AFTER a 2; t +I DELETE b 5"),
         t=insert("op STRING, k STRING, v INT")),
    case("from_changelog, its codes", "SELECT * FROM FROM_CHANGELOG(input => TABLE t, op => DESCRIPTOR(o), "
         "op_mapping => MAP['c, r', 'INSERT', 'd', 'DELETE'])",
         steps("t +I a c 1; t +I b r 5; t +I a d 1; t +I a c 2; t +I b d 5"), t=insert("k STRING, o STRING, v INT")),
    case("from_changelog, an unknown code", "SELECT * FROM FROM_CHANGELOG(input => TABLE t)",
         steps("t +I INSERT a 1; t +I other b 5"), t=insert("op STRING, k STRING, v INT")),
    case("from_changelog, no code", "SELECT * FROM FROM_CHANGELOG(input => TABLE t)",
         steps("t +I INSERT a 1; t +I - b 5"), t=insert("op STRING, k STRING, v INT")),
    case("a sum over from_changelog", "SELECT k, SUM(v) FROM FROM_CHANGELOG(input => TABLE t) GROUP BY k",
         steps("t +I INSERT a 1; t +I INSERT b 5; t +I UPDATE_BEFORE a 1; t +I UPDATE_AFTER a 2; t +I DELETE b 5"),
         t=insert("op STRING, k STRING, v INT")),
    case("there and back", "SELECT * FROM FROM_CHANGELOG(input => (SELECT * FROM TO_CHANGELOG(input => TABLE u)))",
         UPDATES, **RETRACT),
]  # fmt: skip


def conflict(
    name: str, how: str, given: list[Any], key: str = "(k)", mode: str = "all", timed: bool = True
) -> Case:
    made = case(name, f"INSERT INTO o SELECT k, name, v FROM t {how}", given)
    time = ", ts TIMESTAMP(3), WATERMARK FOR ts AS SOURCE_WATERMARK()" if timed else ""
    made["tables"] = {
        "t": ("upsert" if mode == "upsert" else mode,
              f"name STRING, k INT, v INT{time}, PRIMARY KEY (name) NOT ENFORCED"),
        "o": ("upsert", f"k INT, name STRING, v INT, PRIMARY KEY {key} NOT ENFORCED"),
    }  # fmt: skip
    return made


MOVES = steps(
    "t +I a 1 10 0; wm 10; t +I b 2 20 0; wm 20; t -U a 1 10 0; t +U a 1 11 0; wm 30; t -D b 2 20 0; wm 40; "
    "t +I c 2 30 0; wm 50"
)
SWAPPED = steps(
    "t +I a 1 10 0; wm 10; t -U a 1 10 0; t +I b 1 20 0; t +U a 2 10 0; wm 20; t -D b 1 20 0; wm 30"
)
CLASH = steps("t +I a 1 10 0; wm 10; t +I b 1 20 0; wm 20; t +I c 2 30 0; wm 30")
CLASH_GOES = steps(
    "t +I a 1 10 0; t +I b 1 20 0; wm 10; t +I c 1 30 0; t -D a 1 10 0; wm 20; t -D b 1 20 0; wm 30"
)
PASSING = steps(
    "t +I a 1 10 0; t +I b 1 20 0; t -D a 1 10 0; wm 10; t +I c 1 30 0; t -D c 1 30 0; wm 20; t -D b 1 20 0"
)

CONFLICTS = [
    conflict(f"{how.lower()}: {name}", f"ON CONFLICT DO {how}", given)
    for how in ("ERROR", "NOTHING", "DEDUPLICATE")
    for name, given in (
        ("rows that move", MOVES), ("rows that swap", SWAPPED), ("two rows", CLASH), ("two rows, one goes", CLASH_GOES),
        ("a row that passes", PASSING),
    )
] + [
    conflict("no strategy", "", CLASH),
    conflict("a strategy where keys are the same", "ON CONFLICT DO ERROR", MOVES, key="(name)"),
    conflict("error: no watermark", "ON CONFLICT DO ERROR",
             [[step[0], step[1], step[2][:3]] for step in CLASH if not isinstance(step, int)], timed=False),
    conflict("nothing: no watermark", "ON CONFLICT DO NOTHING",
             [[step[0], step[1], step[2][:3]] for step in CLASH if not isinstance(step, int)], timed=False),
]  # fmt: skip

CASES = FUNCTIONS + CHANGELOGS + CONFLICTS
