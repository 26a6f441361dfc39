"""Which keys are the same key, and what of them a user sees."""

from __future__ import annotations

import pickle
from collections import namedtuple
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from enum import Enum, IntEnum

import numpy as np
import pandas as pd
import pytest

from millstream.base.errors import ConfigurationError
from millstream.state.canonical_key import CanonicalKey
from millstream.state.key_encoding import encode_key
from millstream.state.key_groups import KeyGroupMemo
from millstream.state.keys import canonical_key, canonical_keys, original_key
from millstream.types.row import Row

NAN = float("nan")


class Color(Enum):
    RED = 1


class Level(IntEnum):
    LOW = 1


@dataclass(frozen=True)
class Place:
    x: object
    y: object = 0


class Plain:
    def __init__(self, held):
        self.held = held

    def __repr__(self):
        return f"Plain({self.held!r})"


@dataclass(frozen=True)
class Noted:
    x: int
    note: str = field(compare=False)


@dataclass(frozen=True)
class Folded:
    name: str

    def __eq__(self, other):
        return isinstance(other, Folded) and self.name.lower() == other.name.lower()

    def __hash__(self):
        return hash(self.name.lower())


class FoldedText(str):
    def __eq__(self, other):
        return isinstance(other, FoldedText) and self.lower() == other.lower()

    def __hash__(self):
        return hash(self.lower())


Pair = namedtuple("Pair", "one two")

DIFFERENT = [
    *(1, True, 1.0, Decimal(1), 1 + 0j, "1", b"1", None),
    *(0.0, -0.0, 0, False, NAN, Decimal("nan"), (NAN,)),
    *((1, 2), (1, True), [1, 2], {1, 2}, {1: 2}, Row(1, 2), Row(a=1, b=2), Row(1.0, 2), bytearray(b"x")),
    frozenset([1, 2]),
    *(
        Place(1),
        Place(True),
        Place([1]),
        Plain(1),
        Plain([1]),
        Color.RED,
        int,
        timedelta(1),
        timedelta(days=2),
    ),
    *(Noted(1, "a"), Noted(1, "b"), Folded("a"), Folded("A"), FoldedText("a"), FoldedText("A")),
    *(
        np.datetime64("2013-01-01"),
        np.datetime64("2013-01-01", "s"),
        np.datetime64("NaT"),
        np.timedelta64("NaT"),
    ),
    *(pd.NaT, [pd.Timestamp(1)], [pd.Timestamp(2)], [pd.Timedelta(1)], [pd.Timedelta(2)]),
    *(np.longdouble(1) / 3, np.clongdouble(1)),
]
SAME = [
    (NAN, -NAN),
    ((1, NAN), (1, float("inf") * 0)),
    ({"a": 1, "b": {1, 2}}, {"b": {2, 1}, "a": 1}),
    ({8, 16}, {16, 8}),
    (Place([1]), Place([1])),
    (Plain("x"), Plain("x")),
    (Level.LOW, 1),
    (Pair(1, 2), (1, 2)),
    (Decimal("1.0"), Decimal("1.00")),
    (Row(a=1, b=[2]), Row(a=1, b=[2])),
    (Noted(1, "a"), Noted(1, "a")),
    ((1, np.datetime64("NaT")), (1, np.datetime64("NaT"))),
    ((1, pd.NaT), (1, pd.NaT)),
    (np.longdouble("nan"), np.longdouble("nan")),
]


def test_keys_that_pyflink_tells_apart_are_apart():
    # PyFlink 2.3 counts 1, True and 1.0 apart, 0.0, -0.0 and 0 too, and lists apart from tuples (it compares the bytes
    # that keys are pickled to; two equal keys one after the other share their state by an oversight of its cache).
    canonical = list(map(canonical_key, DIFFERENT))
    assert len(set(canonical)) == len(DIFFERENT)


@pytest.mark.parametrize(("one", "other"), SAME, ids=repr)
def test_keys_that_are_the_same_are_one_in_dicts_and_groups(one, other):
    assert canonical_key(one) == canonical_key(other)
    assert len({canonical_key(one), canonical_key(other)}) == 1
    assert encode_key(one) == encode_key(other) == encode_key(canonical_key(one))


@pytest.mark.parametrize("key", DIFFERENT, ids=repr)
def test_a_canonical_key_travels_and_gives_the_original_back(key):
    again = pickle.loads(pickle.dumps(canonical_key(key)))
    assert again == canonical_key(key)
    assert type(original_key(again)) is type(key)
    assert repr(again) == repr(key)


def test_common_keys_stand_for_themselves_in_one_list():
    for keys in (["a", "b"], [1, 2], [("a", 1), ("b", 2)], [None, "a", b"c"]):
        assert canonical_keys(keys) is keys
    assert canonical_key(1.5) == 1.5
    assert type(canonical_key(Place(1, "a"))) is Place


def test_a_list_of_mixed_keys_is_made_canonical_one_by_one():
    made = canonical_keys(["a", 1.0, (1, True), [1]])
    assert [type(key) for key in made] == [str, CanonicalKey, CanonicalKey, CanonicalKey]


def test_what_a_user_does_to_a_key_does_not_change_it():
    given = [1, [2]]
    key = canonical_key(given)
    given[1].append(3)
    original_key(key)[1].append(4)
    assert original_key(key) == [1, [2]]
    assert canonical_key([1, [2]]) == key


def test_keys_of_all_kinds_have_a_subtask():
    memo = KeyGroupMemo(128, 2)
    assert memo.subtasks([[1], NAN, {"a"}]) == memo.subtasks([[1], -NAN, {"a"}])
    assert memo.subtasks([1, True, (1,)]) == memo.subtasks([1.0, 1, (True,)])


def test_keys_that_cannot_be_told_apart_are_refused():
    endless = []
    endless.append(endless)
    with pytest.raises(ConfigurationError, match="contains itself"):
        canonical_key(endless)
    with pytest.raises(ConfigurationError, match="cannot pickle"):
        canonical_key(lambda: 1)


class Text(str):
    def __repr__(self):
        return f"Text({str(self)!r})"


class Number(float):
    pass


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Number(1.0), 1.0),
        ([Text("a")], ["a"]),
        (Decimal("1.0"), Decimal("1.00")),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ((NAN, Text("a")), (NAN, "a")),
    ],
    ids=repr,
)
def test_a_key_comes_back_as_it_was_given_whatever_was_seen_before(one, other):
    # The stand-ins of a process are shared by all of its jobs.
    for key in (one, other):
        original = original_key(canonical_key(key))
        assert repr(original) == repr(key)
        assert type(original) is type(key)
