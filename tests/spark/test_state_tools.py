"""State made from Spark, taken up by a job on Spark, asked for while it runs, and read by Spark again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from millstream.base.errors import StateAccessError
from millstream.common import Types, WatermarkStrategy
from millstream.datastream import KeyedProcessFunction
from millstream.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from millstream.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from millstream.runtime.spark.session import SessionConfig, shared_session
from millstream.state_processor import KeyedBootstrap, SavepointReader, SavepointWriter

pytestmark = pytest.mark.spark

TOTAL = ValueStateDescriptor("total", Types.LONG())
NAMES = ListStateDescriptor("names", Types.STRING())
SEEN = MapStateDescriptor("seen", Types.STRING(), Types.LONG())
ENDLESS = 10**12
USERS = 10


class Add(KeyedProcessFunction):
    """Adds one for each record to what an account begins with."""

    def open(self, runtime_context):
        self.total = runtime_context.get_state(TOTAL)
        self.names = runtime_context.get_list_state(NAMES)
        self.seen = runtime_context.get_map_state(SEEN)

    def process_element(self, value, ctx):
        self.total.update((self.total.value() or 0) + 1)
        parity = "even" if value % 20 < USERS else "odd"
        self.seen.put(parity, (self.seen.get(parity) or 0) + 1)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp, self.total.value(), list(self.names.get())


def accounts(environment):
    rate = RateLimiterStrategy.per_second(400)
    source = DataGeneratorSource(lambda index: index, ENDLESS, rate, Types.LONG())
    numbers = environment.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    return numbers.key_by(lambda number: number % USERS).process(Add()).uid("accounts")


@pytest.fixture(scope="module")
def spark():
    from pyspark.sql import SparkSession

    return SparkSession(shared_session(SessionConfig(master="local[2]")).context)


@pytest.fixture
def bootstrapped(spark, tmp_path):
    """A savepoint of accounts, made from a Spark DataFrame: 1000 times the user's number, two names for each."""
    frame = spark.range(2 * USERS).selectExpr(
        f"id % {USERS} AS user", f"(id % {USERS}) * 1000 AS amount", "concat('name ', id) AS name"
    )
    bootstrap = KeyedBootstrap(
        frame, "user", {"total": (TOTAL, "amount"), "names": (NAMES, "name")}, event_timers=lambda row: 77
    )
    return SavepointWriter.new().with_operator("accounts", bootstrap).write(str(tmp_path / "bootstrapped"))


@pytest.fixture
def running(new_environment, bootstrapped, tmp_path):
    options = {
        "execution.state-recovery.path": bootstrapped,
        "execution.checkpointing.interval": "200 ms",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": "10 ms",
    }
    environment = new_environment("local[2]", 2, options)
    accounts(environment).print()
    client = environment.execute_async(f"accounts {os.getpid()}")
    yield client
    client.cancel().result()


def wait_for(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def total_of(client, user):
    return client.query_state("accounts", "total", user).result()


def query(*arguments):
    command = [sys.executable, "-m", "millstream.cli.main", "query", *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def test_state_from_a_spark_frame_is_gone_on_from_asked_for_and_read_by_spark(spark, running, tmp_path):
    # Python asks.
    assert running.query_state("accounts", "names", 3).result() == ["name 3", "name 13"]
    first = total_of(running, 3)
    assert first >= 3000
    later = wait_for(lambda: (total := total_of(running, 3)) > first + 5 and total)
    assert total_of(running, USERS) is None
    with pytest.raises(StateAccessError, match="totals"):
        running.query_state("accounts", "totals", 3).result()

    # Another process asks.
    name = f"accounts {os.getpid()}"
    told = query(name, "accounts", "total", "3")
    assert told.returncode == 0, told.stderr
    assert int(told.stdout) >= later
    assert query(name, "accounts", "names", "4").stdout.strip() == "['name 4', 'name 14']"
    wrong = query(name, "account", "total", "3")
    assert wrong.returncode == 1
    assert '"account"' in wrong.stderr
    assert "accounts" in wrong.stderr

    # Spark reads what the job leaves, from all subtasks.
    path = running.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
    reader = SavepointReader.read(path)
    totals = reader.to_spark(spark, "accounts", "total")
    assert totals.count() == USERS
    records = reader.source_positions("numbers")
    added = totals.selectExpr("sum(value - key * 1000) AS added").first().added
    seen = reader.to_spark(spark, "accounts", "seen")
    by_parity = seen.selectExpr("explode(value) AS (parity, count)").groupBy("parity").sum("count").collect()
    assert added == sum(count for _, count in by_parity) > 5 * USERS, records
    assert {parity for parity, _ in by_parity} == {"even", "odd"}
    assert {(timer.key, timer.timestamp_ms, timer.event_time) for timer in reader.timers("accounts")} == {
        (user, 77, True) for user in range(USERS)
    }


def test_questions_wait_for_the_attempt_behind_a_lost_slot(running, processes):
    before = {user: total_of(running, user) for user in range(USERS)}
    wait_for(lambda: total_of(running, 0) > before[0] + 5)
    os.kill(processes.slots()[0], signal.SIGKILL)
    # Counts of the last checkpoint at least, and then they grow again.
    after = {user: total_of(running, user) for user in range(USERS)}
    assert all(after[user] >= 1000 * user for user in range(USERS))
    wait_for(lambda: all(total_of(running, user) > after[user] + 5 for user in range(USERS)))
    assert len(running.get_failures().result()) == 1
