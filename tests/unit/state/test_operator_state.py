from __future__ import annotations

import pickle

import pytest

from millstream.base.errors import ConfigurationError
from millstream.base.time import Time
from millstream.common.state import ListStateDescriptor, MapStateDescriptor, StateTtlConfig
from millstream.state.operator_state import OperatorStateBackend, OperatorStateMode, redistribute


def subtasks(count, per_subtask=3):
    backends = [OperatorStateBackend("op") for _ in range(count)]
    for index, backend in enumerate(backends):
        backend.get_list_state(ListStateDescriptor("split")).add_all([(index, n) for n in range(per_subtask)])
        backend.get_union_list_state(ListStateDescriptor("union")).add(index)
        backend.get_broadcast_state(MapStateDescriptor("rules")).put("limit", 5)
    return backends


def rescale(backends, parallelism):
    snapshots = [pickle.loads(pickle.dumps(backend.snapshot())) for backend in backends]
    restored = []
    for snapshot in redistribute(snapshots, parallelism):
        backend = OperatorStateBackend("op")
        backend.restore(snapshot, checkpoint_id=4)
        restored.append(backend)
    return restored


@pytest.mark.parametrize(("old", "new"), [(3, 3), (3, 2), (2, 5), (1, 4), (4, 1)])
def test_rescaling_splits_lists_and_gives_unions_and_broadcasts_to_all(old, new):
    restored = rescale(subtasks(old), new)
    parts = [list(each.get_list_state(ListStateDescriptor("split"))) for each in restored]
    assert [element for part in parts for element in part] == [(i, n) for i in range(old) for n in range(3)]
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    for each in restored:
        assert list(each.get_union_list_state(ListStateDescriptor("union"))) == list(range(old))
        assert dict(each.get_broadcast_state(MapStateDescriptor("rules")).items()) == {"limit": 5}
        assert each.restored_checkpoint_id == 4


def test_same_parallelism_keeps_uneven_lists_where_they_are():
    backends = [OperatorStateBackend("op") for _ in range(2)]
    backends[0].get_list_state(ListStateDescriptor("l")).add_all([1, 2, 3])
    backends[1].get_list_state(ListStateDescriptor("l")).add_all([])
    restored = rescale(backends, 2)
    assert [list(each.get_list_state(ListStateDescriptor("l"))) for each in restored] == [[1, 2, 3], []]


def test_many_lists_of_one_element_do_not_all_go_to_the_first_subtask():
    backend = OperatorStateBackend("op")
    for name in "abcd":
        backend.get_list_state(ListStateDescriptor(name)).add(name)
    restored = rescale([backend], 4)
    held = [[n for n in "abcd" if list(each.get_list_state(ListStateDescriptor(n)))] for each in restored]
    assert sorted(map(len, held)) == [1, 1, 1, 1]


def test_list_and_broadcast_states_have_their_protocols():
    backend = OperatorStateBackend("op")
    elements = backend.get_list_state(ListStateDescriptor("l"))
    elements.add_all([1, 2])
    elements.update([3])
    assert list(backend.get_list_state(ListStateDescriptor("l"))) == [3]
    elements.clear()
    assert list(elements) == []
    rules = backend.get_broadcast_state(MapStateDescriptor("rules"))
    rules["a"] = 1
    rules.put_all({"b": 2, "c": 3})
    del rules["a"]
    rules.remove("never there")
    assert sorted(rules) == ["b", "c"] and rules["b"] == 2 and "a" not in rules and rules.get("a") is None
    assert sorted(rules.items()) == [("b", 2), ("c", 3)] and sorted(rules.values()) == [2, 3]
    for key in list(rules.keys()):
        rules.remove(key)
    assert rules.is_empty()


def test_name_of_another_mode_or_kind_of_descriptor_is_refused():
    backend = OperatorStateBackend("op")
    backend.get_list_state(ListStateDescriptor("s"))
    with pytest.raises(
        ConfigurationError, match='"s" of operator "op" is list state and was asked for as union list'
    ):
        backend.get_union_list_state(ListStateDescriptor("s"))
    with pytest.raises(
        ConfigurationError, match='get_list_state was given a MapStateDescriptor for state "m"'
    ):
        backend.get_list_state(MapStateDescriptor("m"))
    expiring = ListStateDescriptor("e")
    expiring.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(1)).build())
    with pytest.raises(ConfigurationError, match="has a time to live"):
        backend.get_list_state(expiring)


def test_snapshots_that_disagree_are_refused():
    one, other = OperatorStateBackend("op"), OperatorStateBackend("op")
    one.get_list_state(ListStateDescriptor("s"))
    other.get_union_list_state(ListStateDescriptor("s"))
    with pytest.raises(ConfigurationError, match='operator state "s" was both list and union list'):
        redistribute([one.snapshot(), other.snapshot()], 2)
    assert one.snapshot().modes == {"s": OperatorStateMode.SPLIT}


def test_functions_are_asked_before_a_snapshot():
    backend = OperatorStateBackend("op")
    state = backend.get_list_state(ListStateDescriptor("l"))
    backend.on_snapshot(lambda checkpoint_id, timestamp_ms: state.update([checkpoint_id, timestamp_ms]))
    backend.prepare_snapshot(7, 1_000)
    assert backend.snapshot().lists == {"l": [7, 1_000]}
