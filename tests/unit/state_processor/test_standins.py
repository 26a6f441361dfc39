"""State of classes that are not here is shown, not an error."""

from __future__ import annotations

import pickle
import subprocess
import sys
import textwrap

import pytest

from millstream.base.errors import ConfigurationError, StateIncompatibleError
from millstream.state_processor import SavepointReader, StandIn
from millstream.state_processor.program import load_program
from millstream.state_processor.standins import load_tolerantly

MODULE = """
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from enum import Enum

class Color(Enum):
    RED = 1

@dataclass(frozen=True)
class Point:
    x: int
    y: int

class Bag(list):
    pass

class Touchy:
    def __init__(self):
        self.fine = True
    def __setstate__(self, state):
        if state["fine"]:
            return
        raise RuntimeError("not today")

Pair = namedtuple("Pair", "a b")
"""


@pytest.fixture
def shapes(tmp_path, monkeypatch):
    """A module that is there while this fixture's result is imported, and not afterwards."""
    (tmp_path / "shapes.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    import shapes

    yield shapes
    sys.modules.pop("shapes", None)


@pytest.fixture
def pickled(shapes, monkeypatch):
    """Pickles a value, then has the classes gone."""

    def pickle_and_forget(value):
        data = pickle.dumps(value, protocol=5)
        monkeypatch.delitem(sys.modules, "shapes")
        monkeypatch.setattr(sys, "path", [])
        return data

    return pickle_and_forget


def test_what_is_here_is_what_it_is(shapes):
    value = {"p": shapes.Point(1, 2), "c": shapes.Color.RED, "n": [1.5, None]}
    assert load_tolerantly(pickle.dumps(value)) == value


def test_objects_of_missing_classes_show_their_type_and_size_and_the_rest_is_read(shapes, pickled):
    value = [
        ("before", 1),
        (shapes.Point(1, 2), shapes.Color.RED, shapes.Bag([1, 2]), shapes.Pair(3, 4)),
        {shapes.Point(5, 6): "as a key"},
    ]
    loaded = load_tolerantly(pickled(value))
    assert loaded[0] == ("before", 1)
    point, color, bag, pair = loaded[1]
    assert [type(each).type_name for each in (point, color, bag, pair)] == [
        "shapes.Point",
        "shapes.Color",
        "shapes.Bag",
        "shapes.Pair",
    ]
    assert repr(point) == f"<shapes.Point, {point.size} bytes>"
    assert point.size > 0
    assert bag.items == [1, 2]
    assert pair.arguments == (3, 4)
    (key,) = loaded[2]
    assert isinstance(key, StandIn)


def test_stand_ins_are_equal_if_they_hold_the_same(shapes, pickled):
    data = pickled([shapes.Point(1, 2), shapes.Point(1, 2), shapes.Point(1, 3)])
    one, same, other = load_tolerantly(data)
    assert one == same != other
    assert hash(one) == hash(same)
    assert load_tolerantly(data) == [one, same, other]


def test_a_class_that_cannot_be_made_any_more_stands_in(shapes, monkeypatch):
    touchy = shapes.Touchy()
    touchy.fine = False
    loaded = load_tolerantly(pickle.dumps(("kept", touchy)))
    assert loaded[0] == "kept"
    assert repr(loaded[1]).startswith("<shapes.Touchy, ")


def test_what_is_no_pickle_at_all_stands_in():
    loaded = load_tolerantly(b"nonsense")
    assert isinstance(loaded, StandIn)
    assert loaded.size == 8
    assert "8 bytes" in repr(loaded)


def test_a_module_can_be_replaced(shapes):
    data = pickle.dumps(shapes.Point(1, 2))
    assert load_tolerantly(data.replace(b"shapes", b"forms_"), {"forms_": shapes}) == shapes.Point(1, 2)


PROGRAM = """
    import sys
    from dataclasses import dataclass
    from millstream.common import Configuration
    from millstream.datastream import StreamExecutionEnvironment
    from millstream.datastream.state import ValueStateDescriptor
    from millstream.state_processor import KeyedBootstrap, SavepointWriter

    @dataclass
    class Account:
        balance: int

    rows = [("a", 1), ("b", 2)]
    state = (ValueStateDescriptor("account"), lambda row: Account(row[1]))
    if len(sys.argv) == 2:
        SavepointWriter.new().with_operator("op", KeyedBootstrap(rows, 0, {"account": state})).write(sys.argv[1])
    else:
        print("not run as the main program")
        env = StreamExecutionEnvironment.get_execution_environment()
        env.from_collection([1]).print()
        env.execute()
        raise AssertionError("a job was run")
"""


@pytest.mark.slow
def test_classes_of_a_main_program_come_from_the_program_itself(tmp_path, monkeypatch):
    program = tmp_path / "accounts_job.py"
    program.write_text(textwrap.dedent(PROGRAM))
    path = str(tmp_path / "savepoint")
    subprocess.run([sys.executable, str(program), path], check=True)
    without = list(SavepointReader.read(path).keyed_state("op", "account"))
    assert {key for key, _, _ in without} == {"a", "b"}
    assert {repr(value).split(",")[0] for _, _, value in without} == {"<__main__.Account"}
    with pytest.raises(StateIncompatibleError, match="of a class that is not here.*Account"):
        list(SavepointReader.read(path, strict=True).keyed_state("op", "account"))
    monkeypatch.setattr(sys, "argv", ["state"])
    monkeypatch.setattr(sys, "path", list(sys.path))
    module = load_program(str(program))
    found = SavepointReader.read(path, modules={"__main__": module}).keyed_state("op", "account")
    assert {key: value.balance for key, _, value in found} == {"a": 1, "b": 2}


def test_a_program_that_raises_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    program = tmp_path / "broken_job.py"
    program.write_text("1 / 0")
    with pytest.raises(ConfigurationError, match=r"broken_job\.py.*ZeroDivisionError"):
        load_program(str(program))
