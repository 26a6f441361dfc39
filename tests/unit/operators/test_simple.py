import pytest

from millstream.base.errors import TypeMismatchError
from millstream.common.functions import FlatMapFunction, KeySelector, MapFunction
from millstream.operators.functions_adapter import as_key_selector, as_map, as_reduce
from millstream.operators.simple import FilterSpec, FlatMapSpec, IdentitySpec, MapSpec
from millstream.operators.user_code import attached_element
from millstream.spi.batch import Marks, Rows
from millstream.testing import OperatorHarness, Record, Watermark
from millstream.testing.recorder import Recorder
from millstream.types.row import Row
from millstream.types.typeinfo import Types


def outcome(spec, values, timestamps=None):
    harness = OperatorHarness(spec)
    harness.push_batch(values, timestamps)
    return harness.take_records()


class Whole(Recorder):
    """Keeps batches as they are, with the watermarks between their records."""

    def emit(self, batch):
        self.elements.append((batch.values, batch.timestamps, batch.marks))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (MapSpec(lambda x: -x), ([-1, -2, -3, -4], [5, 6, 7, 8], Marks([1, 3, 3], [2, 4, 6]))),
        (FilterSpec(lambda x: x not in (1, 3)), ([2, 4], [6, 8], Marks([0, 1, 1], [2, 4, 6]))),
        (FilterSpec(lambda x: x > 9), ([], [], Marks([0, 0, 0], [2, 4, 6]))),
        (IdentitySpec(), ([1, 2, 3, 4], [5, 6, 7, 8], Marks([1, 3, 3], [2, 4, 6]))),
    ],
)
def test_watermarks_between_records_stay_between_them(spec, expected):
    (operator,) = OperatorHarness(spec).operators
    operator.output = Whole()
    marks = Marks([1, 3, 3], [2, 4, 6])
    assert operator.process_marked(Rows([1, 2, 3, 4], [5, 6, 7, 8], marks), operator.reach_watermark) is None
    assert operator.output.take() == [expected]
    assert operator.watermark_ms == 6


def test_other_operators_get_pieces():
    harness = OperatorHarness(FlatMapSpec(lambda x: [x, x]))
    (operator,) = harness.operators
    marks = Marks([1, 3, 3], [2, 4, 6])
    operator.process_marked(Rows([1, 2, 3, 4], None, marks), operator.reach_watermark)
    numbers = [each.value if isinstance(each, Record) else each for each in harness.take_elements()]
    assert numbers == [1, 1, Watermark(2), 2, 2, 3, 3, Watermark(4), Watermark(6), 4, 4]


def test_map_keeps_each_records_timestamp():
    assert outcome(MapSpec(lambda x: x + 1), [1, 2], [10, 20]) == [(2, 10), (3, 20)]


def test_filter_drops_a_records_timestamp_with_it():
    assert outcome(FilterSpec(lambda x: x % 2), [1, 2, 3], [10, 20, 30]) == [(1, 10), (3, 30)]
    assert outcome(FilterSpec(lambda x: x % 2), [1, 2, 3]) == [(1, None), (3, None)]


def test_flat_map_gives_results_the_timestamp_of_their_record():
    spec = FlatMapSpec(lambda x: range(x) if x else None)
    assert outcome(spec, [2, 0, 1], [10, 20, 30]) == [(0, 10), (1, 10), (0, 30)]
    assert outcome(spec, [2, 0, 1]) == [(0, None), (1, None), (0, None)]


@pytest.mark.parametrize(
    "spec",
    [
        MapSpec(lambda x: 1 // x),
        FilterSpec(lambda x: 1 // x),
        FlatMapSpec(lambda x: [1 // x]),
        FlatMapSpec(lambda x: (1 // y for y in [x])),
    ],
)
@pytest.mark.parametrize("values", [[0], [0, 1, 2], [1, 0, 2], [1, 2, 0]])
@pytest.mark.parametrize("stamped", [True, False])
def test_the_failing_element_is_noted_on_the_error(spec, values, stamped):
    with pytest.raises(ZeroDivisionError) as failure:
        outcome(spec, values, list(range(len(values))) if stamped else None)
    assert attached_element(failure.value) == "0"


@pytest.mark.parametrize("spec", [MapSpec, FilterSpec])
@pytest.mark.parametrize("values", [[[]], [[1], [], [2]], [[1], []]])
def test_a_stop_iteration_in_a_function_is_an_error_not_an_end(spec, values):
    with pytest.raises(RuntimeError, match="StopIteration") as failure:
        outcome(spec(lambda x: next(iter(x))), values)
    assert attached_element(failure.value) == "[]"


@pytest.mark.parametrize(
    "spec", [MapSpec(lambda x: x, Types.INT()), FlatMapSpec(lambda x: [x, x], Types.INT())]
)
def test_a_result_that_does_not_fit_its_declared_type_is_refused(spec):
    with pytest.raises(TypeMismatchError, match=r"3\.5.*declared type INT"):
        outcome(spec, [1, 3.5])


def test_a_tuple_declared_as_named_row_becomes_one():
    kind = Types.ROW_NAMED(["a"], [Types.INT()])
    assert outcome(MapSpec(lambda x: (x,), kind), [1]) == [(Row(a=1), None)]


class Counting(MapFunction):
    def __init__(self):
        self.calls = []

    def open(self, runtime_context):
        self.calls.append(f"open {runtime_context.get_index_of_this_subtask()}")

    def map(self, value):
        self.calls.append(value)
        return len(self.calls)

    def close(self):
        self.calls.append("close")


def test_a_function_is_opened_once_and_closed_once_and_keeps_its_members():
    function = Counting()
    with OperatorHarness(MapSpec(function)) as harness:
        harness.push("a")
        harness.push("b")
    assert function.calls == ["open 0", "a", "b", "close"]
    assert harness.take() == [2, 3]


class ByFirst(KeySelector):
    def get_key(self, value):
        return value[0]


def test_callables_classes_and_functions_are_taken():
    assert as_map(str)(1) == "1"
    assert as_reduce(max)(1, 2) == 2
    assert as_key_selector(ByFirst())("ab") == "a"


class Doubling(FlatMapFunction):
    def flat_map(self, value):
        return [value, value]


@pytest.mark.parametrize("wrong", [3, None, Doubling(), Counting])
def test_what_is_no_map_function_is_refused(wrong):
    with pytest.raises(TypeMismatchError, match="not a MapFunction"):
        as_map(wrong)


def test_a_function_class_in_place_of_an_instance_is_named_in_the_hint():
    with pytest.raises(TypeMismatchError, match=r"Give it an instance: Counting\(\.\.\.\)"):
        as_map(Counting)
