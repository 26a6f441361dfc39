from __future__ import annotations

import subprocess
import sys
from collections import Counter, namedtuple
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from uuid import UUID

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from millstream.base.errors import ConfigurationError
from millstream.state.key_hash import key_group, key_groups_of_columns, key_hash
from millstream.state.keys import canonical_key
from millstream.types.arrow_values import values_of
from millstream.types.row import Row

Point = namedtuple("Point", "x y")


class Level(IntEnum):
    LOW = 1


class Colour(Enum):
    RED = 1
    BLUE = 2


@dataclass(frozen=True)
class Place:
    name: str


KNOWN = {
    "None": (None, 0xE78449A561F064A5),
    "int": (1, 0xAA1EDC3C0C852970),
    "negative": (-5, 0x108FB2C0E938E3BF),
    "long": (2**80, 0x88EFAA523283BE96),
    "float": (1.5, 0xA9D2DFEE374ADFEE),
    "str": ("AA", 0x51B103209175871F),
    "bytes": (b"AA", 0x98274C482893C777),
    "tuple": (("JFK", 4), 0x2D9D0B4E5C3A4532),
    "date": (date(2013, 1, 1), 0x98C91D57D29B0042),
    "time": (time(12, 30), 0x93A9B925A2BD710E),
    "datetime": (datetime(2013, 1, 1, 12), 0x9FD01BD72B06B2D7),
    "aware": (datetime(2013, 1, 1, 12, tzinfo=UTC), 0x85B457ACDA62FEAC),
    "uuid": (UUID(int=7), 0x14E8BE4EFB89B240),
}


def test_hashes_are_those_of_every_earlier_version():
    """Files hold keys by the group that they had: a change here needs a new version of their format."""
    assert {name: key_hash(key) for name, (key, _) in KNOWN.items()} == {
        name: h for name, (_, h) in KNOWN.items()
    }


@pytest.mark.parametrize(
    "keys",
    [
        range(8_000),
        range(-4_000, 4_000),
        range(0, 8_000 * 3_600_000, 3_600_000),
        [n << 40 for n in range(8_000)],
        [f"user-{n}" for n in range(8_000)],
        [f"{n:020}" for n in range(8_000)],
        [(n // 100, n % 100) for n in range(8_000)],
        [("a", str(n)) for n in range(8_000)],
        [n / 7 + 0.01 for n in range(8_000)],
        [datetime(2013, 1, 1) + timedelta(hours=n) for n in range(8_000)],
        [date(2013, 1, 1) + timedelta(n) for n in range(8_000)],
    ],
    ids=lambda keys: str(keys[1]),
)
@pytest.mark.parametrize("groups", [128, 100])
def test_keys_of_a_pattern_spread_over_all_groups_as_random_ones_would(keys, groups):
    counts = Counter(key_group(key, groups) for key in keys)
    expected = len(keys) / groups
    chi_square = sum((counts[group] - expected) ** 2 / expected for group in range(groups))
    # The mean of chi square is `groups - 1`, its deviation sqrt(2 * groups): random keys stay below that by far.
    assert chi_square < groups + 6 * (2 * groups) ** 0.5


def test_equal_keys_of_different_kinds_have_one_hash():
    utc = datetime(2013, 1, 1, 12, tzinfo=UTC)
    for same in (
        [
            1,
            1.0,
            True,
            Decimal(1),
            np.int64(1),
            np.float32(1),
            np.bool_(True),
            Level.LOW,
            canonical_key(True),
        ],
        [0.0, -0.0, 0, False, Decimal("-0")],
        [float("nan"), Decimal("nan"), np.float32("nan")],
        [1.5, Decimal("1.50"), np.float32(1.5)],
        ["a", np.str_("a")],
        [Point(1, "a"), (1, "a"), [1, "a"], Row(1, "a"), Row(x=1, y="a")],
        [utc, utc.astimezone(timezone(timedelta(hours=5, minutes=30))), pd.Timestamp(utc)],
        [2**70, float(2**70), Decimal(2**70)],
        [None, pd.NaT],
    ):
        assert len({key_hash(key) for key in same}) == 1, same


def test_keys_that_look_alike_have_hashes_of_their_own():
    different = [
        1, 2, -1, 1.5, None, "1", b"1", "", b"", (), (1,), ((1,),), (1, 1), ("", ""), ("a", "b"), ("ab", ""),
        date(2013, 1, 1), datetime(2013, 1, 1), datetime(2013, 1, 1, tzinfo=UTC), time(0), time(1), "a\0", "a", "\0a",
        Colour.RED, Colour.BLUE, Place("a"), Place("b"), UUID(int=1), UUID(int=2), {"a": 1}, {"a": 2}, int, str,
        2**64, 2**64 + 1, -(2**64), "\ud800",
    ]  # fmt: skip
    assert len({key_hash(key) for key in different}) == len(different)


def test_a_key_without_canonical_form_is_refused_by_type_and_value():
    with pytest.raises(ConfigurationError, match=r"type memoryview .*(?s:.*)cannot pickle"):
        key_group(memoryview(b"x"), 128)
    with pytest.raises(ConfigurationError, match="type generator"):
        key_group((1, (n for n in ())), 128)


def test_columns_of_many_rows_are_hashed_as_single_keys_are():
    numbers = np.random.default_rng(7).integers(-(2**62), 2**62, 40_000)
    texts = [f"{number:x}" * (number % 5) for number in map(int, numbers)]
    columns = [pa.array(numbers), pa.array(texts)]
    keys = zip(numbers.tolist(), texts, strict=True)
    assert key_groups_of_columns(columns, 128).tolist() == [key_group(key, 128) for key in keys]


def test_nested_columns_are_hashed_by_what_they_hold():
    rows = [{"a": 1, "b": "x"}, {"a": 2, "b": None}, None]
    keys = values_of(pa.array(rows))
    assert type(keys[0]) is Row
    assert key_groups_of_columns([pa.array(rows)], 128).tolist() == [key_group(key, 128) for key in keys]


def test_single_keys_need_neither_numpy_nor_pyarrow():
    code = (
        "import sys; from millstream.state.key_groups import key_group; key_group(('a', 1.5), 128);"
        "print({'numpy', 'pyarrow'} & set(sys.modules))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert out.stdout.strip() == "set()", out.stderr
