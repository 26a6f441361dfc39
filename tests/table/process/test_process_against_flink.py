"""Process table functions, changelog functions and ON CONFLICT give what Flink 2.3 gave of the same steps."""

from __future__ import annotations

import contextlib
import datetime
import io
import json
import re
from typing import Any

import pytest
from ptf_cases import CASES, CHANGELOGS, CONFLICTS, RECORDED, Case
from ptf_cases import FUNCTIONS as FUNCTION_CASES
from ptf_functions import FUNCTIONS, shown

from millstream.base.errors import JobExecutionError
from millstream.common import Configuration, Instant, Types, WatermarkStrategy
from millstream.common.watermark_strategy import TimestampAssigner, WatermarkGenerator
from millstream.datastream import StreamExecutionEnvironment
from millstream.table import ChangelogMode, Schema, StreamTableEnvironment
from millstream.table.connectors import registry
from millstream.table.connectors.print_sinks import PrintConnector
from millstream.table.errors import ValidationError
from millstream.table.plan.changes import UPSERT
from millstream.types.row import Row, RowKind

FLINK = {each["name"]: each for each in json.loads(RECORDED.read_text())}
KINDS = {str(kind): kind for kind in RowKind}
MODES = {
    "insert": ChangelogMode.insert_only(),
    "upsert": ChangelogMode.upsert(),
    "upsert-keys": ChangelogMode.upsert(),
    "all": ChangelogMode.all(),
}
EPOCH = datetime.datetime(1970, 1, 1)
TYPES = {
    "STRING": (Types.STRING(), lambda value: value),
    "INT": (Types.INT(), lambda value: value),
    "BIGINT": (Types.LONG(), lambda value: value),
    "TIMESTAMP(3)": (Types.SQL_TIMESTAMP(), lambda ms: EPOCH + datetime.timedelta(milliseconds=ms)),
    "TIMESTAMP_LTZ(3)": (Types.INSTANT(), Instant.of_epoch_milli),
}  # fmt: skip


BEHIND = ["no table", "", []]
"""A step behind the others, so that the last watermark is not that of the end."""
DIFFERENT = {
    "to_changelog by key": "PARTITION BY of TO_CHANGELOG is refused in Flink",
    "two tables by name": "Flink gives tables that are named in another order to the wrong arguments",
    "timers in the past": "Flink fires timers without a name first, so the state that others clear is still there",
    "upserts, full deletes": "REQUIRE_FULL_DELETE makes Flink keep the table's rows",
    "a sum of what a function retracts": "what one call gives is netted",
    "a function that upserts": "Flink has no plan; a ChangelogNormalize stands between here",
}
"""Cases where this is not Flink, with the reason; docs/sql/differences.md lists them."""
REORDERED = ("timers", "timers by name", "timers in an order", "on_time through a window")
"""Timers that one watermark fires come by time here; in Flink those without a name come first, then those with.

Windows that one watermark closes come in another order, too.
"""


class WrittenConnector(PrintConnector):
    """A sink of upserts that prints them."""

    name = "steps"

    def check(self):
        self.options.text("mode")
        super().check()

    def accepts(self, mode):
        return UPSERT


class Marks(WatermarkGenerator):
    """A watermark at each step that is a number."""

    def on_event(self, value, timestamp_ms, output):
        if isinstance(value, int):
            output.emit_watermark(value)

    def on_periodic_emit(self, output):
        pass


class Zero(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return 0


class Table:
    """A declared table: its columns, and how a step becomes a row of it."""

    def __init__(self, name: str, mode: str, columns: str) -> None:
        self.name, self.mode = name, mode
        parts = re.findall(r"(?:[^,(]|\([^)]*\))+", columns)
        words = [part.strip().split(" ", 1) for part in parts]
        self.columns = [(name, kind) for name, kind in words if name not in ("WATERMARK", "PRIMARY")]
        self.time = next((name for name, kind in self.columns if kind.startswith("TIMESTAMP")), None)
        key = re.search(r"PRIMARY KEY \((\w+)\)", columns)
        self.key = None if key is None else key[1]

    def row(self, step: list[Any]) -> Row:
        values = {
            name: None if value is None else TYPES[kind][1](value)
            for (name, kind), value in zip(self.columns, step[2], strict=True)
        }
        row = Row(**values)
        row.set_row_kind(KINDS[step[1]])
        return row

    def schema(self) -> Schema:
        builder = Schema.new_builder()
        for name, kind in self.columns:
            builder.column(name, kind + " NOT NULL" * (name == self.key))
        if self.time is not None:
            builder.watermark(self.time, "SOURCE_WATERMARK()")
        if self.key is not None:
            builder.primary_key(self.key)
        return builder.build()

    def declare(self, tables: StreamTableEnvironment, steps: Any) -> None:
        rows = steps.filter(lambda step: not isinstance(step, int) and step[0] == self.name).map(
            self.row,
            Types.ROW_NAMED([name for name, _ in self.columns], [TYPES[kind][0] for _, kind in self.columns]),
        )
        made = tables.from_changelog_stream(rows, self.schema(), MODES[self.mode])
        tables.create_temporary_view(self.name, made)


def session() -> tuple[StreamExecutionEnvironment, StreamTableEnvironment]:
    configuration = Configuration()
    for key, value in {
        "execution.target": "local",
        "parallelism.default": "1",
        "millstream.epoch.fixed-records": "1",
        "restart-strategy.type": "none",
        "table.local-time-zone": "UTC",
    }.items():
        configuration.set_string(key, value)
    environment = StreamExecutionEnvironment.get_execution_environment(configuration)
    tables = StreamTableEnvironment.create(environment)
    for name, function in FUNCTIONS.items():
        tables.create_temporary_system_function(name, function())
    return environment, tables


def declare(case: Case, environment: Any, tables: Any) -> list[str]:
    """Declare the tables that a case reads; returns their names."""
    steps = environment.from_collection([*case["steps"], BEHIND]).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_generator(Marks).with_timestamp_assigner(Zero())
    )
    read = [name for name in case["tables"] if name != "o"]
    for name in read:
        Table(name, *case["tables"][name]).declare(tables, steps)
    return read


