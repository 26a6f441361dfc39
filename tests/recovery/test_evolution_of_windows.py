"""Which windows go on in other windows: those that an operator reads rightly; all others are refused."""

from __future__ import annotations

from itertools import groupby

import pytest
from recovery_programs import RECORDS, Mean, key_of, stamped
from recovery_support import FAULTS, SAME, difference, multiset, resume, run, run_to_savepoint

from millstream.base.errors import StateIncompatibleError
from millstream.base.time import Time
from millstream.datastream import ProcessWindowFunction
from millstream.datastream.functions import ProcessJoinFunction
from millstream.datastream.window import (
    ContinuousEventTimeTrigger,
    CountEvictor,
    CountTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)


class Listing(ProcessWindowFunction):
    def process(self, key, context, elements):
        window = context.window()
        yield key, getattr(window, "start", 0), tuple(sorted(elements))

    def clear(self, context):
        pass


def millis(count):
    return Time.milliseconds(count)


def tumbling(size, offset=0):
    return lambda stream: stream.window(TumblingEventTimeWindows.of(millis(size), millis(offset)))


def sliding(size, slide):
    return lambda stream: stream.window(SlidingEventTimeWindows.of(millis(size), millis(slide)))


def sessions(gap):
    return lambda stream: stream.window(EventTimeSessionWindows.with_gap(millis(gap)))


def dynamic_sessions(gap):
    return lambda stream: stream.window(EventTimeSessionWindows.with_dynamic_gap(lambda record: gap))


def by_clock(size):
    return lambda stream: stream.window(TumblingProcessingTimeWindows.of(millis(size)))


def counting(size, slide=0):
    return lambda stream: stream.count_window(size, slide)


def triggered(windows, trigger):
    return lambda stream: windows(stream).trigger(trigger)


def program(windows, finish=lambda windowed: windowed.process(Listing())):
    return lambda env: finish(windows(stamped(env).key_by(key_of))).uid("windows").name("Windows")


def summed(windowed):
    return windowed.reduce(lambda a, b: (a[0], max(a[1], b[1]), a[2] + b[2]))


def averaged(windowed):
    return windowed.aggregate(MeanOfRecords())


class MeanOfRecords(Mean):
    def add(self, value, accumulator):
        return super().add(value[2], accumulator)


def late(windows, lateness):
    return lambda stream: windows(stream).allowed_lateness(lateness)


@pytest.mark.parametrize(
    ("first", "second", "old", "new"),
    [
        (tumbling(50), sessions(50), "windows of 50 ms every 50 ms", "sessions"),
        (tumbling(50), tumbling(100), "windows of 50 ms", "windows of 100 ms"),
        (tumbling(50), tumbling(50, 10), "offset 0 ms", "offset 10 ms"),
        (tumbling(50), by_clock(50), "event time", "processing time"),
        (tumbling(50), counting(5), "windows of 50 ms", "windows of 5 records"),
        (counting(5), tumbling(50), "windows of 5 records", "windows of 50 ms"),
        (counting(5), counting(3), "windows of 5 records", "windows of 3 records"),
        (counting(5), counting(5, 2), "windows of 5 records", "windows of 5 records every 2"),
        (sliding(100, 50), sliding(100, 20), "every 50 ms", "every 20 ms"),
        (tumbling(50), triggered(tumbling(50), CountTrigger.of(2)), "windows of 50 ms", "custom kind"),
        (
            tumbling(50),
            lambda stream: tumbling(50)(stream).evictor(CountEvictor.of(2)),
            "records",
            "records with timestamps",
        ),
    ],
)
def test_windows_that_would_be_read_wrongly_are_refused_before_the_job_starts(
    tmp_path, first, second, old, new
):
    _, path = run_to_savepoint(program(first), tmp_path, at=20)
    with pytest.raises(StateIncompatibleError) as raised:
        resume(path, program(second))
    is_now, _, was = raised.value.message.partition("its state in")
    assert '"Windows" (uid "windows")' in is_now
    assert new in is_now
    assert old in was
    assert FAULTS.seen == 0


@pytest.mark.parametrize(
    ("first", "second"), [(None, summed), (summed, None), (summed, averaged), (averaged, summed)]
)
@pytest.mark.parametrize("windows", [tumbling(50), sliding(100, 50), sessions(50)])
def test_contents_of_another_kind_are_refused(tmp_path, windows, first, second):
    given = [{} if finish is None else {"finish": finish} for finish in (first, second)]
    _, path = run_to_savepoint(program(windows, **given[0]), tmp_path, at=20)
    with pytest.raises(StateIncompatibleError, match='uid "windows"'):
        resume(path, program(windows, **given[1]))


