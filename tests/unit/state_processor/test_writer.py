"""A job goes on from a savepoint that was written by hand as if it had come to that state by itself."""

from __future__ import annotations

from dataclasses import dataclass

import pandas
import pytest

from millstream.base.errors import ConfigurationError, StateIncompatibleError
from millstream.base.time import Time
from millstream.common import Row
from millstream.common.functions import CheckpointedFunction
from millstream.datastream import KeyedProcessFunction, MapFunction
from millstream.datastream.functions import KeyedBroadcastProcessFunction
from millstream.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from millstream.state_processor import (
    BroadcastBootstrap,
    KeyedBootstrap,
    ListBootstrap,
    SavepointReader,
    SavepointWriter,
    Timer,
)

HISTORY = [(f"k{n % 11}", n) for n in range(100)]
NEW = [(f"k{n % 13}", n) for n in range(100, 180)]


def descriptors():
    return (
        ValueStateDescriptor("count"),
        ListStateDescriptor("seen"),
        MapStateDescriptor("squares"),
        ReducingStateDescriptor("sum", lambda a, b: a + b),
    )


class Account(KeyedProcessFunction):
    """Gives (key, how many records, all of them, a map of the even ones, their sum)."""

    def open(self, runtime_context):
        count, seen, squares, total = descriptors()
        self.count = runtime_context.get_state(count)
        self.seen = runtime_context.get_list_state(seen)
        self.squares = runtime_context.get_map_state(squares)
        self.sum = runtime_context.get_reducing_state(total)

    def process_element(self, value, ctx):
        key, number = value
        self.count.update((self.count.value() or 0) + 1)
        self.seen.add(number)
        if number % 2 == 0:
            self.squares.put(number, number * number)
        self.sum.add(number)
        yield (
            key,
            self.count.value(),
            tuple(self.seen.get()),
            tuple(sorted(self.squares.items())),
            self.sum.get(),
        )

    def on_timer(self, timestamp, ctx):
        yield "timer", ctx.get_current_key(), timestamp, self.count.value()


def replayed(history, new):
    """What the function gives for `new`, computed from all records up to each."""
    results = []
    for place, (key, _) in enumerate(new):
        own = [number for other, number in history + new[: place + 1] if other == key]
        even = tuple(sorted((number, number * number) for number in own if number % 2 == 0))
        results.append((key, len(own), tuple(own), even, sum(own)))
    return results


def bootstrap(rows, *, key=0, number=1):
    count, seen, squares, total = descriptors()
    counts = {}

    def take(row):
        return number(row) if callable(number) else row[number]

    def take_key(row):
        return key(row) if callable(key) else row[key]

    def count_of(row):
        counts[take_key(row)] = counts.get(take_key(row), 0) + 1
        return counts[take_key(row)]

    def square_of(row):
        return (take(row), take(row) ** 2) if take(row) % 2 == 0 else None

    return KeyedBootstrap(
        rows,
        key,
        {
            "count": (count, count_of),
            "seen": (seen, number),
            "squares": (squares, square_of),
            "sum": (total, number),
        },
        event_timers=lambda row: 5_000 if take(row) >= 95 else None,
    )


@pytest.fixture
def run(environment):
    """Runs a job on some records from a savepoint; returns what it gives."""

    def run(path, records, build, *, parallelism=1, **settings):
        env = environment(parallelism, execution__state_recovery__path=path, **settings)
        return list(build(env.from_collection(records)).execute_and_collect())

    return run


def accounts(stream):
    return stream.key_by(lambda r: r[0]).process(Account()).uid("accounts")


@pytest.mark.parametrize("parallelism", [1, 2, 3])
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_job_goes_on_from_a_bootstrapped_savepoint(run, tmp_path, parallelism, backend):
    path = SavepointWriter.new(128).with_operator("accounts", bootstrap(HISTORY)).write(str(tmp_path / "sp"))
    results = run(path, NEW, accounts, parallelism=parallelism, state__backend__type=backend)
    fired = {result[1:] for result in results if result[0] == "timer"}
    assert sorted(each for each in results if each[0] != "timer") == sorted(replayed(HISTORY, NEW))
    late = {key for key, number in HISTORY if number >= 95}
    totals = {key: sum(key == other for other, _ in HISTORY + NEW) for key in late}
    assert fired == {(key, 5_000, totals[key]) for key in late}


@dataclass
class Record:
    name: str
    number: int


