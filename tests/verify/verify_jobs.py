"""Three jobs whose results depend on nothing but their input, and what they are to give, worked out on plain lists.

Each uses much of what a checkpoint holds, and is so written that a record that is lost, repeated or seen in the wrong
state shows in what it gives.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from millstream.common import Duration, Encoder, Time, Types, WatermarkStrategy
from millstream.common.functions import CheckpointedFunction, FlatMapFunction
from millstream.common.output_tag import OutputTag
from millstream.common.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from millstream.common.watermark_strategy import TimestampAssigner, WatermarkGenerator
from millstream.config.configuration import Configuration
from millstream.datastream import StreamExecutionEnvironment
from millstream.datastream.connectors.file_system import FileSink, RollingPolicy
from millstream.datastream.functions import KeyedBroadcastProcessFunction, KeyedProcessFunction
from millstream.datastream.window import TumblingEventTimeWindows
from millstream.graph.launcher import JobLauncher, RunningJob, set_launcher_override
from millstream.verify.program import Program

BOUND_MS = 40
ENDINGS = 50
KEY_GROUPS = 12
RULES = MapStateDescriptor("rules", Types.INT(), Types.INT())
LATE = OutputTag("late")


class Captured(Exception):
    pass


class Capture(JobLauncher):
    """Takes a submission and runs nothing."""

    def launch(self, submission) -> RunningJob:
        self.submission = submission
        raise Captured


def captured(build, **options) -> Program:
    """Return the job that `build(environment)` builds."""
    # So few key groups that each has a key or two.
    configuration = Configuration.from_dict(
        {"execution.target": "local", "pipeline.max-parallelism": KEY_GROUPS, **options}
    )
    environment = StreamExecutionEnvironment.get_execution_environment(configuration)
    environment.set_parallelism(1)
    build(environment)
    capture = Capture()
    before = set_launcher_override(capture)
    try:
        environment.execute(build.__name__)
    except Captured:
        return Program(capture.submission)
    finally:
        set_launcher_override(before)
    raise AssertionError("nothing was submitted")


class Stamp(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


def file_sink(name, *, rolls=False):
    """Return a sink that finishes its files at each checkpoint, or keeps them open over many."""
    builder = FileSink.for_row_format(str(Path("/nowhere", name)), Encoder.simple_string_encoder())
    if rolls:
        builder = builder.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
    return builder.build()


def readings(count):
    """Return (key, time, number): time is out of order by less than the bound."""
    return [(f"k{n * 7 % 17}", n * 5 + (n * 37) % BOUND_MS, n) for n in range(count)]


def stamped(environment, records):
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(BOUND_MS))
    return environment.from_collection(records).assign_timestamps_and_watermarks(
        strategy.with_timestamp_assigner(Stamp())
    )


# Timers and windows


class Buckets(KeyedProcessFunction):
    """Sums by key and 100 ms; a timer emits each sum with all numbers of the bucket, and how often it came."""

    def open(self, runtime_context):
        self.sums = runtime_context.get_map_state(MapStateDescriptor("sums", Types.LONG(), Types.LONG()))
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.LONG()))
        self.fired = runtime_context.get_state(ValueStateDescriptor("fired", Types.LONG()))

    def process_element(self, value, ctx):
        end = (value[1] // 100 + 1) * 100
        self.sums.put(end, (self.sums.get(end) or 0) + value[2])
        self.seen.add(value[2])
        ctx.timer_service().register_event_time_timer(end)

    def on_timer(self, timestamp, ctx):
        number = (self.fired.value() or 0) + 1
        self.fired.update(number)
        yield f"{ctx.get_current_key()} {timestamp} {self.sums.get(timestamp)} {number}"
        self.sums.remove(timestamp)


def add(one, other):
    return one[0], max(one[1], other[1]), one[2] + other[2]


def timers_and_windows(environment, count=120):
    keyed = stamped(environment, readings(count)).key_by(lambda record: record[0])
    keyed.process(Buckets(), Types.STRING()).uid("buckets").sink_to(file_sink("buckets", rolls=True))
    keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(150))).reduce(add).map(
        str, Types.STRING()
    ).sink_to(file_sink("windows"))


def timers_and_windows_gives(count=120):
    sums, windows = Counter(), {}
    for record in readings(count):
        key, time, number = record
        sums[key, (time // 100 + 1) * 100] += number
        window = (key, time // 150)
        windows[window] = add(windows[window], record) if window in windows else record
    buckets, fired = [], Counter()
    for (key, end), total in sorted(sums.items()):
        fired[key] += 1
        buckets.append(f"{key} {end} {total} {fired[key]}")
    return [Counter(buckets), Counter(map(str, windows.values()))]


# Broadcast state, operator list state, union list state


class Held(FlatMapFunction, CheckpointedFunction):
    """Holds records back, a few in each subtask, until everybody has been told often enough that the end has come."""

    def initialize_state(self, context):
        store = context.get_operator_state_store()
        self.saved = store.get_list_state(ListStateDescriptor("held", Types.PICKLED_BYTE_ARRAY()))
        self.saved_end = store.get_union_list_state(ListStateDescriptor("end", Types.LONG()))
        self.held = list(self.saved.get())
        self.told = max(self.saved_end.get(), default=0)

    def snapshot_state(self, context):
        self.saved.update(self.held)
        self.saved_end.update([self.told])

    def flat_map(self, value):
        if value is None:
            self.told += 1
        else:
            self.held.append(value)
        if self.told == ENDINGS or len(self.held) > 4:
            released, self.held = self.held, []
            yield from released


class Priced(KeyedBroadcastProcessFunction):
    """Multiplies numbers by the rule of their class, at the end of time, when all rules have come."""

    def open(self, runtime_context):
        self.numbers = runtime_context.get_list_state(ListStateDescriptor("numbers", Types.LONG()))

    def process_element(self, value, ctx):
        self.numbers.add(value[2])
        ctx.timer_service().register_event_time_timer(10**9)

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put(value[0], value[2])

    def on_timer(self, timestamp, ctx):
        rules = ctx.get_broadcast_state(RULES)
        for number in self.numbers.get():
            yield f"{ctx.get_current_key()} {number} {rules.get(number % 3)}"


def rules_and_lists(environment, count=90):
    rules = stamped(environment, [(kind, 0, 10 + kind) for kind in range(3)])
    records = stamped(environment, readings(count))
    ends = environment.from_collection([None] * ENDINGS)
    records.key_by(lambda record: record[0]).connect(rules.broadcast(RULES)).process(
        Priced(), Types.STRING()
    ).sink_to(file_sink("priced"))
    records.map(lambda record: record).rebalance().union(ends.broadcast()).flat_map(Held()).map(
        str, Types.STRING()
    ).sink_to(file_sink("held", rolls=True))


def rules_and_lists_gives(count=90):
    records = readings(count)
    priced = Counter(f"{key} {number} {10 + number % 3}" for key, _, number in records)
    return [priced, Counter(map(str, records))]


# A parallel source, keyed state without timers, late records, print


def key_of(number):
    """Return a key: one is in every epoch, the others now and then, so that deltas are small and many."""
    return 0 if number % 2 else 1 + number % 74


def totals(count):
    return Counter(map(key_of, range(count)))


class FirstAndCount(KeyedProcessFunction):
    """Drops repeated numbers, tells when a key is complete; both would show a record that came twice."""

    def __init__(self, count):
        self.count = count

    def open(self, runtime_context):
        self.seen = runtime_context.get_map_state(MapStateDescriptor("seen", Types.LONG(), Types.LONG()))
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value, ctx):
        repeated = self.seen.contains(value)
        self.seen.put(value, 1)
        total = (self.total.value() or 0) + 1
        self.total.update(total)
        yield f"{value} {repeated}"
        if total == totals(self.count)[key_of(value)]:
            yield f"key {key_of(value)} has {total}"


def parallel_numbers(environment, count=160):
    numbers = environment.from_source(
        sequence(count), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG()
    )
    counted = numbers.key_by(key_of).process(FirstAndCount(count), Types.STRING())
    counted.sink_to(file_sink("numbers", rolls=True))
    counted.print("seen")
    counted.filter(lambda text: text.startswith("key")).sink_to(file_sink("keys"))


def sequence(count):
    from millstream.datastream.connectors.number_seq import NumberSequenceSource

    return NumberSequenceSource(0, count - 1)


def parallel_numbers_gives(count=160):
    keys = Counter(f"key {key} has {total}" for key, total in totals(count).items())
    lines = Counter(f"{number} False" for number in range(count)) + keys
    return [lines, lines, keys]


# What is late: the watermark follows each record, so it does not depend on where epochs end


class AtOnce(WatermarkGenerator):
    """Emits a watermark behind each record that is later than all before."""

    def on_event(self, value, timestamp_ms, output):
        output.emit_watermark(timestamp_ms)

    def on_periodic_emit(self, output):
        pass


class AtOnceStrategy:
    def __call__(self):
        return AtOnce()


def mixed(count):
    """Return records in order, each but the first followed by one that is late."""
    on_time = [(f"k{n % 5}", 20_000 + n * 7, n) for n in range(count)]
    late = [(key, time - 10_000, -number) for key, time, number in on_time]
    return on_time[:1] + [record for pair in zip(on_time[1:], late[1:], strict=True) for record in pair]


class Punctual(KeyedProcessFunction):
    """Tells of each record whether it is late."""

    def process_element(self, value, ctx):
        yield f"{value} {value[1] <= ctx.timer_service().current_watermark()}"


def late_records(environment, count=60):
    strategy = WatermarkStrategy.for_generator(AtOnceStrategy()).with_timestamp_assigner(Stamp())
    keyed = (
        environment.from_collection(mixed(count))
        .assign_timestamps_and_watermarks(strategy)
        .key_by(lambda record: record[0])
    )
    keyed.process(Punctual(), Types.STRING()).sink_to(file_sink("punctual", rolls=True))
    windowed = (
        keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(100)))
        .side_output_late_data(LATE)
        .reduce(add)
    )
    windowed.map(str, Types.STRING()).sink_to(file_sink("windows"))
    windowed.get_side_output(LATE).map(str, Types.STRING()).sink_to(file_sink("late", rolls=True))


def late_records_gives(count=60):
    windows = {}
    for record in mixed(count):
        if record[1] >= 20_000:
            window = (record[0], record[1] // 100)
            windows[window] = add(windows[window], record) if window in windows else record
    return [
        Counter(f"{record} {record[1] < 20_000}" for record in mixed(count)),
        Counter(map(str, windows.values())),
        Counter(str(record) for record in mixed(count) if record[1] < 20_000),
    ]


JOBS = {
    "timers and windows": (timers_and_windows, timers_and_windows_gives),
    "rules and lists": (rules_and_lists, rules_and_lists_gives),
    "parallel numbers": (parallel_numbers, parallel_numbers_gives),
}
