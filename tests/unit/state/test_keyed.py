"""The states of both backends, one suite."""

from __future__ import annotations

import enum
from dataclasses import dataclass

import pytest

from millstream.base.errors import ConfigurationError, NotSerializableError, StateAccessError
from millstream.common.functions import AggregateFunction
from millstream.common.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from millstream.common.windows import CountWindow, GlobalWindow, TimeWindow
from millstream.state.disk_store import DiskStore
from millstream.state.keyed import NO_KEY
from millstream.types.row import Row


class Average(AggregateFunction):
    def create_accumulator(self):
        return (0, 0)

    def add(self, value, accumulator):
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a, acc_b):
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Colour(enum.Enum):
    RED = 1


@dataclass(frozen=True)
class Point:
    x: int


def test_value_state_is_scoped_to_the_key_and_none_clears_it(backend):
    state = backend.get_state(ValueStateDescriptor("v"))
    for key, value in [("a", 1), ("b", [2]), ("c", 3)]:
        backend.set_current_key(key)
        assert state.value() is None
        state.update(value)
    backend.set_current_key("a")
    assert state.value() == 1
    state.update(None)
    assert state.value() is None
    backend.set_current_key("b")
    assert state.value() == [2]
    state.clear()
    assert state.value() is None
    backend.set_current_key("c")
    assert state.value() == 3


def test_list_state_adds_replaces_and_clears(backend):
    state = backend.get_state(ListStateDescriptor("l"))
    backend.set_current_key("k")
    assert list(state.get()) == []
    for number in range(40):
        state.add(number)
        if number % 3 == 0:
            assert list(state)[-1] == number
    state.add_all([40, None])
    assert list(state.get()) == [*range(41), None]
    backend.set_current_key("other")
    assert list(state) == []
    state.add("x")
    backend.set_current_key("k")
    state.update(["new"])
    state.add("er")
    assert list(state) == ["new", "er"]
    state.update([])
    assert list(state) == []
    state.add(1)
    state.clear()
    state.add(2)
    assert list(state) == [2]
    backend.set_current_key("other")
    assert list(state) == ["x"]


def test_list_that_was_handed_out_does_not_change_with_the_state(backend):
    state = backend.get_state(ListStateDescriptor("l"))
    backend.set_current_key("k")
    given = [1, 2]
    state.update(given)
    given.append(3)
    before = state.get()
    for element in before:
        state.add(element + 10)
    assert list(before) == [1, 2]
    assert list(state) == [1, 2, 11, 12]


def test_map_state_has_the_protocol_of_a_dict(backend):
    state = backend.get_state(MapStateDescriptor("m"))
    backend.set_current_key("k")
    assert state.is_empty() and list(state) == [] and state.get("x") is None and "x" not in state
    state.put("x", 1)
    state["y"] = None
    state.put_all({"z": 3, "w": 4})
    assert state["x"] == 1 and state.contains("y") and state["y"] is None and "v" not in state
    del state["z"]
    state.remove("never there")
    assert sorted(state.items(), key=str) == [("w", 4), ("x", 1), ("y", None)]
    assert sorted(state.keys()) == sorted(state) == ["w", "x", "y"]
    assert sorted(filter(None, state.values())) == [1, 4]
    assert not state.is_empty()
    backend.set_current_key("other")
    assert state.is_empty() and "x" not in state
    state["x"] = "o"
    backend.set_current_key("k")
    state.clear()
    assert state.is_empty() and state.get("x") is None
    state["x"] = "again"
    assert list(state.items()) == [("x", "again")]
    for key in list(state):
        del state[key]
    assert state.is_empty()
    backend.set_current_key("other")
    assert list(state.items()) == [("x", "o")]


def test_map_state_may_be_changed_while_it_is_iterated(backend):
    state = backend.get_state(MapStateDescriptor("m"))
    backend.set_current_key("k")
    state.put_all({number: number for number in range(20)})
    seen = []
    for key, value in state.items():
        seen.append((key, value))
        state.remove(key)
        state.put(key + 100, value)
        state.put(19 - key, -1)
    assert sorted(seen) == [(number, number) for number in range(20)]


@pytest.mark.parametrize(
    "key",
    [
        None,
        True,
        1,
        -300,
        2**70,
        1.0,
        2.5,
        "a\x00b",
        b"\x00\xff",
        ("a", 1),
        (),
        (1.0, "x"),
        Colour.RED,
        Point(3),
    ],
    ids=repr,
)
def test_keys_of_maps_keep_their_type(backend, key):
    state = backend.get_state(MapStateDescriptor("m"))
    backend.set_current_key("k")
    state.put(key, "v")
    backend.set_current_key("other")
    assert state.is_empty()
    backend.set_current_key("k")
    (found,) = state.keys()
    assert found == key and type(found) is type(key)
    assert state[key] == "v"


