"""Windows as time lines: each test draws what arrives when, then says what comes out."""

from __future__ import annotations

import pickle

import pytest
from window_harness import Collect, Harness, Listing, Sum, Unmergeable, by_first

from millstream.base.errors import (
    ConfigurationError,
    JobDefinitionError,
    StateAccessError,
    TypeMismatchError,
)
from millstream.base.time import MAX_TIMESTAMP, Time
from millstream.common.functions import ProcessWindowFunction, ReduceFunction
from millstream.common.output_tag import OutputTag
from millstream.common.state import ValueStateDescriptor
from millstream.operators.windowing.assigners import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from millstream.operators.windowing.panes import PaneOperator
from millstream.operators.windowing.sessions import SessionOperator
from millstream.operators.windowing.slices import SliceOperator
from millstream.operators.windowing.sliding_reduce import SlidingReduceOperator
from millstream.operators.windowing.spec import (
    AggregateWindow,
    ApplyWindow,
    ProcessWindow,
    ReduceWindow,
    WindowSpec,
)
from millstream.spi.batch import Rows

TUMBLING_5 = TumblingEventTimeWindows.of(5)
SLIDING_10_5 = SlidingEventTimeWindows.of(10, 5)
SESSION_3 = EventTimeSessionWindows.with_gap(3)
SUM = AggregateWindow(Sum())
LIST = ApplyWindow(Listing())


# --- tumbling -----------------------------------------------------------------------------------------------


def test_tumbling_window_fires_when_the_watermark_reaches_its_last_millisecond():
    # time    0    1    2    3    4 | 5
    # a            1         2      | 4
    # window  [=====================)[====
    run = Harness(TUMBLING_5, SUM)
    run.add(("a", 1, 1), ("a", 2, 3), ("a", 4, 5))
    assert run.watermark(3) == [("watermark", 3)]
    assert run.watermark(4) == [(("a", 3), 4), ("watermark", 4)]
    assert run.watermark(MAX_TIMESTAMP) == [(("a", 4), 9), ("watermark", MAX_TIMESTAMP)]


def test_windows_fire_by_end_then_by_the_keys_first_records():
    # time    0         5         10
    # b           2nd      1st
    # a           3rd
    run = Harness(TUMBLING_5, SUM)
    run.add(("b", 1, 7), ("b", 2, 2), ("a", 3, 1), ("b", 4, 3))
    assert run.watermark(100) == [(("b", 6), 4), (("a", 3), 4), (("b", 1), 9), ("watermark", 100)]


def test_offset_moves_window_starts_and_negative_timestamps_have_windows():
    # time   -8 -7 -6 -5 -4 -3 -2 -1  0  1  2
    # window [===============)[==============)      size 5, offset 2
    run = Harness(TumblingEventTimeWindows.of(5, 2), LIST)
    run.add(("a", 1, -8), ("a", 2, -4), ("a", 3, -3), ("a", 4, 1))
    assert run.watermark(100)[:2] == [(("a", -8, -3, [1, 2]), -4), (("a", -3, 2, [3, 4]), 1)]


def test_late_record_is_dropped_and_counted():
    # time    0 1 2 3 4 | 5 6
    # a         1         2        watermark 4
    #             x                dropped
    run = Harness(TUMBLING_5, SUM)
    run.add(("a", 1, 1), ("a", 2, 5))
    run.watermark(4)
    assert run.add(("a", 9, 2), ("a", 9, 4), ("a", 3, 5)) == []
    assert run.counters() == {"numLateRecordsDropped": 2}
    assert run.counters() == {}
    assert run.watermark(9) == [(("a", 5), 9), ("watermark", 9)]


def test_late_record_goes_to_side_output_with_its_own_timestamp():
    run = Harness(TUMBLING_5, SUM, late_tag_id="late")
    run.watermark(4)
    assert run.add(("a", 9, 4), ("a", 1, 5)) == [("side", "late", ("a", 9), 4)]
    assert run.counters() == {}


def test_record_within_allowed_lateness_fires_the_window_again_at_once():
    # time     0 1 2 3 4 | 5 6 7 8
    # a          1                   watermark 4 -> 1
    #              2                 -> 3
    #            4                   -> 7
    #                                watermark 7 = 4 + lateness: cleaned up
    #              8                 late
    run = Harness(TUMBLING_5, SUM, allowed_lateness_ms=3, late_tag_id="late")
    run.add(("a", 1, 1), ("b", 5, 1))
    assert run.watermark(4) == [(("a", 1), 4), (("b", 5), 4), ("watermark", 4)]
    assert run.add(("a", 2, 2), ("a", 4, 1)) == [(("a", 3), 4), (("a", 7), 4)]
    assert run.watermark(6) == [("watermark", 6)]
    assert run.add(("c", 1, 0)) == [(("c", 1), 4)]
    assert run.watermark(7) == [("watermark", 7)]
    assert run.add(("a", 8, 2)) == [("side", "late", ("a", 8), 2)]


