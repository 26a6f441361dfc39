"""State as functions of whole programs see it, on both backends; functions with state of their subtask."""

from __future__ import annotations

import ast

import pytest

from millstream.base.errors import MillstreamError
from millstream.common.functions import (
    AggregateFunction,
    CheckpointedFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
    RuntimeContext,
    SinkFunction,
)
from millstream.common.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from millstream.operators.base import EpochTime, OperatorContext
from millstream.operators.functions_adapter import open_function
from millstream.operators.runtime_context import OperatorRuntimeContext
from millstream.state.operator_state import OperatorStateBackend

BACKENDS = ["hashmap", "rocksdb"]


class Longest(AggregateFunction):
    def create_accumulator(self):
        return ""

    def add(self, value, accumulator):
        return max(accumulator, value, key=len)

    def get_result(self, accumulator):
        return accumulator.upper()

    def merge(self, acc_a, acc_b):
        return max(acc_a, acc_b, key=len)


class Everything(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext):
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))
        self.words = runtime_context.get_list_state(ListStateDescriptor("words"))
        self.lengths = runtime_context.get_map_state(MapStateDescriptor("lengths"))
        self.total = runtime_context.get_reducing_state(ReducingStateDescriptor("total", lambda x, y: x + y))
        self.longest = runtime_context.get_aggregating_state(AggregatingStateDescriptor("longest", Longest()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        self.words.add(value)
        self.lengths[value] = len(value)
        self.total.add(len(value))
        self.longest.add(value)
        yield (
            ctx.get_current_key(),
            self.count.value(),
            list(self.words),
            dict(self.lengths.items()),
            self.total.get(),
            self.longest.get(),
        )


WORDS = ["ant", "bee", "apple", "ant", "bumblebee", "axe", "b", "amber"] * 3


def oracle(words):
    for index, word in enumerate(words):
        mine = [other for other in words[: index + 1] if other[0] == word[0]]
        longest = next(w for w in mine if len(w) == max(map(len, mine)))
        yield (
            word[0],
            len(mine),
            mine,
            {other: len(other) for other in mine},
            sum(map(len, mine)),
            longest.upper(),
        )


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("records", [1, 5, 1_000])
def test_all_kinds_of_state_in_a_program(new_environment, tmp_path, backend, parallelism, records):
    options = {
        "state.backend.type": backend,
        "state.backend.rocksdb.localdir": str(tmp_path / "state"),
        "millstream.state.cache-bytes": 1 if records == 5 else 100_000,
        "millstream.epoch.fixed-records": records,
        "execution.checkpointing.interval": 1,
    }
    environment = new_environment("local", parallelism, options)
    stream = environment.from_collection(WORDS).key_by(lambda word: word[0]).process(Everything())
    found = list(stream.execute_and_collect())
    assert sorted(found, key=repr) == sorted(oracle(WORDS), key=repr)
    left = [path for path in (tmp_path / "state").rglob("*") if path.is_file() and path.name != "lock"]
    assert left == []


def test_rolling_reduce_keeps_its_values_on_disk(new_environment):
    environment = new_environment(
        "local", 2, {"state.backend.type": "rocksdb", "millstream.state.cache-bytes": 1}
    )
    stream = environment.from_collection(range(100)).key_by(lambda n: n % 7).reduce(lambda x, y: x + y)
    expected = [sum(range(number % 7, number + 1, 7)) for number in range(100)]
    assert sorted(stream.execute_and_collect()) == sorted(expected)


GETTERS = {
    "get_state": ValueStateDescriptor("s"),
    "get_list_state": ListStateDescriptor("s"),
    "get_map_state": MapStateDescriptor("s"),
    "get_reducing_state": ReducingStateDescriptor("s", max),
    "get_aggregating_state": AggregatingStateDescriptor("s", Longest()),
}


class Asks(MapFunction):
    def __init__(self, getter, descriptor):
        self.getter, self.descriptor = getter, descriptor

    def open(self, runtime_context):
        getattr(runtime_context, self.getter)(self.descriptor)

    def map(self, value):
        return value


@pytest.mark.parametrize("getter", GETTERS)
def test_state_of_a_stream_without_keys_is_refused(new_environment, getter):
    stream = new_environment().from_collection([1]).map(Asks(getter, GETTERS[getter])).name("mine")
    with pytest.raises(Exception) as caught:
        list(stream.execute_and_collect())
    text = "\n".join(str(each) for each in chain_of(caught.value))
    assert 'state "s" was asked for on a stream that is not keyed' in text and '"mine"' in text


@pytest.mark.parametrize("getter", GETTERS)
def test_descriptor_of_another_kind_is_refused(new_environment, getter):
    wrong = GETTERS["get_map_state" if getter != "get_map_state" else "get_state"]
    stream = new_environment().from_collection([1]).key_by(int).map(Asks(getter, wrong)).name("mine")
    with pytest.raises(Exception) as caught:
        list(stream.execute_and_collect())
    text = "\n".join(str(each) for each in chain_of(caught.value))
    assert f'{getter} was given a {type(wrong).__name__} for state "s" in operator "mine"' in text


def chain_of(error):
    seen = []
    while error is not None and error not in seen:
        seen.append(error)
        error = error.__cause__
    return seen


class Buffering(SinkFunction, CheckpointedFunction):
    """Holds records back until a checkpoint, as Flink's example of operator state does; logs to a file."""

    def __init__(self, log):
        self.log = log

    def note(self, *entry):
        with open(self.log, "a") as file:
            file.write(f"{entry!r}\n")

    def initialize_state(self, context):
        self.saved = context.get_operator_state_store().get_list_state(ListStateDescriptor("buffer"))
        self.buffer = list(self.saved.get())
        self.note("initialize", context.is_restored(), context.get_restored_checkpoint_id())

    def open(self, runtime_context):
        self.note("open", self.buffer)

    def invoke(self, value):
        self.buffer.append(value)

    def snapshot_state(self, context):
        self.saved.update(self.buffer)
        self.note("snapshot", context.get_checkpoint_id() > 0, list(self.saved))

    def close(self):
        self.note("close")


def entries_of(log):
    return [ast.literal_eval(line) for line in log.read_text().splitlines()]


def test_checkpointed_sink_is_initialised_before_open_and_asked_at_checkpoints(new_environment, tmp_path):
    environment = new_environment(
        "local", 1, {"millstream.epoch.fixed-records": 2, "execution.checkpointing.interval": 1}
    )
    environment.from_collection([1, 2, 3]).add_sink(Buffering(tmp_path / "log"))
    environment.execute()
    found = entries_of(tmp_path / "log")
    assert found[:2] == [("initialize", False, None), ("open", [])]
    assert found[-2:] == [("snapshot", True, [1, 2, 3]), ("close",)]


def context_of(operator_state):
    context = OperatorContext("job", "op", "id", 0, 1, 128, 0, EpochTime(), operator_state=operator_state)
    return OperatorRuntimeContext(context)


def test_checkpointed_function_finds_what_it_left(tmp_path):
    first = OperatorStateBackend("op")
    function = Buffering(tmp_path / "first")
    open_function(function, context_of(first))
    for number in range(3):
        function.invoke(number)
    first.prepare_snapshot(4, 1_000)
    second = OperatorStateBackend("op")
    second.restore(first.snapshot(), checkpoint_id=4)
    open_function(Buffering(tmp_path / "second"), context_of(second))
    assert entries_of(tmp_path / "second") == [("initialize", True, 4), ("open", [0, 1, 2])]


class Numbering(FlatMapFunction, MapFunction, CheckpointedFunction):
    """Numbers records with a count that would survive."""

    def initialize_state(self, context):
        self.saved = context.get_operator_state_store().get_union_list_state(ListStateDescriptor("n"))
        self.number = sum(self.saved)

    def snapshot_state(self, context):
        self.saved.update([self.number])

    def map(self, value):
        self.number += 1
        return value, self.number

    def flat_map(self, value):
        yield self.map(value)


class NumberingProcess(KeyedProcessFunction, CheckpointedFunction):
    def initialize_state(self, context):
        self.seen = context.get_keyed_state_store().get_state(ValueStateDescriptor("seen"))
        self.saved = context.get_operator_state_store().get_list_state(ListStateDescriptor("n"))
        self.number = sum(self.saved)

    def snapshot_state(self, context):
        self.saved.update([self.number])

    def process_element(self, value, ctx):
        self.number += 1
        self.seen.update((self.seen.value() or 0) + 1)
        yield value, self.number


@pytest.mark.parametrize(
    "build",
    [
        lambda stream: stream.map(Numbering()),
        lambda stream: stream.flat_map(Numbering()),
        lambda stream: stream.key_by(str).map(Numbering()),
        lambda stream: stream.key_by(str).process(NumberingProcess()),
        lambda stream: stream.filter(lambda value: True).map(Numbering()),
    ],
)
def test_every_kind_of_function_may_be_checkpointed(new_environment, build):
    environment = new_environment("local", 1, {"execution.checkpointing.interval": 1})
    stream = build(environment.from_collection(list("abc")))
    assert sorted(stream.execute_and_collect()) == [("a", 1), ("b", 2), ("c", 3)]


def test_checkpointed_function_without_operator_state_is_an_error():
    with pytest.raises(MillstreamError, match="operator state was asked for where there is none"):
        open_function(Buffering("nowhere"), context_of(None))
