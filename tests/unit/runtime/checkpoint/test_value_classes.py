"""Values in state whose class has changed since: each class is pickled as it was and unpickled as it is."""

from __future__ import annotations

import pickle
import sys
import types

import pytest

from millstream.base.errors import StateIncompatibleError
from millstream.common import Row
from millstream.runtime.program.main_classes import load_state

HEAD = "from __future__ import annotations\nimport dataclasses, enum\nfrom typing import NamedTuple\n"


@pytest.fixture
def reload(monkeypatch):
    """Pickle what an expression gives in a module, and load it when the module has become another."""

    def run(before, expression, after):
        module = types.ModuleType("shapes")
        monkeypatch.setitem(sys.modules, "shapes", module)
        exec(HEAD + before, module.__dict__)
        data = pickle.dumps(eval(expression, module.__dict__), protocol=5)
        changed = types.ModuleType("shapes")
        monkeypatch.setitem(sys.modules, "shapes", changed)
        exec(HEAD + after, changed.__dict__)
        return load_state(data), changed

    return run


def dataclass(fields, name="Reading", arguments=""):
    return f"@dataclasses.dataclass{arguments}\nclass {name}:\n    {fields}\n"


def test_a_dataclass_gets_a_field_with_a_default_and_loses_another(reload):
    value, now = reload(
        dataclass("sensor: str; celsius: float"),
        "Reading('a', 1.5)",
        dataclass("sensor: str; unit: str = 'C'"),
    )
    assert type(value) is now.Reading
    assert (value.sensor, value.unit) == ("a", "C")
    assert value == now.Reading("a")


def test_a_frozen_dataclass_too(reload):
    value, now = reload(
        dataclass("a: int; b: int", arguments="(frozen=True)"),
        "Reading(1, 2)",
        dataclass("a: int; c: int = 7", arguments="(frozen=True)"),
    )
    assert (value.a, value.c) == (1, 7)
    assert value == now.Reading(1)


def test_a_slotted_dataclass_fills_in_what_is_missing_by_itself(reload):
    after = dataclass("a: int; c: int", arguments="") + (
        "    def __setstate__(self, state):\n        self.__dict__.update({'c': 9, **state})\n"
    )
    value, _ = reload(dataclass("a: int"), "Reading(1)", after)
    assert (value.a, value.c) == (1, 9)


def test_a_named_tuple_gets_fields_with_defaults_at_its_end(reload):
    tuples = "class Reading(NamedTuple):\n    {}\n"
    value, now = reload(
        tuples.format("sensor: str; celsius: float"),
        "Reading('a', 1.5)",
        tuples.format("sensor: str; celsius: float; unit: str = 'C'"),
    )
    assert value == now.Reading("a", 1.5, "C")
    assert type(value) is now.Reading


@pytest.mark.parametrize("fields", ["sensor: str", "sensor: str; celsius: float; unit: str"])
def test_a_named_tuple_that_lost_a_field_or_got_one_without_default_is_refused_by_name(reload, fields):
    tuples = "class Reading(NamedTuple):\n    {}\n"
    with pytest.raises(StateIncompatibleError) as raised:
        reload(tuples.format("sensor: str; celsius: float"), "Reading('a', 1.5)", tuples.format(fields))
    assert "cannot be made again: TypeError" in raised.value.message
    assert "shapes.Reading" in raised.value.detail


def test_values_within_values_change_as_well(reload):
    before = dataclass("celsius: float", "Inner") + dataclass("inner: list; kind: str")
    after = dataclass("celsius: float; unit: str = 'C'", "Inner") + dataclass("inner: list; number: int = 1")
    value, now = reload(before, "{'k': [Reading([Inner(1.0), Inner(2.0)], 'x')]}", after)
    assert value == {"k": [now.Reading([now.Inner(1.0), now.Inner(2.0)])]}


def test_rows_stay_as_they_were_written():
    row = Row(sensor="a", celsius=1.5)
    assert load_state(pickle.dumps(row, protocol=5)) == row


def test_members_of_an_enum_are_found_by_value(reload):
    value, now = reload(
        "class Color(enum.Enum):\n    RED = 'r'\n",
        "Color.RED",
        "class Color(enum.Enum):\n    GREEN = 'g'; RED = 'r'\n",
    )
    assert value is now.Color.RED


@pytest.mark.parametrize("after", ["", dataclass("a: int", "Renamed")])
def test_a_class_that_vanished_is_named(reload, after):
    with pytest.raises(StateIncompatibleError) as raised:
        reload(dataclass("a: int"), "Reading(1)", after)
    assert 'class "Reading" of module "shapes" is in the state and not in the program' in raised.value.message


def test_a_module_that_vanished_is_named(monkeypatch):
    module = types.ModuleType("gone_shapes")
    monkeypatch.setitem(sys.modules, "gone_shapes", module)
    exec(HEAD + dataclass("a: int"), module.__dict__)
    data = pickle.dumps(module.Reading(1))
    monkeypatch.delitem(sys.modules, "gone_shapes")
    with pytest.raises(StateIncompatibleError, match='module "gone_shapes"'):
        load_state(data)


def test_what_a_class_makes_of_itself_is_its_own_error(reload):
    after = dataclass("a: int") + "    def __setstate__(self, state):\n        raise KeyError('b')\n"
    with pytest.raises(StateIncompatibleError, match="KeyError: 'b'"):
        reload(dataclass("a: int"), "Reading(1)", after)