def test_window_first_seen_late_fires_once_per_record_and_is_cleaned_up():
    run = Harness(TUMBLING_5, SUM, allowed_lateness_ms=10)
    run.watermark(6)
    assert run.add(("a", 1, 1), ("a", 2, 2)) == [(("a", 1), 4), (("a", 3), 4)]
    assert run.watermark(14) == [("watermark", 14)]
    assert run.is_empty()


def test_emitted_lists_do_not_change_when_late_records_arrive():
    run = Harness(TUMBLING_5, AggregateWindow(Collect()), allowed_lateness_ms=10)
    run.add(("a", 1, 1))
    first = run.watermark(4)[0]
    run.add(("a", 2, 1))
    assert first == ([1], 4)


# --- sliding ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [SUM, AggregateWindow(Unmergeable()), ReduceWindow(by_first)])
def test_sliding_windows_share_records(function):
    # time    -5    0    5    10    15
    # a              1    2    4
    # windows [=========)
    #               [=========)
    #                    [=========)
    #                          [=========)
    run = Harness(SLIDING_10_5, function)
    run.add(("a", 1, 1), ("a", 2, 6), ("a", 4, 11))
    expected = [(("a", 1), 4), (("a", 3), 9), (("a", 6), 14), (("a", 4), 19)]
    assert run.watermark(100) == [*expected, ("watermark", 100)]
    assert run.is_empty()


def test_sliding_windows_go_by_slices_only_if_accumulators_merge():
    kinds = {
        function: type(WindowSpec(str, SLIDING_10_5, function).build())
        for function in (SUM, ReduceWindow(by_first), AggregateWindow(Unmergeable()), LIST)
    }
    assert list(kinds.values()) == [
        SliceOperator,
        SlidingReduceOperator,
        PaneOperator,
        PaneOperator,
    ]


def test_late_record_fires_only_the_ended_windows_that_are_kept_newest_first():
    # time    -5    0    5    10    15       lateness 5, watermark 14
    # windows [=========)                    cleaned up (4 + 5)
    #               [=========)              cleaned up (9 + 5)
    #                    [=========)         kept
    #                          [=========)   open
    for function in (SUM, AggregateWindow(Unmergeable())):
        run = Harness(SLIDING_10_5, function, allowed_lateness_ms=5, late_tag_id="late")
        run.add(("a", 1, 6))
        run.watermark(13)
        assert run.add(("a", 2, 1)) == [(("a", 3), 9)], function
        run.watermark(14)
        assert run.add(("a", 8, 4)) == [("side", "late", ("a", 8), 4)], function
        assert run.add(("a", 4, 7)) == [(("a", 5), 14)], function
        assert run.add(("a", 4, 12)) == [(("a", 9), 14)], function
        assert run.watermark(100) == [(("a", 4), 19), ("watermark", 100)], function


def test_slide_larger_than_size_leaves_gaps_whose_records_are_late_only_behind_the_watermark():
    # time    0    3      10   13
    # window  [====)      [====)        size 3, slide 10
    for function in (SUM, LIST):
        run = Harness(SlidingEventTimeWindows.of(3, 10), function, late_tag_id="late")
        assert run.add(("a", 1, 5), ("a", 2, 12)) == []
        run.watermark(6)
        assert run.add(("a", 3, 5), ("a", 4, 7)) == [("side", "late", ("a", 3), 5)]
        fired = run.watermark(100)
        assert len(fired) == 2 and fired[0][1] == 12


def test_reduce_that_changes_its_argument_does_not_spoil_shared_slices():
    class Extend(ReduceFunction):
        def reduce(self, value1, value2):
            value1[1].extend(value2[1])
            return value1

    run = Harness(SLIDING_10_5, ReduceWindow(Extend()), wrap=lambda key, number: (key, [number]))
    run.add(("a", 1, 1), ("a", 2, 6))
    results = [element[0][1] for element in run.watermark(100)[:-1]]
    assert results == [[1], [1, 2], [2]]


# --- sessions -----------------------------------------------------------------------------------------------


