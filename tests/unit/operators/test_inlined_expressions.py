import traceback

import pytest

from millstream.common.functions import ReduceFunction
from millstream.operators.inlined.expressions import map_loop, reduce_loop
from millstream.operators.reduce import ReduceSpec
from millstream.operators.simple import MapSpec
from millstream.operators.user_code import attached_element
from millstream.testing import OperatorHarness

LIMIT = 3
MANY = [1]


def named(value):
    """Have a docstring."""
    return value % LIMIT


class Member:
    factor = 2

    def plain(self, value):
        return value + 1

    def own(self, value):
        return value * self.factor


def test_an_expression_that_only_computes_is_written_into_the_loop():
    assert map_loop(lambda value: (value, value + LIMIT))([1, 2]) == [(1, 4), (2, 5)]
    assert map_loop(named)([1, 4, 5]) == [1, 1, 2]
    assert map_loop(Member().plain)([1]) == [2]


@pytest.mark.parametrize(
    "function",
    [
        str,
        lambda value: value.real,
        lambda value: print(value),
        lambda value: MANY,
        lambda value: [each for each in value],  # noqa: C416
        lambda value: (seen := value) + seen,
        lambda value, more=1: value,
        Member().own,
    ],
)
def test_all_else_is_called(function):
    assert map_loop(function) is None


def test_results_that_can_be_changed_are_copies():
    harness = OperatorHarness(ReduceSpec(lambda a, b: (a[0], a[1] + b[1]), lambda value: value[0]))
    harness.push_batch([("a", [1]), ("a", [2])])
    first, second = harness.take()
    first[1].append(9)
    second[1].append(9)
    harness.push_batch([("a", [3])])
    assert harness.operators[0]._loop is not None
    assert harness.take() == [("a", [1, 2, 3])]


def test_a_reduce_function_with_state_of_its_own_is_called():
    class Adding(ReduceFunction):
        def reduce(self, value1, value2):
            return value1 + value2

    harness = OperatorHarness(ReduceSpec(Adding(), lambda value: 0))
    harness.push_batch([1, 2, 3])
    assert harness.operators[0]._loop is None
    assert harness.take() == [1, 3, 6]


def test_errors_are_where_they_are_in_the_function_and_name_the_record():
    reducing = OperatorHarness(ReduceSpec(lambda a, b: a + b, lambda value: 0))
    with pytest.raises(TypeError) as raised:
        reducing.push_batch([1, 2, "x", 4])
    assert attached_element(raised.value) == "'x'"
    last = traceback.extract_tb(raised.value.__traceback__)[-1]
    assert (last.filename, last.name) == (__file__, "<lambda>")
    mapping = OperatorHarness(MapSpec(named))
    with pytest.raises(TypeError) as raised:
        mapping.push_batch([1, None, 3])
    assert attached_element(raised.value) == "None"
    assert traceback.extract_tb(raised.value.__traceback__)[-1].name == "named"


def test_a_loop_tells_first_records_and_whether_the_others_are_immutable():
    loop = reduce_loop(lambda a, b: (a[0], b[1]))
    table, results, firsts = {}, [], []
    records = [((1, 2), "k"), ((3, 4), "k"), ((5, 6), "l")]
    assert loop(iter(records), table.get, table, results.append, firsts.append)
    assert (results, firsts) == ([(1, 2), (1, 4), (5, 6)], [(1, 2), (5, 6)])
    assert table == {"k": (1, 4), "l": (5, 6)}
    assert not loop(iter([((1, []), "k")]), table.get, table, results.append, firsts.append)
