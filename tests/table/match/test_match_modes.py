"""MATCH_RECOGNIZE in batch mode, by processing time, in views and kept plans."""

from __future__ import annotations

import json
import warnings

import pytest
from match_queries import QUERIES, RECORDED, lines, plain, table

from millstream.cep import GrowingStateWarning
from millstream.config.configuration import Configuration
from millstream.table import EnvironmentSettings, TableEnvironment

pytestmark = pytest.mark.filterwarnings("ignore::millstream.cep.GrowingStateWarning")

FLINK = json.loads(RECORDED.read_text())["results"]


@pytest.fixture
def environment(tmp_path):
    """Makes a table environment of a mode that knows the rows."""

    def make(mode):
        options = {
            "execution.target": "local",
            "parallelism.default": "1",
            "execution.runtime-mode": mode,
            "millstream.epoch.fixed-records": "11",
        }
        settings = EnvironmentSettings.new_instance().with_configuration(Configuration.from_dict(options))
        tables = TableEnvironment.create(settings.build())
        (tmp_path / "ticks").mkdir(exist_ok=True)
        (tmp_path / "ticks" / "rows.csv").write_text("\n".join(lines()) + "\n")
        tables.execute_sql(table(str(tmp_path / "ticks")))
        return tables

    return make


def rows_of(tables, query):
    with tables.execute_sql(query).collect() as rows:
        return sorted((plain(row) for row in rows), key=repr)


@pytest.mark.parametrize("name", ["v shape", "within", "window of matches"])
def test_batch_mode_gives_the_same(environment, name):
    assert rows_of(environment("batch"), QUERIES[name]) == FLINK[name]["rows"]


def test_a_view_has_matches(environment):
    tables = environment("streaming")
    tables.execute_sql(f"CREATE VIEW shapes AS {QUERIES['v shape']}")
    assert rows_of(tables, "SELECT * FROM shapes") == FLINK["v shape"]["rows"]


def test_by_processing_time_rows_are_taken_as_they_come(environment):
    query = (
        "SELECT symbol, a, b FROM (SELECT *, PROCTIME() AS pt FROM ticks) MATCH_RECOGNIZE ("
        "PARTITION BY symbol ORDER BY pt MEASURES A.id AS a, B.id AS b, MATCH_PROCTIME() AS found_at "
        "AFTER MATCH SKIP PAST LAST ROW PATTERN (A B) WITHIN INTERVAL '1' DAY DEFINE A AS A.note = 'up')"
    )
    wanted, begun = [], {}
    for line in lines():
        symbol, _, number, *_, note = line.split(",")
        if symbol in begun:
            wanted.append([symbol, begun.pop(symbol), int(number)])
        elif note == "up":
            begun[symbol] = int(number)
    assert rows_of(environment("streaming"), query) == sorted(wanted, key=repr)


def test_a_kept_plan_runs(environment, tmp_path):
    tables = environment("streaming")
    tables.execute_sql(
        "CREATE TABLE pairs (symbol STRING, a INT, b INT) "
        f"WITH ('connector' = 'filesystem', 'path' = '{tmp_path / 'pairs'}', 'format' = 'csv')"
    )
    insert = f"INSERT INTO pairs {QUERIES['overlapping']}"
    tables.execute_sql(f"COMPILE AND EXECUTE PLAN '{tmp_path / 'plan.json'}' FOR {insert}").wait()
    assert rows_of(tables, "SELECT * FROM pairs") == FLINK["overlapping"]["rows"]


def test_explain_shows_the_clauses(environment):
    text = environment("streaming").explain_sql(QUERIES["within, past"])
    assert (
        "Match(partitionBy=[symbol], orderBy=[rt ASC, id ASC], measures=[LAST(A.id, 0) AS a, COUNT(B.id) AS n, "
        "LAST(C.id, 0) AS c], rowsPerMatch=[ONE ROW PER MATCH], after=[SKIP PAST LAST ROW], "
        "pattern=[(A B+ C) WITHIN 10000 ms], define=[{B=(price > 10), C=(price < 20)}])"
    ) in text
    assert "Exchange(distribution=[hash[symbol]])" in text


def test_a_variable_that_may_take_rows_without_end_is_named_before_the_job_starts(environment):
    tables = environment("streaming")
    with pytest.warns(
        GrowingStateWarning, match=r"variable DOWN of PATTERN \(S DOWN\+ UP\) may take any number of rows"
    ):
        tables.execute_sql(QUERIES["v shape"]).collect().close()


@pytest.mark.parametrize("pattern", ["(S DOWN+ UP) WITHIN INTERVAL '1' HOUR", "(S DOWN{1,5} UP)"])
def test_a_pattern_with_a_bound_is_not_warned_of(environment, pattern):
    tables = environment("streaming")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tables.execute_sql(QUERIES["v shape"].replace("(S DOWN+ UP)", pattern)).collect().close()