def queries(cases: list[Case]) -> dict[str, dict[str, Any]]:
    """Run queries as one job; returns what each gives, as Flink's answers are recorded."""
    environment, tables = session()
    found: dict[str, dict[str, Any]] = {}
    streams = []
    for case in cases:
        name = case["name"]
        read = declare(case, environment, tables)
        try:
            table = tables.sql_query(case["sql"])
            found[name] = {"rows": [], "names": table.get_schema().get_field_names()}
            changes = tables.to_changelog_stream(table)
            streams.append(
                changes.map(lambda row, name=name: (name, [str(row.get_row_kind()), *map(shown, row)]))
            )
        except ValidationError as error:
            found[name] = {"error": str(error)}
        for each in read:
            tables.drop_temporary_view(each)
    if not streams:
        return found
    try:
        with streams[0].union(*streams[1:]).execute_and_collect() as rows:
            for name, row in rows:
                found[name]["rows"].append(row)
    except JobExecutionError as error:
        for answer in found.values():
            answer.setdefault("error", str(error))
    return found


def inserts(cases: list[Case], read_printed: Any) -> dict[str, dict[str, Any]]:
    """Run INSERTs as one job; returns what each writes."""
    environment, tables = session()
    found: dict[str, dict[str, Any]] = {}
    job = tables.create_statement_set()
    for place, case in enumerate(cases):
        read = declare(case, environment, tables)
        tables.execute_sql(
            f"CREATE TABLE o{place} ({case['tables']['o'][1]}) "
            f"WITH ('connector' = 'steps', 'print-identifier' = '{case['name']}')"
        )
        try:
            sql = case["sql"].replace("INSERT INTO o ", f"INSERT INTO o{place} ")
            tables.explain_sql(sql)
            job.add_insert_sql(sql)
            found[case["name"]] = {"rows": []}
        except ValidationError as error:
            found[case["name"]] = {"error": str(error)}
        for each in read:
            tables.drop_temporary_view(each)
    if any("rows" in answer for answer in found.values()):
        try:
            job.execute().wait()
        except JobExecutionError as error:
            for answer in found.values():
                answer.setdefault("error", str(error))
    for line in read_printed().splitlines():
        name, row = line.split("> ", 1)
        found[name]["rows"].append(re.split(r"[\[,\]] ?", row)[:-1])
    return found


def rounds(cases: list[Case]) -> list[list[Case]]:
    """Deal cases to jobs: a job has each function once, as its name is the uid of a call; those that fail have one."""
    jobs = [[case] for case in cases if case["fails"]]
    waiting = [case for case in cases if not case["fails"]]
    while waiting:
        used: set[str] = set()
        chosen = []
        for case in waiting:
            called = {name for name in FUNCTIONS if re.search(rf"\b{name}\b`?\(", case["sql"])}
            if not called & used:
                used |= called
                chosen.append(case)
        waiting = [case for case in waiting if case not in chosen]
        jobs.append(chosen)
    return jobs


@pytest.fixture(scope="module")
def answers():
    """What each case gives here."""
    found: dict[str, dict[str, Any]] = {}
    for job in rounds(FUNCTION_CASES + CHANGELOGS):
        found |= queries(job)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "_installed", lambda: {"steps": f"{__name__}:WrittenConnector"})
        for job in rounds(CONFLICTS):
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                found |= inserts(job, printed.getvalue)
    return found


@pytest.mark.parametrize("name", [case["name"] for case in CASES])
def test_rows_are_flinks(answers, name):
    """Instants are told without their Z."""
    flink, here = FLINK[name], answers[name]
    if name in DIFFERENT:
        assert here.get("rows") != flink["rows"], f"no difference any more: {DIFFERENT[name]}"
        return
    if "error" in flink:
        assert "error" in here, (flink["error"], here["rows"])
    else:
        assert "error" not in here, here["error"]
        rows, expected = (
            here["rows"],
            [[re.sub(r"(\d)Z$", r"\1", value) for value in row] for row in flink["rows"]],
        )
        if name in REORDERED:
            rows, expected = sorted(rows), sorted(expected)
        assert rows == expected
        assert here.get("names") == flink.get("names")
