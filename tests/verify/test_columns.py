"""Jobs of whole columns lose nothing and repeat nothing, whatever fails."""

from __future__ import annotations

from collections import Counter

from verify_jobs import captured, file_sink, readings, stamped

from millstream.common import Time, Types
from millstream.datastream.expressions import count, max_, sum_
from millstream.datastream.window import SlidingEventTimeWindows
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


def windows_in_python(records=120):
    found = {}
    for key, time, number in readings(records):
        for start in range(time - time % SLIDE, time - SIZE, -SLIDE):
            found.setdefault((key, start, start + SIZE), []).append(number)
    return Counter(
        str((*window, sum(numbers), len(numbers), max(numbers))) for window, numbers in found.items()
    )


def test_windows_of_columns_lose_and_repeat_nothing_whatever_fails():
    verifier = Verifier(captured(windows_of_columns))
    assert list(verifier.reference.outputs.values()) == [windows_in_python()]
    assert verifier.vary == EVERYTHING, verifier.dependencies
    for result in verifier.run(range(SEEDS)):
        assert not result.failed, (result.seed, result.error, *map(str, result.differences), *result.trace)
