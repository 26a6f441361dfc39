from __future__ import annotations

import pytest

from millstream.base.errors import ConfigurationError
from millstream.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from millstream.state_processor import (
    BroadcastBootstrap,
    KeyedBootstrap,
    ListBootstrap,
    SavepointReader,
    SavepointWriter,
    StateChange,
    diff_states,
)


class Plain:
    """An object that does not say when it is equal to another."""

    def __init__(self, number):
        self.number = number


@pytest.fixture
def saved(tmp_path):
    def write(name, values, *, lists=(), rules=None, extra=False, timers=None):
        writer = SavepointWriter.new().with_operator(
            "op",
            KeyedBootstrap(
                list(values.items()), 0, {"v": (ValueStateDescriptor("v"), 1)}, event_timers=timers
            ),
            ListBootstrap({"l": (ListStateDescriptor("l"), lists)}),
            BroadcastBootstrap({"rules": (MapStateDescriptor("rules"), rules or {})}),
        )
        if extra:
            writer.with_operator("extra", KeyedBootstrap([(1, 2)], 0, {"v": (ValueStateDescriptor("v"), 1)}))
        return SavepointReader.read(writer.write(str(tmp_path / name)))

    return write


def test_added_removed_and_changed_keys_are_told(saved):
    before = saved("a", {"same": 1, "gone": 2, "other": 3})
    after = saved("b", {"same": 1, "new": 5, "other": 4})
    assert sorted(diff_states(before, after), key=lambda change: change.key) == [
        StateChange("op", "v", "removed", "gone", None, 2, None),
        StateChange("op", "v", "added", "new", None, None, 5),
        StateChange("op", "v", "changed", "other", None, 3, 4),
    ]


def test_operator_state_timers_and_operators_are_compared(saved):
    before = saved("a", {"k": 1}, lists=[1, 2], rules={"x": 1}, timers=lambda row: 10)
    after = saved("b", {"k": 1}, lists=[1, 3], rules={"y": 1}, timers=lambda row: 20, extra=True)
    assert set(diff_states(before, after)) == {
        StateChange("op", "l", "changed", 1, None, 2, 3),
        StateChange("op", "rules", "removed", "x", None, 1, None),
        StateChange("op", "rules", "added", "y", None, None, 1),
        StateChange("op", "timers", "removed", "k", (None, 10, "event"), True, None),
        StateChange("op", "timers", "added", "k", (None, 20, "event"), None, True),
        StateChange("extra", "v", "added", 1, None, None, 2),
    }
    assert {change.operator for change in diff_states(before, after, "extra")} == {"extra"}
    assert {change.operator for change in diff_states(after, before, "extra")} == {"extra"}
    with pytest.raises(ConfigurationError, match='no operator with uid "nobody"'):
        list(diff_states(before, after, "nobody"))


def test_equal_savepoints_do_not_differ_even_in_objects_without_equality(saved):
    values = {"k": Plain(1), "l": Plain(2)}
    assert list(diff_states(saved("a", values), saved("b", values))) == []
    changes = list(diff_states(saved("c", values), saved("d", {"k": Plain(1), "l": Plain(3)})))
    assert [(change.key, change.after.number) for change in changes] == [("l", 3)]
