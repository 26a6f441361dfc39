"""Random programs of state operations: both backends agree with dicts and lists, whatever is written when."""

from __future__ import annotations

import tempfile

from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.common.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from millstream.common.windows import TimeWindow
from millstream.state.disk import DiskKeyedStateBackend
from millstream.state.heap import HeapKeyedStateBackend
from millstream.state.key_decoding import decode_key, is_decodable
from millstream.state.key_encoding import encode_key

KEYS = st.sampled_from(["a", "b", "ab", 1, ("a", 1)])
NAMESPACES = st.sampled_from([None, TimeWindow(0, 10)])
USER_KEYS = st.one_of(st.integers(-3, 3), st.sampled_from(["x", "y\x00", 2.5]))
OPERATIONS = st.one_of(
    st.tuples(st.just("update"), st.integers()),
    st.tuples(st.just("add"), st.integers()),
    st.tuples(st.just("replace"), st.lists(st.integers(), max_size=3)),
    st.tuples(st.just("put"), USER_KEYS, st.integers()),
    st.tuples(st.just("remove"), USER_KEYS),
    st.tuples(st.just("clear"), st.sampled_from(["v", "l", "m"])),
    st.tuples(st.just("clear namespace")),
    st.tuples(st.just("checkpoint")),
    st.tuples(st.just("snapshot and restore")),
)


class Model:
    """The same in plain Python."""

    def __init__(self):
        self.values, self.lists, self.maps = {}, {}, {}

    def apply(self, place, operation):
        kind, *args = operation
        if kind == "update":
            self.values[place] = args[0]
        elif kind == "add":
            self.lists[place] = [*self.lists.get(place, []), args[0]]
        elif kind == "replace":
            self.lists[place] = list(args[0])
        elif kind == "put":
            self.maps[place] = {**self.maps.get(place, {}), args[0]: args[1]}
        elif kind == "remove":
            self.maps[place] = {k: v for k, v in self.maps.get(place, {}).items() if k != args[0]}
        elif kind == "clear":
            {"v": self.values, "l": self.lists, "m": self.maps}[args[0]].pop(place, None)
        elif kind == "clear namespace":
            for each in (self.values, self.lists, self.maps):
                each.pop(place, None)

    def look(self, place):
        return self.values.get(place), self.lists.get(place, []), self.maps.get(place, {})


class Driver:
    def __init__(self, make):
        self.make = make
        self.backend = make()

    def states(self, place):
        key, namespace = place
        self.backend.set_current_key(key)
        get = self.backend.get_state
        return (
            get(ValueStateDescriptor("v"), namespace),
            get(ListStateDescriptor("l"), namespace),
            get(MapStateDescriptor("m"), namespace),
        )

    def apply(self, place, operation):
        kind, *args = operation
        value, elements, entries = self.states(place)
        if kind == "checkpoint":
            self.backend.end_epoch(checkpoint=True)
        elif kind == "snapshot and restore":
            snapshot = self.backend.snapshot()
            self.backend.close()
            self.backend = self.make()
            self.backend.restore(snapshot)
        elif kind == "clear":
            {"v": value, "l": elements, "m": entries}[args[0]].clear()
        elif kind == "clear namespace":
            self.backend.clear_namespace(place[1], place[0])
        else:
            methods = {
                "update": value.update,
                "add": elements.add,
                "replace": elements.update,
                "put": entries.put,
                "remove": entries.remove,
            }
            methods[kind](*args)

    def look(self, place):
        value, elements, entries = self.states(place)
        found = dict(entries.items())
        assert entries.is_empty() == (not found)
        assert all(entries.get(key) == item and key in entries for key, item in found.items())
        return value.value(), list(elements), found


def on_disk(cache_bytes):
    return lambda: DiskKeyedStateBackend(tempfile.mkdtemp(), cache_bytes=cache_bytes)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(KEYS, NAMESPACES, OPERATIONS), max_size=60), st.integers(1, 7))
def test_any_program_gives_the_same_on_every_backend(program, look_every):
    model = Model()
    drivers = [
        Driver(HeapKeyedStateBackend),
        Driver(on_disk(1)),
        Driver(on_disk(4_000)),
        Driver(on_disk(1 << 20)),
    ]
    try:
        for number, (key, namespace, operation) in enumerate(program):
            place = (key, namespace)
            for each in (model, *drivers):
                each.apply(place, operation)
            if number % look_every == 0:
                assert [driver.look(place) for driver in drivers] == [model.look(place)] * 4
        for place in {(key, namespace) for key, namespace, _ in program}:
            assert [driver.look(place) for driver in drivers] == [model.look(place)] * 4
    finally:
        for driver in drivers:
            driver.backend.close()


DECODABLE = st.recursive(
    st.none() | st.integers() | st.text() | st.binary() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=6,
)


@given(DECODABLE, DECODABLE)
def test_decoding_gives_back_keys_and_where_they_end(first, second):
    both = encode_key(first) + encode_key(second)
    decoded, end = decode_key(both)
    assert decoded == first
    assert decode_key(both, end) == (second, len(both))
    if is_decodable(first):
        assert type(decoded) is type(first) and repr(decoded) == repr(first)
