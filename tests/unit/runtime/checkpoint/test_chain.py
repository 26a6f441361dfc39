"""Files with changes: read behind the file with everything, they say what a snapshot would."""

from __future__ import annotations

import tempfile
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.common.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from millstream.operators.base import Operator
from millstream.runtime.checkpoint.chain import StateChain
from millstream.runtime.checkpoint.state_file import ChunkKind, StateFileReader, StateFileWriter
from millstream.runtime.protocol.orders import CheckpointOrder
from millstream.runtime.task.checkpoint import Changes, add_operator_state, restore_operator
from millstream.state import touched
from millstream.state.disk import DiskKeyedStateBackend
from millstream.state.heap import HeapKeyedStateBackend
from millstream.state.timers import TimerQueue
from millstream.types.typeinfo import Types

NODE = SimpleNamespace(
    operator_id="op",
    name="Sum",
    id=1,
    max_parallelism=4,
    parallelism=1,
    spec=SimpleNamespace(is_keyed=True),
)
VALUE = ValueStateDescriptor("v", Types.INT())
MAP = MapStateDescriptor("m", Types.INT(), Types.INT())
LIST = ListStateDescriptor("l", Types.INT())

changes_of_keys = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.sampled_from(
            [
                *("set", "clear", "put", "drop", "drop all", "add", "replace", "forget"),
                *("timer", "timer", "processing timer", "no timer", "fire", "fire and again"),
            ]
        ),
        st.integers(0, 3),
        st.sampled_from([None, None, ("w", 1), ("w", 2)]),
    ),
    max_size=8,
)


class Keyed(Operator):
    """An operator with keyed state that tells which keys it uses."""

    def __init__(self, make=HeapKeyedStateBackend, **options):
        self.backend = make(max_parallelism=4, tracking=True, **options)
        self.backend.track()
        self.context = SimpleNamespace(keyed_state=self.backend, operator_state=None, max_parallelism=4)

    def process(self, batch):
        raise AssertionError

    def change(self, key, action, number, namespace=None):
        backend = self.backend
        if backend.touched is not None:
            backend.touched.add(key)
        backend.set_current_key(key)
        value, mapping, elements = (backend.get_state(each, namespace) for each in (VALUE, MAP, LIST))
        if action == "set":
            value.update(number)
        elif action == "clear":
            value.clear()
        elif action == "put":
            mapping.put(number, number * 10)
        elif action == "drop":
            mapping.remove(number)
        elif action == "drop all":
            mapping.clear()
        elif action == "add":
            elements.add(number)
        elif action == "replace":
            elements.update([number] * number)
        elif action == "forget":
            backend.clear_namespace(namespace, key)
        else:
            self.change_timers(key, action, number)

    def change_timers(self, key, action, number):
        event = self.backend.event_timers
        if action == "timer":
            event.register(number, key)
        elif action == "processing timer":
            self.backend.processing_timers.register(number, key)
        elif action == "no timer":
            event.delete(number, key)
        else:
            again = event.register if action == "fire and again" else lambda *timer: None
            event.fire_until(number, lambda time, key: again(time + 5, key))


def write(operator, changes, order):
    writer = StateFileWriter()
    is_delta = changes.suffice(order)
    add_operator_state(writer, NODE, 0, operator, patched=is_delta, keep_changes=order.is_savepoint)
    changes.wrote(order)
    return StateFileReader(writer.finish(), "there"), is_delta


def restore(files, operator):
    order = SimpleNamespace(checkpoint_id=1, parallelism={"op": 1}, versions={})
    restore_operator(
        SimpleNamespace(order=order, slots={0: StateChain(files, portion_bytes=300)}), NODE, 0, operator
    )


def contents(backend):
    snapshot = backend.snapshot()
    groups = {
        group: {name: sorted(entries, key=repr) for name, entries in states.items() if entries}
        for group, states in snapshot.groups.items()
    }
    return {group: states for group, states in groups.items() if states}, snapshot.timers


rounds_of_changes = st.lists(
    st.tuples(changes_of_keys, st.sampled_from(["checkpoint", "checkpoint", "savepoint", "failed"])),
    min_size=1,
    max_size=6,
)


@given(rounds_of_changes, st.sampled_from([0, 1_000]))
def test_a_chain_says_what_a_snapshot_would(rounds, always_changes):
    run(Keyed(), rounds, always_changes)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(rounds_of_changes, st.sampled_from([0, 1_000]), st.sampled_from([600, 1 << 20]))
def test_a_chain_of_state_on_disk_says_what_a_snapshot_would(rounds, always_changes, cache_bytes):
    operator = Keyed(DiskKeyedStateBackend, directory=tempfile.mkdtemp(), cache_bytes=cache_bytes)
    run(operator, rounds, always_changes)
    operator.backend.close()


