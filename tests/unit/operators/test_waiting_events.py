"""Events that wait for the watermark: their order, and which keys have others than at the last checkpoint."""

from __future__ import annotations

from random import Random

import pytest

from millstream.operators.patterns.waiting import WaitingEvents, sort_ties


def check(seed):
    random = Random(seed)
    waiting = WaitingEvents()
    waiting.tracks = True
    model, stored, number = [], {}, 0
    if random.random() < 0.5:  # some were restored
        model = [(5, 1, "old"), (9, 2, "older")]
        stored = {1: [(5, "old")], 2: [(9, "older")]}
        for stamp, key, value in model:
            waiting.add([stamp], [key], [value])
    for _ in range(40):
        action = random.random()
        if action < 0.5:
            rows = []
            for _ in range(random.randint(1, 4)):
                number += 1
                rows.append((random.randrange(30), random.randrange(5), number))
            model += rows
            waiting.add(*map(list, zip(*rows, strict=True)))
        elif action < 0.8:
            until = random.randrange(30)
            model.sort(key=lambda row: row[0])
            wanted = sum(row[0] <= until for row in model)
            assert waiting.count_until(until) == wanted
            granted = random.randint(0, wanted)
            taken, model = model[:granted], model[granted:]
            if granted:
                assert list(zip(*waiting.take(granted), strict=True)) == taken
        else:
            held = waiting.by_key()
            for key in waiting.changed_keys():
                stored[key] = held.get(key)
            waiting.forget_changes()
            assert {key: rows for key, rows in stored.items() if rows} == held
        assert len(waiting) == len(model)


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_events_are_taken_in_order_and_changes_are_all_that_differs(first):
    for seed in range(first, first + 50):
        check(seed)


def test_events_that_came_and_were_taken_between_checkpoints_are_no_change():
    waiting = WaitingEvents()
    waiting.tracks = True
    waiting.forget_changes()
    waiting.add([1, 2], ["a", "b"], [10, 20])
    waiting.take(waiting.count_until(2))
    assert waiting.changed_keys() == set()


def test_events_of_the_same_time_are_sorted_by_a_comparison():
    waiting = WaitingEvents()
    waiting.add([1, 1, 2, 1], ["a", "b", "a", "b"], [30, 10, 5, 20])
    events = sort_ties(waiting.take(waiting.count_until(2)), lambda one, other: one - other)
    assert list(zip(*events, strict=True)) == [(1, "b", 10), (1, "b", 20), (1, "a", 30), (2, "a", 5)]