@pytest.mark.parametrize(
    ("rows", "key", "number"),
    [
        ([{"name": key, "number": number} for key, number in HISTORY], "name", "number"),
        ([Row(name=key, number=number) for key, number in HISTORY], "name", "number"),
        (HISTORY, lambda row: row[0], lambda row: row[1]),
        (pandas.DataFrame(HISTORY, columns=["name", "number"]), "name", "number"),
    ],
    ids=["dicts", "Rows", "functions", "pandas"],
)
def test_rows_of_every_kind_give_the_same_state(tmp_path, rows, key, number):
    paths = [
        SavepointWriter.new().with_operator("accounts", made).write(str(tmp_path / name))
        for name, made in (("one", bootstrap(HISTORY)), ("two", bootstrap(rows, key=key, number=number)))
    ]
    one, two = map(SavepointReader.read, paths)
    for name in ("count", "seen", "squares", "sum"):
        assert list(one.keyed_state("accounts", name)) == list(two.keyed_state("accounts", name))
    assert {type(key) for key, _, _ in two.keyed_state("accounts", "seen")} == {str}
    assert {type(n) for _, _, seen in two.keyed_state("accounts", "seen") for n in seen} == {int}


def test_attributes_lists_dicts_and_missing_values_are_taken(tmp_path):
    values, elements, entries = ValueStateDescriptor("v"), ListStateDescriptor("l"), MapStateDescriptor("m")
    path = (
        SavepointWriter.new(64)
        .with_operator(
            "op",
            KeyedBootstrap(
                [Record("a", 1), Record("b", 2), Record("a", 3)],
                "name",
                {
                    "v": (values, lambda r: None if r.number == 2 else r.number),
                    "l": (elements, lambda r: [r.number, -r.number]),
                    "m": (entries, lambda r: {r.number: "x"}),
                },
                processing_timers=lambda r: [r.number, 7],
            ),
        )
        .write(str(tmp_path / "sp"))
    )
    reader = SavepointReader.read(path)
    assert list(reader.keyed_state("op", "v")) == [("a", None, 3)]
    assert sorted(reader.keyed_state("op", "l")) == [("a", None, [1, -1, 3, -3]), ("b", None, [2, -2])]
    assert sorted(reader.keyed_state("op", "m")) == [("a", None, {1: "x", 3: "x"}), ("b", None, {2: "x"})]
    assert set(reader.timers("op")) == {
        Timer(key, None, due, False) for key, due in (("a", 1), ("a", 3), ("a", 7), ("b", 2), ("b", 7))
    }
    assert reader.operator("op").max_parallelism == 64


RULES = MapStateDescriptor("rules")