def test_sessions_end_one_gap_after_their_last_record_and_merge_when_they_touch():
    # time    0  1  2  3  4  5  6  7  8  9  10 11 12
    # a       1        2                 4
    # window  [================)         [========)      3 + 3 touches 0 + 3
    run = Harness(SESSION_3, LIST)
    run.add(("a", 1, 0), ("a", 2, 3), ("a", 4, 9))
    assert run.watermark(4) == [("watermark", 4)]
    assert run.watermark(5) == [(("a", 0, 6, [1, 2]), 5), ("watermark", 5)]
    assert run.watermark(50) == [(("a", 9, 12, [4]), 11), ("watermark", 50)]
    assert run.is_empty()


def test_record_that_bridges_two_sessions_merges_them():
    # time    0  1  2  3  4  5  6  7  8
    # a       1              2             two sessions
    #                  4                   one: [0, 8)
    for function, expected in ((SUM, ("a", 7)), (LIST, ("a", 0, 8, [1, 2, 4]))):
        run = Harness(SESSION_3, function)
        run.add(("a", 1, 0), ("a", 2, 5), ("a", 4, 3))
        assert run.watermark(6) == [("watermark", 6)]
        assert run.watermark(7) == [(expected, 7), ("watermark", 7)]


def test_earlier_session_that_came_second_grows_into_the_later_one():
    # time    0  1  2  3  4  5  6  7  8  9  10 11 12
    # a                                     1         first to arrive
    #         2        3        4                     grows towards it: [0, 9)
    #                              8                  [7, 10) touches 10: one session
    run = Harness(SESSION_3, SUM)
    run.add(("a", 1, 10), ("a", 2, 0), ("a", 3, 3), ("a", 4, 6), ("a", 8, 7))
    assert run.watermark(50) == [(("a", 18), 12), ("watermark", 50)]


def test_sessions_of_other_keys_do_not_merge():
    run = Harness(SESSION_3, SUM)
    run.add(("a", 1, 0), ("b", 2, 1))
    assert run.watermark(50)[:2] == [(("a", 1), 2), (("b", 2), 3)]


def test_late_record_joins_a_session_that_is_still_there():
    # time    0  1  2  3  4  5  6  7  8       watermark 6
    # a                      1                [5, 8) is open
    #                  2                      touches it: not late, though its own window [3, 6) has ended
    #         4                               touches [3, 8), joins as well
    # b       8                               nothing to join: late
    run = Harness(SESSION_3, SUM, late_tag_id="late")
    run.add(("a", 1, 5))
    run.watermark(6)
    assert run.add(("a", 2, 3), ("a", 4, 0), ("b", 8, 0)) == [("side", "late", ("b", 8), 0)]
    assert run.watermark(7) == [(("a", 7), 7), ("watermark", 7)]


def test_record_extends_a_fired_session_which_fires_again_at_its_new_end():
    # time    0  1  2  3  4  5  6     lateness 10
    # a       1                       watermark 2 -> 1
    #            2                    [0, 4): not ended, fires at 3
    #            4                    watermark 3, fires at once
    run = Harness(SESSION_3, SUM, allowed_lateness_ms=10, late_tag_id="late")
    run.add(("a", 1, 0))
    assert run.watermark(2) == [(("a", 1), 2), ("watermark", 2)]
    assert run.add(("a", 2, 1)) == []
    assert run.watermark(3) == [(("a", 3), 3), ("watermark", 3)]
    assert run.add(("a", 4, 1)) == [(("a", 7), 3)]
    run.watermark(12)
    assert run.add(("a", 8, 1)) == [(("a", 15), 3)]
    run.watermark(13)
    assert run.add(("a", 16, 0)) == [("side", "late", ("a", 16), 0)]
    assert run.is_empty()


# --- window functions and their state -----------------------------------------------------------------------


class Counting(ProcessWindowFunction):
    """Yields key, elements, firings of the window, firings of the key; and the key to a side output."""

    def __init__(self):
        self.calls = []

    def open(self, runtime_context):
        self.calls.append(f"open {runtime_context.get_task_name()}")

    def close(self):
        self.calls.append("close")

    def process(self, key, context, elements):
        counts = []
        for store in (context.window_state(), context.global_state()):
            state = store.get_state(ValueStateDescriptor("count"))
            state.update((state.value() or 0) + 1)
            counts.append(state.value())
        yield key, list(elements), *counts, context.current_watermark()
        yield OutputTag("keys"), key

    def clear(self, context):
        self.calls.append(f"clear {context.window()}")


