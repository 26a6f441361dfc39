"""Jobs of whole columns lose nothing and repeat nothing, whatever fails."""

from __future__ import annotations

from collections import Counter

from verify_jobs import captured, file_sink, readings, stamped

from millstream.common import Time, Types
from millstream.datastream.expressions import count, max_, sum_
from millstream.datastream.window import EventTimeSessionWindows, SlidingEventTimeWindows
from millstream.verify.scenario import EVERYTHING
from millstream.verify.verifier import Verifier

SEEDS = 12
SIZE, SLIDE = 200, 50
NAMED = Types.ROW_NAMED(["key", "time", "number"], [Types.STRING(), Types.LONG(), Types.LONG()])


def windows_of_columns(environment, records=120):
    # No name of a test's module: slots cannot import it.
    rows = stamped(environment, readings(records)).map(lambda record: record, NAMED)
    windows = rows.key_by("key").window(
        SlidingEventTimeWindows.of(Time.milliseconds(200), Time.milliseconds(50))
    )
    results = windows.aggregate(total=sum_("number"), n=count(), highest=max_("number")).uid("windows")
    results.map(lambda row: str(tuple(row)), Types.STRING()).sink_to(file_sink("windows"))


def sessions_of_columns(environment, records=120):
    rows = stamped(environment, readings(records)).map(lambda record: record, NAMED)
    sessions = rows.key_by("key").window(EventTimeSessionWindows.with_gap(Time.milliseconds(80)))
    results = sessions.aggregate(total=sum_("number"), n=count(), highest=max_("number")).uid("sessions")
    results.map(lambda row: str(tuple(row)), Types.STRING()).sink_to(file_sink("sessions"))


def windows_of_all_columns(environment, records=120):
    rows = stamped(environment, readings(records)).map(lambda record: record, NAMED)
    windows = rows.window_all(EventTimeSessionWindows.with_gap(Time.milliseconds(4)))
    results = windows.aggregate(total=sum_("number"), n=count(), highest=max_("number")).uid("windows")
    results.map(lambda row: str(("all", *row)), Types.STRING()).sink_to(file_sink("windows"))


def sessions_in_python(gap, key_of=lambda key: key, records=120):
    found = []
    for key, time, number in sorted((key_of(key), time, number) for key, time, number in readings(records)):
        if found and found[-1][0] == key and time <= found[-1][2]:
            _, start, _, numbers = found.pop()
            found.append((key, start, time + gap, [*numbers, number]))
        else:
            found.append((key, time, time + gap, [number]))
    return Counter(str((*window, sum(held), len(held), max(held))) for *window, held in found)


def windows_in_python(records=120):
    found = {}
    for key, time, number in readings(records):
        for start in range(time - time % SLIDE, time - SIZE, -SLIDE):
            found.setdefault((key, start, start + SIZE), []).append(number)
    return Counter(
        str((*window, sum(numbers), len(numbers), max(numbers))) for window, numbers in found.items()
    )


def check(program, expected):
    verifier = Verifier(captured(program))
    assert list(verifier.reference.outputs.values()) == [expected]
    assert verifier.vary == EVERYTHING, verifier.dependencies
    for result in verifier.run(range(SEEDS)):
        assert not result.failed, (result.seed, result.error, *map(str, result.differences), *result.trace)


def test_sessions_of_columns_lose_and_repeat_nothing_whatever_fails():
    expected = sessions_in_python(80)
    assert len({text.split(",")[0] for text in expected}) < len(expected)  # keys with several sessions
    check(sessions_of_columns, expected)


def test_windows_of_all_columns_lose_and_repeat_nothing_whatever_fails():
    expected = sessions_in_python(4, lambda key: "all")
    assert len(expected) > 3
    check(windows_of_all_columns, expected)


def test_windows_of_columns_lose_and_repeat_nothing_whatever_fails():
    check(windows_of_columns, windows_in_python())
