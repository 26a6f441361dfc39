"""Files with changes: read behind the file with everything, they say what a snapshot would."""

from __future__ import annotations

from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from millstream.common.state import MapStateDescriptor, ValueStateDescriptor
from millstream.common.typeinfo import Types
from millstream.runtime.checkpoint.chain import StateChain
from millstream.runtime.checkpoint.orders import CheckpointOrder
from millstream.runtime.checkpoint.state_file import StateFileReader, StateFileWriter
from millstream.runtime.task.checkpoint import Changes, _restore_keyed, add_operator_state
from millstream.state.keyed import HeapKeyedStateBackend

NODE = SimpleNamespace(operator_id="op", name="Sum", id=1)
VALUE = ValueStateDescriptor("v", Types.INT())
MAP = MapStateDescriptor("m", Types.INT(), Types.INT())

changes_of_keys = st.lists(
    st.tuples(
        st.integers(0, 5), st.sampled_from(["set", "clear", "put", "drop", "timer"]), st.integers(0, 3)
    ),
    max_size=8,
)


class Keyed:
    """An operator with keyed state that tells which keys it uses."""

    watermark_ms = -(2**63)

    def __init__(self):
        self.backend = HeapKeyedStateBackend(max_parallelism=4, tracking=True)
        self.backend.track()
        self.context = SimpleNamespace(keyed_state=self.backend, operator_state=None)

    def snapshot_state(self):
        return None

    def change(self, key, action, number):
        backend = self.backend
        if backend.touched is not None:
            backend.touched.add(key)
        backend.set_current_key(key)
        if action == "set":
            backend.get_state(VALUE).update(number)
        elif action == "clear":
            backend.get_state(VALUE).clear()
        elif action == "put":
            backend.get_state(MAP).put(number, number * 10)
        elif action == "drop":
            backend.get_state(MAP).remove(number)
        else:
            backend.event_timers.register(number, key)


def write(operator, changes, order):
    writer = StateFileWriter()
    add_operator_state(writer, NODE, 0, operator, changes.take(order, 1, operator))
    is_delta = changes.suffice(order)
    changes.wrote(order)
    return StateFileReader(writer.finish(), "there"), is_delta


def contents(backend):
    snapshot = backend.snapshot()
    groups = {
        group: {name: sorted(entries, key=repr) for name, entries in states.items() if entries}
        for group, states in snapshot.groups.items()
    }
    return {group: states for group, states in groups.items() if states}, snapshot.timers


@given(
    rounds=st.lists(
        st.tuples(changes_of_keys, st.sampled_from(["checkpoint", "savepoint", "failed"])),
        min_size=1,
        max_size=6,
    )
)
def test_a_chain_says_what_a_snapshot_would(rounds):
    operator, changes = Keyed(), Changes()
    chain, completed = [], None
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
        _restore_keyed(StateChain(chain), "op", restored, range(4))
        assert contents(restored.backend) == contents(operator.backend)


def test_a_file_with_changes_holds_only_the_keys_that_were_used():
    operator, changes = Keyed(), Changes()
    for key in range(1000):
        operator.change(key, "set", 1)
    whole, _ = write(operator, changes, CheckpointOrder(1, "", "", ""))
    operator.change(7, "set", 2)
    delta, is_delta = write(operator, changes, CheckpointOrder(2, "", "", "", base=1))
    assert is_delta
    assert len(delta._data) * 20 < len(whole._data)


def test_what_was_written_last_is_not_the_base_so_everything_is_written():
    operator, changes = Keyed(), Changes()
    operator.change(1, "set", 1)
    write(operator, changes, CheckpointOrder(1, "", "", ""))
    operator.change(2, "set", 1)
    write(operator, changes, CheckpointOrder(2, "", "", "", base=1))
    file, is_delta = write(operator, changes, CheckpointOrder(3, "", "", "", base=1))
    assert not is_delta
    restored = Keyed()
    _restore_keyed(StateChain([file]), "op", restored, range(4))
    assert contents(restored.backend) == contents(operator.backend)
