"""What is read from a savepoint is what plain Python computes of the same records."""

from __future__ import annotations

import pytest

from millstream.base.errors import CheckpointDamagedError, CheckpointStorageError, ConfigurationError
from millstream.base.time import Time
from millstream.common.functions import CheckpointedFunction
from millstream.common.windows import CountWindow, TimeWindow
from millstream.datastream import KeyedProcessFunction, MapFunction
from millstream.datastream.expressions import count, sum_
from millstream.datastream.functions import (
    AggregateFunction,
    BroadcastProcessFunction,
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
    CountTrigger,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from millstream.state_processor import SavepointReader, Timer, WindowStart
from millstream.types.row import Row

RECORDS = [(f"k{n % 7}", n * n % 11, n) for n in range(200)]


class Mean(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, a, b):
        return a[0] + b[0], a[1] + b[1]


class EveryState(KeyedProcessFunction):
    def open(self, runtime_context):
        timed = ListStateDescriptor("timed")
        timed.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
        self.last = runtime_context.get_state(ValueStateDescriptor("last"))
        self.all = runtime_context.get_list_state(ListStateDescriptor("all"))
        self.timed = runtime_context.get_list_state(timed)
        self.counts = runtime_context.get_map_state(MapStateDescriptor("counts"))
        self.sum = runtime_context.get_reducing_state(ReducingStateDescriptor("sum", lambda a, b: a + b))
        self.mean = runtime_context.get_aggregating_state(AggregatingStateDescriptor("mean", Mean()))

    def process_element(self, value, ctx):
        _, number, time_ms = value
        self.last.update(number)
        self.all.add(number)
        self.timed.add(time_ms)
        self.counts.put(number, (self.counts.get(number) or 0) + 1)
        self.sum.add(number)
        self.mean.add(number)
        ctx.timer_service().register_event_time_timer(10_000 + time_ms // 50)


def by_key(records=RECORDS):
    groups = {}
    for key, number, time_ms in records:
        groups.setdefault(key, []).append((number, time_ms))
    return groups


def counted(numbers):
    return {number: numbers.count(number) for number in numbers}


EXPECTED = {
    "last": {key: rows[-1][0] for key, rows in by_key().items()},
    "all": {key: [number for number, _ in rows] for key, rows in by_key().items()},
    "timed": {key: [time_ms for _, time_ms in rows] for key, rows in by_key().items()},
    "counts": {key: counted([number for number, _ in rows]) for key, rows in by_key().items()},
    "sum": {key: sum(number for number, _ in rows) for key, rows in by_key().items()},
    "mean": {key: (sum(number for number, _ in rows), len(rows)) for key, rows in by_key().items()},
}


def every_state(stream):
    stream.key_by(lambda r: r[0]).process(EveryState()).uid("states").name("All of them")


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_keyed_state_and_timers_of_a_job_are_those_of_plain_python(savepoint_of, parallelism, backend):
    path = savepoint_of(every_state, RECORDS, parallelism=parallelism, part=30, state__backend__type=backend)
    reader = SavepointReader.read(path)
    for name, expected in EXPECTED.items():
        entries = list(reader.keyed_state("states", name))
        assert {key: value for key, _, value in entries} == expected, name
        assert len(entries) == len(expected)
        assert {namespace for _, namespace, _ in entries} == {None}
    due = {(key, 10_000 + time_ms // 50) for key, rows in by_key().items() for _, time_ms in rows}
    assert set(reader.timers("states")) == {Timer(key, None, time_ms, True) for key, time_ms in due}
    infos = {info.name: info for info in reader.states("states")}
    assert set(infos) == set(EXPECTED)
    assert infos["timed"].kind == "list state with a time to live"
    assert {(info.keys, info.entries) for info in infos.values()} == {(7, 7)}
    assert reader.source_positions("records") == 200
    assert set(reader.watermarks("states").values()) == {198}


def test_changes_to_earlier_checkpoints_are_applied(environment, waiting_job, tmp_path):
    env = environment(
        2,
        execution__checkpointing__interval="1 ms",
        execution__checkpointing__dir=str(tmp_path / "checkpoints"),
        execution__checkpointing__incremental=True,
    )
    client = waiting_job(env, every_state, RECORDS, part=20)
    job = tmp_path / "checkpoints" / str(client.get_job_id())
    reader = SavepointReader.read(str(job))
    assert any(file.is_delta for file in reader.saved.manifest.state)
    position = reader.source_positions("records")
    seen = by_key(RECORDS[:position])
    assert position > 0
    assert {key: value for key, _, value in reader.keyed_state("states", "all")} == {
        key: [number for number, _ in rows] for key, rows in seen.items()
    }


def test_an_operator_is_found_by_uid_id_and_name(savepoint_of):
    reader = SavepointReader.read(savepoint_of(every_state, RECORDS[:3]))
    operator = reader.operator("states")
    assert operator.uid == "states"
    assert reader.operator(operator.operator_id) == reader.operator("All of them") == operator
    assert operator.size_bytes > 0
    with pytest.raises(ConfigurationError, match='has no operator with uid "other"') as caught:
        reader.operator("other")
    assert '"records", "states"' in caught.value.detail
    with pytest.raises(ConfigurationError, match='has no keyed state "firsts"') as caught:
        reader.keyed_state("states", "firsts")
    assert '"last" (value state)' in caught.value.detail
    with pytest.raises(ConfigurationError, match="no keyed state"):
        reader.keyed_state("states", "window-contents")
    with pytest.raises(ConfigurationError, match="no operator state"):
        reader.operator_state("states", "last")


class Kept(MapFunction, CheckpointedFunction):
    def initialize_state(self, context):
        store = context.get_operator_state_store()
        self.dealt = store.get_list_state(ListStateDescriptor("dealt"))
        self.union = store.get_union_list_state(ListStateDescriptor("union"))

    def snapshot_state(self, context):
        return None

    def map(self, value):
        self.dealt.add(value[1])
        self.union.add(value[0])
        return value


@pytest.mark.parametrize("parallelism", [1, 2])
def test_operator_state_is_read_by_subtask(savepoint_of, parallelism):
    path = savepoint_of(
        lambda stream: stream.rebalance().map(Kept()).uid("kept"), RECORDS[:20], parallelism=parallelism
    )
    reader = SavepointReader.read(path)
    dealt, union = reader.operator_state("kept", "dealt"), reader.operator_state("kept", "union")
    assert (dealt.mode, union.mode) == ("list", "union list")
    assert sorted(dealt.elements) == sorted(number for _, number, _ in RECORDS[:20])
    assert sorted(union.elements) == sorted(key for key, _, _ in RECORDS[:20])
    assert len(dealt.parts) == parallelism
    assert all(len(part) == 20 // parallelism for part in dealt.parts.values())


RULES = MapStateDescriptor("rules")


class Rules(BroadcastProcessFunction):
    def process_element(self, value, ctx):
        return None

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put(value[0], value[1])


def test_broadcast_state_is_one_map(savepoint_of):
    def build(stream):
        stream.connect(stream.broadcast(RULES)).process(Rules()).uid("rules")

    reader = SavepointReader.read(savepoint_of(build, RECORDS[:20], parallelism=2))
    rules = reader.operator_state("rules", "rules")
    assert (rules.mode, set(rules.parts)) == ("broadcast", {0, 1})
    assert rules.elements == {key: number for key, number, _ in RECORDS[:20]}


def summing(stream, windows):
    windows(stream.key_by(lambda r: r[0])).reduce(lambda a, b: (a[0], a[1] + b[1], b[2])).uid("windows")


def window_sums(reader):
    return {
        (key, namespace): value[1]
        for key, namespace, value in reader.keyed_state("windows", "window-contents")
    }


def open_window_sums(windows_of, to_namespace, watermark):
    sums = {}
    for key, number, time_ms in RECORDS:
        for start, end in windows_of(time_ms):
            if end - 1 > watermark:
                name = (key, to_namespace(start, end))
                sums[name] = sums.get(name, 0) + number
    return sums


def test_contents_of_tumbling_windows_are_found_by_start(savepoint_of):
    path = savepoint_of(
        lambda stream: summing(
            stream, lambda keyed: keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(150)))
        ),
        RECORDS,
        parallelism=2,
    )
    expected = open_window_sums(
        lambda t: [(t // 150 * 150, t // 150 * 150 + 150)], lambda start, _: WindowStart(start), 198
    )
    assert window_sums(SavepointReader.read(path)) == expected


def by_name(stream):
    return stream.map(lambda record: Row(k=record[0], n=record[1])).key_by("k")


def test_contents_of_windows_by_expression_are_found_by_start(savepoint_of):
    path = savepoint_of(
        lambda stream: (
            by_name(stream)
            .window(TumblingEventTimeWindows.of(Time.milliseconds(150)))
            .aggregate(total=sum_("n"), records=count())
            .uid("windows")
        ),
        RECORDS,
        parallelism=2,
    )
    expected = open_window_sums(
        lambda t: [(t // 150 * 150, t // 150 * 150 + 150)], lambda start, _: WindowStart(start), 198
    )
    found = SavepointReader.read(path).keyed_state("windows", "window-contents")
    assert {(key, window): entry[0] for key, window, entry in found} == expected


def test_sessions_by_expression_are_found_by_their_bounds(savepoint_of):
    gap = 3
    path = savepoint_of(
        lambda stream: (
            by_name(stream)
            .window(EventTimeSessionWindows.with_gap(Time.milliseconds(gap)))
            .aggregate(total=sum_("n"), records=count())
            .uid("windows")
        ),
        RECORDS,
        parallelism=2,
    )
    expected: dict = {}
    for key, number, time_ms in sorted(RECORDS, key=lambda record: record[2]):
        sessions = expected.setdefault(key, [])
        if sessions and time_ms <= sessions[-1][1]:
            start, _, total, records = sessions[-1]
            sessions[-1] = (start, time_ms + gap, total + number, records + 1)
        else:
            sessions.append((time_ms, time_ms + gap, number, 1))
    found = SavepointReader.read(path).keyed_state("windows", "window-contents")
    assert {(key, window): entry for key, window, entry in found} == {
        (key, TimeWindow(start, end)): (total, records)
        for key, sessions in expected.items()
        for start, end, total, records in sessions
        if end - 1 > 198
    }


def test_count_windows_by_expression_are_found_by_their_number(savepoint_of):
    path = savepoint_of(
        lambda stream: (
            by_name(stream).count_window(12).aggregate(total=sum_("n"), records=count()).uid("windows")
        ),
        RECORDS,
        parallelism=1,  # of several senders it is not known whose record comes first
    )
    numbers: dict = {}
    for key, number, _ in RECORDS:
        numbers.setdefault(key, []).append(number)
    found = SavepointReader.read(path).keyed_state("windows", "window-contents")
    assert {key: (window, entry) for key, window, entry in found} == {
        key: (CountWindow(len(held) // 12), (sum(held[len(held) // 12 * 12 :]), len(held) % 12))
        for key, held in numbers.items()
        if len(held) % 12
    }


def test_running_aggregates_by_expression_are_found_by_key(savepoint_of):
    path = savepoint_of(
        lambda stream: by_name(stream).aggregate(total=sum_("n"), records=count()).uid("sums"),
        RECORDS,
        parallelism=2,
    )
    expected: dict = {}
    for key, number, _ in RECORDS:
        total, records = expected.get(key, (0, 0))
        expected[key] = total + number, records + 1
    found = SavepointReader.read(path).keyed_state("sums", "aggregates")
    assert {key: entry for key, _, entry in found} == expected


def test_contents_of_windows_with_a_trigger_of_their_own_are_found_by_window(savepoint_of):
    # Windows that the trigger has not emptied: it fires after 1000 records, which do not come.
    path = savepoint_of(
        lambda stream: summing(
            stream,
            lambda keyed: keyed.window(
                SlidingEventTimeWindows.of(Time.milliseconds(100), Time.milliseconds(50))
            ).trigger(CountTrigger.of(1_000)),
        ),
        RECORDS,
    )
    reader = SavepointReader.read(path)
    expected = open_window_sums(
        lambda t: [(s, s + 100) for s in (t // 50 * 50, t // 50 * 50 - 50)], TimeWindow, 198
    )
    assert window_sums(reader) == expected
    ends = {(timer.key, timer.namespace, timer.timestamp_ms) for timer in reader.timers("windows")}
    assert ends == {(key, window, window.end - 1) for key, window in expected}


def test_contents_of_sessions_are_found_by_window(savepoint_of):
    records = [("a", 1, 0), ("a", 2, 5), ("b", 4, 6), ("a", 8, 30), ("b", 16, 31)]
    path = savepoint_of(
        lambda stream: summing(
            stream, lambda keyed: keyed.window(EventTimeSessionWindows.with_gap(Time.milliseconds(10)))
        ),
        records,
    )
    # The watermark is at 30: the first session of each key is over.
    assert window_sums(SavepointReader.read(path)) == {
        ("a", TimeWindow(30, 40)): 8,
        ("b", TimeWindow(31, 41)): 16,
    }


def test_windows_that_have_merged_go_by_their_own_name(savepoint_of):
    def build(stream):
        windows = stream.key_by(lambda r: r[0]).window(
            EventTimeSessionWindows.with_gap(Time.milliseconds(10))
        )
        windows.trigger(CountTrigger.of(1_000)).reduce(lambda a, b: (a[0], a[1] + b[1], b[2])).uid("windows")

    path = savepoint_of(build, [("a", 1, 0), ("a", 2, 5), ("b", 4, 5), ("a", 8, 8)])
    assert window_sums(SavepointReader.read(path)) == {
        ("a", TimeWindow(0, 18)): 11,
        ("b", TimeWindow(5, 15)): 4,
    }


def test_contents_of_count_windows_are_numbered(savepoint_of):
    path = savepoint_of(lambda stream: summing(stream, lambda keyed: keyed.count_window(3)), RECORDS[:5] * 4)
    # The fourth record of a key is the first of its second window.
    assert window_sums(SavepointReader.read(path)) == {
        (key, CountWindow(1)): number for key, number, _ in RECORDS[:5]
    }


class Pairs(ProcessJoinFunction):
    def process_element(self, left, right, ctx):
        yield left, right


def test_buffers_of_an_interval_join_are_read(savepoint_of):
    def build(stream):
        keyed = stream.key_by(lambda r: r[0])
        other = stream.map(lambda r: r).key_by(lambda r: r[0])
        keyed.interval_join(other).between(Time.milliseconds(-5), Time.milliseconds(20)).process(Pairs()).uid(
            "join"
        )

    reader = SavepointReader.read(savepoint_of(build, RECORDS))
    for name in ("join-left", "join-right"):
        kept = [
            (time_ms, record)
            for _, _, buffer in reader.keyed_state("join", name)
            for time_ms, record in buffer
        ]
        assert kept
        assert all(record in RECORDS and record[2] == time_ms for time_ms, record in kept)
    left = {record for _, _, buffer in reader.keyed_state("join", "join-left") for _, record in buffer}
    assert left >= {record for record in RECORDS if record[2] >= 198 - 20 + 1}


def test_a_damaged_file_is_named(savepoint_of, tmp_path):
    path = savepoint_of(every_state, RECORDS)
    reader = SavepointReader.read(path)
    name = reader.saved.manifest.state[0].file.path
    file = tmp_path.joinpath("savepoints", path.rpartition("/")[2], name)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(CheckpointDamagedError) as caught:
        SavepointReader.read(path)
    assert name in str(caught.value)


def test_where_there_is_nothing_the_error_says_so(tmp_path):
    with pytest.raises(CheckpointStorageError, match="there is no checkpoint or savepoint"):
        SavepointReader.read(str(tmp_path))
