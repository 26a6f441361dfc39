"""Stores in checkpoints: what one gives, pickled chunk by chunk, another one takes over; a delta goes on top."""

from __future__ import annotations

import pickle
import tracemalloc
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.common.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from millstream.operators.base import Operator
from millstream.operators.stores import OwnStateStore, WatermarkStore, stores_of
from millstream.spi.state_store import ChunkKind, SavedChunks, StateChunk, StateStore
from millstream.state import snapshots
from millstream.state.disk import DiskKeyedStateBackend
from millstream.state.heap import HeapKeyedStateBackend
from millstream.state.key_groups import key_group, key_group_range
from millstream.state.operator_state import OperatorStateBackend
from millstream.state.snapshots import EntriesByGroup
from millstream.state.stores import KeyedStore, SubtaskStateStore, TimerStore
from millstream.types.typeinfo import Types

MOST = 8
VALUE = ValueStateDescriptor("v", Types.INT())
MAP = MapStateDescriptor("m", Types.STRING(), Types.INT())
LIST = ListStateDescriptor("l", Types.INT())


class Saved(SavedChunks):
    """Chunks of old subtasks, as they come out of a file."""

    def __init__(self, olds, subtask=0, parallelism=1):
        self.checkpoint_id, self.subtask, self.parallelism = 7, subtask, parallelism
        self.old_parallelism = len(olds)
        self.written = range(len(olds))
        self._groups = set(key_group_range(subtask, MOST, parallelism))
        self.old_subtasks = [
            old for old in self.written if self._groups & set(key_group_range(old, MOST, len(olds)))
        ]
        self._olds = [
            [StateChunk(*pickle.loads(pickle.dumps(tuple(chunk)))) for chunk in chunks] for chunks in olds
        ]

    def read(self, kind, *, of=None):
        for old in self.written if of is None else [of]:
            for chunk in self._olds[old]:
                if chunk.kind is kind and (chunk.key_group is None or chunk.key_group in self._groups):
                    yield chunk


@pytest.fixture(params=["heap", "disk"])
def new_backend(request, tmp_path):
    made = []

    def new():
        if request.param == "heap":
            made.append(HeapKeyedStateBackend(max_parallelism=MOST, tracking=True))
        else:
            directory = tmp_path / str(len(made))
            directory.mkdir()
            made.append(
                DiskKeyedStateBackend(
                    str(directory), cache_bytes=1 << 20, max_parallelism=MOST, tracking=True
                )
            )
        return made[-1]

    yield new
    for backend in made:
        backend.close()


def fill(backend, keys):
    for key in keys:
        backend.set_current_key(key)
        backend.get_state(VALUE).update(key)
        backend.get_state(LIST, ("w", key % 3)).add_all([key, key])
        backend.get_state(MAP).put("k", key)
        backend.event_timers.register(key * 10, key)


def contents(backend):
    snapshot = backend.snapshot(timers=False)
    return {
        group: {name: sorted(entries, key=repr) for name, entries in states.items()}
        for group, states in snapshot.groups.items()
    }


def test_a_keyed_backend_comes_back_in_another_one(new_backend):
    backend, restored = new_backend(), new_backend()
    fill(backend, range(50))
    KeyedStore(restored).restore(Saved([KeyedStore(backend).snapshot()]))
    assert contents(restored) == contents(backend)
    assert KeyedStore(restored).describe() == KeyedStore(backend).describe() != {}


def test_a_backend_gives_its_entries_in_pieces_which_are_all_of_them(new_backend, monkeypatch):
    monkeypatch.setattr(snapshots, "_GATHERED", 7)
    monkeypatch.setattr("millstream.state.disk._READ_ENTRIES", 2)
    backend, restored = new_backend(), new_backend()
    fill(backend, range(50))
    chunks = list(KeyedStore(backend).snapshot())
    assert len(chunks) > 2 * MOST
    KeyedStore(restored).restore(Saved([chunks]))
    assert contents(restored) == contents(backend)


def test_each_new_subtask_takes_over_its_key_groups(new_backend):
    olds = [new_backend(), new_backend()]
    for old, backend in enumerate(olds):
        fill(backend, [key for key in range(60) if key_group(key, MOST) in key_group_range(old, MOST, 2)])
    chunks = [[*KeyedStore(each).snapshot(), *TimerStore(each).snapshot()] for each in olds]
    found, timers = [], []
    for subtask in range(3):
        mine = new_backend()
        for store in (KeyedStore(mine), TimerStore(mine)):
            store.restore(Saved(chunks, subtask, 3))
        owned = [key for _, key, _ in (e for s in contents(mine).values() for e in s.get("v", []))]
        assert {key_group(key, MOST) for key in owned} <= set(key_group_range(subtask, MOST, 3))
        found += owned
        timers += [key for _, keys in mine.event_timers.snapshot() for key in keys]
    assert sorted(found) == sorted(timers) == list(range(60))


