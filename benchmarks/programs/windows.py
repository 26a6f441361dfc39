"""Windows other than the event-time tumbling one: sliding, sessions, counts, processing time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from programs.api import KEYS, Api, Workload, event_time_ms
from programs.core import WINDOW_SAMPLE, sum_and_count

SLIDING_MS, SLIDE_MS = 60_000, 1_000

SESSION_GAP_MS = 500
GROUP_KEYS = 100  # keys that are active at the same time
GROUP_RECORDS = 1_000  # in a row from each split: 100 ms, 10 records a key; then the key is silent for 900 ms

COUNT_WINDOW = 20
PROCESSING_WINDOW_MS = 1_000


def aggregated(api: Api, windowed: Any) -> Any:
    """Sum and count of each window; a last filter keeps one result in 61 for the check."""
    return windowed.aggregate(
        sum_and_count(api), accumulator_type=api.pair_type(), output_type=api.pair_type()
    ).filter(lambda result: result[0] % WINDOW_SAMPLE == 0)


def sampled(sums: Iterable[tuple[int, int]]) -> Iterable[tuple[int, int]]:
    return (result for result in sums if result[0] % WINDOW_SAMPLE == 0)


def active_key(number: int, half: int) -> int:
    """A hundred keys at a time; each has 20 records every second, all in the same 100 ms."""
    position = number % half
    return position // GROUP_RECORDS % (KEYS // GROUP_KEYS) * GROUP_KEYS + position % GROUP_KEYS


# ---------------------------------------------------------------- sliding windows, 60 s by 1 s


def sliding(api: Api, env: Any, size: int) -> Any:
    """Each record is in sixty windows.

    A few hundred records are a long job for PyFlink. As only some keys are active at a time, even such a job
    has many records of each key, and its cost is that of adding to windows, not that of making them: the
    jobs of both systems are alike per record, though one system's are a thousand times longer.
    """
    half = size // 2
    keyed = api.timed_numbers(env, size).key_by(
        lambda number: active_key(number, half), key_type=api.common.Types.LONG()
    )
    assigner = api.window.SlidingEventTimeWindows.of(api.milliseconds(SLIDING_MS), api.milliseconds(SLIDE_MS))
    return aggregated(api, keyed.window(assigner))


def sliding_oracle(size: int) -> Iterable[tuple[int, int]]:
    half = size // 2
    by_second: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(lambda: [0, 0]))
    for number in range(size):
        slot = by_second[active_key(number, half)][event_time_ms(number, half) // SLIDE_MS]
        slot[0] += number
        slot[1] += 1
    return sampled(result for seconds in by_second.values() for result in sixty_seconds(seconds))


def sixty_seconds(seconds: dict[int, list[int]]) -> Iterable[tuple[int, int]]:
    """Yield sum and count of each window that holds a record: what came in, less what went out."""
    total = count = 0
    length = SLIDING_MS // SLIDE_MS
    for last in range(min(seconds), max(seconds) + length):
        came, went = seconds.get(last, (0, 0)), seconds.get(last - length, (0, 0))
        total += came[0] - went[0]
        count += came[1] - went[1]
        if count:
            yield total, count


# ---------------------------------------------------------------- sessions


def session(api: Api, env: Any, size: int) -> Any:
    """A session of 20 records of each key every second, then silence for more than the gap."""
    half = size // 2
    keyed = api.timed_numbers(env, size).key_by(
        lambda number: active_key(number, half), key_type=api.common.Types.LONG()
    )
    return aggregated(
        api, keyed.window(api.window.EventTimeSessionWindows.with_gap(api.milliseconds(SESSION_GAP_MS)))
    )


def session_oracle(size: int) -> Iterable[tuple[int, int]]:
    half = size // 2
    by_key: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for number in range(size):
        by_key[active_key(number, half)].append((event_time_ms(number, half), number))
    return sampled(result for records in by_key.values() for result in sessions_of(sorted(records)))


def sessions_of(records: list[tuple[int, int]]) -> Iterable[tuple[int, int]]:
    last_time, total, count = records[0][0], 0, 0
    for time_ms, number in records:
        if time_ms - last_time > SESSION_GAP_MS:
            yield total, count
            total = count = 0
        last_time = time_ms
        total += number
        count += 1
    yield total, count


# ---------------------------------------------------------------- counts and processing time


def key_of_split(number: int, half: int) -> int:
    """Half of the keys belong to each split of the source: so a key's records keep their order."""
    return number // half * (KEYS // 2) + number % (KEYS // 2)


def numbers_of_key(key: int, size: int) -> range:
    split, rest = divmod(key, KEYS // 2)
    half = size // 2
    return range(split * half + rest, (split + 1) * half, KEYS // 2)


def count(api: Api, env: Any, size: int) -> Any:
    half = size // 2
    keyed = api.numbers(env, size).key_by(
        lambda number: key_of_split(number, half), key_type=api.common.Types.LONG()
    )
    return aggregated(api, keyed.count_window(COUNT_WINDOW))


def count_oracle(size: int) -> Iterable[tuple[int, int]]:
    for key in range(KEYS):
        numbers = numbers_of_key(key, size)
        full = (
            numbers[first : first + COUNT_WINDOW]
            for first in range(0, len(numbers) - COUNT_WINDOW + 1, COUNT_WINDOW)
        )
        yield from sampled((sum(each), len(each)) for each in full)


def processing_time(api: Api, env: Any, size: int) -> Any:
    """Results are key, sum and count of a second: where a second ends nobody knows before."""
    types = api.common.Types
    half = size // 2

    class KeySumAndCount(api.datastream.AggregateFunction):
        def create_accumulator(self):
            return 0, 0, 0

        def add(self, value, accumulator):
            return key_of_split(value, half), accumulator[1] + value, accumulator[2] + 1

        def get_result(self, accumulator):
            return accumulator

        def merge(self, a, b):
            return a[0], a[1] + b[1], a[2] + b[2]

    result_type = types.TUPLE([types.LONG(), types.LONG(), types.LONG()])
    return (
        api.numbers(env, size)
        .key_by(lambda number: key_of_split(number, half), key_type=types.LONG())
        .window(api.window.TumblingProcessingTimeWindows.of(api.milliseconds(PROCESSING_WINDOW_MS)))
        .aggregate(KeySumAndCount(), accumulator_type=result_type, output_type=result_type)
    )


def wrong_keys(records: list[tuple[int, int, int]], size: int) -> Iterable[int]:
    """Return the keys whose windows do not hold the key's first records, each once.

    The input's end does not fire windows of processing time, so the last records of a key are in none.
    """
    sums: dict[int, int] = defaultdict(int)
    counts: dict[int, int] = defaultdict(int)
    for key, total, number in records:
        sums[key] += total
        counts[key] += number
    return [key for key in counts if sum(numbers_of_key(key, size)[: counts[key]]) != sums[key]]


def no_wrong_keys(size: int) -> Iterable[int]:
    return ()


WORKLOADS = {
    "sliding": Workload(sliding, sliding_oracle, step=200),
    "session": Workload(session, session_oracle),
    "count": Workload(count, count_oracle),
    "processing_time": Workload(processing_time, no_wrong_keys, judge=wrong_keys),
}
