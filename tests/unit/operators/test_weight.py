from __future__ import annotations

import pickle

import pytest

from millstream.operators.weight import estimate_bytes, weigh
from millstream.types.row import Row


@pytest.mark.parametrize(
    "value",
    [
        "x" * 100_000,
        b"x" * 100_000,
        ("key", "x" * 100_000),
        {"a": "x" * 50_000, "b": ["y" * 50_000]},
        Row(name="x" * 100_000),
        [float(number) for number in range(10_000)],
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_weight_of_large_values_is_about_that_of_their_pickles(value):
    assert 0.5 < weigh(value) / len(pickle.dumps(value)) < 2.0


def test_a_batch_is_weighed_by_samples_from_all_of_it():
    assert estimate_bytes(["x" * 1_000] * 999 + ["y" * 1_000]) == pytest.approx(1_000_000, rel=0.1)
    assert estimate_bytes([1] * 10_000) < 100_000


def test_what_refers_to_itself_is_weighed_too():
    endless: list = []
    endless.append(endless)
    assert weigh(endless) > 0
