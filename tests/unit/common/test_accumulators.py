from __future__ import annotations

import pickle
import threading
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.base.errors import ConfigurationError, JobExecutionError
from millstream.common import accumulators
from millstream.common.accumulators import (
    Accumulator,
    Accumulators,
    AverageAccumulator,
    DoubleCounter,
    DoubleMaximum,
    DoubleMinimum,
    Histogram,
    IntCounter,
    IntMaximum,
    IntMinimum,
    ListAccumulator,
    LongCounter,
    LongMaximum,
    LongMinimum,
    merge_accumulators,
)
from millstream.datastream import MapFunction
from millstream.operators.base import EpochTime, OperatorContext, OperatorReport
from millstream.runtime.task.measures import OperatorMeasures

ORACLES = {
    IntCounter: sum,
    LongCounter: sum,
    DoubleCounter: sum,
    AverageAccumulator: lambda values: sum(values) / len(values) if values else 0,
    Histogram: lambda values: dict(sorted(Counter(values).items())),
    IntMaximum: lambda values: max(values, default=-(2**31)),
    IntMinimum: lambda values: min(values, default=2**31 - 1),
    LongMaximum: lambda values: max(values, default=-(2**63)),
    LongMinimum: lambda values: min(values, default=2**63 - 1),
    DoubleMaximum: lambda values: max(values, default=float("-inf")),
    DoubleMinimum: lambda values: min(values, default=float("inf")),
    ListAccumulator: list,
}


def test_every_class_has_an_oracle():
    made = {getattr(accumulators, name) for name in accumulators.__all__}
    classes = {each for each in made if isinstance(each, type) and issubclass(each, Accumulator)}
    assert classes - set(ORACLES) == {Accumulator, accumulators.SimpleAccumulator}


@pytest.mark.parametrize("kind", ORACLES)
@given(parts=st.lists(st.lists(st.integers(-1000, 1000), max_size=5), min_size=1, max_size=4))
def test_merged_accumulators_give_the_result_of_all_values(kind, parts):
    local = []
    for values in parts:
        accumulator = kind()
        for value in values:
            accumulator.add(value)
        assert accumulator.get_local_value() == ORACLES[kind](values)
        local.append(pickle.loads(pickle.dumps(accumulator)))
    before = [each.get_local_value() for each in local]
    merged = merge_accumulators(local)
    assert merged == ORACLES[kind]([value for values in parts for value in values])
    assert [each.get_local_value() for each in local] == before


@pytest.mark.parametrize("kind", ORACLES)
def test_a_reset_accumulator_begins_again_and_its_clone_does_not(kind):
    accumulator = kind()
    accumulator.add(3)
    clone = accumulator.clone()
    accumulator.reset_local()
    assert accumulator.get_local_value() == ORACLES[kind]([])
    assert clone.get_local_value() == ORACLES[kind]([3])
    accumulator.add(4)
    assert clone.get_local_value() == ORACLES[kind]([3])


def test_a_histograms_result_is_in_ascending_order():
    histogram = Histogram()
    for value in (3, 1, 2, 1):
        histogram.add(value)
    assert list(histogram.get_local_value().items()) == [(1, 2), (2, 1), (3, 1)]


def test_a_name_is_registered_once_and_obtained_by_its_class():
    registered = Accumulators()
    counter = IntCounter(5)
    registered.add("n", counter)
    assert registered.get("n") is counter is registered.obtain("n", IntCounter)
    assert registered.get("other") is None
    assert registered.obtain("h", Histogram) is registered.get("h")
    with pytest.raises(ConfigurationError, match="registered already"):
        registered.add("n", IntCounter())
    with pytest.raises(ConfigurationError, match="asked for as DoubleCounter"):
        registered.obtain("n", DoubleCounter)
    with pytest.raises(ConfigurationError, match="is <class"):
        registered.add("class", IntCounter)


class _Output:
    records_out = 0


class _Operator:
    """As much of an operator as is measured."""

    records_in = 0
    watermark_ms = -(2**63)

    def __init__(self):
        self.output = _Output()
        self.context = OperatorContext("job", "op", "id", 0, 1, 128, 0, EpochTime())


def reported(measures, *, checkpoint=False):
    report = OperatorReport()
    measures.fill(report, checkpoint=checkpoint)
    return {name: pickle.loads(data).get_local_value() for name, (_, data) in report.accumulators.items()}


def test_accumulators_are_reported_when_they_have_changed():
    operator = _Operator()
    measures = OperatorMeasures(operator)
    assert reported(measures) == {}
    counter = operator.context.accumulators.obtain("n", IntCounter)
    other = operator.context.accumulators.obtain("h", Histogram)
    assert reported(measures) == {"n": 0, "h": {}}
    assert reported(measures) == {}
    counter.add(2)
    assert reported(measures) == {"n": 2}
    other.add(7)
    assert reported(measures) == {"h": {7: 1}}


