"""Which operators of a changed query are the same as before, so keep their state; and what is told of others."""

from __future__ import annotations

import json
import time

import pytest

from millstream.base.errors import StateIncompatibleError
from millstream.table import EnvironmentSettings, TableEnvironment

ORDERS = "id INT, buyer STRING, cents INT, at_time TIMESTAMP(3), WATERMARK FOR at_time AS at_time - INTERVAL '2' SECOND"
TOTALS = "INSERT INTO totals SELECT buyer, SUM(cents) FROM orders GROUP BY buyer"
TOP = (
    "INSERT INTO top SELECT buyer, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY buyer ORDER BY cents DESC) AS n "
    "FROM orders) WHERE n <= {}"
)


@pytest.fixture
def job(tmp_path):
    """Return a function that makes a job of statements, up to its operators: what the launcher is given."""
    path = tmp_path / "orders.csv"
    path.write_text("1,a,10,2024-01-01 00:00:01\n2,b,20,2024-01-01 00:00:02\n3,a,30,2024-01-01 00:00:03\n")

    def make(*inserts, columns=ORDERS, options=""):
        tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
        tables.execute_sql(
            f"CREATE TABLE orders ({columns}) "
            f"WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv'{options})"
        )
        tables.execute_sql("CREATE TABLE totals (buyer STRING, cents BIGINT) WITH ('connector' = 'print')")
        tables.execute_sql("CREATE TABLE top (buyer STRING, id INT) WITH ('connector' = 'print')")
        tables.execute_sql(
            "CREATE TABLE copy (id INT) "
            f"WITH ('connector' = 'filesystem', 'path' = '{tmp_path / 'copy'}', 'format' = 'csv')"
        )
        from millstream.table.plan.translate import translate_all
        from millstream.table.sql.parser import parse_statement

        planned, _ = tables._executor.plan_inserts([parse_statement(each) for each in inserts])
        translate_all(planned, tables._environment)
        return {each.uid: each for each in tables._environment._transformations}

    return make


def with_state(job):
    return {uid for uid, each in job.items() if getattr(each.spec, "keeps_state", False)}


def test_every_operator_with_state_has_a_uid(job):
    found = job(TOTALS, TOP.format(2), "INSERT INTO copy SELECT id FROM orders")
    assert None not in with_state(found)
    assert {uid.split("-")[0] for uid in with_state(found)} >= {"Source", "GroupAggregate", "Rank", "Sink"}


def test_another_statement_leaves_the_operators_of_the_first_as_they_are(job):
    assert with_state(job(TOTALS)) <= with_state(job(TOP.format(2), TOTALS))


@pytest.mark.parametrize(
    ("changed", "columns", "options"),
    [
        ("INSERT INTO totals SELECT buyer AS b, SUM(cents) AS c FROM orders GROUP BY buyer", ORDERS, ""),
        ("INSERT INTO totals SELECT o.buyer, SUM(o.cents) FROM orders AS o GROUP BY o.buyer", ORDERS, ""),
        (TOTALS, ORDERS.replace("cents INT", "note STRING, cents INT"), ""),
        (TOTALS, ORDERS, ", 'csv.allow-comments' = 'true'"),
    ],
    ids=["names", "alias", "column in between", "option of the table"],
)
def test_what_state_does_not_depend_on_may_change(job, changed, columns, options):
    assert with_state(job(changed, columns=columns, options=options)) == with_state(job(TOTALS))


@pytest.mark.parametrize(
    "changed",
    [
        "INSERT INTO totals SELECT buyer, SUM(cents) FROM orders WHERE cents > 5 GROUP BY buyer",
        "INSERT INTO totals SELECT buyer, CAST(MAX(cents) AS BIGINT) FROM orders GROUP BY buyer",
        "INSERT INTO totals SELECT buyer, SUM(id) FROM orders GROUP BY buyer",
    ],
    ids=["filter", "aggregate", "column"],
)
def test_an_aggregate_of_something_else_is_another_operator(job, changed):
    before, after = with_state(job(TOTALS)), with_state(job(changed))
    assert {uid.split("-")[0] for uid in before - after} == {"GroupAggregate"}
    assert {uid for uid in before if uid.startswith("Source")} <= after


def checkpointed(tmp_path, statements, settings=()):
    """Run a job to its end, and return the directory of its last checkpoint."""
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for key, value in {
        "execution.target": "local",
        "execution.checkpointing.interval": "1 h",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        **dict(settings),
    }.items():
        tables.get_config().set(key, value)
    tables.execute_sql(
        f"CREATE TABLE orders ({ORDERS}) WITH ('connector' = 'filesystem', 'path' = '{tmp_path / 'in'}', "
        "'format' = 'csv', 'source.monitor-interval' = '100 ms')"
    )
    tables.execute_sql(
        "CREATE TABLE totals (buyer STRING, cents BIGINT) WITH ('connector' = 'print', 'print-identifier' = 'totals')"
    )
    return tables.execute_sql(statements).get_job_client()


def test_a_changed_query_is_refused_with_what_has_changed(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("1,a,10,2024-01-01 00:00:01\n")
    client = checkpointed(tmp_path, TOTALS)
    savepoint = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
    again = {"execution.state-recovery.path": savepoint}
    changed = TOTALS.replace("GROUP", "WHERE cents > 5 GROUP")
    with pytest.raises(StateIncompatibleError) as refused:
        checkpointed(tmp_path, changed, again).get_job_execution_result().result()
    told = str(refused.value)
    assert '"GroupAggregate" (uid "GroupAggregate-' in told
    assert "is not in the program" in told
    assert "GroupAggregate(groupBy=[buyer], select=[buyer, SUM(cents) AS EXPR$0]), and still is" in told
    assert "New in the program are: Calc(select=[buyer, cents], where=[(cents > 5)])" in told
    client = checkpointed(
        tmp_path, changed, {**again, "execution.state-recovery.ignore-unclaimed-state": "true"}
    )
    client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()


@pytest.mark.long
def test_an_unchanged_part_goes_on(tmp_path, capfd):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("1,a,10,2024-01-01 00:00:01\n")
    client = checkpointed(tmp_path, TOTALS)
    savepoint = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
    (tmp_path / "in" / "b.csv").write_text("2,a,5,2024-01-01 00:00:02\n")
    more = f"EXECUTE STATEMENT SET BEGIN INSERT INTO totals SELECT 'x', MAX(id) FROM orders; {TOTALS}; END"
    client = checkpointed(tmp_path, more, {"execution.state-recovery.path": savepoint})
    shown, deadline = "", time.monotonic() + 60
    while "[x, 2]" not in shown or "[a, 15]" not in shown:
        assert time.monotonic() < deadline, shown
        time.sleep(0.05)
        shown += capfd.readouterr().out
    client.cancel().result()
    assert "+U[a, 15]" in shown, "the sum of before goes on"


def test_a_compiled_plan_has_the_uids_of_its_operators(job, tmp_path):
    operators = job(TOTALS)
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    tables.execute_sql(
        f"CREATE TABLE orders ({ORDERS}) "
        f"WITH ('connector' = 'filesystem', 'path' = '{tmp_path / 'orders.csv'}', 'format' = 'csv')"
    )
    tables.execute_sql("CREATE TABLE totals (buyer STRING, cents BIGINT) WITH ('connector' = 'print')")
    plan = json.loads(tables.compile_plan_sql(TOTALS).as_json_string())
    assert set(plan["uids"]) <= set(operators)
    assert len(plan["uids"]) == 1