class Rules(KeyedBroadcastProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield value[0], self.count.value(), ctx.get_broadcast_state(RULES).get("factor")

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put(*value)


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_keyed_and_broadcast_state_of_one_operator_are_bootstrapped_together(
    environment, tmp_path, parallelism
):
    path = (
        SavepointWriter.new()
        .with_operator(
            "rules",
            KeyedBootstrap([("a", 5)], 0, {"count": (ValueStateDescriptor("count"), 1)}),
            BroadcastBootstrap({"rules": (RULES, {"factor": 3})}),
        )
        .write(str(tmp_path / "sp"))
    )
    env = environment(parallelism, execution__state_recovery__path=path)
    rules = env.from_collection([("other", 1)]).broadcast(RULES)
    keyed = env.from_collection([("a", 0), ("b", 0), ("a", 0)]).key_by(lambda r: r[0])
    result = keyed.connect(rules).process(Rules()).uid("rules").execute_and_collect()
    assert sorted(result) == [("a", 6, 3), ("a", 7, 3), ("b", 1, 3)]


class Lists(MapFunction, CheckpointedFunction):
    def __init__(self, union):
        self.union = union

    def initialize_state(self, context):
        store = context.get_operator_state_store()
        get = store.get_union_list_state if self.union else store.get_list_state
        self.restored = list(get(ListStateDescriptor("list")).get())

    def snapshot_state(self, context):
        return None

    def map(self, value):
        return tuple(self.restored)


@pytest.mark.parametrize("parallelism", [1, 2, 3])
@pytest.mark.parametrize("union", [False, True])
def test_lists_are_dealt_out_or_given_to_all(run, tmp_path, parallelism, union):
    path = (
        SavepointWriter.new()
        .with_operator(
            "lists",
            ListBootstrap({"list": (ListStateDescriptor("list"), range(6))}, union=union),
            used_by="map",
        )
        .write(str(tmp_path / "sp"))
    )
    results = run(
        path,
        range(30),
        lambda stream: stream.rebalance().map(Lists(union)).uid("lists"),
        parallelism=parallelism,
    )
    got = set(results)
    if union:
        assert got == {tuple(range(6))}
    else:
        assert sorted(element for part in got for element in part) == list(range(6))
        assert len(got) == parallelism


def test_an_existing_savepoint_is_changed_and_goes_on(run, savepoint_of, tmp_path):
    stamped = [(key, number, number) for key, number in HISTORY]

    def build(stream):
        shortened = stream.map(lambda r: r[:2])
        accounts(shortened)
        shortened.key_by(lambda r: r[0]).process(Account()).uid("gone")

    old = savepoint_of(build, stamped, parallelism=2)
    new = (
        SavepointWriter.from_existing(old)
        .remove_operator("gone")
        .remove_operator("records")
        .change_state("accounts", "count", lambda key, namespace, value: None if key == "k3" else value * 100)
        .change_uid("accounts", "renamed")
        .with_operator("added", KeyedBootstrap([("k1", 7)], 0, {"count": (ValueStateDescriptor("count"), 1)}))
        .write(str(tmp_path / "new"))
    )
    reader = SavepointReader.read(new)
    assert {each.uid for each in reader.operators()} - {None} == {"renamed", "added"}

    def both(stream):
        one = stream.key_by(lambda r: r[0]).process(Account()).uid("renamed").map(lambda r: ("renamed", *r))
        two = stream.key_by(lambda r: r[0]).process(Account()).uid("added").map(lambda r: ("added", *r))
        return one.union(two)

    results = run(new, [("k1", 1), ("k3", 2), ("k4", 3)], both, parallelism=3)
    seen = {key: tuple(number for other, number in HISTORY if other == key) for key, _ in HISTORY}
    # The map before deals the records in turn, so those of a key come in any order.
    counts = {result[1]: (result[2], sorted(result[3])) for result in results if result[0] == "renamed"}
    assert counts == {
        "k1": (len(seen["k1"]) * 100 + 1, sorted((*seen["k1"], 1))),
        "k3": (1, sorted((*seen["k3"], 2))),
        "k4": (len(seen["k4"]) * 100 + 1, sorted((*seen["k4"], 3))),
    }
    assert {result[1]: result[2] for result in results if result[0] == "added"} == {"k1": 8, "k3": 1, "k4": 1}
    # The old one is as it was.
    assert SavepointReader.read(old).operator("gone").uid == "gone"


def test_an_unchanged_copy_keeps_everything(savepoint_of, tmp_path):
    stamped = [(key, number, number) for key, number in HISTORY]
    old = savepoint_of(lambda stream: accounts(stream.map(lambda r: r[:2])), stamped, parallelism=2)
    one, two = (
        SavepointReader.read(path)
        for path in (old, SavepointWriter.from_existing(old).write(str(tmp_path / "copy")))
    )
    assert two.saved.manifest.checkpoint_id == one.saved.manifest.checkpoint_id
    assert two.operators() == one.operators()
    assert two.source_positions("records") == one.source_positions("records") == 100
    assert two.watermarks("accounts") == one.watermarks("accounts")
    for name in ("count", "seen", "squares", "sum"):
        assert list(two.keyed_state("accounts", name)) == list(one.keyed_state("accounts", name))


def test_a_chain_of_changes_is_put_together(environment, waiting_job, tmp_path):
    env = environment(
        1,
        execution__checkpointing__interval="1 ms",
        execution__checkpointing__dir=str(tmp_path / "checkpoints"),
    )
    stamped = [(key, number, number) for key, number in HISTORY]
    client = waiting_job(env, lambda stream: accounts(stream.map(lambda r: r[:2])), stamped, part=10)
    job = str(tmp_path / "checkpoints" / str(client.get_job_id()))
    old = SavepointReader.read(job)
    assert len(old.saved.manifest.state) > 1
    new = SavepointReader.read(SavepointWriter.from_existing(job).write(str(tmp_path / "new")))
    assert len(new.saved.manifest.state) == 1
    for name in ("count", "seen", "squares", "sum"):
        assert sorted(new.keyed_state("accounts", name)) == sorted(old.keyed_state("accounts", name))


def test_another_number_of_key_groups_is_refused_at_the_restore(run, tmp_path):
    path = SavepointWriter.new(64).with_operator("accounts", bootstrap(HISTORY)).write(str(tmp_path / "sp"))
    with pytest.raises(StateIncompatibleError, match="128 key groups"):
        run(path, NEW, accounts)


def test_what_does_not_go_together_is_refused(tmp_path):
    writer = SavepointWriter.new().with_operator("one", bootstrap(HISTORY))
    with pytest.raises(ConfigurationError, match="already"):
        writer.with_operator("one", bootstrap(HISTORY))
    with pytest.raises(ConfigurationError, match='no operator with uid "two"'):
        writer.remove_operator("two")
    with pytest.raises(ConfigurationError, match="0 bootstraps"):
        writer.with_operator("two")
    with pytest.raises(ConfigurationError, match='used by "sink"'):
        writer.with_operator("two", bootstrap(HISTORY), used_by="sink")
    with pytest.raises(ConfigurationError, match="is new in this savepoint"):
        writer.change_state("one", "count", lambda key, namespace, value: value)
    with pytest.raises(ConfigurationError, match='descriptor of the name "b"'):
        KeyedBootstrap([], 0, {"a": (ValueStateDescriptor("b"), 1)})
    with pytest.raises(ConfigurationError, match="maximum parallelism is 0"):
        SavepointWriter.new(0)
    with pytest.raises(ConfigurationError, match="no column 'id'"):
        SavepointWriter.new().with_operator("x", KeyedBootstrap([{"name": 1}], "id", {})).write(
            str(tmp_path / "x")
        )
    path = writer.write(str(tmp_path / "sp"))
    with pytest.raises(ConfigurationError, match="there is a savepoint already"):
        SavepointWriter.new().write(path)


def test_an_operator_that_is_added_to_several_slots_is_there_once(run, savepoint_of, tmp_path):
    stamped = [(key, number, number) for key, number in HISTORY]
    old = savepoint_of(lambda stream: accounts(stream.map(lambda r: r[:2])), stamped, parallelism=2)
    new = (
        SavepointWriter.from_existing(old)
        .with_operator("more", bootstrap(HISTORY))
        .with_operator("lists", ListBootstrap({"list": (ListStateDescriptor("list"), [1, 2])}), used_by="map")
        .write(str(tmp_path / "new"))
    )
    reader = SavepointReader.read(new)
    assert len(reader.files()) == 2
    assert reader.operator_state("lists", "list").elements == [1, 2]
    keys = [key for key, _, _ in reader.keyed_state("more", "count")]
    assert len(keys) == len(set(keys)) == 11


class Timed(KeyedProcessFunction):
    @staticmethod
    def descriptors():
        made = (ValueStateDescriptor("v"), ListStateDescriptor("l"), MapStateDescriptor("m"))
        for each in made:
            each.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
        return made

    def open(self, runtime_context):
        value, elements, entries = self.descriptors()
        self.value = runtime_context.get_state(value)
        self.elements = runtime_context.get_list_state(elements)
        self.entries = runtime_context.get_map_state(entries)

    def process_element(self, value, ctx):
        yield value[0], self.value.value(), tuple(self.elements.get()), tuple(sorted(self.entries.items()))
        self.value.update(value[1])
        self.elements.add(value[1])
        self.entries.put(value[1], "x")


def test_changed_state_with_a_time_to_live_is_not_expired(run, savepoint_of, tmp_path):
    def build(stream):
        return stream.key_by(lambda r: r[0]).process(Timed()).uid("timed")

    new = (
        SavepointWriter.from_existing(savepoint_of(build, [("a", 1, 0), ("a", 2, 1), ("b", 3, 2)]))
        .remove_operator("records")
        .change_state("timed", "v", lambda key, namespace, value: value * 10)
        .change_state("timed", "l", lambda key, namespace, value: [*value, 9])
        .change_state("timed", "m", lambda key, namespace, value: {**value, 9: "y"})
        .write(str(tmp_path / "new"))
    )
    assert sorted(run(new, [("a", 0), ("b", 0)], build)) == [
        ("a", 20, (1, 2, 9), ((1, "x"), (2, "x"), (9, "y"))),
        ("b", 30, (3, 9), ((3, "x"), (9, "y"))),
    ]
