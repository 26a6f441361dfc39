"""When records are put together before an exchange: tried, kept where it pays, tried again now and then."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pytest

from millstream.base.errors import ConfigurationError
from millstream.operators.combining import CombineMode, Combiner, CombiningGate
from millstream.spi.batch import Columns


def batch(count):
    return Columns(pa.RecordBatch.from_pydict({"v": pa.array(range(count), pa.int64())}))


class ToSome(Combiner):
    """Leaves so many records of each batch; None for types that cannot be put together."""

    form = Columns

    def __init__(self, left):
        self.left, self.calls = left, 0

    def combine(self, batch, sent_ms):
        self.calls += 1
        return None if self.left is None else batch.slice(0, min(self.left, len(batch)))


def sent(gate, count, times=1):
    return [len(gate.pass_through(batch(count), None)) for _ in range(times)]


def test_what_becomes_a_quarter_or_less_is_combined_each_time():
    combiner = ToSome(500)
    assert sent(CombiningGate(combiner), 2_000, 50) == [500] * 50
    assert combiner.calls == 50


def test_what_hardly_becomes_less_is_sent_as_it_is_and_tried_less_and_less_often():
    combiner = ToSome(501)
    gate = CombiningGate(combiner)
    tries = []
    for number in range(5_000):
        before = combiner.calls
        assert sent(gate, 2_000) == [2_000]
        if combiner.calls > before:
            tries.append(number)
    gaps = [after - before - 1 for before, after in pairwise(tries)]
    assert gaps == [32, 64, 128, 256, 512, 1_024, 1_024, 1_024]


def test_a_stream_whose_keys_become_few_is_combined_again():
    combiner = ToSome(2_000)
    gate = CombiningGate(combiner)
    assert sent(gate, 2_000, 2) == [2_000] * 2
    combiner.left = 3
    assert sent(gate, 2_000, 40) == [2_000] * 31 + [3] * 9
    combiner.left = 2_000
    assert sent(gate, 2_000) == [2_000]
    assert combiner.calls == 11


def test_small_batches_are_sent_as_they_are():
    combiner = ToSome(1)
    assert sent(CombiningGate(combiner), 1_023) == [1_023]
    assert sent(CombiningGate(combiner), 1_024) == [1]
    assert combiner.calls == 1


def test_always_means_small_batches_and_what_does_not_pay_too():
    assert sent(CombiningGate(ToSome(9), always=True), 10) == [9]
    assert sent(CombiningGate(ToSome(9), always=True), 0) == [0]


def test_records_that_cannot_be_put_together_are_not_tried_again():
    combiner = ToSome(None)
    gate = CombiningGate(combiner, always=True)
    assert sent(gate, 2_000, 100) == [2_000] * 100
    assert combiner.calls == 1


def test_the_option_is_one_of_three_words():
    assert CombineMode.of("never") is CombineMode.NEVER
    with pytest.raises(ConfigurationError, match="'SOMETIMES'"):
        CombineMode.of("SOMETIMES")
