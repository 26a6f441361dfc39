"""Programs of two streams: connected, broadcast, and the two joins with what stands for them in PyFlink.

The numbers come from one source and are parted into left and right ones, so that neither side runs ahead:
every key has ten left and ten right records a second, in each of the source's two splits together.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from programs.api import KEYS, Api, Workload, event_time_ms

SECOND_INPUT = 1_000_000  # a record of the second input counts for so much
RULES = 100
PAIR_SAMPLE = 61

INTERVAL_MS = 150  # two pairs per record
JOIN_WINDOW_MS = 200  # one pair per record


def is_left(number: int, half: int) -> bool:
    """Each key is on the left in one round of all keys, on the right in the next."""
    return number % half // KEYS % 2 == 0


def sides(api: Api, numbers: Any, size: int) -> tuple[Any, Any]:
    half = size // 2
    return (
        numbers.filter(lambda number: is_left(number, half)),
        numbers.filter(lambda number: not is_left(number, half)),
    )


def keyed_sides(api: Api, numbers: Any, size: int) -> tuple[Any, Any]:
    key_type = api.common.Types.LONG()
    left, right = sides(api, numbers, size)
    return (
        left.key_by(lambda number: number % KEYS, key_type=key_type),
        right.key_by(lambda number: number % KEYS, key_type=key_type),
    )


def sampled(pairs: Any) -> Any:
    """Keep one pair in 61 for the check."""
    return pairs.filter(lambda pair: (pair[0] + pair[1] * 31) % PAIR_SAMPLE == 0)


# ---------------------------------------------------------------- connected keyed process


def connected(api: Api, env: Any, size: int) -> Any:
    """Count both inputs in one state; each key yields once, at the last record of both."""
    types = api.common.Types
    half = size // 2
    lefts = 2 * sum(is_left(number, half) for number in range(0, half, KEYS))
    complete = lefts + (size // KEYS - lefts) * SECOND_INPUT

    class CountBoth(api.datastream.KeyedCoProcessFunction):
        def open(self, runtime_context):
            self.count = runtime_context.get_state(api.state.ValueStateDescriptor("count", types.LONG()))

        def process_element1(self, value, ctx):
            count = (self.count.value() or 0) + 1
            self.count.update(count)
            if count == complete:
                yield value % KEYS, count

        def process_element2(self, value, ctx):
            count = (self.count.value() or 0) + SECOND_INPUT
            self.count.update(count)
            if count == complete:
                yield value % KEYS, count

    left, right = keyed_sides(api, api.numbers(env, size), size)
    return left.connect(right).process(CountBoth(), output_type=api.pair_type())


def connected_oracle(size: int) -> Iterable[tuple[int, int]]:
    half = size // 2
    counts = [0] * KEYS
    for number in range(size):
        counts[number % KEYS] += 1 if is_left(number, half) else SECOND_INPUT
    return enumerate(counts)


# ---------------------------------------------------------------- broadcast state


def broadcast(api: Api, env: Any, size: int) -> Any:
    """Look up a broadcast rule and count by key; each key yields count and rule, at its last record."""
    types = api.common.Types
    report_at = size // KEYS
    rules_state = api.state.MapStateDescriptor("rules", types.LONG(), types.LONG())

    class CountUnderRules(api.datastream.KeyedBroadcastProcessFunction):
        def open(self, runtime_context):
            self.count = runtime_context.get_state(api.state.ValueStateDescriptor("count", types.LONG()))

        def process_element(self, value, ctx):
            rule = ctx.get_broadcast_state(rules_state).get(value % RULES)
            count = (self.count.value() or 0) + 1
            self.count.update(count)
            if count == report_at:
                yield value % KEYS, count, -1 if rule is None else rule

        def process_broadcast_element(self, value, ctx):
            ctx.get_broadcast_state(rules_state).put(value[0], value[1])

    rules = env.from_collection([(rule, rule * rule) for rule in range(RULES)], type_info=api.pair_type())
    return (
        api.numbers(env, size)
        .key_by(lambda number: number % KEYS, key_type=types.LONG())
        .connect(rules.broadcast(rules_state))
        .process(CountUnderRules(), output_type=types.TUPLE([types.LONG(), types.LONG(), types.LONG()]))
    )


def broadcast_oracle(size: int) -> Iterable[tuple[int, int, int]]:
    return ((key, size // KEYS, (key % RULES) ** 2) for key in range(KEYS))


# ---------------------------------------------------------------- interval join


def interval(api: Api, env: Any, size: int) -> Any:
    """Pair left and right records of a key that are at most 150 ms apart."""

    class Pair(api.datastream.ProcessJoinFunction):
        def process_element(self, left, right, ctx):
            yield left, right

    left, right = keyed_sides(api, api.timed_numbers(env, size), size)
    bound = api.milliseconds(INTERVAL_MS)
    joined = left.interval_join(right).between(api.milliseconds(-INTERVAL_MS), bound)
    return sampled(joined.process(Pair(), output_type=api.pair_type()))


def interval_by_hand(api: Api, env: Any, size: int) -> Any:
    """The same pairs: each side in a MapState, 150 ms of it in a list, removed by timers.

    A record looks at three lists of the other side.
    """
    types = api.common.Types

    class JoinByHand(api.datastream.KeyedCoProcessFunction):
        def open(self, runtime_context):
            self.left = runtime_context.get_map_state(
                api.state.MapStateDescriptor("left", types.LONG(), types.PICKLED_BYTE_ARRAY())
            )
            self.right = runtime_context.get_map_state(
                api.state.MapStateDescriptor("right", types.LONG(), types.PICKLED_BYTE_ARRAY())
            )

        def process_element1(self, value, ctx):
            for other in self.take(value, ctx, self.left, self.right):
                yield value, other

        def process_element2(self, value, ctx):
            for other in self.take(value, ctx, self.right, self.left):
                yield other, value

        def take(self, value, ctx, own, others):
            time_ms = ctx.timestamp()
            part = time_ms // INTERVAL_MS
            records = own.get(part)
            if records is None:
                records = []
                # No record of the other side that is still to come can be near enough.
                ctx.timer_service().register_event_time_timer((part + 2) * INTERVAL_MS)
            records.append((time_ms, value))
            own.put(part, records)
            for near in (part - 1, part, part + 1):
                for other_ms, other in others.get(near) or ():
                    if -INTERVAL_MS <= other_ms - time_ms <= INTERVAL_MS:
                        yield other

        def on_timer(self, timestamp, ctx):
            part = timestamp // INTERVAL_MS - 2
            self.left.remove(part)
            self.right.remove(part)
            yield from ()

    left, right = keyed_sides(api, api.timed_numbers(env, size), size)
    return sampled(left.connect(right).process(JoinByHand(), output_type=api.pair_type()))


def interval_oracle(size: int) -> Iterable[tuple[int, int]]:
    half = size // 2
    lefts: dict[int, list[tuple[int, int]]] = defaultdict(list)
    rights: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for number in range(size):
        side = lefts if is_left(number, half) else rights
        side[number % KEYS].append((event_time_ms(number, half), number))
    for key, records in lefts.items():
        others = sorted(rights[key])
        for time_ms, left in records:
            first = bisect_left(others, (time_ms - INTERVAL_MS, -1))
            end = bisect_right(others, (time_ms + INTERVAL_MS, size))
            for _, right in others[first:end]:
                if (left + right * 31) % PAIR_SAMPLE == 0:
                    yield left, right


# ---------------------------------------------------------------- window join


def window_join(api: Api, env: Any, size: int) -> Any:
    """Pair left and right records of a key in the same 200 ms."""
    types = api.common.Types
    left, right = sides(api, api.timed_numbers(env, size), size)
    joined = (
        left.join(right)
        .where(lambda number: number % KEYS, types.LONG())
        .equal_to(lambda number: number % KEYS)
        .window(api.window.TumblingEventTimeWindows.of(api.milliseconds(JOIN_WINDOW_MS)))
        .apply(lambda left_number, right_number: (left_number, right_number), api.pair_type())
    )
    return sampled(joined)


def window_join_by_hand(api: Api, env: Any, size: int) -> Any:
    """The same pairs: one stream of both sides, tagged, and a function for each window."""
    types = api.common.Types

    class Pairs(api.datastream.ProcessWindowFunction):
        def process(self, key, context, elements):
            both = [], []
            for side, number in elements:
                both[side].append(number)
            for left in both[0]:
                for right in both[1]:
                    yield left, right

    left, right = sides(api, api.timed_numbers(env, size), size)
    tagged = left.map(lambda number: (0, number), output_type=api.pair_type()).union(
        right.map(lambda number: (1, number), output_type=api.pair_type())
    )
    windowed = tagged.key_by(lambda record: record[1] % KEYS, key_type=types.LONG()).window(
        api.window.TumblingEventTimeWindows.of(api.milliseconds(JOIN_WINDOW_MS))
    )
    return sampled(windowed.process(Pairs(), output_type=api.pair_type()))


def window_join_oracle(size: int) -> Iterable[tuple[int, int]]:
    half = size // 2
    windows: dict[tuple[int, int], tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for number in range(size):
        pane = number % KEYS, event_time_ms(number, half) // JOIN_WINDOW_MS
        windows[pane][0 if is_left(number, half) else 1].append(number)
    return (
        (left, right)
        for lefts, rights in windows.values()
        for left in lefts
        for right in rights
        if (left + right * 31) % PAIR_SAMPLE == 0
    )


WORKLOADS = {
    "connected": Workload(connected, connected_oracle),
    "broadcast": Workload(broadcast, broadcast_oracle),
    "interval": Workload(interval, interval_oracle),
    "interval_by_hand": Workload(interval_by_hand, interval_oracle),
    "window_join": Workload(window_join, window_join_oracle),
    "window_join_by_hand": Workload(window_join_by_hand, window_join_oracle),
}
