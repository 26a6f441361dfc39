from __future__ import annotations

import pickle
from enum import Enum

import cloudpickle
import pytest

from millstream.runtime.program import main_classes
from millstream.runtime.program.main_classes import (
    dump_with_main_classes,
    load_state,
    register_main_classes,
)


@pytest.fixture(autouse=True)
def no_classes(monkeypatch):
    monkeypatch.setattr(main_classes, "_classes", {})


def reading(program):
    class Reading:
        def made_by(self):
            return program

    Reading.__module__, Reading.__qualname__ = "__main__", "Reading"
    return Reading


def level(*names):
    made = Enum("Level", names)
    made.__module__, made.__qualname__ = "__main__", "Level"
    return made


def stored(kind, **attributes):
    """Pickle an instance with its class, as another process would have: without this process' memory of it."""
    each = kind()
    each.__dict__.update(attributes)
    data = cloudpickle.dumps(each, protocol=5)
    cloudpickle.cloudpickle._DYNAMIC_CLASS_TRACKER_BY_CLASS.pop(kind)
    return data


def test_value_gets_the_class_of_the_program_that_runs():
    data = stored(reading("first"), celsius=1.5)
    new = reading("second")
    register_main_classes([new])
    found = load_state(data)
    assert type(found) is new
    assert (found.made_by(), found.celsius) == ("second", 1.5)


def test_class_that_the_program_no_longer_has_comes_from_the_file():
    found = load_state(stored(reading("first"), celsius=1.5))
    assert (found.made_by(), found.celsius) == ("first", 1.5)


def test_members_of_an_enumeration_are_the_programs():
    data = cloudpickle.dumps(level("LOW", "HIGH").LOW, protocol=5)
    new = level("LOW", "HIGH", "OFF")
    register_main_classes([new])
    assert load_state(data) is new.LOW


def test_value_that_names_its_class_only_finds_it_too():
    register_main_classes([reading("second")])
    data = b"c__main__\nReading\n)\x81."
    assert load_state(data).made_by() == "second"


def test_classes_met_while_pickling_are_told():
    kind = reading("first")
    content, classes = pickle.loads(dump_with_main_classes([kind]))
    assert content == [kind]
    assert kind in classes
