import linecache
import traceback

import pytest

from millstream.base.time import MIN_TIMESTAMP
from millstream.common import Types
from millstream.common.time import Time
from millstream.datastream.functions import KeyedCoProcessFunction, KeyedProcessFunction
from millstream.datastream.state import ListStateDescriptor, StateTtlConfig, ValueStateDescriptor
from millstream.operators.co_process import KeyedCoProcessSpec
from millstream.operators.field_functions import getter_of
from millstream.operators.inlined.definitions import definition_of
from millstream.operators.process import KeyedProcessSpec
from millstream.operators.user_code import attached_element
from millstream.testing import OperatorHarness

LARGEST = ValueStateDescriptor("largest", Types.INT())


def first(value):
    return value[0]


class Base(KeyedProcessFunction):
    descriptor = LARGEST

    def open(self, runtime_context):
        self.largest = runtime_context.get_state(self.descriptor)
        self.calls = []


class Largest(Base):
    def process_element(self, value, ctx):
        largest = self.largest.value()
        if largest is None or value[1] > largest:
            self.largest.update(value[1])
            yield value


class Listing(Base):
    def process_element(self, value, ctx):
        if value[1] < 0:
            return None
        return [value[1], value[1] + 1]


class Looping(Base):
    def process_element(self, value, ctx):
        for number in range(value[1]):
            yield number + 1


class Unset(Base):
    def process_element(self, value, ctx):
        if value[1] > 0:
            seen = value[1]
        yield seen


class Guarded(Base):
    def process_element(self, value, ctx):
        try:
            yield 1 / value[1]
        except ZeroDivisionError:
            yield None


class Private(Base):
    __factor = 2

    def process_element(self, value, ctx):
        yield value[1] * self.__factor


class Framed(Base):
    def process_element(self, value, ctx):
        yield sorted(locals())


def decorated(function):
    return function


class Decorated(Base):
    @decorated
    def process_element(self, value, ctx):
        yield value


RECORDS = [("a", 1), ("b", 5), ("a", 0), ("a", 3)]


def keyed(function):
    return OperatorHarness(KeyedProcessSpec(function, first))


def is_inlined(harness):
    return [loop is not None for loop in harness.operators[0]._loops.values()]


@pytest.mark.parametrize("function", [Largest(), Listing()])
def test_a_function_that_goes_forward_is_written_into_the_loop(function):
    harness = keyed(function)
    harness.push_batch(RECORDS)
    assert is_inlined(harness) == [True]


@pytest.mark.parametrize("function", [Looping(), Unset(), Guarded(), Private(), Framed(), Decorated()])
def test_all_others_are_called(function):
    harness = keyed(function)
    harness.push_batch([("a", 1), ("b", 2)])
    assert is_inlined(harness) == [False]
    assert len(harness.take()) >= 2


def test_results_and_state_are_those_of_the_function():
    harness = keyed(Largest())
    harness.push_batch(RECORDS, [1, 2, 3, 4])
    assert harness.take_records() == [(("a", 1), 1), (("b", 5), 2), (("a", 3), 4)]
    assert harness.state(LARGEST, "a").value() == 3
    harness.push_batch([("a", 3), ("a", 4)])
    assert harness.take_records() == [(("a", 4), None)]


@pytest.mark.parametrize("options", [{}, {"state.backend.type": "rocksdb"}])
def test_state_on_disk_is_used_by_its_methods(options):
    harness = OperatorHarness(KeyedProcessSpec(Largest(), first), options=options)
    harness.push_batch(RECORDS)
    assert harness.take() == [("a", 1), ("b", 5), ("a", 3)]
    assert is_inlined(harness) == [True]
    harness.close()


def test_state_with_a_time_to_live_expires():
    class Living(Largest):
        descriptor = ValueStateDescriptor("largest", Types.INT())

    Living.descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.milliseconds(10)).build())
    harness = keyed(Living())
    harness.push_batch([("a", 5), ("a", 1)])
    harness.set_processing_time(100)
    harness.push_batch([("a", 1)])
    assert harness.take() == [("a", 5), ("a", 1)]


def test_the_next_checkpoint_has_the_keys_that_the_loop_used():
    options = {"execution.checkpointing.interval": 1000, "execution.checkpointing.incremental": True}
    harness = OperatorHarness(KeyedProcessSpec(Largest(), first), options=options)
    harness.push_batch([("a", 1), ("b", 5)])
    harness.snapshot(incremental=True)
    harness.push_batch([("a", 2)])
    restored = OperatorHarness(
        KeyedProcessSpec(Largest(), first), options=options, restore=harness.snapshot(incremental=True)
    )
    restored.push_batch([("a", 2), ("a", 3), ("b", 5), ("b", 6)])
    assert restored.take() == [("a", 3), ("b", 6)]


def test_a_state_that_is_replaced_while_records_flow_is_not_used_any_more():
    class Replacing(Base):
        def open(self, runtime_context):
            super().open(runtime_context)
            self.other = runtime_context.get_state(ValueStateDescriptor("other", Types.INT()))

        def process_element(self, value, ctx):
            if value[1] == 0:
                self.largest = self.other
            self.largest.update((self.largest.value() or 0) + value[1])
            yield self.largest.value()

    harness = keyed(Replacing())
    harness.push_batch([("a", 1), ("a", 2), ("a", 0), ("a", 5)])
    assert harness.take() == [1, 3, 0, 5]