def test_process_function_has_state_by_window_and_by_key_and_side_outputs():
    function = Counting()
    run = Harness(TUMBLING_5, ProcessWindow(function), allowed_lateness_ms=3)
    run.add(("a", 1, 1), ("a", 2, 6))
    run.watermark(4)
    assert run.add(("a", 3, 2)) == [("side", "keys", "a", 4), (("a", [("a", 1), ("a", 3)], 2, 2, 4), 4)]
    assert run.watermark(20)[1] == (("a", [("a", 2)], 1, 3, 20), 9)
    run.operator.close()
    assert function.calls == [
        "open operator",
        "clear TimeWindow(start=0, end=5)",
        "clear TimeWindow(start=5, end=10)",
        "close",
    ]


def test_per_window_state_is_removed_at_clean_up():
    run = Harness(TUMBLING_5, ProcessWindow(Counting()))
    run.add(("a", 1, 1))
    run.watermark(4)
    state = run.keyed_state
    state.set_current_key("a")
    window = pickle.loads(pickle.dumps(TUMBLING_5.assign_windows(None, 1)[0]))
    assert state.get_state(ValueStateDescriptor("count"), window).value() is None
    assert state.get_state(ValueStateDescriptor("count")).value() == 1


def test_sessions_have_no_per_window_state():
    run = Harness(SESSION_3, ProcessWindow(Counting()))
    run.add(("a", 1, 1))
    with pytest.raises(StateAccessError, match="may merge"):
        run.watermark(10)


def test_window_function_gets_the_one_aggregated_value():
    run = Harness(SLIDING_10_5, AggregateWindow(Sum(), Listing(unwrap=False)))
    run.add(("a", 1, 1), ("a", 2, 3))
    assert run.watermark(4)[0] == (("a", -5, 5, [("a", 3)]), 4)


# --- errors, snapshots --------------------------------------------------------------------------------------


def test_records_without_timestamps_are_refused_with_a_hint():
    run = Harness(TUMBLING_5, SUM)
    run.operator.process(Rows([]))
    with pytest.raises(
        JobDefinitionError, match=r"no timestamp: \('a', 1\)(.|\n)*assign_timestamps_and_watermarks"
    ):
        run.operator.process(Rows([("a", 1)]))


@pytest.mark.parametrize(
    "make",
    [
        lambda: TumblingEventTimeWindows.of(0),
        lambda: TumblingEventTimeWindows.of(Time.seconds(5), Time.seconds(-5)),
        lambda: SlidingEventTimeWindows.of(5, 0),
        lambda: EventTimeSessionWindows.with_gap(-1),
        lambda: WindowSpec(str, TUMBLING_5, SUM, allowed_lateness_ms=-1),
    ],
)
def test_lengths_that_do_not_fit_are_refused(make):
    with pytest.raises(ConfigurationError):
        make()


def test_what_is_no_assigner_is_refused_and_a_class_gets_a_hint():
    with pytest.raises(TypeMismatchError, match="was given a str, not a WindowAssigner"):
        WindowSpec(str, "5 seconds", SUM)
    with pytest.raises(TypeMismatchError, match=r"TumblingEventTimeWindows.of"):
        WindowSpec(str, TumblingEventTimeWindows, SUM)


@pytest.mark.parametrize(
    ("assigner", "kind"),
    [(TUMBLING_5, PaneOperator), (SLIDING_10_5, SliceOperator), (SESSION_3, SessionOperator)],
)
def test_restored_snapshot_goes_on_where_it_was_taken(assigner, kind):
    records = [("a", 1, 0), ("b", 2, 2), ("a", 3, 7), ("a", 4, 11)]
    late = [("a", 5, 1), ("b", 6, 8)]
    through = Harness(assigner, SUM, allowed_lateness_ms=4)
    assert isinstance(through.operator, kind)
    through.add(*records)
    through.watermark(5)
    snapshot = pickle.dumps(through.checkpoint())

    restored = Harness(assigner, SUM, allowed_lateness_ms=4, restore=pickle.loads(snapshot))
    for again in (through, restored):
        outcome = [again.add(*late), again.watermark(8), again.add(*late), again.watermark(99)]
        again.outcome = [sorted(elements, key=repr) for elements in outcome]  # keys have no order
    assert restored.outcome == through.outcome


def test_specs_pickle():
    spec = WindowSpec(by_first, SLIDING_10_5, ReduceWindow(max), 5, "late")
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert spec.is_keyed
