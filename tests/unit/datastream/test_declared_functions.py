"""An operator's function is what it was when the program declared it, as in PyFlink."""

from __future__ import annotations

import threading

import pytest

from millstream.base.declared import as_declared
from millstream.base.errors import JobExecutionError
from millstream.common import Time, WatermarkStrategy
from millstream.common.watermark_strategy import TimestampAssigner
from millstream.datastream.functions import MapFunction, ProcessFunction, ProcessWindowFunction
from millstream.datastream.window import TumblingEventTimeWindows

LIMIT = 1


class Add(MapFunction):
    def __init__(self, summand):
        self.summand = summand

    def map(self, value):
        return value + self.summand


class Count(MapFunction):
    def __init__(self):
        self.calls = 0

    def map(self, value):
        self.calls += 1
        return self.calls


def collected(stream):
    return sorted(stream.execute_and_collect())


def test_functions_of_a_loop_have_each_its_own_round(new_environment):
    stream = new_environment().from_collection([0])
    for digit in (1, 2, 3):
        stream = stream.map(lambda value: value * 10 + digit)
    assert collected(stream) == [123]


def test_key_selectors_of_a_loop_have_each_its_own_round(new_environment):
    stream = new_environment().from_collection([(1, 5), (1, 6), (2, 6)])
    keyed = [stream.key_by(lambda value: value[field]) for field in (1, 0)]
    by_second = keyed[0].reduce(lambda one, other: (one[0] + other[0], one[1] + other[1]))
    assert collected(by_second) == [(1, 5), (1, 6), (3, 12)]


def test_changes_after_the_declaration_are_not_seen(new_environment, monkeypatch):
    function, summands = Add(1), [10]
    stream = new_environment().from_collection([0])
    added = stream.map(function).map(lambda value: value + summands[0]).map(lambda value: value + LIMIT)
    function.summand = summands[0] = 1000
    monkeypatch.setitem(globals(), "LIMIT", 1000)
    assert collected(added) == [12]


def test_a_function_given_to_two_operators_is_two(new_environment):
    stream, function = new_environment().from_collection(["a", "b"]), Count()
    assert collected(stream.map(function).union(stream.map(function))) == [1, 1, 2, 2]


class Scaled(TimestampAssigner):
    factor = 1

    def extract_timestamp(self, value, record_timestamp):
        return value * self.factor


class Stamp(ProcessFunction):
    def process_element(self, value, ctx):
        yield ctx.timestamp()


class Starts(ProcessWindowFunction):
    shift = 0

    def process(self, key, context, elements):
        yield context.window().start + self.shift


@pytest.mark.parametrize("in_source", [False, True])
def test_watermark_strategies_and_windows_are_what_they_were(new_environment, in_source):
    assigner, starts, environment = Scaled(), Starts(), new_environment()
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(assigner)
    stream = environment.from_collection([1, 2]).assign_timestamps_and_watermarks(strategy)
    if in_source:
        from millstream.datastream.connectors.number_seq import NumberSequenceSource

        stream = environment.from_source(NumberSequenceSource(1, 2), strategy, "numbers")
    window = TumblingEventTimeWindows.of(Time.milliseconds(2))
    begun = stream.key_by(lambda value: 0).window(window).process(starts)
    assigner.factor, starts.shift = 100, 1
    assert collected(begun) == [0, 2]


def test_classes_modules_and_what_cannot_be_copied_stay_themselves():
    class Local:
        made = 0

    lock = threading.Lock()

    def what_cannot():
        return lock

    assert as_declared(lambda: (Local, threading))() == (Local, threading)
    assert as_declared(what_cannot) is what_cannot


def test_a_function_that_cannot_be_copied_is_told_when_the_job_starts(new_environment):
    lock = threading.Lock()
    stream = new_environment().from_collection([1]).map(lambda value: lock)
    with pytest.raises(JobExecutionError, match='operator "Map" cannot be pickled'):
        collected(stream)
