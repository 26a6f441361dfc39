from __future__ import annotations

import sys

import pytest

from millstream.base.errors import ConfigurationError, StateAccessError
from millstream.base.time import MIN_TIMESTAMP
from millstream.common.co_functions import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from millstream.common.functions import TimeDomain
from millstream.common.state import MapStateDescriptor, ValueStateDescriptor
from millstream.operators.broadcast_process import BroadcastProcessSpec, KeyedBroadcastProcessSpec
from millstream.operators.user_code import attached_element
from millstream.testing import OperatorHarness

LIMITS = MapStateDescriptor("limits")
OTHER = MapStateDescriptor("other")
COUNT = ValueStateDescriptor("count")
ASKED = LIMITS


def start(spec):
    return OperatorHarness(spec, inputs=2, processing_time=1_000)


class Filter(BroadcastProcessFunction):
    def process_element(self, value, ctx):
        limits = ctx.get_broadcast_state(LIMITS)
        kind, number = value
        if kind in limits and number > limits[kind]:
            yield kind, number, ctx.timestamp(), ctx.current_watermark(), ctx.current_processing_time()

    def process_broadcast_element(self, value, ctx):
        kind, limit = value
        limits = ctx.get_broadcast_state(LIMITS)
        if limit is None:
            limits.remove(kind)
        else:
            limits.put(kind, limit)
        yield "limits", dict(limits.items()), ctx.timestamp()


def test_records_see_the_rules_that_came_before_them():
    harness = start(BroadcastProcessSpec(Filter(), (LIMITS,)))
    harness.push_batch([("hot", 99)], [1], input=1)
    harness.push_batch([("hot", 50), ("dry", 5)])
    harness.push_batch([("hot", 51), ("hot", 50), ("wet", 7)], [2, 3, 4], input=1)
    harness.push_batch([("hot", None)], [9])
    harness.push_watermark(8)
    harness.push_batch([("hot", 99), ("dry", 6)], [10, 11], input=1)
    records = harness.take_records()
    assert [value for value, _ in records] == [
        ("limits", {"hot": 50}, MIN_TIMESTAMP),
        ("limits", {"hot": 50, "dry": 5}, MIN_TIMESTAMP),
        ("hot", 51, 2, MIN_TIMESTAMP, 1_000),
        ("limits", {"dry": 5}, 9),
        ("dry", 6, 11, 8, 1_000),
    ]
    assert records[2].timestamp == 2


WRITES = {
    "put": lambda state: state.put("a", 1),
    "put_all": lambda state: state.put_all({"a": 1}),
    "item": lambda state: state.__setitem__("a", 1),
    "remove": lambda state: state.remove("a"),
    "del": lambda state: state.__delitem__("a"),
    "clear": lambda state: state.clear(),
}


class WritesWhereItMayNot(BroadcastProcessFunction, KeyedBroadcastProcessFunction):
    def __init__(self, write):
        self.write = write

    def process_element(self, value, ctx):
        self.write(ctx.get_broadcast_state(LIMITS))

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(LIMITS)[value] = value

    def on_timer(self, timestamp, ctx):
        self.write(ctx.get_broadcast_state(LIMITS))


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("keyed", [False, True])
def test_writing_broadcast_state_on_the_data_side_is_refused(write, keyed):
    function = WritesWhereItMayNot(write)
    if keyed:
        harness = start(KeyedBroadcastProcessSpec(function, (LIMITS,), str))
    else:
        harness = start(BroadcastProcessSpec(function, (LIMITS,)))
    harness.push_batch(["kept"])
    with pytest.raises(StateAccessError, match='(?s)"limits" was written.*process_broadcast_element'):
        harness.push_batch(["x"], input=1)
    assert harness.operators[0].context.operator_state.snapshot().maps["limits"] == {"kept": "kept"}


class Reads(BroadcastProcessFunction):
    def __init__(self, read):
        self.read = read

    def process_element(self, value, ctx):
        yield self.read(ctx.get_broadcast_state(LIMITS))

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(LIMITS).put_all(value)


def test_the_view_reads_as_pyflinks_does():
    def read(state):
        return (
            state.get("a"),
            state.get("none"),
            state["b"],
            "a" in state,
            state.contains("none"),
            list(state),
            list(state.keys()),
            list(state.values()),
            list(state.items()),
            state.is_empty(),
        )

    harness = start(BroadcastProcessSpec(Reads(read), (LIMITS,)))
    harness.push_batch([{"a": 1, "b": 2}])
    harness.push_batch(["x"], input=1)
    assert harness.take() == [
        (1, None, 2, True, False, ["a", "b"], ["a", "b"], [1, 2], [("a", 1), ("b", 2)], False)
    ]


class AsksForOther(BroadcastProcessFunction):
    def process_element(self, value, ctx):
        ctx.get_broadcast_state(OTHER)

    process_broadcast_element = process_element


