from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.base.errors import ConfigurationError
from millstream.state.key_encoding import encode_key
from millstream.types.row import Row

ORDERED = st.sampled_from(
    [
        st.integers(),
        st.text(),
        st.binary(),
        st.datetimes(),
        st.dates(),
        st.times(),
        st.tuples(st.text(), st.integers(), st.binary()),
        st.lists(st.text(max_size=3), max_size=4).map(tuple),
        st.lists(st.integers(), max_size=4).map(tuple),
    ]
)


@given(st.data())
def test_bytes_sort_as_the_keys_of_one_type_do(data):
    kind = data.draw(ORDERED)
    first, second = data.draw(kind), data.draw(kind)
    assert (encode_key(first) < encode_key(second)) == (first < second)
    assert (encode_key(first) == encode_key(second)) == (first == second)


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_floats_have_the_same_bytes_exactly_if_they_are_equal(first, second):
    assert (encode_key(first) == encode_key(second)) == (first == second)


@given(st.integers(-(2**80), 2**80) | st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_that_are_equal_have_equal_bytes(number):
    assert encode_key(Decimal(number)) == encode_key(number)
    if float(number) == number:
        assert encode_key(float(number)) == encode_key(number)


@given(st.integers(-(10**30), 10**30))
def test_integers_too_long_for_one_length_byte_still_sort(number):
    huge = 256**300
    assert encode_key(-huge) < encode_key(number) < encode_key(huge) < encode_key(huge * 256)


class Colour(Enum):
    RED = 1
    BLUE = 2


class Other(Enum):
    RED = 1


class Level(IntEnum):
    LOW = 1


@dataclass(frozen=True)
class Point:
    x: int
    y: int


def test_bytes_are_those_of_every_earlier_run():
    assert encode_key(None) == b"\x01"
    assert encode_key("a\0b") == b"\x11a\x00\xffb\x00"
    assert encode_key(258) == b"\x21\x02\x01\x02"
    assert encode_key(("a", 1)) == b"\x50\x11a\x00\x21\x01\x01\x00"


def test_enum_members_are_told_apart_by_class_and_name_unless_they_are_numbers():
    assert len({encode_key(key) for key in (Colour.RED, Colour.BLUE, Other.RED, 1)}) == 4
    assert encode_key(Level.LOW) == encode_key(1)


def test_rows_tuples_and_dataclasses_are_encoded_by_their_fields():
    assert encode_key(Row("a", 1)) == encode_key(("a", 1))
    assert encode_key(Point(1, 2)) < encode_key(Point(1, 3)) < encode_key(Point(2, 0))


def test_equal_instants_have_equal_bytes_whatever_their_zone():
    utc = datetime(2013, 1, 1, 12, tzinfo=timezone.utc)  # noqa: UP017
    assert encode_key(utc) == encode_key(utc.astimezone(timezone(timedelta(hours=5, minutes=30))))


def test_key_without_canonical_form_is_refused_by_type_and_value():
    with pytest.raises(ConfigurationError, match=r"type memoryview .*(?s:.*)cannot pickle"):
        encode_key(memoryview(b"x"))
    with pytest.raises(ConfigurationError, match="type generator"):
        encode_key((1, (n for n in ())))
