"""The programs of the first suite: a chain, a keyed process, a tumbling window."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from programs.api import KEYS, Api, Workload, event_time_ms

CHAIN_SAMPLE = 1_009
WINDOW_MS = 1_000
WINDOW_SAMPLE = 61


# ---------------------------------------------------------------- (a) map, filter, map over numbers


def chain(api: Api, env: Any, size: int) -> Any:
    """Three functions per record; a last filter keeps one result in about a thousand for the check."""
    number_type = api.common.Types.LONG()
    return (
        api.numbers(env, size)
        .map(lambda number: number * 31 + 7, output_type=number_type)
        .filter(lambda number: number % 2 == 0)
        .map(lambda number: number // 2, output_type=number_type)
        .filter(lambda number: number % CHAIN_SAMPLE == 0)
    )


def chain_oracle(size: int) -> Iterable[int]:
    for number in range(1, size, 2):  # number * 31 + 7 is even for odd numbers
        half = (number * 31 + 7) // 2
        if half % CHAIN_SAMPLE == 0:
            yield half


# ---------------------------------------------------------------- (b) keyed process with ValueState


def count_per_key(api: Api, report_at: int) -> Any:
    """Return the keyed function: counts in a ValueState, yields at each multiple of `report_at`."""
    number_type = api.common.Types.LONG()
    descriptor_class = api.state.ValueStateDescriptor

    class CountPerKey(api.datastream.KeyedProcessFunction):
        def open(self, runtime_context):
            self.count = runtime_context.get_state(descriptor_class("count", number_type))

        def process_element(self, value, ctx):
            count = (self.count.value() or 0) + 1
            self.count.update(count)
            if count % report_at == 0:
                yield value % KEYS, count

    return CountPerKey()


def keyed(api: Api, env: Any, size: int) -> Any:
    """Count by key; each key yields once, at its last record."""
    types = api.common.Types
    return (
        api.numbers(env, size)
        .key_by(lambda number: number % KEYS, key_type=types.LONG())
        .process(count_per_key(api, size // KEYS), output_type=api.pair_type())
    )


def keyed_oracle(size: int) -> Iterable[tuple[int, int]]:
    return ((key, size // KEYS) for key in range(KEYS))


# ---------------------------------------------------------------- (c) event-time tumbling window, aggregate


def sum_and_count(api: Api) -> Any:
    """Return the aggregate of all windows: the sum of the numbers, and how many they are."""

    class SumAndCount(api.datastream.AggregateFunction):
        def create_accumulator(self):
            return 0, 0

        def add(self, value, accumulator):
            return accumulator[0] + value, accumulator[1] + 1

        def get_result(self, accumulator):
            return accumulator

        def merge(self, a, b):
            return a[0] + b[0], a[1] + b[1]

    return SumAndCount()


def window(api: Api, env: Any, size: int) -> Any:
    """Sum and count per key and second of event time; a last filter keeps one result in 61 for the check."""
    types = api.common.Types
    return (
        api.timed_numbers(env, size)
        .key_by(lambda number: number % KEYS, key_type=types.LONG())
        .window(api.window.TumblingEventTimeWindows.of(api.milliseconds(WINDOW_MS)))
        .aggregate(sum_and_count(api), accumulator_type=api.pair_type(), output_type=api.pair_type())
        .filter(lambda result: result[0] % WINDOW_SAMPLE == 0)
    )


def window_oracle(size: int) -> Iterable[tuple[int, int]]:
    half = size // 2
    sums: dict[tuple[int, int], int] = defaultdict(int)
    counts: dict[tuple[int, int], int] = defaultdict(int)
    for number in range(size):
        pane = number % KEYS, event_time_ms(number, half) // WINDOW_MS
        sums[pane] += number
        counts[pane] += 1
    return ((total, counts[pane]) for pane, total in sums.items() if total % WINDOW_SAMPLE == 0)


WORKLOADS = {
    "chain": Workload(chain, chain_oracle),
    "keyed": Workload(keyed, keyed_oracle),
    "window": Workload(window, window_oracle),
}
