"""Changelog modes are those that Flink 2.3 infers (recorded in `flink_plans.json`), or differ for a reason."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from millstream.common import Configuration
from millstream.datastream import StreamExecutionEnvironment
from millstream.table import StreamTableEnvironment
from millstream.table.connectors import registry
from millstream.table.connectors.base import TableConnector
from millstream.table.plan.changes import ALL, INSERT_ONLY, UPSERT, ChangelogMode

RECORDED = json.loads((Path(__file__).parent / "flink_plans.json").read_text())

DIFFERENT = {
    "SELECT k, SUM(v) OVER (PARTITION BY k ORDER BY v) FROM t": "rows without a key: -U tells which one is updated",
    "SELECT k FROM t WHERE v > (SELECT MAX(amount) FROM o)": "the condition may stop to hold, so rows are taken back",
}
"""Queries whose plans differ, with the reason; docs/sql/differences.md has them too."""

IGNORED = {"Exchange", "Calc", "WatermarkAssigner", "TableSourceScan", "Sink", "LocalWindowAggregate"}
SAME = {"GlobalWindowAggregate": "WindowAggregate", "Deduplicate": "Rank"}


class PlannedConnector(TableConnector):
    """Says what kafka, upsert-kafka, print and others give and take; plans ask no more."""

    def __init__(self, table: Any) -> None:
        self.table = table
        self.name = table.options["connector"]

    def check(self) -> None:
        """Take any option."""

    def scan_mode(self) -> ChangelogMode:
        """Return what rows of the table are."""
        return {"upsert-kafka": UPSERT, "kafka": ALL}.get(self.name, INSERT_ONLY)

    def accepts(self, mode: ChangelogMode) -> ChangelogMode:
        """Return what the sink takes."""
        if self.name == "print":
            return mode
        return UPSERT if self.name == "upsert-kafka" else INSERT_ONLY


@pytest.fixture(scope="module")
def tables() -> Iterator[StreamTableEnvironment]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "find_connector", PlannedConnector)
        configuration = Configuration()
        configuration.set_string("execution.target", "local")
        stream = StreamExecutionEnvironment.get_execution_environment(configuration)
        environment = StreamTableEnvironment.create(stream)
        for statement in RECORDED["ddl"]:
            environment.execute_sql(statement)
        yield environment


def operators_of(text: str) -> list[tuple[str, str]]:
    """Return names and modes of the physical plan's operators."""
    plan = text.split("== Optimized Physical Plan ==")[1].split("== Optimized Execution Plan ==")[0]
    found = re.findall(r"(\w+)\([^\n]*changelogMode=\[([A-Z,]*)\]", plan)
    return [(name, mode) for name, mode in found]


def compared(operators: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return what is compared: operators that make changes of their own, upserts always with inserts."""
    return [
        (SAME.get(name, name), "I,UA,D" if mode == "UA,D" else mode)
        for name, mode in operators
        if name not in IGNORED
    ]


@pytest.mark.parametrize("recorded", RECORDED["plans"], ids=lambda each: each["sql"][:70])
def test_modes_are_flinks(tables: StreamTableEnvironment, recorded: dict[str, Any]) -> None:
    sql = recorded["sql"]
    if "error" in recorded:
        with pytest.raises(ValueError):
            tables.explain_sql(sql, "CHANGELOG_MODE")
        return
    wanted = compared([(name, mode) for name, mode in recorded["operators"]])
    found = compared(operators_of(tables.explain_sql(sql, "CHANGELOG_MODE")))
    assert (found == wanted) == (sql not in DIFFERENT), (found, wanted)


def test_sixty_plans_and_more_are_flinks() -> None:
    assert len(RECORDED["plans"]) - len(DIFFERENT) >= 60


def test_an_append_sink_names_the_operator_that_updates(tables: StreamTableEnvironment) -> None:
    with pytest.raises(ValueError, match=r"update changes.*GroupAggregate\(groupBy=\[k\]"):
        tables.explain_sql("INSERT INTO app SELECT k, COUNT(*) FROM t GROUP BY k")


def test_another_key_than_the_sinks_needs_a_word_on_conflicts(tables: StreamTableEnvironment) -> None:
    with pytest.raises(ValueError, match="ON CONFLICT DO DEDUPLICATE"):
        tables.explain_sql("INSERT INTO sn SELECT COUNT(*), k FROM t GROUP BY k")
    text = tables.explain_sql(
        "INSERT INTO sn SELECT COUNT(*), k FROM t GROUP BY k ON CONFLICT DO DEDUPLICATE"
    )
    assert "upsertMaterialize=[true]" in text


def test_do_nothing_needs_watermarks(tables: StreamTableEnvironment) -> None:
    with pytest.raises(ValueError, match="not all sources have watermarks"):
        tables.explain_sql("INSERT INTO sn SELECT COUNT(*), k FROM t GROUP BY k ON CONFLICT DO NOTHING")


def test_full_changes_into_a_sink_by_key_lose_the_rows_before(tables: StreamTableEnvironment) -> None:
    assert "DropUpdateBefore" in tables.explain_sql("INSERT INTO sid SELECT id, name FROM c")
    kept = tables.explain_sql("INSERT INTO sid SELECT id, name FROM c WHERE n > 3")
    assert "DropUpdateBefore" not in kept