def test_timers_are_known_apart_from_entries(new_backend):
    backend = new_backend()
    fill(backend, range(2_000))
    keyed, timers = KeyedStore(backend), TimerStore(backend)
    assert timers.delta() is None, "nothing is known yet"
    keyed.forget()
    assert timers.delta() is None, "entries only"
    timers.forget()
    backend.event_timers.register(5, 1)
    marker, patch = timers.delta()
    assert (marker.kind, patch.kind) == (ChunkKind.TIMERS_PATCHED, ChunkKind.TIMERS_PATCH)
    assert patch.content.event == [(5, 1)]


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_state_of_subtasks_is_dealt_out(parallelism):
    olds = []
    for old in range(2):
        backend = OperatorStateBackend()
        backend.get_list_state(LIST).add_all([old, old + 10])
        backend.get_broadcast_state(MAP).put("all", 1)
        olds.append(list(SubtaskStateStore(backend).snapshot()))
    elements = []
    for subtask in range(parallelism):
        backend = OperatorStateBackend()
        SubtaskStateStore(backend).restore(Saved(olds, subtask, parallelism))
        elements += backend.get_list_state(LIST).get()
        assert backend.get_broadcast_state(MAP).get("all") == 1
        assert backend.restored_checkpoint_id == 7
    assert sorted(elements) == [0, 1, 10, 11]


def test_functions_put_what_they_hold_into_their_state_when_a_checkpoint_begins():
    backend, told = OperatorStateBackend(), []
    backend.on_snapshot(lambda *given: told.append(given))
    SubtaskStateStore(backend).begin(3, 1_000)
    assert told == [(3, 1_000)]


class Keeping(Operator):
    """Keeps a number for each key, and one beside."""

    def __init__(self):
        self.context = SimpleNamespace(max_parallelism=MOST, keyed_state=None, operator_state=None)
        self.beside, self.kept, self.order = 0, {}, []

    def process(self, batch):
        raise AssertionError

    def snapshot_state(self):
        return self.beside or None

    def restore_state(self, snapshot, scope):
        self.order.append(("beside", scope.written_by, scope.adopts, scope.rescaled))

    def snapshot_entries(self):
        yield "held", None, self.kept.items()

    def restore_entries(self, name, entries):
        self.order.append(("entries", name))
        self.kept.update((key, entry) for _, key, entry in entries)


def test_an_operator_is_given_what_an_old_subtask_kept_beside_before_its_entries():
    olds = []
    for old in range(2):
        operator = Keeping()
        operator.beside = old + 1
        operator.kept = {
            key: key for key in range(20) if key_group(key, MOST) in key_group_range(old, MOST, 2)
        }
        olds.append(list(OwnStateStore(operator, is_keyed=True).snapshot()))
    restored = Keeping()
    OwnStateStore(restored, is_keyed=True).restore(Saved(olds))
    kinds = [step[0] for step in restored.order]
    assert kinds.index("beside") < kinds.index("entries") < len(kinds) - 1 - kinds[::-1].index("beside")
    assert restored.order[0] == ("beside", 0, True, True)
    assert restored.kept == {key: key for key in range(20)}


@pytest.mark.parametrize(("is_keyed", "given"), [(True, [0]), (False, [0, 1])])
def test_what_belongs_to_no_key_concerns_every_subtask_unless_the_operator_is_keyed(is_keyed, given):
    olds = []
    for _ in range(2):
        operator = Keeping()
        operator.beside = 1
        olds.append(list(OwnStateStore(operator, is_keyed=is_keyed).snapshot()))
    restored = Keeping()
    OwnStateStore(restored, is_keyed=is_keyed).restore(Saved(olds, 0, 2))
    assert [step[1] for step in restored.order] == given


def watermark_of(marks, subtask, parallelism):
    olds = []
    for mark in marks:
        operator = Keeping()
        if mark is not None:
            operator.watermark_ms = mark
        olds.append(list(WatermarkStore(operator).snapshot()))
    restored = Keeping()
    WatermarkStore(restored).restore(Saved(olds, subtask, parallelism))
    return restored.watermark_ms


def test_event_time_goes_on_where_it_was():
    assert watermark_of([5, 3], 0, 2) == 5
    assert [watermark_of([5, 3], subtask, 3) for subtask in range(3)] == [3, 3, 3]
    assert watermark_of([5, None], 0, 1) == Keeping().watermark_ms, "one without holds back all of them"


def test_all_that_an_operator_keeps_is_in_its_stores(new_backend):
    operator = Keeping()
    operator.context.keyed_state, operator.context.operator_state = new_backend(), OperatorStateBackend()
    stores = stores_of(operator, is_keyed=True)
    assert all(isinstance(store, StateStore) for store in stores)
    assert [type(store) for store in stores] == [
        KeyedStore,
        TimerStore,
        SubtaskStateStore,
        OwnStateStore,
        WatermarkStore,
    ]


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from([None, 1]), st.integers(0, 30))),
    st.integers(1, 9),
    st.booleans(),
)
def test_entries_by_group_lose_and_mix_nothing(added, most, remembers):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshots, "_GATHERED", most)
        gathered = EntriesByGroup(MOST, remembers=remembers)
        given_back = []
        for name, namespace, key in added:
            given_back += gathered.add_all(name, namespace, [(key, str(key))])
        given_back += gathered.rest()
    found = [
        (name, namespace, key)
        for group, states in given_back
        for name, entries in states.items()
        for namespace, key, entry in entries
        if key_group(key, MOST) == group and entry == str(key)
    ]
    assert sorted(found, key=repr) == sorted(added, key=repr)


def test_a_snapshot_of_much_state_takes_little_memory(monkeypatch):
    monkeypatch.setattr(snapshots, "_GATHERED", 2_000)
    backend = HeapKeyedStateBackend(max_parallelism=MOST)
    table = backend.table("t")
    table.update((key, key) for key in range(100_000))
    tracemalloc.start()
    try:
        entries = sum(
            len(chunk.content["t"]) for chunk in KeyedStore(backend).snapshot() if chunk.key_group is not None
        )
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert entries == 100_000
    assert peak < 2_000_000, "all of it would be more than seven"
