"""What a backend gives at a checkpoint can be taken by any other, at another parallelism too."""

from __future__ import annotations

import pickle

import pytest

from millstream.base.errors import StateIncompatibleError
from millstream.common.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from millstream.common.windows import TimeWindow
from millstream.state.key_groups import key_group, key_group_range, subtask_of
from millstream.state.keys import canonical_key
from millstream.state.kinds import StateKind, StateSchema

KEYS = [f"user-{number}" for number in range(60)] + [1, 2.5, ("t", 1), None, True, [1], float("nan")]
WINDOW = TimeWindow(0, 10)


def fill(backend):
    for number, key in enumerate(KEYS):
        backend.set_current_key(key)
        backend.get_state(ValueStateDescriptor("v")).update(number)
        backend.get_state(ValueStateDescriptor("v"), WINDOW).update(-number)
        backend.get_state(ListStateDescriptor("l")).add_all([number, repr(key)])
        backend.get_state(MapStateDescriptor("m")).put_all({repr(key): number, True: 0})
        backend.event_timers.register(100 + number % 7, canonical_key(key))
        backend.processing_timers.register(200, canonical_key(key))
    table = backend.table("t")
    for key in KEYS:
        table[canonical_key(key)] = [repr(key)]


def contents(backends, parallelism):
    """What the subtasks hold, read through the states, each key from its owner."""
    seen = {}
    for key in KEYS:
        owner = backends[subtask_of(key_group(key, 128), 128, parallelism)]
        owner.set_current_key(key)
        seen[repr(key)] = (
            owner.get_state(ValueStateDescriptor("v")).value(),
            owner.get_state(ValueStateDescriptor("v"), WINDOW).value(),
            list(owner.get_state(ListStateDescriptor("l"))),
            dict(owner.get_state(MapStateDescriptor("m")).items()),
            owner.table("t")[canonical_key(key)],
        )
    return seen


def timers(backends):
    return sorted(
        (kind, timestamp, repr(key))
        for backend in backends
        for kind, queue in (("event", backend.event_timers), ("processing", backend.processing_timers))
        for timestamp, keys in queue.snapshot()
        for key in keys
    )


@pytest.mark.parametrize("target", ["heap", "disk", "disk without cache"])
def test_round_trip_keeps_everything(backend, make_backend, target):
    fill(backend)
    expected, expected_timers = contents([backend], 1), timers([backend])
    snapshot = pickle.loads(pickle.dumps(backend.snapshot()))
    restored = make_backend(target)
    restored.restore(snapshot)
    assert contents([restored], 1) == expected
    assert timers([restored]) == expected_timers


@pytest.mark.parametrize(("old", "new"), [(1, 3), (3, 2), (2, 5)])
@pytest.mark.parametrize("kind", ["heap", "disk"])
def test_rescaling_deals_key_groups_to_their_owners(make_backend, kind, old, new):
    whole = make_backend("heap")
    fill(whole)
    snapshots = [whole.snapshot(key_group_range(index, 128, old)) for index in range(old)]
    backends = [make_backend(kind) for _ in range(new)]
    for index, backend in enumerate(backends):
        for snapshot in snapshots:
            backend.restore(snapshot, key_group_range(index, 128, new))
    assert contents(backends, new) == contents([whole], 1)
    assert timers(backends) == timers([whole])
    for index, backend in enumerate(backends):
        assert set(backend.snapshot().groups) <= set(key_group_range(index, 128, new))
        assert backend.snapshot().groups


def test_snapshot_of_some_key_groups_holds_no_others(backend):
    fill(backend)
    part = backend.snapshot(range(0, 64))
    rest = backend.snapshot(range(64, 128))
    whole = backend.snapshot()
    assert set(part.groups) == {group for group in whole.groups if group < 64}
    assert {**part.groups, **rest.groups} == whole.groups
    assert set(part.timers) | set(rest.timers) == set(whole.timers)
    assert not set(part.timers) & set(rest.timers)


def test_restored_state_of_another_kind_is_refused_by_name(backend, make_backend):
    fill(backend)
    restored = make_backend("heap")
    restored.restore(backend.snapshot())
    with pytest.raises(StateIncompatibleError) as caught:
        restored.get_state(ListStateDescriptor("v"))
    assert 'state "v" of operator "op" was restored as value state and was asked for as list state' in str(
        caught.value
    )


def test_timers_of_more_than_a_key_go_with_their_key(make_backend):
    backend = make_backend("heap")
    backend.timer_key = lambda timer: timer[0]
    for key in KEYS:
        backend.event_timers.register(5, (canonical_key(key), WINDOW))
    found = {
        (group, timer[0]) for group, held in backend.snapshot().timers.items() for _, timer in held.event
    }
    assert found == {(key_group(key, 128), canonical_key(key)) for key in KEYS}


def test_a_schema_keeps_its_type_and_is_the_same_without():
    schema = StateSchema(StateKind.VALUE, type_form=["LIST", "LONG"])
    assert pickle.loads(pickle.dumps(schema)).type_form == ["LIST", "LONG"]
    assert schema == StateSchema(StateKind.VALUE)
    assert hash(schema) == hash(StateSchema(StateKind.VALUE))
