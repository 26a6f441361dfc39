"""`millstream state`, `replay` and `verify` on scripts of SQL."""

from __future__ import annotations

import json
import re
import sys
import time

import pytest
from click.testing import CliRunner

from millstream.cli.main import main
from millstream.table import EnvironmentSettings, TableEnvironment

SETTINGS = """
SET 'execution.target' = 'local';
SET 'parallelism.default' = '1';
"""
ORDERS = """
CREATE TABLE orders (id INT, buyer STRING, cents INT, paid DECIMAL(8, 2), on_day DATE, at_time TIMESTAMP_LTZ(3))
WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv'{options});
CREATE TABLE names (buyer STRING, name STRING)
WITH ('connector' = 'filesystem', 'path' = '{names}', 'format' = 'csv');
CREATE TABLE totals (buyer STRING, on_day DATE, paid DECIMAL(8, 2), at_time TIMESTAMP_LTZ(3), cents BIGINT)
WITH ('connector' = 'blackhole');
CREATE TABLE named (id INT, name STRING) WITH ('connector' = 'blackhole');
CREATE TABLE best (buyer STRING, id INT) WITH ('connector' = 'blackhole');
"""
JOB = """
EXECUTE STATEMENT SET BEGIN
INSERT INTO totals SELECT buyer, on_day, paid, at_time, SUM(cents) FROM orders GROUP BY buyer, on_day, paid, at_time;
INSERT INTO named SELECT id, name FROM orders LEFT JOIN names ON orders.buyer = names.buyer;
INSERT INTO best SELECT buyer, id FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY buyer ORDER BY cents DESC) AS n FROM orders) WHERE n <= 2;
END
"""
BEFORE = "1,ann,10,1.50,2024-01-01,2024-01-01 00:00:01\n2,bob,20,2.00,2024-01-02,2024-01-01 00:00:02\n"
BEHIND = "3,ann,30,1.50,2024-01-01,2024-01-01 00:00:01\n4,bob,5,2.00,2024-01-02,2024-01-01 00:00:02\n"


def call(*arguments):
    result = CliRunner().invoke(main, [str(each) for each in arguments])
    assert result.exit_code == 0, result.output
    return result.output


class Saved:
    """Two savepoints of a job, behind two orders and behind four; the script goes on behind the first one."""

    def __init__(self, directory):
        self.script = directory / "job.sql"
        (directory / "in").mkdir()
        (directory / "in" / "a.csv").write_text(BEFORE)
        (directory / "names.csv").write_text("ann,Ann\n")
        options = ", 'source.monitor-interval' = '100 ms'"
        setup = SETTINGS + ORDERS.format(
            path=directory / "in", names=directory / "names.csv", options=options
        )
        self.script.write_text(f"{setup}{JOB};")
        statements = [*setup.strip().split(";\n"), JOB.strip()]
        client = started(statements)
        self.first = self.saved(client, 2)
        (directory / "in" / "b.csv").write_text(BEHIND)
        self.second = self.saved(client, 4)
        client.cancel().result()

    def saved(self, client, orders):
        """Make savepoints until the join has seen so many orders; return the last."""
        deadline = time.monotonic() + 120
        while True:
            path = client.trigger_savepoint(str(self.script.parent / "savepoints")).result()
            if sum(map(len, entries(self, "RegularJoin", "left", path).values())) == orders:
                return path
            assert time.monotonic() < deadline, "the orders were not read"

    def uid(self, what, path=None):
        """The uid of the operator whose key columns, or inputs, are told by its entries."""
        listed = json.loads(call("state", "ls", path or self.first, "--json"))["operators"]
        (found,) = [each["uid"] for each in listed if each["uid"].startswith(what)]
        return found


def started(statements):
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for statement in statements[:-1]:
        tables.execute_sql(statement.rstrip(";"))
    return tables.execute_sql(statements[-1]).get_job_client()


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return Saved(tmp_path_factory.mktemp("state"))


def entries(saved, what, state, path=None):
    shown = json.loads(call("state", "show", path or saved.first, saved.uid(what, path), "--json"))
    (found,) = [each for each in shown["states"] if each["name"] == state]
    return {repr(each["key"]): each["value"] for each in found["entries"]}


def test_keys_are_the_values_of_their_columns(saved):
    shown = call("state", "show", saved.first, saved.uid("GroupAggregate"))
    keys = re.findall(r"^\(.*?>\)", shown, re.M)
    assert sorted(keys) == [
        "('ann', datetime.date(2024, 1, 1), Decimal('1.50'), Instant<1704067201, 0>)",
        "('bob', datetime.date(2024, 1, 2), Decimal('2.00'), Instant<1704067202, 0>)",
    ]
    one = call("state", "show", saved.first, saved.uid("GroupAggregate"), "--key", keys[0])
    assert keys[0] in one and keys[1] not in one


