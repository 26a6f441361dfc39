"""Time to live, on both backends, against what Flink's documentation and TtlState classes say."""

from __future__ import annotations

import pytest

from millstream.base.errors import ConfigurationError, TypeMismatchError
from millstream.base.time import Duration, Time
from millstream.common.functions import AggregateFunction
from millstream.common.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)

TTL = 100


class Sum(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + value

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


def config(*, on_read=False, show_expired=False, quiet=True, more=None):
    builder = StateTtlConfig.new_builder(Time.milliseconds(TTL))
    if on_read:
        builder.update_ttl_on_read_and_write()
    if show_expired:
        builder.return_expired_if_not_cleaned_up()
    if quiet:
        builder.disable_cleanup_in_background()
    if more is not None:
        more(builder)
    return builder.build()


def timed(descriptor, **settings):
    descriptor.enable_time_to_live(config(**settings))
    return descriptor


@pytest.fixture
def state_of(backend):
    def get(descriptor, **settings):
        backend.set_current_key("k")
        return backend.get_state(timed(descriptor, **settings))

    return get


#  write        ttl
#  1000 ────────1100──►   expired from 1100 on
def test_value_expires_when_its_time_to_live_has_passed_since_the_last_write(state_of, epoch_time):
    state = state_of(ValueStateDescriptor("v"))
    state.update("x")
    epoch_time.now_ms += TTL - 1
    assert state.value() == "x"
    epoch_time.now_ms += 1
    assert state.value() is None
    state.update("y")
    epoch_time.now_ms += TTL - 1
    state.update("z")
    epoch_time.now_ms += TTL - 1
    assert state.value() == "z"


def test_reading_renews_a_value_only_if_that_is_configured(make_backend, epoch_time):
    for kind in ("heap", "disk without cache"):
        for on_read in (True, False):
            backend = make_backend(kind)
            backend.set_current_key("k")
            state = backend.get_state(timed(ValueStateDescriptor("v"), on_read=on_read))
            state.update("x")
            epoch_time.now_ms += TTL - 1
            assert state.value() == "x"
            epoch_time.now_ms += 1
            assert state.value() == ("x" if on_read else None)


def test_expired_value_is_shown_once_if_that_is_configured(state_of, epoch_time):
    state = state_of(ValueStateDescriptor("v"), show_expired=True)
    state.update("x")
    epoch_time.now_ms += TTL
    assert [state.value(), state.value()] == ["x", None]


def test_elements_of_a_list_expire_one_by_one(state_of, epoch_time):
    state = state_of(ListStateDescriptor("l"))
    for element in "abc":
        state.add(element)
        epoch_time.now_ms += 40
    # a 1000, b 1040, c 1080; now 1120
    assert list(state.get()) == ["b", "c"]
    epoch_time.now_ms += 20
    assert list(state.get()) == ["c"]
    state.add_all(["d", "e"])
    epoch_time.now_ms += 40
    assert list(state.get()) == ["d", "e"]
    state.update(["f"])
    epoch_time.now_ms += TTL
    assert list(state.get()) == []


def test_expired_elements_are_shown_while_others_live(state_of, epoch_time):
    state = state_of(ListStateDescriptor("l"), show_expired=True)
    state.add("a")
    epoch_time.now_ms += 60
    state.add("b")
    epoch_time.now_ms += 40
    assert [list(state.get()), list(state.get())] == [["a", "b"], ["a", "b"]]
    epoch_time.now_ms += 60
    assert [list(state.get()), list(state.get())] == [["a", "b"], []]


def test_reading_renews_all_elements_of_a_list(state_of, epoch_time):
    state = state_of(ListStateDescriptor("l"), on_read=True)
    state.add("a")
    epoch_time.now_ms += 60
    state.add("b")
    epoch_time.now_ms += 39
    assert list(state.get()) == ["a", "b"]
    epoch_time.now_ms += TTL - 1
    assert list(state.get()) == ["a", "b"]
    epoch_time.now_ms += TTL
    assert list(state.get()) == []


def test_entries_of_a_map_expire_one_by_one(state_of, epoch_time):
    state = state_of(MapStateDescriptor("m"))
    state.put("a", 1)
    epoch_time.now_ms += 60
    state.put_all({"b": 2, "n": None})
    epoch_time.now_ms += 40
    assert sorted(state.items()) == [("b", 2), ("n", None)]
    assert "a" not in state and state.get("a") is None and "n" in state
    state.put("a", 3)
    epoch_time.now_ms += 60
    assert list(state.keys()) == ["a"] and list(state.values()) == [3] and not state.is_empty()
    epoch_time.now_ms += 40
    assert state.is_empty() and list(state) == []


def test_reading_renews_the_entry_that_was_read(state_of, epoch_time):
    state = state_of(MapStateDescriptor("m"), on_read=True)
    state.put_all({"a": 1, "b": 2, "c": 3})
    epoch_time.now_ms += TTL - 1
    assert state.get("a") == 1 and "b" in state
    epoch_time.now_ms += 1
    assert sorted(state.items()) == [("a", 1), ("b", 2)]
    epoch_time.now_ms += TTL - 1
    assert sorted(state) == ["a", "b"]


def test_expired_entry_is_shown_once_if_that_is_configured(state_of, epoch_time):
    state = state_of(MapStateDescriptor("m"), show_expired=True)
    state.put_all({"a": 1, "b": 2})
    epoch_time.now_ms += TTL
    assert [state.get("a"), state.get("a")] == [1, None]
    assert [list(state.items()), list(state.items())] == [[("b", 2)], []]


@pytest.mark.parametrize(
    "descriptor",
    [
        lambda: ReducingStateDescriptor("f", lambda x, y: x + y),
        lambda: AggregatingStateDescriptor("f", Sum()),
    ],
)
def test_folding_begins_anew_after_expiry_and_each_element_renews(state_of, epoch_time, descriptor):
    state = state_of(descriptor())
    for _ in range(3):
        state.add(1)
        epoch_time.now_ms += TTL - 1
    assert state.get() == 3
    epoch_time.now_ms += 1
    state.add(10)
    assert state.get() == 10
    epoch_time.now_ms += TTL
    assert state.get() is None


def test_expired_fold_goes_on_if_expired_state_is_shown(state_of, epoch_time):
    state = state_of(ReducingStateDescriptor("f", lambda x, y: x + y), show_expired=True)
    state.add(1)
    epoch_time.now_ms += TTL
    state.add(2)
    assert state.get() == 3


def test_disabled_time_to_live_is_none(backend, epoch_time):
    descriptor = ValueStateDescriptor("v")
    settings = StateTtlConfig.new_builder(Duration.of_millis(1)).set_update_type(
        StateTtlConfig.UpdateType.Disabled
    )
    descriptor.enable_time_to_live(settings.build())
    backend.set_current_key("k")
    state = backend.get_state(descriptor)
    state.update(1)
    epoch_time.now_ms += 10
    assert state.value() == 1


def test_same_name_with_and_without_time_to_live_is_refused(backend):
    backend.get_state(ValueStateDescriptor("v"))
    with pytest.raises(ConfigurationError, match="value state with a time to live"):
        backend.get_state(timed(ValueStateDescriptor("v")))


def test_each_access_removes_a_few_expired_entries_of_other_keys(make_backend, epoch_time):
    backend = make_backend("heap")
    descriptor = timed(
        ValueStateDescriptor("v"), more=lambda builder: builder.cleanup_incrementally(3, False)
    )
    state = backend.get_state(descriptor)
    for key in range(30):
        backend.set_current_key(key)
        state.update(key)
    epoch_time.now_ms += TTL
    table = backend._tables["v"][None]
    assert len(table) == 30
    backend.set_current_key("new")
    for _ in range(14):
        state.update("x")
    assert list(table) == ["new"]


def test_disk_drops_expired_entries_as_it_writes(make_backend, epoch_time):
    backend = make_backend("disk")
    value = backend.get_state(timed(ValueStateDescriptor("v"), quiet=False))
    entries = backend.get_state(timed(MapStateDescriptor("m"), quiet=False))
    elements = backend.get_state(timed(ListStateDescriptor("l"), quiet=False))
    kept = backend.get_state(ValueStateDescriptor("kept"))
    for key in range(50):
        backend.set_current_key(key)
        value.update(key)
        entries.put("u", key)
        elements.add("old")
        kept.update(key)
    epoch_time.now_ms += TTL // 2
    for key in range(50):
        backend.set_current_key(key)
        elements.add("new")
    epoch_time.now_ms += TTL // 2
    backend._rotate()
    left = {name: len(list(backend.entries(name))) for name in ("v", "m", "l", "kept")}
    assert left == {"v": 0, "m": 0, "l": 50, "kept": 50}
    assert {tuple(element for _, element in entry) for _, _, entry in backend.entries("l")} == {("new",)}


@pytest.mark.parametrize("full", [True, False])
def test_full_snapshot_leaves_out_what_is_expired(backend, make_backend, epoch_time, full):
    descriptors = [ValueStateDescriptor("v"), ListStateDescriptor("l"), MapStateDescriptor("m")]
    for descriptor in descriptors:
        timed(descriptor, more=lambda builder: full and builder.cleanup_full_snapshot())
    value, elements, entries = map(backend.get_state, descriptors)
    for key in ("old", "both"):
        backend.set_current_key(key)
        value.update(key)
        elements.add(1)
        entries.put(1, 1)
    epoch_time.now_ms += TTL
    backend.set_current_key("both")
    elements.add(2)
    entries.put(2, 2)
    snapshot = backend.snapshot()
    found = {
        (name, key): len(entry) if name != "v" else 1
        for states in snapshot.groups.values()
        for name, listed in states.items()
        for _, key, entry in listed
    }
    alive = {("l", "both"): 1, ("m", "both"): 1}
    everything = {("v", "old"): 1, ("v", "both"): 1, ("l", "old"): 1, ("m", "old"): 1}
    assert found == (alive if full else {**everything, ("l", "both"): 2, ("m", "both"): 2})


def test_configuration_has_flinks_names_and_defaults():
    built = StateTtlConfig.new_builder(Time.hours(1)).build()
    assert built.get_ttl() == Time.hours(1) and built.is_enabled()
    assert built.get_update_type() is StateTtlConfig.UpdateType.OnCreateAndWrite
    assert built.get_state_visibility() is StateTtlConfig.StateVisibility.NeverReturnExpired
    assert built.get_ttl_time_characteristic() is StateTtlConfig.TtlTimeCharacteristic.ProcessingTime
    cleanup = built.get_cleanup_strategies()
    assert cleanup.is_cleanup_in_background() and not cleanup.in_full_snapshot()
    assert cleanup.get_incremental_cleanup_strategy().get_cleanup_size() == 5
    assert cleanup.get_rocksdb_compact_filter_cleanup_strategy().get_query_time_after_num_entries() == 1000
    with pytest.raises(ConfigurationError, match="not positive"):
        StateTtlConfig.new_builder(Time.seconds(0)).build()
    with pytest.raises(TypeMismatchError, match='state "v" was given 5'):
        ValueStateDescriptor("v").enable_time_to_live(5)
