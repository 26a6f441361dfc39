"""Programs whose results do not depend on parallelism, epochs or failures: one for each kind of operator.

Records are tuples (key, time, value). Every program has taps (`recovery_support.Tap`) on its inputs and its results.
"""

from __future__ import annotations

import asyncio

from recovery_support import Tap

from millstream.base.time import Time
from millstream.common import Duration, Types, WatermarkStrategy
from millstream.common.functions import CheckpointedFunction
from millstream.common.watermark_strategy import TimestampAssigner
from millstream.datastream import (
    AggregateFunction,
    AsyncDataStream,
    AsyncFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    ProcessWindowFunction,
    ReduceFunction,
)
from millstream.datastream.connectors.number_seq import NumberSequenceSource
from millstream.datastream.functions import (
    JoinFunction,
    KeyedBroadcastProcessFunction,
    ProcessAllWindowFunction,
    ProcessJoinFunction,
)
from millstream.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from millstream.datastream.window import (
    CountEvictor,
    CountTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TimeEvictor,
    TumblingEventTimeWindows,
)

KEYS = "abcdefg"
RECORDS = [(KEYS[n * n % 7], n * 10 + (n * 37) % 50, n * 13 % 31) for n in range(60)]
OTHERS = [(KEYS[n * 3 % 7], n * 15 + (n * 11) % 50, n * 7 % 29) for n in range(40)]
SIDE = OutputTag("side")


class Stamp(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


STRATEGY = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(100)).with_timestamp_assigner(
    Stamp()
)


def key_of(record):
    return record[0]


def plain(env, records=RECORDS, uid="records"):
    return env.from_collection(records).uid(uid).map(Tap()).uid(f"{uid} tap").set_parallelism(1)


def stamped(env, records=RECORDS, uid="records"):
    stream = plain(env, records, uid).assign_timestamps_and_watermarks(STRATEGY)
    return stream.uid(f"{uid} time").set_parallelism(1)


def keyed(env, records=RECORDS, uid="records"):
    return stamped(env, records, uid).key_by(key_of)


def tapped(stream):
    return stream.map(Tap())


# Keyed state


class Larger(ReduceFunction):
    def reduce(self, value1, value2):
        return max(value1, value2)


class Mean(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + 1, accumulator[1] + value

    def get_result(self, accumulator):
        return accumulator[1] // accumulator[0]

    def merge(self, acc_a, acc_b):
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class EveryState(KeyedProcessFunction):
    def __init__(self, ttl=False):
        self.ttl = ttl

    def open(self, runtime_context):
        descriptors = [
            ValueStateDescriptor("count"),
            ListStateDescriptor("values"),
            MapStateDescriptor("by parity"),
            ReducingStateDescriptor("largest", Larger(), Types.INT()),
            AggregatingStateDescriptor("mean", Mean(), Types.PICKLED_BYTE_ARRAY()),
        ]
        if self.ttl:
            for descriptor in descriptors:
                descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
        self.count = runtime_context.get_state(descriptors[0])
        self.values = runtime_context.get_list_state(descriptors[1])
        self.by_parity = runtime_context.get_map_state(descriptors[2])
        self.largest = runtime_context.get_reducing_state(descriptors[3])
        self.mean = runtime_context.get_aggregating_state(descriptors[4])

    def process_element(self, value, ctx):
        number = value[2]
        self.count.update((self.count.value() or 0) + 1)
        self.values.add(number)
        self.by_parity.put(number % 2, (self.by_parity.get(number % 2) or 0) + number)
        self.largest.add(number)
        self.mean.add(number)
        yield (
            value[0],
            self.count.value(),
            list(self.values.get()),
            sorted(self.by_parity.items()),
            self.largest.get(),
            self.mean.get(),
        )
        if self.count.value() % 5 == 0:
            for state in (self.values, self.by_parity, self.largest, self.mean):
                state.clear()


def every_state(env):
    return tapped(keyed(env).process(EveryState()).uid("states"))


def every_state_with_ttl(env):
    return tapped(keyed(env).process(EveryState(ttl=True)).uid("states"))


class ByTimer(KeyedProcessFunction):
    """Sums what came until each event-time timer; a timer in three is deleted again."""

    def open(self, runtime_context):
        self.by_time = runtime_context.get_map_state(MapStateDescriptor("by time"))

    def process_element(self, value, ctx):
        self.by_time.put(value[1], value[2] + (self.by_time.get(value[1]) or 0))
        ctx.timer_service().register_event_time_timer(value[1] + 70)
        if value[2] % 3 == 0:
            ctx.timer_service().register_event_time_timer(value[1] + 71)
            ctx.timer_service().delete_event_time_timer(value[1] + 71)
        return []

    def on_timer(self, timestamp, ctx):
        due = [time for time in self.by_time.keys() if time <= timestamp]  # noqa: SIM118
        yield ctx.get_current_key(), timestamp, sum(self.by_time.get(time) for time in due)


def event_timers(env):
    return tapped(keyed(env).process(ByTimer()).uid("timers"))


class Remind(KeyedProcessFunction):
    """Sets a processing-time timer at the first record of each key, far enough from the end for it to fire."""

    def open(self, runtime_context):
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen"))

    def process_element(self, value, ctx):
        if self.seen.value() is None:
            timers = ctx.timer_service()
            timers.register_processing_time_timer(timers.current_processing_time() + 3)
            self.seen.update(True)
        return []

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), "reminded"


