"""Jobs on local[2], in this process: one JVM for all of them."""

from __future__ import annotations

import logging
import os
import signal
import time
import traceback

import pytest

from millstream.base.errors import JobExecutionError, SlotLostError, UserFunctionError
from millstream.base.time import Time
from millstream.common import Duration, WatermarkStrategy
from millstream.common.watermark_strategy import TimestampAssigner
from millstream.datastream import AggregateFunction, MapFunction
from millstream.datastream.connectors.number_seq import NumberSequenceSource
from millstream.datastream.window import TumblingEventTimeWindows

pytestmark = pytest.mark.spark

EPOCHS_OF_10 = {"millstream.epoch.fixed-records": 10}


class Stamp(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value * 10


class Sum(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + value

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


class Counting(MapFunction):
    """Tells which instance in which process it is, how often it was opened, and how many records it saw."""

    def __init__(self):
        self.opened = self.count = 0

    def open(self, runtime_context):
        self.opened += 1
        self.subtask = runtime_context.get_index_of_this_subtask()

    def map(self, value):
        self.count += 1
        return self.subtask, os.getpid(), id(self), self.opened, self.count


def numbers(environment, last=100):
    return environment.from_source(
        NumberSequenceSource(1, last), WatermarkStrategy.no_watermarks(), "numbers"
    )


def collect(stream):
    with stream.execute_and_collect() as records:
        return sorted(records)


def fan_out_and_in(environment):
    """Two exchanges, a union across levels, windows, running totals."""
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(5))
    stream = numbers(environment, 500).assign_timestamps_and_watermarks(
        strategy.with_timestamp_assigner(Stamp())
    )
    keyed = stream.key_by(lambda value: value % 7)
    windows = keyed.window(TumblingEventTimeWindows.of(Time.seconds(1))).aggregate(Sum())
    totals = keyed.reduce(lambda a, b: max(a, b)).filter(lambda value: value > 480)
    again = windows.map(lambda total: total + 1).rebalance().map(lambda total: -total)
    return collect(again.union(totals, stream.filter(lambda value: value % 100 == 0)))


def test_program_gives_the_same_on_local_and_on_spark(new_environment, processes):
    options = {"millstream.epoch.fixed-records": 70}
    expected = fan_out_and_in(new_environment("local", 1, options))
    assert len(expected) > 40
    assert fan_out_and_in(new_environment("local[2]", 2, options)) == expected
    assert fan_out_and_in(new_environment("local[2]", 3, options)) == expected
    processes.wait_until_no_slot()


def test_member_variables_of_a_function_live_as_long_as_the_attempt(new_environment):
    records = collect(numbers(new_environment("local[2]", 2, EPOCHS_OF_10)).map(Counting()))
    for subtask in range(2):
        seen = [record for record in records if record[0] == subtask]
        assert len({record[1:4] for record in seen}) == 1  # process, instance, times opened
        assert seen[0][3] == 1
        assert [record[4] for record in seen] == list(range(1, 51))
    assert len({record[1] for record in records} | {os.getpid()}) == 3


def test_next_job_has_slots_of_its_own(new_environment):
    pids = [
        {record[1] for record in collect(numbers(new_environment("local[2]", 2), 10).map(Counting()))}
        for _ in range(2)
    ]
    assert not pids[0] & pids[1]


def divide(value):
    return 100 // (value - 77)


def test_users_exception_is_told_as_their_own_traceback_without_java(new_environment, processes):
    environment = new_environment("local[2]", 2, EPOCHS_OF_10)
    numbers(environment).map(divide).name("divide all").key_by(lambda value: value).reduce(max).print()
    with pytest.raises(JobExecutionError, match="my job") as caught:
        environment.execute("my job")
    cause = caught.value.__cause__
    assert isinstance(cause, UserFunctionError)
    assert (cause.operator, cause.subtask, cause.element) == ("divide all", 1, "77")
    told = str(cause)
    assert told.startswith("Traceback (most recent call last)")
    assert "in divide" in told and "return 100 // (value - 77)" in told
    assert "ZeroDivisionError" in told
    assert "millstream/operators" not in told
    whole = "".join(traceback.format_exception(caught.value))
    for word in ("java.", "py4j", "org.apache", "Py4J"):
        assert word not in whole
    processes.wait_until_no_slot()


def test_exception_in_open_is_told_likewise_and_leaves_no_slot(new_environment, processes):
    class Unopenable(MapFunction):
        def open(self, runtime_context):
            raise LookupError("no such table")

        def map(self, value):
            return value

    environment = new_environment("local[2]", 2)
    numbers(environment).map(Unopenable()).name("look up").print()
    with pytest.raises(JobExecutionError) as caught:
        environment.execute()
    assert isinstance(caught.value.__cause__, UserFunctionError)
    assert caught.value.__cause__.operator == "look up", str(caught.value.__cause__)
    assert "LookupError: no such table" in str(caught.value.__cause__)
    processes.wait_until_no_slot()


def test_what_functions_print_and_log_comes_to_the_driver_tagged(new_environment, capfd, caplog):
    def chatter(value):
        if value == 99:
            print("printed", value)
            logging.getLogger("theirs").warning("logged %d", value)
        return value

    environment = new_environment("local[2]", 2, EPOCHS_OF_10)
    numbers(environment).map(chatter).name("chatter").filter(lambda value: False).print()
    with caplog.at_level(logging.INFO, "millstream.user"):
        environment.execute()
    assert capfd.readouterr().out.splitlines() == ["[chatter#1] printed 99"]
    assert [
        (record.levelno, record.getMessage()) for record in caplog.records if record.name == "millstream.user"
    ] == [(logging.WARNING, "[chatter#1] theirs: logged 99")]


@pytest.mark.parametrize("carried_bytes", [0, 1 << 20])
def test_tasks_that_are_large_travel_as_broadcasts(new_environment, monkeypatch, carried_bytes):
    from millstream.runtime.spark import python_tasks

    original, prepared = python_tasks._prepare_for_python_RDD, []

    def prepare(context, command):
        prepared.append(original(context, command))
        return prepared[-1]

    monkeypatch.setattr(python_tasks, "_prepare_for_python_RDD", prepare)
    monkeypatch.setattr(python_tasks, "_BROADCAST_BYTES", 1)
    options = {
        "millstream.epoch.fixed-records": 70,
        "millstream.epoch.carried-bytes": carried_bytes,
        "millstream.epoch.carrier-hold": 0,
    }
    expected = fan_out_and_in(new_environment("local"))
    assert fan_out_and_in(new_environment("local[2]", 2, options)) == expected
    assert len(prepared) >= 4


@pytest.mark.parametrize("carried_bytes", [0, 1, 1 << 20])
def test_every_request_may_be_repeated(new_environment, monkeypatch, carried_bytes):
    from millstream.runtime.spark.executor import SparkExecutor

    original, epochs = SparkExecutor.run_epoch, []

    def run_twice(self, headers):
        first = original(self, headers)
        assert original(self, headers) == first
        epochs.append(first)
        return first

    expected = fan_out_and_in(new_environment("local"))
    monkeypatch.setattr(SparkExecutor, "run_epoch", run_twice)
    options = {"millstream.epoch.fixed-records": 70, "millstream.epoch.carried-bytes": carried_bytes}
    assert fan_out_and_in(new_environment("local[2]", 2, options)) == expected
    assert len(epochs) >= 4
    options = {**EPOCHS_OF_10, "millstream.epoch.carried-bytes": carried_bytes}
    counted = collect(numbers(new_environment("local[2]", 2, options)).map(Counting()))
    assert [record[4] for record in counted] == [*range(1, 51)] * 2


@pytest.fixture
def ran(monkeypatch) -> list[str]:
    """How each epoch was run."""
    from millstream.runtime.spark.executor import SparkExecutor

    ran: list[str] = []

    def noted(how):
        original = getattr(SparkExecutor, how)

        def run(self, headers, *epoch):
            ran.append(how)
            return original(self, headers, *epoch)

        return run

    for how in ("_carry", "_shuttle"):
        monkeypatch.setattr(SparkExecutor, how, noted(how))
    return ran


@pytest.mark.parametrize(("target", "shuttled"), [("local[2]", False), ("local[1]", True)])
def test_long_epochs_are_carried_where_each_slot_has_a_core(new_environment, ran, target, shuttled):
    def slow(value):
        time.sleep(0.15)
        return value

    environment = new_environment(target, 2, {"millstream.epoch.fixed-records": 1})
    assert sorted(collect(environment.from_collection([*range(6)]).rebalance().map(slow))) == [*range(6)]
    assert ("_shuttle" in ran) == shuttled, ran


def test_epochs_are_carried_while_they_are_small_and_shuttled_when_they_are_not(new_environment, ran):
    long = "x" * 300_000
    texts = [*"abcd", long, long, *"efgh"]
    options = {"millstream.epoch.fixed-records": 1, "millstream.epoch.carried-bytes": 100_000}
    environment = new_environment("local[2]", 2, options)
    stream = environment.from_collection(texts).set_parallelism(1).rebalance().map(len)
    assert sorted(collect(stream)) == sorted(map(len, texts))
    large = ran.index("_shuttle")
    assert large > 3
    assert ran[large - 1 : large + 1] == ["_carry", "_shuttle"], (
        "a level ran before it was known how large it is"
    )
    assert set(ran[-3:]) == {"_carry"}


@pytest.mark.parametrize("behind_exchange", [False, True])
def test_killed_slot_fails_the_job_with_a_clear_error(new_environment, processes, behind_exchange):
    def die(value):
        if value == 77:
            os.kill(os.getpid(), signal.SIGKILL)
        return value

    environment = new_environment("local[2]", 2, EPOCHS_OF_10)
    stream = numbers(environment)
    if behind_exchange:
        stream = stream.key_by(lambda value: value).reduce(max)
    stream.map(die).print()
    with pytest.raises(
        JobExecutionError, match=r"\[SLOT_LOST\] slot \d \(process \d+ on .*\) is lost"
    ) as caught:
        environment.execute()
    assert isinstance(caught.value.__cause__, SlotLostError)
    assert "memory, signals, native code" in str(caught.value.__cause__)
    processes.wait_until_no_slot()


def test_cancelled_job_ends_with_its_slots(new_environment, processes):
    environment = new_environment("local[2]", 2, {"millstream.epoch.fixed-records": 1_000})
    numbers(environment, 10**15).filter(lambda value: False).print()
    client = environment.execute_async()
    processes.wait_until(lambda: len(processes.slots()) == 2, "two slots run")
    client.cancel().result()
    assert client.get_job_status().result().name == "CANCELED"
    processes.wait_until_no_slot()
