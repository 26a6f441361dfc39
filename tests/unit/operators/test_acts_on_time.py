from millstream.datastream.functions import KeyedProcessFunction
from millstream.operators.process import KeyedProcessSpec
from millstream.operators.reduce import ReduceSpec


class Plain(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield value


class WithTimers(Plain):
    def on_timer(self, timestamp, ctx):
        yield timestamp


def test_only_functions_that_have_timers_act_on_time():
    assert not KeyedProcessSpec(Plain(), len).acts_on_time
    assert KeyedProcessSpec(WithTimers(), len).acts_on_time
    given_later = Plain()
    given_later.on_timer = lambda timestamp, ctx: None
    assert KeyedProcessSpec(given_later, len).acts_on_time
    assert not ReduceSpec(max, len).acts_on_time
