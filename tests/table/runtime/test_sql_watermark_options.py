"""Options of tables that say how watermarks are made: alignment holds sources back, what has no effect is refused."""

from __future__ import annotations

import pytest

from millstream.base.errors import ConfigurationError, NotSupportedError
from millstream.table import EnvironmentSettings, TableEnvironment
from millstream.table.udf import udf

ALIGNED = "'scan.watermark.alignment.group' = 'g', 'scan.watermark.alignment.max-drift' = '20 s'"
ROWS = 25


@pytest.fixture
def tables(tmp_path):
    environment = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for key, value in {
        "execution.target": "local",
        "parallelism.default": "1",
        "millstream.epoch.fixed-records": "1",
    }.items():
        environment.get_config().set(key, value)
    for name, step in (("slow", 1), ("fast", 10)):
        lines = [f"{name},{step * number}\n" for number in range(ROWS)]
        (tmp_path / f"{name}.csv").write_text("".join(lines))
    environment.create_temporary_function("later", udf(lambda at: at, result_type="TIMESTAMP_LTZ(3)"))

    def declare(name, options, watermark="WATERMARK FOR at_time AS at_time"):
        environment.execute_sql(
            f"CREATE TABLE {name} (name STRING, s INT, at_time AS TO_TIMESTAMP_LTZ(s, 0){', ' * bool(watermark)}"
            f"{watermark}) WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{tmp_path / name}.csv'"
            f"{', ' * bool(options)}{options})"
        )

    environment.declare = declare
    return environment


def largest_lead(tables):
    """By how many seconds the fast table was ahead while the slow one had rows."""
    query = "SELECT name, s, at_time FROM slow UNION ALL SELECT name, s, at_time FROM fast"
    last, leads, count = {"slow": 0, "fast": 0}, [], 0
    with tables.execute_sql(query).collect() as rows:
        for name, seconds, _ in rows:
            count += 1
            last[name] = max(last[name], seconds)
            if last["slow"] < ROWS - 1:
                leads.append(last["fast"] - last["slow"])
    assert count == 2 * ROWS
    return max(leads)


def test_a_table_that_is_ahead_waits_for_the_others_of_its_group(tables):
    tables.declare("slow", ALIGNED)
    tables.declare("fast", ALIGNED)
    # The drift, and a row of 10 s on top.
    assert 10 <= largest_lead(tables) <= 31


def test_without_alignment_it_does_not_wait(tables):
    tables.declare(
        "slow", "'scan.watermark.emit.strategy' = 'on-periodic', 'scan.watermark.idle-timeout' = '1 h'"
    )
    tables.declare("fast", "")
    assert largest_lead(tables) > 100


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        (
            "'scan.watermark.emit.strategy' = 'on-event'",
            NotSupportedError,
            "behind each batch of a split's rows",
        ),
        ("'scan.watermark.emit.strategy' = 'never'", ConfigurationError, "It is 'on-periodic' or 'on-event'"),
        ("'scan.watermark.emit.on-event.gap' = '3'", ConfigurationError, "'on-event' only"),
        ("'scan.watermark.alignment.group' = 'g'", ConfigurationError, "Give both"),
        ("'scan.watermark.alignment.max-drift' = '1 s'", ConfigurationError, "Give both"),
        ("'scan.watermark.alignment.update-interval' = '1 s'", ConfigurationError, "Give both"),
        (f"{ALIGNED}, 'scan.watermark.alignment.update-interval' = '0 s'", ConfigurationError, "positive"),
        ("'scan.watermark.idle-timeout' = 'soon'", ConfigurationError, "no length of time"),
    ],
)
def test_a_wrong_option_is_refused_before_anything_runs(tables, options, error, words):
    tables.declare("slow", options)
    with pytest.raises(error, match='table "default_catalog.default_database.slow"') as refused:
        tables.execute_sql("SELECT * FROM slow")
    assert words in str(refused.value)


def test_options_of_a_table_without_watermark_are_refused(tables):
    tables.declare("slow", ALIGNED, watermark="")
    with pytest.raises(ConfigurationError, match="and no watermark"):
        tables.execute_sql("SELECT * FROM slow")


def test_alignment_of_watermarks_that_are_not_made_at_the_source_is_refused(tables):
    tables.declare("slow", ALIGNED, watermark="WATERMARK FOR at_time AS later(at_time)")
    with pytest.raises(NotSupportedError, match="not made at its source"):
        tables.execute_sql("SELECT * FROM slow")
