"""Triggers, evictors and assigners of one's own, as time lines."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from window_harness import Collect, Harness, Listing, Sum, Totals, by_first

from millstream.base.errors import JobDefinitionError, TypeMismatchError
from millstream.base.time import MAX_TIMESTAMP, Time
from millstream.common.functions import ProcessWindowFunction
from millstream.common.state import ListStateDescriptor, ReducingStateDescriptor, ValueStateDescriptor
from millstream.common.windows import GlobalWindow, Window
from millstream.operators.windowing.assigner import MergingWindowAssigner, WindowAssigner
from millstream.operators.windowing.assigners import (
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowStagger,
)
from millstream.operators.windowing.count_assigners import CountTumblingWindowAssigner, GlobalWindows
from millstream.operators.windowing.evictors import CountEvictor, DeltaEvictor, Evictor, TimeEvictor
from millstream.operators.windowing.merging import add_window
from millstream.operators.windowing.panes import PaneOperator
from millstream.operators.windowing.sliding_reduce import SlidingReduceOperator
from millstream.operators.windowing.spec import AggregateWindow, ApplyWindow, ProcessWindow, ReduceWindow
from millstream.operators.windowing.trigger import Trigger, TriggerResult
from millstream.operators.windowing.triggers import (
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    DeltaTrigger,
    EventTimeTrigger,
    ProcessingTimeoutTrigger,
    PurgingTrigger,
)

GLOBAL = GlobalWindows.create()
LIST = ApplyWindow(Listing())
SUM = AggregateWindow(Sum())
TUMBLING_5 = TumblingEventTimeWindows.of(5)


def numbers(elements):
    """Return the lists of numbers that came out."""
    return [element[0][3] for element in elements if element[0] != "watermark"]


# --- triggers -----------------------------------------------------------------------------------------------


def test_count_trigger_fires_with_all_that_the_window_holds_and_purging_with_what_is_new():
    kept, purged = (
        Harness(GLOBAL, LIST, trigger=trigger)
        for trigger in (CountTrigger.of(2), PurgingTrigger.of(CountTrigger.of(2)))
    )
    records = [("a", number, number) for number in range(1, 6)]
    assert numbers(kept.add(*records)) == [[1, 2], [1, 2, 3, 4]]
    assert numbers(purged.add(*records)) == [[1, 2], [3, 4]]


def test_window_without_end_gives_its_results_the_time_of_the_record_that_made_it_fire():
    run = Harness(GLOBAL, SUM, trigger=CountTrigger.of(2))
    assert run.add(("a", 1, 7), ("a", 2, 3)) == [(("a", 3), 3)]
    assert run.add(("a", 3, None), ("a", 4, None)) == [(("a", 10), None)]


def test_count_trigger_counts_each_window_and_adds_up_the_counts_of_sessions_that_merge():
    # time   0  1  2  3  4  5  6  7      gap 3, fires at the 3rd record of a session
    # a      1              2            two sessions, a record each
    #                 3                  joins both: the third
    run = Harness(EventTimeSessionWindows.with_gap(3), LIST, trigger=CountTrigger.of(3))
    assert run.add(("a", 1, 0), ("a", 2, 5)) == []
    assert run.add(("a", 3, 3)) == [(("a", 0, 8, [1, 2, 3]), 7)]
    assert run.watermark(7) == [("watermark", 7)]
    assert run.is_empty()


def test_trigger_timer_at_the_windows_end_never_fires():
    class AtEnd(EventTimeTrigger):
        def on_element(self, element, timestamp, window, ctx):
            ctx.register_event_time_timer(window.end)
            return TriggerResult.CONTINUE

        def on_event_time(self, time, window, ctx):
            return TriggerResult.FIRE

    run = Harness(TUMBLING_5, SUM, trigger=AtEnd())
    run.add(("a", 1, 1))
    # The clean-up at 4 asks the trigger, which fires; 5 finds nothing.
    assert run.watermark(4) == [(("a", 1), 4), ("watermark", 4)]
    assert run.watermark(9) == [("watermark", 9)]


def test_deleted_timer_does_not_fire():
    class Undecided(EventTimeTrigger):
        def on_element(self, element, timestamp, window, ctx):
            ctx.register_event_time_timer(timestamp)
            if element[1] == 0:
                ctx.delete_event_time_timer(timestamp)
            return TriggerResult.CONTINUE

        def on_event_time(self, time, window, ctx):
            return TriggerResult.CONTINUE if time == window.max_timestamp() else TriggerResult.FIRE

    run = Harness(TUMBLING_5, LIST, trigger=Undecided())
    run.add(("a", 1, 1), ("a", 0, 3))
    assert numbers(run.watermark(100)) == [[1, 0]]


def test_timers_fire_by_time_then_by_registration_also_those_that_timers_set():
    fired = []

    class Chain(EventTimeTrigger):
        def on_element(self, element, timestamp, window, ctx):
            ctx.register_event_time_timer(timestamp)
            return TriggerResult.CONTINUE

        def on_event_time(self, time, window, ctx):
            fired.append(time)
            if time == 10:
                ctx.register_event_time_timer(11)
            return TriggerResult.CONTINUE

    run = Harness(TumblingEventTimeWindows.of(100), SUM, trigger=Chain())
    run.add(("b", 1, 20), ("a", 1, 10), ("a", 1, 12))
    run.watermark(50)
    assert fired == [10, 11, 12, 20]


class EveryStep(Trigger):
    """Fires at each record whose number is larger than all before; remembers in state, merges, clears."""

    largest = ReducingStateDescriptor("largest", max)
    seen = ListStateDescriptor("seen")

    def on_element(self, element, timestamp, window, ctx):
        ctx.register_event_time_timer(window.max_timestamp())
        largest = ctx.get_partitioned_state(self.largest)
        ctx.get_partitioned_state(self.seen).add(element[1])
        before = largest.get()
        largest.add(element[1])
        return TriggerResult.FIRE if before is not None and element[1] > before else TriggerResult.CONTINUE

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        log.append((window.start, window.end, list(ctx.get_partitioned_state(self.seen).get())))
        return TriggerResult.FIRE_AND_PURGE

    def can_merge(self):
        return True

    def on_merge(self, window, ctx):
        ctx.merge_partitioned_state(self.largest)
        ctx.merge_partitioned_state(self.seen)
        ctx.register_event_time_timer(window.max_timestamp())

    def clear(self, window, ctx):
        ctx.delete_event_time_timer(window.max_timestamp())
        ctx.get_partitioned_state(self.largest).clear()
        ctx.get_partitioned_state(self.seen).clear()


log = []


def test_trigger_of_ones_own_merges_its_state_with_the_windows_and_leaves_nothing():
    log.clear()
    run = Harness(EventTimeSessionWindows.with_gap(3), LIST, trigger=EveryStep())
    assert run.add(("a", 5, 0), ("a", 7, 5)) == []
    assert numbers(run.add(("a", 6, 3))) == []  # the largest of both is 7
    assert numbers(run.add(("a", 8, 4))) == [[5, 7, 6, 8]]
    assert numbers(run.watermark(100)) == [[5, 7, 6, 8]]
    assert log == [(0, 8, [5, 7, 6, 8])]
    assert run.is_empty()


def test_trigger_that_returns_nothing_is_named():
    class Forgetful(EventTimeTrigger):
        def on_element(self, element, timestamp, window, ctx):
            ctx.register_event_time_timer(window.max_timestamp())

    run = Harness(TUMBLING_5, SUM, trigger=Forgetful())
    with pytest.raises(TypeMismatchError, match="Forgetful returned None, not a TriggerResult"):
        run.add(("a", 1, 1))


def test_delta_trigger_fires_when_a_record_is_far_from_the_one_that_fired_last():
    run = Harness(
        GLOBAL, LIST, trigger=PurgingTrigger.of(DeltaTrigger.of(3, lambda old, new: new[1] - old[1]))
    )
    records = [("a", number, 0) for number in (1, 4, 5, 8, 9)]
    # From 1: 4 is 3 away, 5 is 4 away and fires; from 5: 8 is 3, 9 is 4.
    assert numbers(run.add(*records)) == [[1, 4, 5], [8, 9]]


def test_processing_timeout_fires_what_is_there_and_a_fired_window_stops_waiting():
    trigger = PurgingTrigger.of(ProcessingTimeoutTrigger.of(CountTrigger.of(3), Time.milliseconds(10)))
    run = Harness(GLOBAL, LIST, trigger=trigger, now_ms=100)
    assert run.add(("a", 1, 0), ("a", 2, 0)) == []
    assert run.operator.next_processing_time() == 111
    assert numbers(run.clock(111)) == [[1, 2]]
    run.add(("a", 3, 0), ("a", 4, 0))
    assert numbers(run.add(("a", 5, 0))) == [[3, 4, 5]]
    assert run.operator.next_processing_time() is None


def test_timeout_that_each_record_resets():
    trigger = ProcessingTimeoutTrigger.of(CountTrigger.of(9), Time.milliseconds(10), True)
    run = Harness(GLOBAL, LIST, trigger=trigger, now_ms=100)
    run.add(("a", 1, 0))
    run.clock(105)
    run.add(("a", 2, 0))
    assert run.clock(112) == []
    assert numbers(run.clock(116)) == [[1, 2]]


def test_continuous_processing_time_trigger_fires_at_full_intervals_and_at_the_end():
    # clock   3          10          20       25
    # window  [0 ================================)
    run = Harness(
        TumblingProcessingTimeWindows.of(25),
        LIST,
        trigger=ContinuousProcessingTimeTrigger.of(Time.milliseconds(10)),
        now_ms=3,
    )
    run.add(("a", 1, 0))
    assert run.clock(10) == []
    assert numbers(run.clock(11)) == [[1]]
    run.add(("a", 2, 0))
    assert numbers(run.clock(21)) == [[1, 2]]
    assert numbers(run.clock(25)) == [[1, 2]]
    assert run.is_empty()


# --- windows by the clock -----------------------------------------------------------------------------------


@pytest.mark.parametrize("general", [False, True])
def test_window_by_the_clock_fires_once_the_clock_is_behind_its_last_millisecond(general):
    run = Harness(TumblingProcessingTimeWindows.of(5), LIST, now_ms=12, general=general)
    assert run.add(("a", 1, None)) == []
    assert run.operator.next_processing_time() == 15
    assert run.clock(14) == []
    assert run.add(("a", 2, 99)) == []
    assert run.clock(15) == [(("a", 10, 15, [1, 2]), 14)]
    assert run.watermark(MAX_TIMESTAMP) == [("watermark", MAX_TIMESTAMP)]


@pytest.mark.parametrize("general", [False, True])
def test_windows_by_the_clock_do_not_fire_at_the_end_of_the_input(general):
    run = Harness(ProcessingTimeSessionWindows.with_gap(5), LIST, general=general)
    run.add(("a", 1, 1))
    run.operator.end_input()
    assert run.watermark(MAX_TIMESTAMP) == [("watermark", MAX_TIMESTAMP)]


@pytest.mark.parametrize("general", [False, True])
def test_clock_that_is_set_back_loses_no_record(general):
    run = Harness(TumblingProcessingTimeWindows.of(5), LIST, now_ms=4, general=general)
    run.add(("a", 1, None))
    assert numbers(run.clock(6)) == [[1]]
    run.clock(3)
    run.add(("a", 2, None))
    assert numbers(run.clock(11)) == [[2]]


def test_event_time_timer_does_not_clean_up_a_window_by_the_clock():
    class OnBoth(EventTimeTrigger):
        def on_element(self, element, timestamp, window, ctx):
            ctx.register_event_time_timer(window.max_timestamp())
            return TriggerResult.CONTINUE

        def on_processing_time(self, time, window, ctx):
            return TriggerResult.FIRE

    run = Harness(TumblingProcessingTimeWindows.of(5), LIST, trigger=OnBoth())
    run.add(("a", 1, 1))
    assert numbers(run.watermark(4)) == [[1]]
    assert numbers(run.clock(5)) == [[1]]
    assert run.is_empty()


def test_staggered_windows_begin_with_the_first_record_by_the_clock():
    assigner = TumblingProcessingTimeWindows.of(10, 0, WindowStagger.NATURAL)
    run = Harness(assigner, LIST, now_ms=33)
    run.add(("a", 1, None))
    run.clock(42)
    run.add(("a", 2, None))
    assert run.clock(43) == [(("a", 33, 43, [1, 2]), 42)]
    for _ in range(20):
        offset = TumblingEventTimeWindows.of(10, 3, WindowStagger.RANDOM).staggered(0).offset
        assert 0 <= offset < 10


# --- evictors -----------------------------------------------------------------------------------------------


def test_count_evictor_before_keeps_the_newest_records_only():
    run = Harness(GLOBAL, LIST, trigger=CountTrigger.of(2), evictor=CountEvictor.of(3))
    records = [("a", number, number) for number in range(6)]
    assert numbers(run.add(*records)) == [[0, 1], [1, 2, 3], [3, 4, 5]]


def test_count_evictor_after_lets_the_function_see_all():
    run = Harness(GLOBAL, LIST, trigger=CountTrigger.of(2), evictor=CountEvictor.of(1, True))
    records = [("a", number, number) for number in range(6)]
    assert numbers(run.add(*records)) == [[0, 1], [1, 2, 3], [3, 4, 5]]
    kept = {name: list(held) for name, _, held in run.operator.snapshot_entries()}
    [(key, windows)] = kept["contents"]
    assert key == "a"
    assert windows[GlobalWindow.get()][0].value == ("a", 5)


def test_time_evictor_goes_by_the_records_timestamps():
    run = Harness(GLOBAL, LIST, trigger=CountTrigger.of(4), evictor=TimeEvictor.of(Time.milliseconds(5)))
    assert numbers(run.add(("a", 1, 1), ("a", 2, 9), ("a", 3, 4), ("a", 4, 5))) == [[2, 4]]


def test_delta_evictor_goes_by_the_distance_to_the_last_record():
    evictor = DeltaEvictor.of(5, lambda old, new: new[1] - old[1])
    run = Harness(GLOBAL, LIST, trigger=CountTrigger.of(4), evictor=evictor)
    assert numbers(run.add(*(("a", number, 0) for number in (1, 7, 3, 8)))) == [[7, 8]]


def test_reduce_and_aggregate_with_an_evictor_see_what_it_leaves():
    class OddOnly(Evictor):
        def evict_before(self, elements, size, window, evictor_context):
            assert size == len(elements) == 4
            elements[:] = [element for element in elements if element.value[1] % 2]

        def evict_after(self, elements, size, window, evictor_context):
            assert (size, evictor_context.get_current_watermark()) == (2, 4)
            elements.clear()

    for function, expected in ((SUM, ("a", 8)), (ReduceWindow(by_first), ("a", 8))):
        run = Harness(TUMBLING_5, function, evictor=OddOnly(), allowed_lateness_ms=5)
        run.add(*(("a", number, 0) for number in (2, 3, 4, 5)))
        assert run.watermark(4) == [(expected, 4), ("watermark", 4)]
        run.watermark(100)
        assert run.is_empty()


def test_window_that_an_evictor_empties_gives_the_empty_aggregate_and_no_reduced_record():
    for function, expected in (
        (SUM, [((None, 0), 4)]),
        (ReduceWindow(by_first), []),
        (LIST, [(("a", 0, 5, []), 4)]),
    ):
        run = Harness(TUMBLING_5, function, evictor=CountEvictor.of(0))
        run.add(("a", 1, 1))
        assert run.watermark(4)[:-1] == expected


# --- assigners of one's own ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Room(Window):
    """A window that is no interval."""

    name: str
    closes: int

    def max_timestamp(self):
        return self.closes


class ByRoom(WindowAssigner):
    def assign_windows(self, element, timestamp, context):
        visits = context.get_runtime_context().get_state(ValueStateDescriptor("visits"))
        visits.update((visits.value() or 0) + 1)
        return [Room("odd" if element[1] % 2 else "even", 10), Room(f"visit {visits.value()}", 20)]

    def get_default_trigger(self, env):
        return EventTimeTrigger.create()

    def is_event_time(self):
        return True


class PerRoom(ProcessWindowFunction):
    def process(self, key, context, elements):
        count = context.window_state().get_state(ValueStateDescriptor("fired"))
        count.update((count.value() or 0) + 1)
        yield context.window().name, [number for _, number in elements], count.value()


def test_windows_of_a_class_of_ones_own_fire_at_their_last_timestamp_with_state_of_their_own():
    run = Harness(ByRoom(), ProcessWindow(PerRoom()), allowed_lateness_ms=3)
    run.add(("a", 1, 1), ("a", 2, 2), ("a", 3, 3))
    assert [result for result, _ in run.watermark(10)[:-1]] == [("odd", [1, 3], 1), ("even", [2], 1)]
    assert run.add(("a", 5, 4)) == [(("odd", [1, 3, 5], 2), 10)]
    fired = run.watermark(20)[:-1]
    assert [result[0] for result, _ in fired] == [f"visit {number}" for number in (1, 2, 3, 4)]
    run.watermark(23)
    assert next(iter(run.keyed_state.snapshot().groups.values())).keys() == {"visits"}


class Shelves(MergingWindowAssigner):
    """Merges all rooms of a key whose names begin with the same letter into the one that closes last."""

    def assign_windows(self, element, timestamp, context):
        return [Room(element[1], timestamp)]

    def merge_windows(self, windows, callback):
        groups = {}
        for window in windows:
            groups.setdefault(window.name[0], []).append(window)
        for group in groups.values():
            if len(set(group)) > 1:
                callback.merge(group, max(group, key=lambda window: window.closes))

    def get_default_trigger(self, env):
        return EventTimeTrigger.create()

    def is_event_time(self):
        return True


def test_merging_assigner_of_ones_own_merges_into_a_window_that_was_there():
    run = Harness(Shelves(), ProcessWindow(Totals()), wrap=lambda key, name: (key, name))
    run.add(("k", "apple", 9), ("k", "bear", 4), ("k", "ant", 5), ("k", "axe", 12))
    assert [result[2] for result, _ in run.watermark(100)[:-1]] == [
        [("k", "bear")],
        [("k", "apple"), ("k", "ant"), ("k", "axe")],
    ]
    assert run.is_empty()


def test_windows_that_merge_leave_no_timers_behind():
    run = Harness(EventTimeSessionWindows.with_gap(3), LIST, general=True, allowed_lateness_ms=10)
    run.add(*(("a", number, number) for number in range(5)))
    # The window [0, 7) only: when it fires and when it is cleaned up.
    assert [time for time, _ in run.keyed_state.event_timers.snapshot()] == [6, 16]


def test_window_that_is_there_already_merges_with_others_and_keeps_its_contents():
    class Pairs(Shelves):
        def merge_windows(self, windows, callback):
            if len(set(windows)) > 1:
                callback.merge(list(windows), Room("both", 20))

    merged = []
    windows = {Room("a", 1): Room("a", 1), Room("b", 2): Room("b", 0)}
    actual = add_window(Pairs(), windows, Room("b", 2), lambda *merger: merged.append(merger))
    assert actual == Room("both", 20)
    assert windows == {Room("both", 20): Room("a", 1)}
    assert merged == [(actual, [Room("a", 1), Room("b", 2)], Room("a", 1), [Room("b", 0)])]

    alone = {Room("a", 1): Room("a", 0)}
    assert add_window(Shelves(), alone, Room("a", 1), lambda *merger: merged.append(merger)) == Room("a", 1)
    assert alone == {Room("a", 1): Room("a", 0)} and len(merged) == 1


def test_assigner_that_merges_what_is_not_there_is_named():
    class Wrong(Shelves):
        def merge_windows(self, windows, callback):
            callback.merge([Room("nowhere", 1)], Room("somewhere", 1))

    with pytest.raises(JobDefinitionError, match="Wrong merged windows that are not there"):
        Harness(Wrong(), LIST).add(("k", "apple", 9))


def test_event_time_windows_with_a_trigger_refuse_records_without_timestamps():
    run = Harness(TUMBLING_5, SUM, trigger=CountTrigger.of(2))
    with pytest.raises(JobDefinitionError, match="no timestamp"):
        run.add(("a", 1, None))


def test_count_windows_with_another_trigger_keep_their_windows():
    run = Harness(CountTumblingWindowAssigner.of(2), LIST, trigger=CountTrigger.of(1))
    assert numbers(run.add(*(("a", number, 0) for number in range(3)))) == [[0], [0, 1], [2]]


def test_global_windows_fire_at_the_end_of_the_input_if_asked_to():
    run = Harness(GlobalWindows.create_with_end_of_stream_trigger(), LIST)
    run.add(("a", 1, 1), ("a", 2, 2))
    assert run.watermark(10**15) == [("watermark", 10**15)]
    assert numbers(run.watermark(MAX_TIMESTAMP)) == [[1, 2]]


# --- reduce in sliding windows ------------------------------------------------------------------------------


def counting(left, right):
    return left[0], left[1] + 1


SLIDING = SlidingEventTimeWindows.of(10, 5)


def test_reduce_that_is_not_associative_sees_each_record_once_in_order_as_in_flink():
    run = Harness(SLIDING, ReduceWindow(counting))
    run.add(("a", 1, 1), ("b", 1, 2))
    run.watermark(2)
    run.add(("a", 1, 6), ("a", 1, 7), ("a", 1, 8))
    # [-5, 5) 1; [0, 10) 1 + 1 + 1 + 1; [5, 15) 1 + 1 + 1; by slices [0, 10) would come to 2
    results = [element[0] for element in run.watermark(100)[:-1]]
    assert [result for result in results if result[0] == "a"] == [("a", 1), ("a", 4), ("a", 3)]
    assert isinstance(run.operator.chosen, PaneOperator)


def test_reduce_that_is_associative_goes_by_slices_also_with_floats():
    run = Harness(SLIDING, ReduceWindow(by_first))
    run.add(*(("a", 0.1 * number, number) for number in range(9)))
    assert not isinstance(run.operator.chosen, PaneOperator)


def test_subtasks_that_chose_differently_can_be_restored_into_one():
    slices = Harness(SLIDING, ReduceWindow(counting))
    slices.add(("b", 1, 3), ("b", 1, 8))
    panes = Harness(SLIDING, ReduceWindow(counting))
    panes.add(("a", 1, 6), ("a", 1, 7), ("a", 1, 8))
    for order in ((slices, panes), (panes, slices)):
        both = Harness(SLIDING, ReduceWindow(counting), restore=[each.checkpoint()[0] for each in order])
        assert isinstance(both.operator, SlidingReduceOperator)
        results = [element[0] for element in both.watermark(100)[:-1]]
        assert sorted(results) == [("a", 3), ("a", 3), ("b", 1), ("b", 1), ("b", 2)]


def test_cost_of_a_record_does_not_grow_with_size_over_slide():
    merges = []

    class Counted(Sum):
        def merge(self, acc_a, acc_b):
            merges.append(1)
            return super().merge(acc_a, acc_b)

    per_result = []
    for size in (50, 500):
        run = Harness(SlidingEventTimeWindows.of(size, 1), AggregateWindow(Counted()))
        merges.clear()
        fired = 0
        for time in range(2_000):
            run.add(("a", 1, time))
            fired += len(run.watermark(time)) - 1
        per_result.append(len(merges) / fired)
    assert max(per_result) < 4


def test_collecting_aggregate_in_sliding_windows_gives_lists_that_do_not_change():
    run = Harness(SLIDING, AggregateWindow(Collect()), allowed_lateness_ms=20)
    run.add(("a", 1, 1), ("a", 2, 6))
    first = run.watermark(9)
    run.add(("a", 3, 7), ("a", 4, 11))
    assert first[:-1] == [([1], 4), ([1, 2], 9)]
    assert run.watermark(40)[:-1] == [([2, 3, 4], 14), ([4], 19)]
