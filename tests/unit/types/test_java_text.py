"""What Java writes for numbers and times; the digits are checked against exact fractions."""

from __future__ import annotations

import datetime
import math
import struct
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.types.java_text import double_text, float_text, time_text, timestamp_text

# As PyFlink printed them, on Java 17.
DOUBLES = [
    (0.1, "0.1"),
    (1.0, "1.0"),
    (0.0, "0.0"),
    (-0.0, "-0.0"),
    (1e7, "1.0E7"),
    (9999999.0, "9999999.0"),
    (1e-3, "0.001"),
    (1e-4, "1.0E-4"),
    (1.5e300, "1.5E300"),
    (123456789.125, "1.23456789125E8"),
    (1 / 3, "0.3333333333333333"),
    (-1 / 3, "-0.3333333333333333"),
    (float("inf"), "Infinity"),
    (float("-inf"), "-Infinity"),
    (float("nan"), "NaN"),
    (5e-324, "4.9E-324"),
    (2e-323, "2.0E-323"),
    (2.2250738585072014e-308, "2.2250738585072014E-308"),
    (2.0**70, "1.1805916207174113E21"),
]
FLOATS = [
    (0.5, "0.5"),
    (0.1, "0.1"),
    (1.1, "1.1"),
    (-2.0, "-2.0"),
    (-0.0, "-0.0"),
    (0.001, "0.001"),
    (1e10, "1.0E10"),
    (16777216.0, "1.6777216E7"),
    (33554432.0, "3.3554432E7"),
    (3.4028235e38, "3.4028235E38"),
    (1.4e-45, "1.4E-45"),
    (2.0e-44, "2.0E-44"),
    (float("inf"), "Infinity"),
    (float("-inf"), "-Infinity"),
    (float("nan"), "NaN"),
]


def single(bits):
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def neighbour(value, step):
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    return Fraction(single(bits + step))


SINGLES = st.integers(2, 0x7F7FFFFE).map(single)
POWERS_OF_TWO = st.integers(1, 0xFE).map(lambda exponent: single(exponent << 23))


@pytest.mark.parametrize(("value", "text"), DOUBLES)
def test_doubles_are_written_as_java_does(value, text):
    assert double_text(value) == text


@pytest.mark.parametrize(("value", "text"), FLOATS)
def test_floats_are_written_as_java_does(value, text):
    assert float_text(value) == text


def test_integers_are_written_as_floats():
    assert (double_text(10_000_000), float_text(3)) == ("1.0E7", "3.0")


def test_what_is_beyond_single_precision_is_infinite_and_zero():
    assert (float_text(1e39), float_text(-1e39), float_text(1e-60)) == ("Infinity", "-Infinity", "0.0")


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_doubles_are_read_back_and_have_javas_form(value):
    text = double_text(value)
    assert float(text) == value
    assert math.copysign(1, float(text)) == math.copysign(1, value)
    assert_form(text, value)


@given(SINGLES | POWERS_OF_TWO)
def test_floats_have_the_fewest_digits_that_lie_nearest_to_them(value):
    text = float_text(value)
    assert_form(text, value)
    low = (neighbour(value, -1) + Fraction(value)) / 2
    high = (neighbour(value, +1) + Fraction(value)) / 2
    assert low <= Fraction(text) <= high
    digits = len(text.partition("E")[0].replace(".", "").strip("0")) or 1
    unit = unit_of(value, digits - 1)
    if digits > 2:
        shorter = [Fraction(value) // unit * unit, -(-Fraction(value) // unit) * unit]
        assert not any(low < candidate < high for candidate in shorter)


def unit_of(value, digits):
    """Return what one in the last of so many digits counts."""
    exponent = int(f"{value:e}".partition("e")[2])
    return Fraction(10) ** (exponent - digits + 1)


def assert_form(text, value):
    mantissa, _, exponent = text.partition("E")
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    assert fraction
    if exponent:
        assert len(whole) == 1 and whole != "0"
        assert fraction == "0" or not fraction.endswith("0")
    assert bool(exponent) == (value != 0 and not 1e-3 <= abs(value) < 1e7)


@pytest.mark.parametrize(
    ("time", "text"),
    [
        (datetime.datetime(1999, 12, 31, 23, 0), "1999-12-31 23:00:00.0"),
        (datetime.datetime(2024, 2, 29, 12, 30, 1, 250_000), "2024-02-29 12:30:01.25"),
        (datetime.datetime(2024, 1, 2, 3, 4, 5, 1_000), "2024-01-02 03:04:05.001"),
        (datetime.datetime(2024, 1, 2, 3, 4, 5, 123_456), "2024-01-02 03:04:05.123"),
        (datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC), "2024-01-02 00:00:00.0"),
    ],
)
def test_timestamps_are_written_as_java_does(time, text):
    assert timestamp_text(time) == text


@pytest.mark.parametrize(
    ("time", "text"),
    [
        (datetime.time(1, 2), "01:02:00"),
        (datetime.time(1, 2, 3, 500_000), "01:02:03"),
        (datetime.time(23, 59, 59, tzinfo=datetime.UTC), "23:59:59"),
    ],
)
def test_times_of_day_are_written_without_a_fraction_as_java_does(time, text):
    assert time_text(time) == text
