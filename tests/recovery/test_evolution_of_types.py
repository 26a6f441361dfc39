"""What a changed program may declare of the state that it takes over, and what is refused before the first record."""

from __future__ import annotations

import pytest
from recovery_programs import plain
from recovery_support import FAULTS, SAME, difference, resume, run, run_to_savepoint

from millstream.base.errors import JobExecutionError, StateIncompatibleError
from millstream.common import Types
from millstream.common.functions import CheckpointedFunction
from millstream.datastream import KeyedProcessFunction, MapFunction
from millstream.datastream.functions import KeyedBroadcastProcessFunction
from millstream.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from millstream.runtime.checkpoint.restore import find_saved

AT = 20


class Keep(KeyedProcessFunction):
    """Has one state, which is asked for with a descriptor made by `describe`."""

    def __init__(self, describe):
        self.describe = describe

    def open(self, runtime_context):
        descriptor = self.describe()
        getters = {
            ValueStateDescriptor: runtime_context.get_state,
            ListStateDescriptor: runtime_context.get_list_state,
            MapStateDescriptor: runtime_context.get_map_state,
            ReducingStateDescriptor: runtime_context.get_reducing_state,
        }
        self.state = getters[type(descriptor)](descriptor)

    def process_element(self, value, ctx):
        if hasattr(self.state, "put"):
            self.state.put("n", (self.state.get("n") or 0) + 1)
            yield value[0], self.state.get("n")
        elif hasattr(self.state, "value"):
            self.state.update((self.state.value() or 0) + 1)
            yield value[0], self.state.value()
        else:
            self.state.add(1)
            held = self.state.get()
            yield value[0], held if isinstance(held, int) else len(held)


def program(describe, key_type=None):
    def build(env):
        by_key = plain(env).key_by(lambda record: record[0], key_type)
        return by_key.process(Keep(describe)).uid("keep").name("Keeper")

    return build


def value_of(kind):
    return lambda: ValueStateDescriptor("n", kind)


def list_of(kind):
    return lambda: ListStateDescriptor("n", kind)


def map_of(key, value):
    return lambda: MapStateDescriptor("n", key, value)


def sum_of(kind):
    return lambda: ReducingStateDescriptor("n", lambda a, b: a + b, kind)


LONG, INT, STRING, DOUBLE = Types.LONG(), Types.INT(), Types.STRING(), Types.DOUBLE()

COUNTED = run(program(value_of(None)), epoch=8)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (value_of(LONG), value_of(LONG)),
        (value_of(INT), value_of(LONG)),
        (value_of(None), value_of(STRING)),
        (value_of(LONG), value_of(None)),
        (value_of(LONG), value_of(Types.PICKLED_BYTE_ARRAY())),
        (list_of(INT), list_of(LONG)),
        (map_of(STRING, INT), map_of(STRING, LONG)),
        (sum_of(INT), sum_of(LONG)),
    ],
)
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_state_goes_on_under_a_type_that_takes_its_values(tmp_path, first, second, backend):
    options = {"state_backend_type": backend}
    done, path = run_to_savepoint(program(first), tmp_path, at=AT, **options)
    assert difference(done + resume(path, program(second), **options), COUNTED) == SAME


@pytest.mark.parametrize(
    ("first", "second", "old", "new"),
    [
        (value_of(LONG), value_of(STRING), "value state of LONG", "value state of STRING"),
        (value_of(LONG), value_of(INT), "value state of LONG", "value state of INT"),
        (value_of(LONG), value_of(DOUBLE), "value state of LONG", "value state of DOUBLE"),
        (list_of(LONG), list_of(STRING), "list state of LIST<LONG>", "list state of LIST<STRING>"),
        (
            map_of(STRING, LONG),
            map_of(LONG, LONG),
            "map state of MAP<STRING, LONG>",
            "map state of MAP<LONG, LONG>",
        ),
        (map_of(STRING, LONG), map_of(STRING, STRING), "MAP<STRING, LONG>", "MAP<STRING, STRING>"),
        (sum_of(LONG), sum_of(STRING), "reducing state of LONG", "reducing state of STRING"),
        (value_of(LONG), list_of(LONG), "value state of LONG", "list state"),
    ],
)
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_state_of_another_type_is_refused_with_operator_state_and_both_types(
    tmp_path, first, second, old, new, backend
):
    options = {"state_backend_type": backend}
    _, path = run_to_savepoint(program(first), tmp_path, at=AT, **options)
    with pytest.raises(JobExecutionError) as raised:
        resume(path, program(second), **options)
    cause = raised.value.__cause__
    assert isinstance(cause, StateIncompatibleError)
    told = cause.message
    for part in ('state "n"', 'operator "Keeper" (uid "keep")', old, new):
        assert part in told
    assert told.index(old) < told.index(new, told.index(old) + len(old))
    assert FAULTS.seen == 0


