"""Random corruptions of valid statements: what PyFlink 2.3 refused of them (recorded), millstream refuses."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from millstream.base.errors import MillstreamError
from millstream.config.configuration import Configuration
from millstream.table.environment import TableEnvironment
from millstream.table.environment_settings import EnvironmentSettings

RECORDED = json.loads(Path(__file__).with_name("flink_refusals.json").read_text(encoding="utf-8"))
EXECUTED = re.compile(r"\s*(EXPLAIN|DESC|SHOW)", re.IGNORECASE)
DEFINES = re.compile(r"\s*(CREATE|ALTER|DROP|USE)", re.IGNORECASE)


def environment() -> TableEnvironment:
    options = {"execution.target": "local", "parallelism.default": "1", "table.local-time-zone": "UTC"}
    settings = EnvironmentSettings.new_instance().with_configuration(Configuration.from_dict(options)).build()
    tables = TableEnvironment.create(settings)
    for statement in RECORDED["tables"]:
        tables.execute_sql(statement)
    return tables


@pytest.fixture(scope="module")
def refused() -> dict[str, bool]:
    """Whether millstream refuses each statement; definitions are each made among tables of their own."""
    shared = environment()
    found = {}
    for case in RECORDED["cases"]:
        statement = case["statement"]
        try:
            if DEFINES.match(statement):
                environment().execute_sql(statement)
            elif EXECUTED.match(statement):
                shared.execute_sql(statement)
            else:
                shared.explain_sql(statement)
            found[statement] = False
        except MillstreamError:  # anything else is an error of millstream's
            found[statement] = True
    return found


def test_few_that_flink_refuses_are_accepted(refused: dict[str, bool]) -> None:
    wrong = [each["statement"] for each in RECORDED["cases"] if each["refused"] and each["change"] != "valid"]
    accepted = [statement for statement in wrong if not refused[statement]]
    assert len(wrong) > 500
    assert len(accepted) <= 0.03 * len(wrong), "\n".join(accepted)


def test_what_flink_plans_is_not_refused(refused: dict[str, bool]) -> None:
    right = [each["statement"] for each in RECORDED["cases"] if not each["refused"]]
    assert len(right) > 100
    assert [statement for statement in right if refused[statement]] == []
