"""A NumberSequenceSource, read in parallel, summed by key; the last sum of each key is told by a timer."""

from pyflink.common import Types, WatermarkStrategy
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.datastream.state import ValueStateDescriptor


class Total(KeyedProcessFunction):
    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value, ctx):
        self.total.update((self.total.value() or 0) + value)
        ctx.timer_service().register_event_time_timer(0)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), self.total.value()


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
numbers = env.from_source(
    NumberSequenceSource(1, 1000), WatermarkStrategy.for_monotonous_timestamps(), "numbers", Types.LONG()
)
numbers.key_by(lambda n: n % 7, Types.LONG()).process(
    Total(), Types.TUPLE([Types.LONG(), Types.LONG()])
).print("total")
numbers.filter(lambda n: n % 250 == 0).print()
env.execute()