def processing_timers(env):
    return tapped(plain(env).key_by(key_of).process(Remind()).uid("timers"))


def rolling(env):
    by_key = keyed(env)
    sums = by_key.sum(2).uid("sum").map(lambda record: ("sum", *record))
    most = by_key.max_by(2).uid("most").map(lambda record: ("most", *record))
    joined = by_key.reduce(lambda a, b: (a[0], b[1], a[2] * 2 + b[2])).uid("reduce")
    return tapped(sums.union(most, joined.map(lambda record: ("reduce", *record))))


class EveryKey(KeyedProcessFunction):
    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value, ctx):
        self.total.update((self.total.value() or 0) * 2 + value[2])
        ctx.timer_service().register_event_time_timer(value[1] + 100)
        yield "key", repr(ctx.get_current_key()), self.total.value()

    def on_timer(self, timestamp, ctx):
        yield "timer", repr(ctx.get_current_key()), timestamp, self.total.value() is None


class ListingByName(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield "window", repr(key), context.window().start, sorted(elements)


def keys_of_every_kind(env):
    kinds = {
        "a": [1, 2],
        "b": float("nan"),
        "c": 1,
        "d": 1.0,
        "e": True,
        "f": {"x": {1, 2}},
        "g": (1, [True]),
    }
    by_key = stamped(env).key_by(
        lambda record: kinds[record[0]] * 1 if record[0] == "b" else kinds[record[0]]
    )
    totals = by_key.process(EveryKey()).uid("totals")
    reduced = by_key.reduce(lambda a, b: (a[0], b[1], a[2] * 2 + b[2])).uid("reduced")
    windows = (
        by_key.window(TumblingEventTimeWindows.of(Time.milliseconds(100)))
        .process(ListingByName())
        .uid("windows")
    )
    return tapped(totals.union(reduced, windows))


# Windows


class Listing(ProcessWindowFunction):
    def process(self, key, context, elements):
        window = context.window()
        yield key, getattr(window, "start", None), sorted(elements)

    def clear(self, context):
        pass


class Ordered(Listing):
    def process(self, key, context, elements):
        yield key, list(elements)


class Visits(ProcessWindowFunction):
    """Counts firings in the window's state, and windows in the key's."""

    def process(self, key, context, elements):
        here = context.window_state().get_state(ValueStateDescriptor("firings"))
        here.update((here.value() or 0) + 1)
        everywhere = context.global_state().get_state(ValueStateDescriptor("sum"))
        everywhere.update((everywhere.value() or 0) + sum(value for _, _, value in elements))
        yield key, context.window().start, here.value(), everywhere.value()

    def clear(self, context):
        context.window_state().get_state(ValueStateDescriptor("firings")).clear()


class Totals(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + 1, accumulator[1] + value[2]

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Named(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key, context.window().start, next(iter(elements))

    def clear(self, context):
        pass


def tumbling(env):
    windows = keyed(env).window(TumblingEventTimeWindows.of(Time.milliseconds(100)))
    totals = windows.aggregate(Totals(), window_function=Named()).uid("totals")
    lists = windows.process(Listing()).uid("lists")
    visits = windows.process(Visits()).uid("visits")
    return tapped(totals.union(lists, visits))


def sliding(env):
    windows = keyed(env).window(SlidingEventTimeWindows.of(Time.milliseconds(90), Time.milliseconds(30)))
    totals = windows.aggregate(Totals(), window_function=Named()).uid("totals")
    lists = windows.process(Listing()).uid("lists")
    return tapped(totals.union(lists))


def sessions(env):
    windows = keyed(env).window(EventTimeSessionWindows.with_gap(Time.milliseconds(40)))
    totals = windows.aggregate(Totals(), window_function=Named()).uid("totals")
    lists = windows.process(Listing()).uid("lists")
    return tapped(totals.union(lists))


def count_windows(env):
    by_key = plain(env).key_by(key_of)
    tumbling = by_key.count_window(3).process(Ordered()).uid("tumbling")
    sliding = by_key.count_window(4, 2).process(Ordered()).uid("sliding")
    return tapped(tumbling.union(sliding))


def triggers_and_evictors(env):
    by_key = keyed(env)
    fired = by_key.window(GlobalWindows.create()).trigger(CountTrigger.of(3)).evictor(CountEvictor.of(2))
    purged = by_key.window(GlobalWindows.create()).trigger(PurgingTrigger.of(CountTrigger.of(4)))
    timed = by_key.window(TumblingEventTimeWindows.of(Time.milliseconds(200))).evictor(
        TimeEvictor.of(Time.milliseconds(50))
    )
    return tapped(
        fired.process(Ordered())
        .uid("fired")
        .union(purged.process(Ordered()).uid("purged"), timed.process(Listing()).uid("timed"))
    )


class AllListing(ProcessAllWindowFunction):
    def process(self, context, elements):
        yield context.window().start, sorted(elements)

    def clear(self, context):
        pass


def windows_over_all(env):
    windows = stamped(env).window_all(TumblingEventTimeWindows.of(Time.milliseconds(150)))
    return tapped(windows.process(AllListing()).uid("all"))


# Two inputs


class Difference(KeyedCoProcessFunction):
    def open(self, runtime_context):
        self.by_time = runtime_context.get_map_state(MapStateDescriptor("by time"))

    def process_element1(self, value, ctx):
        return self.add(value, value[2], ctx)

    def process_element2(self, value, ctx):
        return self.add(value, -2 * value[2], ctx)

    def add(self, value, number, ctx):
        self.by_time.put(value[1], (self.by_time.get(value[1]) or 0) + number)
        ctx.timer_service().register_event_time_timer(value[1] + 30)
        return []

    def on_timer(self, timestamp, ctx):
        yield (
            ctx.get_current_key(),
            timestamp,
            sum(number for time, number in self.by_time.items() if time <= timestamp),
        )


def connected(env):
    both = keyed(env).connect(keyed(env, OTHERS, "others"))
    return tapped(both.process(Difference()).uid("difference"))


RULES = MapStateDescriptor("rules")


class Rules(KeyedBroadcastProcessFunction):
    """Keeps records in keyed state and rules in broadcast state; at the end each key's sum by rule is told."""

    def open(self, runtime_context):
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum"))

    def process_element(self, value, ctx):
        self.sum.update((self.sum.value() or 0) + value[2])
        ctx.timer_service().register_event_time_timer(1_000_000)
        return []

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put(value[0], value[1])
        return []

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), self.sum.value(), sorted(ctx.get_broadcast_state(RULES).items())


def broadcast(env):
    rules = stamped(env, [(f"rule {n % 5}", n * 30, n) for n in range(20)], "rules").broadcast(RULES)
    return tapped(keyed(env).connect(rules).process(Rules()).uid("rules applied"))


class Pair(ProcessJoinFunction):
    def process_element(self, left, right, ctx):
        yield left, right


def interval_join(env):
    joined = keyed(env).interval_join(keyed(env, OTHERS, "others"))
    between = joined.between(Time.milliseconds(-60), Time.milliseconds(60))
    return tapped(between.process(Pair()).uid("pairs"))


class Both(JoinFunction):
    def join(self, first, second):
        return first, second


def window_join(env):
    joined = stamped(env).join(stamped(env, OTHERS, "others")).where(key_of).equal_to(key_of)
    windows = joined.window(TumblingEventTimeWindows.of(Time.milliseconds(120)))
    return tapped(windows.apply(Both()))


# The rest


def iteration(env):
    loop = plain(env).map(lambda record: (record[0], record[2])).uid("shape").iterate()
    less = loop.map(lambda record: (record[0], record[1] - 7)).map(Tap())
    loop.close_with(less.filter(lambda record: record[1] > 0))
    return tapped(less.filter(lambda record: record[1] <= 0))


class Ask(AsyncFunction):
    async def async_invoke(self, value):
        await asyncio.sleep(0)
        return [(*value, "answered")]


def async_io(env):
    ordered = AsyncDataStream.ordered_wait(plain(env), Ask(), Time.seconds(60), 3)
    unordered = AsyncDataStream.unordered_wait(plain(env, OTHERS, "others"), Ask(), Time.seconds(60), 3)
    return tapped(ordered.uid("ordered").union(unordered.uid("unordered")))


class Buffering(ProcessFunction, CheckpointedFunction):
    """Holds records back by sevens; knows from union state whether any subtask ever held some."""

    def initialize_state(self, context):
        store = context.get_operator_state_store()
        self.saved = store.get_list_state(ListStateDescriptor("buffer"))
        self.held = store.get_union_list_state(ListStateDescriptor("held"))
        self.buffer = list(self.saved.get())

    def snapshot_state(self, context):
        self.saved.update(self.buffer)
        self.held.update([len(self.buffer)])

    def process_element(self, value, ctx):
        self.buffer.append(value)
        if value[2] % 4 == 0 or value == RECORDS[-1]:
            yield from self.buffer
            self.buffer.clear()


def operator_state(env):
    return tapped(plain(env).process(Buffering()).set_parallelism(1).uid("buffer"))


class Numbers(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield value % 7, self.count.value()


def number_sequence(env):
    numbers = env.from_source(NumberSequenceSource(1, 100), WatermarkStrategy.no_watermarks(), "numbers")
    by_key = numbers.uid("numbers").map(Tap()).key_by(lambda number: number % 7)
    return tapped(by_key.process(Numbers()).uid("count"))


class Sides(ProcessFunction):
    def process_element(self, value, ctx):
        yield (SIDE, value) if value[2] % 2 else value


def side_outputs(env):
    main = stamped(env).process(Sides())
    windows = TumblingEventTimeWindows.of(Time.milliseconds(100))
    odd = main.get_side_output(SIDE).key_by(key_of).window(windows).process(Listing()).uid("odd")
    return tapped(main.union(odd))


def union_of_sources(env):
    united = stamped(env).union(stamped(env, OTHERS, "others"), stamped(env, OTHERS[::-1][-20:], "more"))
    windows = TumblingEventTimeWindows.of(Time.seconds(10))
    return tapped(united.key_by(key_of).window(windows).process(Listing()).uid("lists"))


def rebalanced(env):
    """Event time through exchanges of both kinds, more than one level deep."""
    spread = stamped(env).rebalance().map(lambda record: (record[2] % 5, record[1], record[2]))
    windows = TumblingEventTimeWindows.of(Time.milliseconds(100))
    first = spread.key_by(key_of).window(windows).reduce(lambda a, b: (a[0], a[1], a[2] + b[2])).uid("first")
    second = first.key_by(lambda record: 0).window(TumblingEventTimeWindows.of(Time.milliseconds(300)))
    return tapped(second.process(Sum()).uid("second"))


class Sum(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield context.window().start, sum(value for _, _, value in elements)

    def clear(self, context):
        pass


PROGRAMS = {
    build.__name__: build
    for build in (
        every_state,
        every_state_with_ttl,
        event_timers,
        processing_timers,
        rolling,
        keys_of_every_kind,
        tumbling,
        sliding,
        sessions,
        count_windows,
        triggers_and_evictors,
        windows_over_all,
        connected,
        broadcast,
        interval_join,
        window_join,
        iteration,
        async_io,
        operator_state,
        number_sequence,
        side_outputs,
        union_of_sources,
        rebalanced,
    )
}