def test_large_accumulators_are_reported_once_a_second_and_with_checkpoints():
    operator = _Operator()
    measures, time = OperatorMeasures(operator), operator.context.time
    large = operator.context.accumulators.obtain("l", ListAccumulator)
    small = operator.context.accumulators.obtain("n", IntCounter)
    time.now_ms = 10_000
    large.add("x" * 100_000)
    assert set(reported(measures)) == {"l", "n"}
    for now_ms, checkpoint, expected in [
        (10_400, False, {"n"}),
        (10_800, False, {"n"}),
        (11_000, False, {"l", "n"}),
        (11_100, True, {"l", "n"}),
        (12_000, False, {"n"}),
        (12_100, False, {"l", "n"}),
    ]:
        time.now_ms = now_ms
        large.add("y")
        small.add(1)
        assert set(reported(measures, checkpoint=checkpoint)) == expected, now_ms


# Whole programs


class Words(MapFunction):
    def open(self, runtime_context):
        self.words = runtime_context.get_long_counter("words")
        self.average = AverageAccumulator()
        runtime_context.add_accumulator("average", self.average)
        runtime_context.add_accumulator("all", ListAccumulator())
        self.all = runtime_context.get_accumulator("all")
        self.lengths = runtime_context.get_histogram("lengths")
        self.halves = runtime_context.get_double_counter("halves")

    def map(self, value):
        self.words.add(1)
        self.average.add(len(value))
        self.all.add(value)
        self.lengths.add(len(value))
        self.halves.add(0.5)
        return value


TEXT = ["to", "be", "or", "not", "to", "be", "that", "is", "the", "question"]


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("epoch", [2, 1000])
def test_a_jobs_result_has_the_accumulators_of_all_subtasks(new_environment, parallelism, epoch):
    environment = new_environment("local", parallelism, {"millstream.epoch.fixed-records": epoch})
    environment.from_collection(TEXT).rebalance().map(Words()).print()
    results = environment.execute("job").get_all_accumulator_results()
    assert sorted(results.pop("all")) == sorted(TEXT)
    assert results == {
        "words": len(TEXT),
        "average": sum(map(len, TEXT)) / len(TEXT),
        "lengths": dict(sorted(Counter(map(len, TEXT)).items())),
        "halves": 5.0,
    }


def test_accumulators_of_one_name_are_merged_over_operators(new_environment):
    environment = new_environment("local", 2)
    environment.from_collection(TEXT).map(Words()).rebalance().map(Words()).print()
    result = environment.execute("job")
    assert result.get_accumulator_result("words") == 2 * len(TEXT)
    assert result.get_accumulator_result("no such") is None


def test_one_name_for_accumulators_of_two_classes_fails_the_job(new_environment):
    class Clash(MapFunction):
        def open(self, runtime_context):
            runtime_context.get_int_counter("words").add(1)

        def map(self, value):
            return value

    environment = new_environment("local", 1)
    environment.from_collection(TEXT).map(Words()).name("first").map(Clash()).name("second").print()
    with pytest.raises(JobExecutionError) as failure:
        environment.execute("job")
    assert 'accumulator "words" is of class IntCounter in operator "second"' in str(failure.value.__cause__)


class Longest(Accumulator):
    """A user's own; may be told not to merge."""

    def __init__(self, *, merges=True):
        self.word, self.merges = "", merges

    def add(self, value):
        self.word = max(self.word, value, key=lambda word: (len(word), word))

    def get_local_value(self):
        return self.word

    def reset_local(self):
        self.word = ""

    def merge(self, other):
        if not self.merges:
            raise ArithmeticError("no way")
        self.add(other.word)


class FindLongest(MapFunction):
    def __init__(self, *, merges=True):
        self.merges = merges

    def open(self, runtime_context):
        self.longest = Longest(merges=self.merges)
        runtime_context.add_accumulator("longest", self.longest)

    def map(self, value):
        self.longest.add(value)
        return value


def test_an_accumulator_may_be_the_users_own(new_environment):
    environment = new_environment("local", 3)
    environment.from_collection(TEXT).rebalance().map(FindLongest()).print()
    assert environment.execute("job").get_accumulator_result("longest") == "question"


def test_accumulators_that_do_not_merge_are_told_with_their_name(new_environment):
    environment = new_environment("local", 2)
    environment.from_collection(TEXT).rebalance().map(FindLongest(merges=False)).print()
    with pytest.raises(JobExecutionError, match='accumulator "longest" could not be merged') as failure:
        environment.execute("job")
    assert isinstance(failure.value.__cause__, ArithmeticError)


GATE = threading.Event()
REACHED = threading.Event()


def test_a_client_reads_accumulators_while_the_job_runs(new_environment):
    import sys

    module = sys.modules[__name__]
    sys.modules["accumulators_gate"] = module  # the function travels by value; the events must not

    class Gated(Words):
        def map(self, value):
            import accumulators_gate

            if value == "or":
                accumulators_gate.REACHED.set()
                assert accumulators_gate.GATE.wait(30)
            return super().map(value)

    environment = new_environment("local", 1, {"millstream.epoch.fixed-records": 2})
    environment.from_collection(TEXT).map(Gated()).print()
    client = environment.execute_async("job")
    try:
        assert REACHED.wait(30)
        assert client.get_accumulators().result()["words"] == 2
    finally:
        GATE.set()
    result = client.get_job_execution_result().result()
    assert result.get_accumulator_result("words") == len(TEXT)
    assert client.get_accumulators().result()["words"] == len(TEXT)