def run(operator, rounds, always_changes):
    """Change and write by turns; after each checkpoint the files say what the operator has."""
    changes = Changes()
    chain, completed = [], None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(touched, "_ALWAYS_CHANGES", always_changes)
        for number, (actions, kind) in enumerate(rounds, start=1):
            for action in actions:
                operator.change(*action)
            if kind == "savepoint":
                write(operator, changes, CheckpointOrder(number, "", "", "", is_savepoint=True))
                continue
            file, is_delta = write(operator, changes, CheckpointOrder(number, "", "", "", base=completed))
            if kind == "failed":  # the coordinator then wants everything
                completed = None
                continue
            chain = [*chain, file] if is_delta else [file]
            completed = number
            restored = Keyed()
            restore(chain, restored)
            assert contents(restored.backend) == contents(operator.backend)


def test_state_on_disk_writes_the_keys_that_were_written_also_past_the_cache(tmp_path):
    operator, changes = Keyed(DiskKeyedStateBackend, directory=str(tmp_path), cache_bytes=20_000), Changes()
    for key in range(20_000):
        operator.change(key, "set", 1)
    whole, _ = write(operator, changes, CheckpointOrder(1, "", "", ""))
    for key in range(500):
        operator.change(key, "set", 2)
        operator.change(key + 1_000, "clear", 0)
    for key in range(5_000, 9_000):  # read only: pushes what was written out of the cache
        operator.backend.set_current_key(key)
        assert operator.backend.get_state(VALUE).value() == 1
    delta, is_delta = write(operator, changes, CheckpointOrder(2, "", "", "", base=1))
    assert is_delta
    assert delta.size * 10 < whole.size
    restored = Keyed()
    restore([whole, delta], restored)
    assert contents(restored.backend) == contents(operator.backend)
    for key in range(15_000):
        operator.change(key, "set", 3)
    assert operator.backend._written is None  # too many to note them
    again, _ = write(operator, changes, CheckpointOrder(3, "", "", "", base=2))
    assert again.size > whole.size // 2
    assert StateChain([whole, delta, again]).kinds("op") == {ChunkKind.SCHEMAS, ChunkKind.KEYED}
    operator.backend.close()


def test_a_file_with_changes_holds_only_the_keys_that_were_used():
    operator, changes = Keyed(), Changes()
    for key in range(3_000):
        operator.change(key, "set", 1)
    whole, _ = write(operator, changes, CheckpointOrder(1, "", "", ""))
    operator.change(7, "set", 2)
    delta, is_delta = write(operator, changes, CheckpointOrder(2, "", "", "", base=1))
    assert is_delta
    assert delta.size * 20 < whole.size


def test_of_many_timers_only_those_that_changed_are_written():
    operator, changes = Keyed(), Changes()
    for key in range(30_000):
        operator.change(key, "timer", key)
    whole, _ = write(operator, changes, CheckpointOrder(1, "", "", ""))
    operator.change(0, "fire", 99)
    for key in range(200, 300):
        operator.change(key, "no timer", key)
        operator.change(key, "timer", 7)
    delta, _ = write(operator, changes, CheckpointOrder(2, "", "", "", base=1))
    assert delta.size * 20 < whole.size
    chain = StateChain([whole, delta])
    assert ChunkKind.TIMERS in chain.kinds("op")
    (timers,) = [timers for group, timers in chain.read("op", ChunkKind.TIMERS, range(2, 3))]
    assert timers == operator.backend.snapshot().timers[2]
    operator.backend.event_timers.fire_until(20_000, lambda time, key: None)
    again, _ = write(operator, changes, CheckpointOrder(3, "", "", "", base=2))
    assert ChunkKind.TIMERS_PATCHED not in {chunk.kind for chunk in again.chunks}, "most of them are gone"
    operator.backend.event_timers.fire_until(50_000, lambda time, key: None)
    none, _ = write(operator, changes, CheckpointOrder(4, "", "", "", base=3))
    assert list(StateChain([whole, delta, again, none]).read("op", ChunkKind.TIMERS)) == []


def test_timers_that_change_too_much_are_not_noted():
    timers = TimerQueue(tracking=True)
    timers.forget_changes()
    for number in range(3_000):
        timers.register(number, "k")
    assert timers.changes() is None
    timers.forget_changes()
    timers.register(3_000, "k")
    assert timers.changes() == ([], [(3_000, "k")])


def test_timers_that_came_and_went_between_two_checkpoints_are_not_noted():
    timers = TimerQueue(tracking=True)
    for key in range(4_000):
        timers.register(1, key)
    timers.forget_changes()
    before = 1
    for number in range(10_000, 40_000):  # a key's time-out that each of its records puts off
        timers.delete(before, 7)
        timers.register(number, 7)
        before = number
    assert timers.changes() == ([(1, 7)], [(39_999, 7)])
    timers.delete(before, 7)
    timers.register(1, 7)
    assert timers.changes() == ([], [(1, 7)])


def test_what_was_written_last_is_not_the_base_so_everything_is_written():
    operator, changes = Keyed(), Changes()
    operator.change(1, "set", 1)
    write(operator, changes, CheckpointOrder(1, "", "", ""))
    operator.change(2, "set", 1)
    write(operator, changes, CheckpointOrder(2, "", "", "", base=1))
    file, is_delta = write(operator, changes, CheckpointOrder(3, "", "", "", base=1))
    assert not is_delta
    restored = Keyed()
    restore([file], restored)
    assert contents(restored.backend) == contents(operator.backend)
