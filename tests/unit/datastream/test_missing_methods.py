"""What a user reads who asks a stream for a method that it does not have."""

from __future__ import annotations

import copy
import pickle

import pytest

from millstream.common import Configuration
from millstream.datastream import DataStream, StreamExecutionEnvironment


def environment():
    return StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_dict({"execution.target": "local"})
    )


def numbers():
    return environment().from_collection([(1, 2)])


def keyed():
    return numbers().key_by(lambda pair: pair[0])


def hint_of(owner, name):
    assert not hasattr(owner, name)
    with pytest.raises(AttributeError) as caught:
        getattr(owner, name)
    return caught.value.hint


@pytest.mark.parametrize(
    "name", ["sum", "min", "max_by", "reduce", "window", "count_window", "interval_join"]
)
def test_what_needs_keys_says_so(name):
    assert hint_of(numbers(), name) == (
        f"Streams with keys have it. Call key_by(...) before: stream.key_by(lambda record: record[0]).{name}(...)."
    )


@pytest.mark.parametrize(
    ("make", "name", "meant"),
    [
        (keyed, "windows", "window"),
        (numbers, "windows", "window"),
        (numbers, "flatMap", "flat_map"),
        (numbers, "keyBy", "key_by"),
        (numbers, "mapp", "map"),
        (numbers, "fliter", "filter"),
        (numbers, "redcue", "reduce"),
        (numbers, "assignTimestampsAndWatermarks", "assign_timestamps_and_watermarks"),
        (lambda: keyed().count_window(1), "proces", "process"),
        (lambda: (one := numbers()).connect(one), "proccess", "process"),
        (environment, "from_colection", "from_collection"),
        (environment, "setParallelism", "set_parallelism"),
    ],
)
def test_a_mistyped_method_is_guessed(make, name, meant):
    assert f'Did you mean "{meant}"?' in hint_of(make(), name)


@pytest.mark.parametrize(
    ("make", "name", "said"),
    [
        (numbers, "group_by", "key_by"),
        (numbers, "collect", "execute_and_collect"),
        (lambda: keyed().count_window(1), "map", "reduce"),
        (lambda: numbers().print(), "map", "Nothing comes behind a sink"),
        (environment, "from_elements", "from_collection"),
        (environment, "from_table", "Make a StreamTableEnvironment"),
        (numbers, "to_table", "Make a StreamTableEnvironment"),
    ],
)
def test_methods_of_others_have_their_counterpart_named(make, name, said):
    assert said in hint_of(make(), name)


def test_something_quite_different_has_no_hint():
    assert hint_of(numbers(), "xyzzy") is None


class Own(DataStream):
    @property
    def broken(self):
        return [].nothing

    def of_own(self):
        return "own"


def test_a_subclass_keeps_its_own_errors_and_methods():
    stream = numbers()
    own = Own(stream.get_execution_environment(), stream._ports)
    assert own.of_own() == "own"
    with pytest.raises(AttributeError, match="'list' object has no attribute 'nothing'"):
        _ = own.broken


def test_private_names_and_protocols_of_python_are_left_alone():
    stream = numbers()
    for name in ("_private", "__deepcopy__", "__array__"):
        with pytest.raises(AttributeError, match="'DataStream' object has no attribute"):
            getattr(stream, name)
    assert copy.copy(stream).get_name() == stream.get_name()
    with pytest.raises(AttributeError) as caught:
        _ = stream.windows
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