def test_keys_without_canonical_bytes_and_long_keys_work_in_maps(backend):
    state = backend.get_state(MapStateDescriptor("m"))
    backend.set_current_key("k" * 3_000)
    keys = [frozenset({1}), "x" * 2_000, "x" * 1_999 + "y", 1j]
    for number, key in enumerate(keys):
        state[key] = number
    assert sorted(state.items(), key=lambda item: item[1]) == list(zip(keys, range(4), strict=True))
    backend.set_current_key("k" * 2_999)
    assert state.is_empty()
    state["x" * 490] = 1
    assert list(state) == ["x" * 490]


def test_reducing_state_folds(backend):
    state = backend.get_state(ReducingStateDescriptor("r", max))
    backend.set_current_key("k")
    assert state.get() is None
    for number in (3, 9, 4):
        state.add(number)
    assert state.get() == 9
    backend.set_current_key("other")
    assert state.get() is None
    backend.set_current_key("k")
    state.clear()
    assert state.get() is None


def test_aggregating_state_gives_the_result_of_its_accumulator(backend):
    state = backend.get_state(AggregatingStateDescriptor("a", Average()))
    backend.set_current_key("k")
    assert state.get() is None
    for number in (1, 2, 6):
        state.add(number)
    assert state.get() == 3.0
    state.add(None)
    assert state.get() is None


def test_namespaces_are_apart_and_cleared_one_by_one(backend):
    namespaces = [None, TimeWindow(0, 10), TimeWindow(10, 20), GlobalWindow.get(), CountWindow(1)]
    value, elements, entries = ValueStateDescriptor("v"), ListStateDescriptor("l"), MapStateDescriptor("m")
    for key in ("a", "b"):
        backend.set_current_key(key)
        for number, namespace in enumerate(namespaces):
            backend.get_state(value, namespace).update((key, number))
            backend.get_state(elements, namespace).add((key, number))
            backend.get_state(entries, namespace).put(key, number)
    backend.clear_namespace(TimeWindow(0, 10), "a")
    backend.clear_namespace(CountWindow(1), "b")
    for key, gone in (("a", 1), ("b", 4)):
        backend.set_current_key(key)
        for number, namespace in enumerate(namespaces):
            expected = [] if number == gone else [(key, number)]
            assert backend.get_state(value, namespace).value() == (expected[0] if expected else None)
            assert list(backend.get_state(elements, namespace)) == expected
            assert list(backend.get_state(entries, namespace).items()) == expected


def test_merging_namespaces_moves_their_contents(backend):
    windows = [TimeWindow(0, 10), TimeWindow(5, 15), TimeWindow(40, 50)]
    target = TimeWindow(0, 15)
    descriptors = [
        (ListStateDescriptor("l"), lambda state: sorted(state), [[0, 1], [2]]),
        (ReducingStateDescriptor("r", lambda x, y: x + y), lambda state: state.get(), [1, 2]),
        (AggregatingStateDescriptor("a", Average()), lambda state: state.get(), [0.5, 2.0]),
    ]
    backend.set_current_key("k")
    for descriptor, look, (merged, kept) in descriptors:
        for number, window in enumerate(windows):
            backend.get_state(descriptor, window).add(number)
        backend.merge_namespaces(descriptor, target, [target, *windows[:2]])
        assert look(backend.get_state(descriptor, target)) == merged
        assert look(backend.get_state(descriptor, windows[2])) == kept
        assert not look(backend.get_state(descriptor, windows[0]))
    with pytest.raises(ConfigurationError, match=r'state "v" of operator "op" cannot be merged, it is value'):
        backend.merge_namespaces(ValueStateDescriptor("v"), target, windows)


def test_table_is_a_mapping_of_keys(backend):
    table = backend.table("t")
    for key in ("a", ("b", 1), 2.5):
        table[key] = [key]
    table["none"] = None
    del table["a"]
    assert "a" not in table and table[2.5] == [2.5] and "none" in table and table["none"] is None
    assert table.get("zz") is None and len(table) == 3
    assert sorted(map(str, table)) == ["('b', 1)", "2.5", "none"]
    with pytest.raises(KeyError):
        table["a"]


