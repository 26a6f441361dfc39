from typing import NamedTuple

import cloudpickle
import pytest

from millstream.base.errors import TypeMismatchError
from millstream.operators.reduce import Aggregation, ReduceSpec, RollingAggregate
from millstream.operators.user_code import attached_element
from millstream.testing import OperatorHarness
from millstream.types.row import Row


def reducing(function, key=lambda value: value[0]):
    return OperatorHarness(cloudpickle.loads(cloudpickle.dumps(ReduceSpec(function, key))))


def reduced(function, *batches, key=lambda value: value[0], timestamps=None):
    with reducing(function, key) as harness:
        for batch in batches:
            harness.push_batch(batch, timestamps)
    return harness.take_records()


def values(records):
    return [record.value for record in records]


def test_every_record_gives_what_was_reduced_so_far_for_its_key():
    output = reduced(lambda a, b: (a[0], a[1] + b[1]), [("a", 1), ("b", 2)], [("a", 3)])
    assert values(output) == [("a", 1), ("b", 2), ("a", 4)]


def test_results_have_the_timestamps_of_their_records():
    output = reduced(max, [("a", 1), ("a", 0)], timestamps=[7, 8])
    assert output == [(("a", 1), 7), (("a", 1), 8)]


def test_a_none_that_was_reduced_counts_as_state():
    seen = []

    def keep(a, b):
        seen.append((a, b))
        return None

    harness = OperatorHarness(ReduceSpec(keep, lambda value: "k"))
    harness.push_batch([1, 2, 3])
    assert harness.take() == [1, None, None]
    assert seen == [(1, 2), (None, 3)]


@pytest.mark.parametrize("make", [lambda k, n: [k, n], lambda k, n: Row(k, n), lambda k, n: {0: k, 1: n}])
def test_a_function_that_changes_its_first_argument_does_not_change_what_was_emitted(make):
    def add(a, b):
        a[1] = a[1] + b[1]
        return a

    output = reduced(add, [make("a", 1), make("a", 2), make("a", 3)])
    assert [value[1] for value in values(output)] == [1, 3, 6]


def test_what_is_nested_in_results_does_not_change_later():
    # PyFlink 2.3 gives ('a', [1]), ('a', [1, 2]), ('a', [1, 2, 3]): state is pickled.
    def add(a, b):
        a[1].append(b[1][0])
        return a

    output = reduced(add, [("a", [1]), ("a", [2]), ("a", [3])])
    assert values(output) == [("a", [1]), ("a", [1, 2]), ("a", [1, 2, 3])]


def test_a_list_that_is_added_to_in_place_does_not_change_later():
    def extend(a, b):
        a += b[1:]
        return a

    output = reduced(extend, [["a", 1], ["a", 2], ["a", 3]])
    assert values(output) == [["a", 1], ["a", 1, 2], ["a", 1, 2, 3]]


@pytest.mark.parametrize("function", [lambda a, b: a, RollingAggregate(Aggregation.MAX_BY, 1)])
@pytest.mark.parametrize("make", [lambda *parts: list(parts), Row, lambda *parts: (*parts[:2], list(parts))])
def test_whoever_changes_a_result_does_not_change_the_state(function, make):
    harness = reducing(function)
    for _ in range(3):
        harness.push_batch([make("a", 1), make("a", 0)])
        for value in harness.take():
            (value[2] if isinstance(value, tuple) else value)[1] = "changed"
    harness.push(make("a", 1))
    assert harness.take() == [make("a", 1)]


def test_the_failing_element_is_noted_on_the_error():
    with pytest.raises(TypeError) as failure:
        reduced(lambda a, b: a + b, [1, 2, "x"], key=lambda value: 0)
    assert attached_element(failure.value) == "'x'"


class Reading(NamedTuple):
    name: str
    number: int
    note: str


RECORDS = [("a", 3, "first"), ("a", 1, "second"), ("a", 4, "third"), ("a", 4, "fourth"), ("a", 1, "fifth")]
EXPECTED = {
    Aggregation.SUM: [(3, "first"), (4, "first"), (8, "first"), (12, "first"), (13, "first")],
    Aggregation.MIN: [(3, "first"), (1, "first"), (1, "first"), (1, "first"), (1, "first")],
    Aggregation.MAX: [(3, "first"), (3, "first"), (4, "first"), (4, "first"), (4, "first")],
    Aggregation.MIN_BY: [(3, "first"), (1, "second"), (1, "second"), (1, "second"), (1, "second")],
    Aggregation.MAX_BY: [(3, "first"), (3, "first"), (4, "third"), (4, "third"), (4, "third")],
}


@pytest.mark.parametrize("aggregation", Aggregation)
@pytest.mark.parametrize(
    ("make", "position"),
    [
        (tuple, 1),
        (list, 1),
        (lambda r: Reading(*r), "number"),
        (lambda r: Reading(*r), 1),
        (lambda r: Row(*r), 1),
        (lambda r: Row(name=r[0], number=r[1], note=r[2]), "number"),
    ],
)
def test_rolling_aggregates_of_a_field_keep_other_fields_as_flink_does(aggregation, make, position):
    records = [make(record) for record in RECORDS]
    output = reduced(RollingAggregate(aggregation, position), records)
    assert [(value[1], value[2]) for value in values(output)] == EXPECTED[aggregation]
    assert {type(value) for value in values(output)} == {type(records[0])}
    assert records == [make(record) for record in RECORDS], "the records themselves were changed"


@pytest.mark.parametrize(
    ("aggregation", "expected"), [(Aggregation.SUM, [2, 3, 6]), (Aggregation.MIN_BY, [2, 1, 1])]
)
def test_records_without_fields_are_aggregated_themselves(aggregation, expected):
    assert values(reduced(RollingAggregate(aggregation), [2, 1, 3], key=lambda value: 0)) == expected


@pytest.mark.parametrize(
    ("records", "position"),
    [([1, 2], 1), ([("a", 1)] * 2, 5), ([("a", 1)] * 2, "n"), ([Row(a=1)] * 2, "n")],
)
def test_a_field_that_is_not_there_is_named(records, position):
    with pytest.raises(TypeMismatchError, match=f"field {position!r}"):
        reduced(RollingAggregate(Aggregation.SUM, position), records, key=lambda value: 0)


@pytest.mark.parametrize("position", [None, 1.5, True])
def test_a_position_that_is_neither_index_nor_name_is_refused(position):
    with pytest.raises(TypeMismatchError, match="as a position"):
        RollingAggregate(Aggregation.SUM, position)
