"""COMPILE PLAN and EXECUTE PLAN: state is restored whatever a later planner would do, and what changed is named."""

from __future__ import annotations

import json
import time

import pytest

from millstream.base.errors import ConfigurationError, StateIncompatibleError
from millstream.table import EnvironmentSettings, TableEnvironment
from millstream.table.plan.rewrite import pipeline

TOTALS = (
    "INSERT INTO totals SELECT buyer, total FROM (SELECT buyer, SUM(cents) AS total, MAX(id) AS last FROM "
)
TOTALS += "(SELECT * FROM orders WHERE cents > 0) GROUP BY buyer) WHERE total > 0"


@pytest.fixture
def session(tmp_path):
    """Return a function that makes a session with the tables of the job, and settings."""
    (tmp_path / "in").mkdir()

    def make(**settings):
        tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
        for key, value in {"execution.target": "local", "parallelism.default": "1", **settings}.items():
            tables.get_config().set(key.replace("__", "."), value)
        tables.execute_sql(
            "CREATE TABLE orders (id INT, buyer STRING, cents INT, note STRING) WITH ('connector' = 'filesystem', "
            f"'path' = '{tmp_path / 'in'}', 'format' = 'csv', 'source.monitor-interval' = '50 ms')"
        )
        tables.execute_sql("CREATE TABLE totals (buyer STRING, total BIGINT) WITH ('connector' = 'print')")
        return tables

    return make


def wait_for(text, capfd):
    shown, deadline = "", time.monotonic() + 120
    while text not in shown:
        assert time.monotonic() < deadline, shown
        time.sleep(0.02)
        shown += capfd.readouterr().out
    return shown


def stopped(client, directory):
    return client.stop_with_savepoint(False, str(directory / "savepoints")).result()


def test_a_compiled_plan_goes_on_with_its_state_under_another_planner(session, tmp_path, monkeypatch, capfd):
    plan = tmp_path / "totals.json"
    (tmp_path / "in" / "a.csv").write_text("1,ann,10,x\n2,bob,20,x\n3,ann,0,x\n")
    tables = session()
    tables.execute_sql(f"COMPILE PLAN '{plan}' FOR {TOTALS}")
    client = tables.execute_sql(f"EXECUTE PLAN '{plan}'").get_job_client()
    assert "+I[ann, 10]" in wait_for("[bob, 20]", capfd)
    savepoint = stopped(client, tmp_path)
    (tmp_path / "in" / "b.csv").write_text("4,ann,5,x\n")

    # A planner without its rewrites plans other operators: state of the first does not fit them.
    monkeypatch.setattr(pipeline, "PASSES", ())
    tables = session()
    tables.get_config().set("execution.state-recovery.path", savepoint)

    with pytest.raises(StateIncompatibleError, match="GroupAggregate"):
        tables.execute_sql(TOTALS).get_job_client().get_job_execution_result().result()
    client = tables.execute_sql(f"EXECUTE PLAN '{plan}'").get_job_client()
    shown = wait_for("[ann, 15]", capfd)
    stopped(client, tmp_path)
    assert "-U[ann, 10]" in shown and "+U[ann, 15]" in shown, "the sum of before goes on"


def test_a_plan_that_was_compiled_anew_of_another_statement_is_refused_with_the_operator(
    session, tmp_path, capfd
):
    plan, other = tmp_path / "totals.json", tmp_path / "other.json"
    (tmp_path / "in" / "a.csv").write_text("1,ann,10,x\n")
    tables = session()
    tables.execute_sql(f"COMPILE PLAN '{plan}' FOR {TOTALS}")
    tables.execute_sql(f"COMPILE PLAN '{other}' FOR {TOTALS.replace('SUM', 'MIN')}")
    client = tables.execute_sql(f"EXECUTE PLAN '{plan}'").get_job_client()
    wait_for("[ann, 10]", capfd)
    tables.get_config().set("execution.state-recovery.path", stopped(client, tmp_path))
    with pytest.raises(StateIncompatibleError) as refused:
        tables.execute_sql(f"EXECUTE PLAN '{other}'").get_job_client().get_job_execution_result().result()
    told = str(refused.value)
    assert '"GroupAggregate" (uid "GroupAggregate-' in told and "is not in the program" in told
    assert "SUM(cents)" in told and "MIN(cents)" in told


@pytest.fixture
def compiled(session, tmp_path):
    path = tmp_path / "plan.json"
    tables = session()
    tables.execute_sql(f"COMPILE PLAN '{path}' FOR {TOTALS}")
    return tables, path


def changed(path, change):
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def aggregate(document):
    (found,) = [node for node in document["nodes"] if node["type"] == "GroupAggregate"]
    return found


def edit(document):
    node = aggregate(document)
    node["contents"] = node["contents"].replace("SUM(cents)", "MIN(cents)")


def drop(document):
    document["nodes"] = document["nodes"][:-1]


def lengthen(document):
    document["nodes"].append({"contents": "Calc()"})


def rename(document):
    document["uids"] = ["mine"]


def damage(document):
    document["plan"] = document["plan"][:-8] + "AAAAAAA="


def garble(document):
    document["plan"] = "§"


def lose(document):
    del document["nodes"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            edit,
            r"Operator \d+ is GroupAggregate\(.*SUM\(cents\).*; the text has GroupAggregate\(.*MIN\(cents\)",
        ),
        (drop, r"Operator \d+, Sink\(.*is not in its text"),
        (lengthen, r"Its text has \d+ operators, it has \d+"),
        (rename, "tables or uids have other names"),
        (damage, "was changed after it was written"),
        (garble, "not in base64"),
        (lose, "lacks 'nodes'"),
    ],
)
def test_a_plan_file_that_was_changed_is_refused_with_what_was(compiled, change, words):
    tables, path = compiled
    changed(path, change)
    with pytest.raises(ConfigurationError, match=words):
        tables.execute_sql(f"EXECUTE PLAN '{path}'")


def test_a_plan_file_may_be_laid_out_anew(compiled):
    tables, path = compiled
    changed(path, lambda document: None)
    from millstream.table.plan_reference import PlanReference

    assert tables.load_plan(PlanReference.from_file(str(path))).explain() == tables.explain_sql(TOTALS)