@pytest.mark.parametrize(
    ("descriptor", "use"),
    [
        (ValueStateDescriptor("s"), lambda state: state.value()),
        (ValueStateDescriptor("s"), lambda state: state.update(1)),
        (ValueStateDescriptor("s"), lambda state: state.clear()),
        (ListStateDescriptor("s"), lambda state: state.get()),
        (ListStateDescriptor("s"), lambda state: state.add(1)),
        (ListStateDescriptor("s"), lambda state: state.clear()),
        (MapStateDescriptor("s"), lambda state: state.get(1)),
        (MapStateDescriptor("s"), lambda state: state.put_all({})),
        (MapStateDescriptor("s"), lambda state: state.items()),
        (MapStateDescriptor("s"), lambda state: state.clear()),
        (ReducingStateDescriptor("s", max), lambda state: state.add(1)),
    ],
)
def test_use_without_a_key_names_state_and_operator(backend, descriptor, use):
    state = backend.get_state(descriptor)
    assert backend.current_key is NO_KEY
    with pytest.raises(
        StateAccessError, match='state "s" of operator "op" was used while there is no current key'
    ):
        use(state)


def test_name_of_another_kind_is_refused(backend):
    backend.get_state(ValueStateDescriptor("s"))
    with pytest.raises(ConfigurationError) as caught:
        backend.get_state(ListStateDescriptor("s"))
    assert 'state "s" of operator "op" is value state and was asked for as list state' in str(caught.value)


def test_descriptor_of_no_kind_is_refused(backend):
    class Odd(StateDescriptor):
        pass

    with pytest.raises(ConfigurationError, match="describes no kind of state"):
        backend.get_state(Odd("s"))


def test_value_that_cannot_be_pickled_names_state_operator_and_key(make_backend):
    backend = make_backend("disk")
    state = backend.get_state(ValueStateDescriptor("broken"))
    backend.set_current_key("k1")
    state.update(1)
    state.update(number for number in range(3))
    with pytest.raises(NotSerializableError) as caught:
        backend.end_epoch(checkpoint=True)
    assert 'state "broken" of operator "op" has a value of type generator' in str(caught.value)
    assert "'k1'" in str(caught.value)


class Refuses:
    def __reduce__(self):
        raise ValueError("not me")


@pytest.mark.parametrize(
    "descriptor", [ValueStateDescriptor("s"), ListStateDescriptor("s"), MapStateDescriptor("s")]
)
def test_value_whose_own_pickling_fails_is_named_for_every_kind(make_backend, descriptor):
    backend = make_backend("disk")
    state = backend.get_state(descriptor)
    backend.set_current_key("k1")
    with pytest.raises(NotSerializableError, match='state "s" of operator "op" .* ValueError: not me'):
        if isinstance(descriptor, MapStateDescriptor):
            state.put_all({number: Refuses() for number in range(2)})
        else:
            state.update(1 if isinstance(descriptor, ValueStateDescriptor) else [1])
            state.update(Refuses() if isinstance(descriptor, ValueStateDescriptor) else [Refuses()])
        backend.flush()


def test_classes_that_cannot_be_imported_are_kept_by_number(make_backend):
    class Local:
        def __init__(self, x):
            self.x = x

    backend = make_backend("disk without cache")
    state = backend.get_state(ValueStateDescriptor("s"))
    for key in range(3):
        backend.set_current_key(key)
        state.update(Local(key))
    backend.set_current_key(0)
    found = state.value()
    assert type(found) is Local and found.x == 0


def test_disk_store_grows_beyond_its_first_size_while_a_scan_is_open(tmp_path):
    directory = tmp_path / "store"
    directory.mkdir()
    store = DiskStore(str(directory), map_bytes=1 << 17)
    store.write([(b"a%06d" % n, b"x" * 20) for n in range(100)], [], [])
    scan = store.scan(b"a")
    next(scan)
    store.write([(b"b%06d" % n, b"x" * 500) for n in range(2_000)], [], [])
    assert store.get(b"b001999") == b"x" * 500
    assert len(list(scan)) == 99
    store.close()
    store.close()
    assert not directory.exists()


def test_rows_are_kept_as_they_are(backend):
    state = backend.get_state(ValueStateDescriptor("row"))
    backend.set_current_key(1)
    state.update(Row(a=1, b="x"))
    backend.set_current_key(2)
    state.update(Row(1))
    backend.set_current_key(1)
    assert state.value() == Row(a=1, b="x")