@pytest.mark.parametrize("before", [0, 500])
@pytest.mark.parametrize("after", [0, 500])
@pytest.mark.parametrize("windows", [tumbling(50), sliding(100, 50), sessions(50)])
def test_the_allowed_lateness_may_change_and_no_window_fires_twice(tmp_path, windows, before, after):
    wanted = run(program(windows), epoch=8)
    first, path = run_to_savepoint(program(late(windows, before)), tmp_path, at=30)
    rest = resume(path, program(late(windows, after)))
    assert rest
    assert difference(first + rest, wanted) == SAME


def sessions_of(gaps):
    """Return the sessions of all keys, if the gap behind record i is gaps[i]."""
    found = []
    by_key = sorted(zip(RECORDS, gaps, strict=True), key=lambda pair: pair[0][:2])
    for key, own in groupby(by_key, key=lambda pair: pair[0][0]):
        end = None
        for record, gap in own:
            if end is None or record[1] > end:
                found.append((key, record[1], []))
                end = record[1]
            found[-1][2].append(record)
            end = max(end, record[1] + gap)
    return multiset((key, start, tuple(sorted(records))) for key, start, records in found)


@pytest.mark.parametrize("kind", [sessions, dynamic_sessions])
@pytest.mark.parametrize(("before", "after"), [(30, 120), (120, 30)])
def test_the_gap_of_sessions_may_change_and_holds_for_new_records(tmp_path, kind, before, after):
    first, path = run_to_savepoint(program(sessions(before)), tmp_path, at=30)
    read = FAULTS.seen
    rest = resume(path, program(kind(after)))
    wanted = sessions_of([before] * read + [after] * (len(RECORDS) - read))
    assert 0 < read < len(RECORDS)
    assert wanted not in (sessions_of([before] * len(RECORDS)), sessions_of([after] * len(RECORDS)))
    assert difference(first + rest, wanted) == SAME


class Custom(EventTimeTrigger):
    """Not the default, so windows are kept by the general operator."""


def test_windows_of_a_custom_trigger_may_get_another_size(tmp_path):
    """Contents are by window: the old ones fire as what they are."""
    old, new = triggered(tumbling(50), Custom()), triggered(tumbling(200), Custom())
    first, path = run_to_savepoint(program(old), tmp_path, at=30)
    read = FAULTS.seen
    rest = resume(path, program(new))
    found = first + rest
    windows = {}
    for number, record in enumerate(RECORDS):
        size = 50 if number < read else 200
        windows.setdefault((record[0], size, record[1] // size * size), []).append(record)
    wanted = multiset((key, start, tuple(sorted(records))) for (key, _, start), records in windows.items())
    assert 0 < read < len(RECORDS)
    assert difference(found, wanted) == SAME


def test_another_custom_trigger_goes_on_with_the_windows(tmp_path):
    wanted = run(program(tumbling(50)), epoch=8)
    first, path = run_to_savepoint(program(triggered(tumbling(50), Custom())), tmp_path, at=30)
    rest = resume(path, program(triggered(tumbling(50), ContinuousEventTimeTrigger.of(millis(10_000)))))
    # The last trigger fires a window as it ends, too.
    assert difference(first + rest, wanted) == SAME


class Pairs(ProcessJoinFunction):
    def process_element(self, left, right, ctx):
        yield left, right


def joined(lower, upper):
    def build(env):
        left, right = stamped(env, uid="l").key_by(key_of), stamped(env, uid="r").key_by(key_of)
        pairs = left.interval_join(right).between(millis(lower), millis(upper)).process(Pairs())
        return pairs.uid("join").name("Join")

    return build


def test_an_interval_join_keeps_its_bounds(tmp_path):
    wanted = run(joined(-50, 50), epoch=8)
    first, path = run_to_savepoint(joined(-50, 50), tmp_path, at=30)
    assert difference(first + resume(path, joined(-50, 50)), wanted) == SAME
    with pytest.raises(StateIncompatibleError, match="from -50 to 90 ms, its state .* from -50 to 50 ms"):
        resume(path, joined(-50, 90))