def test_a_state_that_was_not_broadcast_is_refused_by_name_on_both_sides():
    harness = start(BroadcastProcessSpec(AsksForOther(), (LIMITS,)))
    for side in range(2):
        with pytest.raises(StateAccessError, match='"other" was asked for') as raised:
            harness.push("x", input=side)
        assert '"limits"' in raised.value.detail


class Counts(KeyedBroadcastProcessFunction):
    """Counts by key; a broadcast record (name, argument) does something to the counts."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(COUNT)

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(value)
        ctx.timer_service().register_processing_time_timer(2_000)

    def process_broadcast_element(self, value, ctx):
        seen = []
        if value == "count":
            ctx.apply_to_keyed_state(COUNT, lambda key, state: seen.append((key, state.value())))
        elif value == "forget":
            ctx.apply_to_keyed_state(COUNT, lambda key, state: key == 1 and state.clear())
        elif value == "touch":
            self.count.value()
        elif value == "timer":
            ctx.timer_service().register_event_time_timer(1)
        ctx.get_broadcast_state(LIMITS)["last"] = value
        yield value, sorted(seen)

    def on_timer(self, timestamp, ctx):
        last = ctx.get_broadcast_state(LIMITS)["last"]
        yield ctx.time_domain(), ctx.get_current_key(), timestamp, ctx.timestamp(), last, self.count.value()


def start_counts():
    return start(KeyedBroadcastProcessSpec(Counts(), (LIMITS,), lambda value: value % 10))


def test_a_broadcast_record_visits_the_state_of_all_keys():
    harness = start_counts()
    harness.push_batch(["count"])
    harness.push_batch([1, 2, 11, 21, 3], input=1)
    harness.push_batch(["count", "forget", "count"])
    harness.push_batch([1], input=1)
    harness.push_batch(["count"])
    assert harness.take() == [
        ("count", []),
        ("count", [(1, 3), (2, 1), (3, 1)]),
        ("forget", []),
        ("count", [(2, 1), (3, 1)]),
        ("count", [(1, 1), (2, 1), (3, 1)]),
    ]


def test_timers_of_the_keyed_side_see_broadcast_state_and_their_key():
    harness = start_counts()
    harness.push_batch([12], [0], input=1)
    harness.push_batch(["on"], [1])
    harness.push_watermark(12)
    assert harness.next_processing_time == 2_000
    harness.set_processing_time(2_000)
    assert harness.take()[1:] == [
        (TimeDomain.EVENT_TIME, 2, 12, 12, "on", 1),
        (TimeDomain.PROCESSING_TIME, 2, 2_000, 2_000, "on", 1),
    ]


def test_a_broadcast_record_has_neither_key_nor_timers():
    harness = start_counts()
    harness.push_batch([1], input=1)
    with pytest.raises(StateAccessError, match="no current key"):
        harness.push_batch(["touch"])
    with pytest.raises(StateAccessError, match="timer"):
        harness.push_batch(["timer"])


def test_key_is_gone_after_a_visit_even_if_it_failed():
    class Fails(Counts):
        def process_broadcast_element(self, value, ctx):
            def fail(key, state):
                raise ValueError(key)

            with pytest.raises(ValueError, match="1"):
                ctx.apply_to_keyed_state(COUNT, fail)
            self.count.value()

    harness = start(KeyedBroadcastProcessSpec(Fails(), (LIMITS,), lambda value: value))
    harness.push_batch([1], input=1)
    with pytest.raises(StateAccessError, match="no current key"):
        harness.push_batch(["x"])


class Above(KeyedBroadcastProcessFunction):
    """Needs no key: it stands in the loop over records without it."""

    def process_element(self, value, ctx):
        least = ctx.get_broadcast_state(ASKED).get(0)
        if least is None or value[1] > least:
            yield value[1]

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(value[0]).put(0, value[1])


def start_above(select=lambda value: value[0]):
    return start(KeyedBroadcastProcessSpec(Above(), (LIMITS, OTHER), select))


def test_descriptor_that_is_replaced_between_batches_is_seen(monkeypatch):
    harness = start_above()
    harness.push_batch([(LIMITS, 5), (OTHER, 7)])
    records = [(1, 6), (2, 8)]
    harness.push_batch(list(records), input=1)
    assert harness.take() == [6, 8]
    monkeypatch.setattr(sys.modules[__name__], "ASKED", OTHER)
    harness.push_batch(records, input=1)
    assert harness.take() == [8]


@pytest.mark.parametrize("select", [lambda value: value[0], lambda value: (value[0],)[0]])
def test_key_that_cannot_be_one_is_told_where_no_key_is_needed(select):
    harness = start_above(select)
    with pytest.raises(ConfigurationError, match="key") as raised:
        harness.push_batch([(1, 6), ((n for n in ()), 8)], input=1)
    assert "generator" in attached_element(raised.value)
    with pytest.raises(IndexError):
        start_above(select).push_batch([(1, 6), ()], input=1)
