from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.base.time import MAX_TIMESTAMP
from millstream.graph.stream_graph import StreamEdge
from millstream.operators.partitioners import Broadcast, Forward, KeyGroups
from millstream.operators.reduce import ReduceSpec
from millstream.operators.simple import MapSpec
from millstream.runtime.task.batch_input import SortedInput
from millstream.runtime.task.batch_mode import input_waits
from millstream.spi.batch import Rows


class Subject:
    def __init__(self, *waits, spill_records=1_000_000):
        self.events = []
        self.input = SortedInput(
            [self._handler(index) for index in range(len(waits))],
            lambda mark: self.events.append("end" if mark == MAX_TIMESTAMP else mark),
            list(waits),
            spill_records=spill_records,
        )

    def _handler(self, index):
        def take(batch):
            stamps = batch.timestamps or [None] * len(batch)
            self.events += [(index, stamp, value) for stamp, value in zip(stamps, batch.values, strict=True)]

        return take

    def give(self, index, values, stamps=None):
        self.input.handlers[index](Rows(list(values), None if stamps is None else list(stamps)))

    def end(self):
        self.input.on_watermark(MAX_TIMESTAMP)
        return self.events


def test_stamped_records_wait_and_come_in_order_of_time_before_the_end():
    subject = Subject("stamped")
    subject.give(0, "cab", [3, 1, 2])
    subject.give(0, "xa", [2, 1])
    assert subject.events == []
    assert subject.end() == [(0, 1, "a"), (0, 1, "a"), (0, 2, "b"), (0, 2, "x"), (0, 3, "c"), "end"]


def test_records_without_timestamps_do_not_wait():
    subject = Subject("stamped")
    subject.give(0, "ba")
    assert subject.events == [(0, None, "b"), (0, None, "a")]


def test_inputs_are_merged_by_time_the_first_before_the_second():
    subject = Subject("stamped", "stamped")
    subject.give(1, "pq", [5, 1])
    subject.give(0, "ab", [5, 2])
    assert subject.end() == [(1, 1, "q"), (0, 2, "b"), (0, 5, "a"), (1, 5, "p"), "end"]


def test_broadcast_input_comes_before_the_other_with_or_without_timestamps():
    subject = Subject("always", "never")
    subject.give(0, "ba")
    subject.give(0, "c", [1])
    subject.give(1, "p", [9])
    assert subject.end() == [(1, 9, "p"), (0, None, "b"), (0, None, "a"), (0, 1, "c"), "end"]


def test_what_comes_after_the_end_passes():
    """Iterations send records round behind the final watermark."""
    subject = Subject("stamped")
    subject.end()
    subject.give(0, "a", [1])
    assert subject.events == ["end", (0, 1, "a")]


BATCHES = st.lists(
    st.tuples(st.integers(0, 1), st.lists(st.tuples(st.integers(-5, 5), st.text(max_size=2)), max_size=6)),
    max_size=12,
)


@given(BATCHES, st.sampled_from([1, 2, 5, 1_000]))
def test_spilling_to_disk_changes_nothing(batches, spill_records):
    subject = Subject("stamped", "stamped", spill_records=spill_records)
    arrived = []
    for index, records in batches:
        subject.give(index, [value for _, value in records], [stamp for stamp, _ in records])
        arrived += [(index, stamp, value) for stamp, value in records]
    assert subject.end() == [*sorted(arrived, key=lambda each: (each[1], each[0])), "end"]


@pytest.mark.parametrize(
    ("spec", "partitionings", "waits"),
    [
        (ReduceSpec(max, str), [KeyGroups(str)], ["stamped"]),
        (MapSpec(str), [Broadcast()], ["never"]),
        (MapSpec(str), [Forward()], ["never"]),
        (MapSpec(str), [Forward(), Broadcast()], ["always", "never"]),
        (ReduceSpec(max, str), [KeyGroups(str), Broadcast()], ["always", "never"]),
        (ReduceSpec(max, str), [KeyGroups(str), KeyGroups(str)], ["stamped", "stamped"]),
    ],
)
def test_keyed_inputs_are_sorted_and_those_beside_a_broadcast_one_wait(spec, partitionings, waits):
    edges = [StreamEdge(1, 2, each, None, index) for index, each in enumerate(partitionings)]
    assert input_waits(spec, len(edges), edges) == waits