def test_entries_are_accumulators_and_rows(saved):
    assert [value for _, value in sorted(entries(saved, "GroupAggregate", "groups").items())] == [
        [None, [1, [10, 1]]], [None, [1, [20, 1]]]
    ]  # fmt: skip
    assert entries(saved, "RegularJoin", "left") == {
        "'ann'": [[1, 1, 0, None, [1, "ann"]]],
        "'bob'": [[1, 0, 1, None, [2, "bob"]]],
    }
    assert entries(saved, "RegularJoin", "right") == {"'ann'": [[1, 0, 0, None, ["ann", "Ann"]]]}
    best = entries(saved, "Rank", "partitions", saved.second)
    assert sorted(row[4] for row in best["'ann'"][1][1]) == [[1, "ann", 10], [3, "ann", 30]]


def test_diff_tells_the_keys_whose_state_changed(saved):
    told = call("state", "diff", saved.first, saved.second, saved.uid("Rank"))
    assert "'ann'" in told and "30" in told
    assert "'bob'" in told and "5" in told


def replayed(saved, what, key, *arguments):
    return call("replay", "-s", saved.first, "--uid", saved.uid(what), "--key", key, *arguments, saved.script)


def test_replay_shows_what_each_record_of_a_key_changes(saved):
    key = "('ann', datetime.date(2024, 1, 1), Decimal('1.50'), Instant<1704067201, 0>)"
    told = replayed(saved, "GroupAggregate", key, "--records", "1")
    assert "before  groups = (None, (1, (10, 1)))" in told
    outputs = re.findall(r"output  (.*)", told)
    assert [re.sub(r"Row\(.*, f4=", "(", each) for each in outputs] == ["-U (10)", "+U (40)"]
    assert "after   groups = (None, (2, (40, 2)))" in told
    assert "replayed: 1 records, 2 outputs" in told


def test_replay_of_a_join_and_of_top_n(saved):
    told = replayed(saved, "RegularJoin", "bob", "--records", "1")
    assert re.findall(r"output  (.*)", told) == ["Row(f0=4, f1='bob', f2=None, f3=None)"]
    told = replayed(saved, "Rank", "ann", "--records", "1")
    assert [each.split(",")[0] for each in re.findall(r"output  (.*)", told)] == ["Row(f0=3"]


PLAIN = "SELECT id, CAST(f(cents) AS STRING) FROM orders"
FUNCTIONS = """
import random

from millstream.table.udf import ScalarFunction, udf


@udf(result_type="INT")
def right(cents):
    return cents


@udf(result_type="INT")
def noisy(cents):
    return cents + random.randint(0, 9)


class Numbered(ScalarFunction):
    def __init__(self):
        self.seen = 0  # forgotten when a slot is lost

    def eval(self, cents):
        self.seen += 1
        return self.seen


numbered = udf(Numbered(), result_type="INT")
"""


@pytest.fixture
def verified(tmp_path, monkeypatch):
    """Return a function that verifies the sum of what a function gives, by buyer."""
    (tmp_path / "verified_functions.py").write_text(FUNCTIONS)
    lines = [f"{n},{'abc'[n % 3]},{n},1.00,2024-01-01,2024-01-01 00:00:00\n" for n in range(60)]
    (tmp_path / "orders.csv").write_text("".join(lines))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "verified_functions", raising=False)
    orders = ORDERS.format(path=tmp_path / "orders.csv", names=tmp_path / "none.csv", options="")

    def verify(function, query, *arguments):
        (tmp_path / "job.sql").write_text(
            f"{SETTINGS}{orders.replace('blackhole', 'print')}"
            f"CREATE TEMPORARY FUNCTION f AS 'verified_functions.{function}' LANGUAGE PYTHON;\n"
            f"INSERT INTO named {query};\n"
        )
        return CliRunner().invoke(main, ["verify", "--no-progress", *arguments, str(tmp_path / "job.sql")])

    return verify


def test_verify_passes_a_job_of_sql(verified):
    query = "SELECT COUNT(*), buyer FROM (SELECT buyer, f(cents) AS c FROM orders) GROUP BY buyer"
    result = verified("right", query, "--seeds", "6")
    assert result.exit_code == 0, result.output
    assert ": 60 records; varying parallelism, order, faults" in result.output
    assert re.search(
        r"6 seeds, 0 failed; [1-9]\d* faults at [1-9]\d* places, [1-9]\d* restarts", result.output
    )
    assert "0 lost, 0 duplicated" in result.output


def test_verify_finds_a_function_that_is_not_deterministic(verified):
    result = verified("noisy", PLAIN, "--seeds", "2")
    assert result.exit_code == 1
    assert re.search(r'sink ".*named.*": \d+ lost \(\+I\[.*\d+ too many', result.output)
    assert "2 seeds, 2 failed" in result.output


@pytest.mark.long
def test_verify_finds_a_function_that_counts_in_itself(verified):
    result = verified("numbered", PLAIN, "--seeds", "12")
    assert result.exit_code == 1
    assert re.search(r"12 seeds, [1-9]\d* failed", result.output)
    assert "fault: " in result.output