def test_a_function_that_is_replaced_while_records_flow_is_not_used_any_more(monkeypatch):
    harness = keyed(Largest())
    harness.push_batch([("a", 1)])
    monkeypatch.setattr(Largest, "process_element", lambda self, value, ctx: ["new"])
    harness.push_batch([("a", 1)])
    assert harness.take() == [("a", 1), "new"]


def test_an_error_is_where_it_is_in_the_function_and_names_the_record():
    harness = keyed(Largest())
    with pytest.raises(TypeError) as raised:
        harness.push_batch([("a", 1), ("a", "x"), ("a", 2)])
    assert attached_element(raised.value) == "('a', 'x')"
    last = traceback.extract_tb(raised.value.__traceback__)[-1]
    assert (last.filename, last.name) == (__file__, "process_element")
    assert last.line == "if largest is None or value[1] > largest:"


def test_an_error_of_the_key_is_not_in_the_function():
    harness = keyed(Largest())
    with pytest.raises(IndexError) as raised:
        harness.push_batch([("a", 1), ()])
    assert attached_element(raised.value) == "()"
    assert [each.name for each in traceback.extract_tb(raised.value.__traceback__)][-1] == "first"


def test_what_is_returned_and_has_no_elements_is_an_error():
    class Number(Base):
        def process_element(self, value, ctx):
            return value[1]

    harness = keyed(Number())
    with pytest.raises(Exception, match="process_element returned 1 of type int, not its results") as raised:
        harness.push_batch([("a", 1)])
    assert attached_element(raised.value) == "('a', 1)"


def test_both_functions_of_two_streams_share_the_state():
    class Both(KeyedCoProcessFunction):
        def open(self, runtime_context):
            self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.INT()))

        def process_element1(self, value, ctx):
            self.total.update((self.total.value() or 0) + value[1])

        def process_element2(self, value, ctx):
            yield value[0], self.total.value()

    harness = OperatorHarness(KeyedCoProcessSpec(Both(), first, first), inputs=2)
    harness.push_batch([("a", 1), ("b", 2), ("a", 3)])
    harness.push_batch([("a", 0), ("c", 0)], input=1)
    assert harness.take() == [("a", 4), ("c", None)]
    assert is_inlined(harness) == [True, True]


def test_a_definition_that_is_not_the_code_that_runs_is_not_taken(monkeypatch):
    function = Largest.process_element
    assert definition_of(function) is not None
    lines = linecache.getlines(__file__)
    changed = [line.replace("value[1] > largest", "value[1] < largest") for line in lines]
    monkeypatch.setitem(linecache.cache, __file__, (1, None, changed, __file__))
    assert definition_of(function) is None


def test_a_field_is_taken_as_the_function_takes_it():
    class Reader:
        def second(self, value, time):
            return value[1]

    assert getter_of(lambda value: value[-1])((1, 2)) == 2
    assert getter_of(lambda value: value.real)(7) == 7
    assert getter_of(Reader().second, 2)((1, 2)) == 2
    for other in (
        lambda value: value,
        lambda value: value[0][1],
        lambda value: value[0] + 1,
        lambda value: RECORDS[0],
        lambda value, other=0: value[0],
        lambda *value: value[0],
        str,
    ):
        assert getter_of(other) is None
    assert getter_of(lambda value, time: time[0], 2) is None


class Looking(Base):
    def open(self, runtime_context):
        super().open(runtime_context)
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.INT()))

    def process_element(self, value, ctx):
        self.seen.add(value[1])
        yield ctx.get_current_key(), ctx.timestamp(), list(self.seen.get())


def test_what_asks_for_the_key_and_the_time_of_the_record_gets_them():
    harness = keyed(Looking())
    harness.push_batch(RECORDS, [1, 2, 3, 4])
    harness.push_batch([("b", 6)])
    assert is_inlined(harness) == [True]
    assert harness.take() == [
        ("a", 1, [1]),
        ("b", 2, [5]),
        ("a", 3, [1, 0]),
        ("a", 4, [1, 0, 3]),
        ("b", MIN_TIMESTAMP, [5, 6]),
    ]


class Second(Base):
    def open(self, runtime_context):
        self.largest = runtime_context.get_state(LARGEST)
        self.second = runtime_context.get_state(ValueStateDescriptor("second", Types.INT()))

    def process_element(self, value, ctx):
        yield self.largest.value()
        self.largest.update(value[1])


def test_a_state_that_was_put_into_its_attribute_between_batches_is_used():
    function = Second()
    harness = keyed(function)
    harness.push_batch([("a", 1), ("a", 2)])
    function.largest, function.second = function.second, function.largest
    harness.push_batch([("a", 3), ("a", 4)])
    function.largest, function.second = function.second, function.largest
    harness.push_batch([("a", 5)])
    assert is_inlined(harness) == [True]
    assert harness.take() == [None, 1, None, 3, 2]
