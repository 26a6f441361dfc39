from __future__ import annotations

import pickle

import pytest

from millstream.common.errors import ConfigurationError, NotSupportedError, TypeMismatchError
from millstream.common.functions import (
    AggregateFunction,
    ProcessWindowFunction,
    ReduceFunction,
    WindowFunction,
)
from millstream.common.output_tag import OutputTag
from millstream.datastream import window
from millstream.datastream.streams.windowed_stream import WindowedStream
from millstream.datastream.window import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    PurgingTrigger,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
)
from millstream.operators.windowing.spec import (
    AggregateWindow,
    ApplyWindow,
    ProcessWindow,
    ReduceWindow,
    WindowSpec,
)

ASSIGNER = TumblingEventTimeWindows.of(5)


def key_of(value):
    return value


class FakeKeyedStream:
    """Keeps what it is asked to transform."""

    _key_selector = staticmethod(key_of)

    def get_execution_environment(self):
        return "environment"

    def get_type(self):
        return "input type"

    def _transform(self, name, spec, output_type):
        self.transformed = name, spec, output_type
        return "stream"


class Noop(AggregateFunction, WindowFunction):
    def create_accumulator(self): ...
    def add(self, value, accumulator): ...
    def get_result(self, accumulator): ...
    def merge(self, acc_a, acc_b): ...
    def apply(self, key, window, inputs): ...


class Process(ProcessWindowFunction):
    def process(self, key, context, elements): ...


class Reduce(ReduceFunction):
    def reduce(self, value1, value2): ...


@pytest.fixture
def keyed():
    return FakeKeyedStream()


def test_each_operation_declares_its_window_function(keyed):
    noop, process, reduce = Noop(), Process(), Reduce()
    stream = WindowedStream(keyed, ASSIGNER)
    calls = [
        (lambda: stream.reduce(max), ReduceWindow(max), "input type"),
        (lambda: stream.reduce(reduce, process), ReduceWindow(reduce, process), None),
        (lambda: stream.reduce(reduce, noop, "type"), ReduceWindow(reduce, noop), "type"),
        (lambda: stream.aggregate(noop), AggregateWindow(noop), None),
        (lambda: stream.aggregate(noop, process, "acc", "type"), AggregateWindow(noop, process), "type"),
        (lambda: stream.apply(noop, "type"), ApplyWindow(noop), "type"),
        (lambda: stream.process(process), ProcessWindow(process), None),
    ]
    for call, function, output_type in calls:
        assert call() == "stream"
        expected = WindowSpec(key_of, ASSIGNER, function, output_type=output_type)
        assert keyed.transformed == ("TumblingEventTimeWindows", expected, output_type)


def test_lateness_and_late_tag_reach_the_operator(keyed):
    stream = WindowedStream(keyed, ASSIGNER).trigger(EventTimeTrigger.create()).allowed_lateness(7)
    stream.side_output_late_data(OutputTag("late")).aggregate(Noop())
    spec = keyed.transformed[1]
    assert (spec.allowed_lateness_ms, spec.late_tag_id) == (7, "late")
    assert (stream.get_execution_environment(), stream.get_input_type()) == ("environment", "input type")


@pytest.mark.parametrize(
    "trigger",
    [CountTrigger.of(3), PurgingTrigger.of(EventTimeTrigger.create()), ContinuousEventTimeTrigger(5)],
)
def test_triggers_that_do_not_run_yet_are_refused_by_name(keyed, trigger):
    with pytest.raises(NotSupportedError, match=type(trigger).__name__):
        WindowedStream(keyed, ASSIGNER).trigger(trigger)


def test_windows_that_do_not_run_yet_are_refused_where_they_are_named(keyed):
    class Extractor(window.SessionWindowTimeGapExtractor):
        def extract(self, element):
            return 1

    for assigner in (
        SlidingProcessingTimeWindows.of(4, 2),
        EventTimeSessionWindows.with_dynamic_gap(Extractor()),
    ):
        with pytest.raises(NotSupportedError, match=type(assigner).__name__):
            WindowedStream(keyed, assigner)


def test_functions_of_another_kind_are_refused(keyed):
    stream = WindowedStream(keyed, ASSIGNER)
    for call in (
        lambda: stream.reduce("no function"),
        lambda: stream.reduce(max, Reduce()),
        lambda: stream.aggregate(max),
        lambda: stream.apply(Process()),
        lambda: stream.process(Noop()),
    ):
        with pytest.raises(TypeMismatchError, match="function is a"):
            call()


def test_negative_lateness_is_refused(keyed):
    with pytest.raises(ConfigurationError, match="-1 ms"):
        WindowedStream(keyed, ASSIGNER).allowed_lateness(-1)


def test_assigners_and_triggers_are_values():
    for value in (ASSIGNER, EventTimeSessionWindows.with_gap(3), PurgingTrigger.of(CountTrigger.of(2))):
        assert pickle.loads(pickle.dumps(value)) == value
    assert TumblingEventTimeWindows.of(5) != SlidingProcessingTimeWindows.of(5, 5)
    assert isinstance(ASSIGNER.get_default_trigger(None), EventTimeTrigger)


def test_sessions_that_touch_are_merged_by_the_assigner_too():
    merged = []
    windows = [window.TimeWindow(*bounds) for bounds in ((5, 8), (0, 3), (3, 5), (20, 21))]
    EventTimeSessionWindows(3).merge_windows(windows, lambda group, cover: merged.append((len(group), cover)))
    assert merged == [(3, window.TimeWindow(0, 8))]
