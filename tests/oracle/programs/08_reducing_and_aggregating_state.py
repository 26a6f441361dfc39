"""Reducing state by a lambda and by max; aggregating state whose result is of another type than its elements."""

from pyflink.common import Types
from pyflink.datastream import AggregateFunction, KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import AggregatingStateDescriptor, ReducingStateDescriptor


class Mean(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator):
        return f"{accumulator[0] / accumulator[1]:.2f}" if accumulator[1] else "none"

    def merge(self, acc_a, acc_b):
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Fold(KeyedProcessFunction):
    def open(self, runtime_context):
        self.joined = runtime_context.get_reducing_state(
            ReducingStateDescriptor("joined", lambda one, other: f"{one},{other}", Types.STRING())
        )
        self.highest = runtime_context.get_reducing_state(
            ReducingStateDescriptor("highest", max, Types.LONG())
        )
        self.mean = runtime_context.get_aggregating_state(
            AggregatingStateDescriptor("mean", Mean(), Types.TUPLE([Types.LONG(), Types.LONG()]))
        )

    def process_element(self, value, ctx):
        if value == 13:
            self.joined.clear()
            self.mean.clear()
        self.joined.add(str(value))
        self.highest.add(value)
        self.mean.add(value)
        yield f"{ctx.get_current_key()}: {self.joined.get()} | {self.highest.get()} | {self.mean.get()}"


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
stream = env.from_collection([5, 8, 3, 2, 13, 21, 34, 1, 4], Types.LONG())
stream.key_by(lambda value: value % 2 == 0, Types.BOOLEAN()).process(Fold(), Types.STRING()).print()
env.execute()