def test_a_type_that_was_once_declared_is_not_forgotten_by_a_program_that_does_not_ask_for_the_state(
    tmp_path,
):
    class Count(KeyedProcessFunction):
        def process_element(self, value, ctx):
            yield value[0]

    def not_asking(env):
        return plain(env).key_by(lambda record: record[0]).process(Count()).uid("keep")

    _, path = run_to_savepoint(program(value_of(LONG)), tmp_path, at=15)
    _, again = run_to_savepoint(not_asking, tmp_path, at=15, execution_state__recovery_path=path)
    with pytest.raises(JobExecutionError) as raised:
        resume(again, program(value_of(STRING)))
    assert "value state of LONG" in str(raised.value.__cause__)


@pytest.mark.parametrize(
    ("first", "second", "fits"),
    [
        (STRING, STRING, True),
        (None, STRING, True),
        (STRING, None, True),
        (STRING, LONG, False),
        (Types.TUPLE([STRING]), Types.TUPLE([STRING, LONG]), False),
    ],
)
def test_keys_of_another_type_are_refused_before_the_job_starts(tmp_path, first, second, fits):
    _, path = run_to_savepoint(program(value_of(LONG), first), tmp_path, at=AT)
    if fits:
        assert resume(path, program(value_of(LONG), second))
        return
    with pytest.raises(StateIncompatibleError) as raised:
        resume(path, program(value_of(LONG), second))
    told = raised.value.message
    assert 'operator "Keeper" (uid "keep")' in told
    assert f"declared as {second.describe()}" in told
    assert f"they were {first.describe()}" in told


class Listed(MapFunction, CheckpointedFunction):
    def __init__(self, kind):
        self.kind = kind

    def initialize_state(self, context):
        self.seen = context.get_operator_state_store().get_list_state(ListStateDescriptor("seen", self.kind))

    def snapshot_state(self, context):
        pass

    def map(self, value):
        self.seen.add(1)
        return value


class Rules(KeyedBroadcastProcessFunction):
    def process_element(self, value, ctx):
        yield value

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(self.descriptor).put("rule", value)

    def __init__(self, descriptor):
        self.descriptor = descriptor


def listing(kind):
    return lambda env: plain(env).map(Listed(kind)).uid("listed").name("Listing").set_parallelism(1)


def with_rules(kind):
    def build(env):
        descriptor = MapStateDescriptor("rules", STRING, kind)
        rules = env.from_collection([1, 2]).uid("numbers").broadcast(descriptor)
        by_key = plain(env).key_by(lambda record: record[0])
        return by_key.connect(rules).process(Rules(descriptor)).uid("ruled").name("Ruled")

    return build


@pytest.mark.parametrize(
    ("build", "named", "old", "new"),
    [
        (listing, 'state "seen" of operator "Listing" (uid "listed")', "LIST<LONG>", "LIST<STRING>"),
        (
            with_rules,
            'state "rules" of operator "Ruled" (uid "ruled")',
            "MAP<STRING, LONG>",
            "MAP<STRING, STRING>",
        ),
    ],
)
def test_operator_and_broadcast_state_have_types_too(tmp_path, build, named, old, new):
    _, path = run_to_savepoint(build(LONG), tmp_path, at=AT)
    assert resume(path, build(LONG))
    with pytest.raises(JobExecutionError) as raised:
        resume(path, build(STRING))
    told = str(raised.value.__cause__)
    assert all(part in told for part in (named, old, new))


def test_a_savepoint_tells_the_types(tmp_path):
    _, path = run_to_savepoint(program(value_of(LONG), STRING), tmp_path, at=AT)
    (entry,) = [entry for entry in find_saved(path).manifest.operators if entry.uid == "keep"]
    assert entry.states == {"n": "value state of LONG"}
    assert entry.key_type == "STRING"
