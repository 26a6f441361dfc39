from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.base.errors import ConfigurationError
from millstream.operators.partitioners import (
    Broadcast,
    CustomPartitioning,
    Forward,
    Global,
    KeyGroups,
    Rebalance,
    Rescale,
    Shuffle,
)
from millstream.spi.batch import Rows
from millstream.state.key_groups import key_group, subtask_of

ALL = [
    Forward(),
    Global(),
    Rebalance(),
    Rescale(),
    Shuffle(),
    KeyGroups(lambda value: value),
    CustomPartitioning(lambda key, count: key % count, lambda value: value),
]


def split(partitioning, values, *, sender=0, senders=1, receivers=3, batches=1):
    selector = partitioning.build(sender, senders, receivers, 128)
    dealt: dict[int, list[int]] = {}
    size = max(1, len(values) // batches)
    for start in range(0, len(values), size):
        part = values[start : start + size]
        for target, got in selector.split(Rows(list(part), [value * 10 for value in part])):
            assert got.timestamps == [value * 10 for value in got.values]
            dealt.setdefault(target, []).extend(got.values)
    return dealt


@given(st.sampled_from(ALL), st.lists(st.integers(0, 1000)), st.integers(1, 5), st.integers(1, 4))
def test_every_record_goes_to_one_of_the_targets_in_order(partitioning, values, receivers, batches):
    senders = receivers if isinstance(partitioning, Forward) else 2
    sender = senders - 1
    dealt = split(partitioning, values, sender=sender, senders=senders, receivers=receivers, batches=batches)
    assert sorted(sum(dealt.values(), [])) == sorted(values)
    assert set(dealt) <= set(partitioning.targets(sender, senders, receivers))
    for got in dealt.values():
        rest = iter(values)
        assert all(any(value == other for other in rest) for value in got)  # a subsequence


@given(st.lists(st.integers(0, 1000), min_size=1), st.integers(1, 6))
def test_rebalance_deals_in_turn_whatever_the_batches(values, batches):
    assert split(Rebalance(), values, sender=1, senders=2, batches=batches) == {
        target: dealt for target in range(3) if (dealt := values[(target - 1) % 3 :: 3])
    }


def test_rescale_stays_within_the_senders_share():
    assert [list(Rescale().targets(sender, 2, 6)) for sender in range(2)] == [[0, 1, 2], [3, 4, 5]]
    assert [list(Rescale().targets(sender, 4, 2)) for sender in range(4)] == [[0], [0], [1], [1]]
    assert split(Rescale(), [1, 2, 3, 4], sender=1, senders=2, receivers=4) == {2: [1, 3], 3: [2, 4]}


@given(st.lists(st.integers(0, 1000)))
def test_keys_go_to_the_owner_of_their_key_group(values):
    dealt = split(KeyGroups(lambda value: value % 10), values)
    for target, got in dealt.items():
        assert {subtask_of(key_group(value % 10, 128), 128, 3) for value in got} == {target}


def test_broadcast_gives_each_target_lists_of_its_own():
    parts = Broadcast().build(0, 1, 2, 128).split(Rows([1, 2], [10, 20]))
    assert parts == [(0, Rows([1, 2], [10, 20])), (1, Rows([1, 2], [10, 20]))]
    parts[0][1].values.append("changed")
    assert parts[1][1].values == [1, 2]


def test_shuffle_is_even_and_the_same_in_every_run():
    dealt = split(Shuffle(), list(range(3_000)))
    assert dealt == split(Shuffle(), list(range(3_000)))
    assert min(map(len, dealt.values())) > 900


def test_partition_out_of_range_is_an_error_that_names_it():
    with pytest.raises(ConfigurationError, match="partition 3 for 'x'"):
        CustomPartitioning(lambda key, count: count, len).build(0, 1, 3, 128).split(Rows(["x"]))
