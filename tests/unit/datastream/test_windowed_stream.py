from __future__ import annotations

import pickle

import pytest

from millstream.base.errors import ConfigurationError, TypeMismatchError
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
    CountTrigger,
    DeltaTrigger,
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
        return self

    def set_description(self, description):
        self.description = description
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
        trigger = EventTimeTrigger.create()
        expected = WindowSpec(key_of, ASSIGNER, function, output_type=output_type, trigger=trigger)
        assert keyed.transformed == ("TumblingEventTimeWindows", expected, output_type)


def test_lateness_and_late_tag_reach_the_operator(keyed):
    stream = WindowedStream(keyed, ASSIGNER).trigger(EventTimeTrigger.create()).allowed_lateness(7)
    stream.side_output_late_data(OutputTag("late")).aggregate(Noop())
    spec = keyed.transformed[1]
    assert (spec.allowed_lateness_ms, spec.late_tag_id) == (7, "late")
    assert (stream.get_execution_environment(), stream.get_input_type()) == ("environment", "input type")


@pytest.mark.parametrize("wrong", [CountTrigger, 3, None, EventTimeSessionWindows(3)])
def test_what_is_no_trigger_or_evictor_is_refused(keyed, wrong):
    name = wrong.__name__ if isinstance(wrong, type) else type(wrong).__name__
    for setter in ("trigger", "evictor"):
        with pytest.raises(TypeMismatchError, match=rf"{setter}\(\) was given .*{name}"):
            getattr(WindowedStream(keyed, ASSIGNER), setter)(wrong)
    with pytest.raises(TypeMismatchError, match=name):
        PurgingTrigger.of(wrong)


def test_trigger_that_cannot_merge_is_refused_for_sessions(keyed):
    sessions = WindowedStream(keyed, EventTimeSessionWindows.with_gap(3))
    with pytest.raises(TypeMismatchError, match="windows that merge"):
        sessions.trigger(DeltaTrigger.of(1.0, lambda old, new: new - old))
    assert sessions.trigger(CountTrigger.of(2)) is sessions


def test_late_tag_has_to_be_an_output_tag(keyed):
    with pytest.raises(TypeMismatchError, match="str, not an OutputTag"):
        WindowedStream(keyed, ASSIGNER).side_output_late_data("late")


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

    class Callback(window.MergingWindowAssigner.MergeCallback):
        def merge(self, to_be_merged, merge_result):
            merged.append((len(list(to_be_merged)), merge_result))

    EventTimeSessionWindows(3).merge_windows(windows, Callback())
    assert merged == [(3, window.TimeWindow(0, 8))]
