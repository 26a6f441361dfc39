"""Functions with open and member variables, values of the program they close over; two jobs."""

from pyflink.common import Types
from pyflink.datastream import FlatMapFunction, MapFunction, StreamExecutionEnvironment

FACTOR = 3


class Counting(MapFunction):
    def __init__(self, name):
        self.name = name
        self.opened = 0

    def open(self, runtime_context):
        self.opened += 1
        self.seen = []
        self.context = runtime_context

    def map(self, value):
        self.seen.append(value)
        index, count = (
            self.context.get_index_of_this_subtask(),
            self.context.get_number_of_parallel_subtasks(),
        )
        return f"{self.name} {value * FACTOR} opened {self.opened} seen {len(self.seen)} of {index}/{count}"

    def close(self):
        self.seen = None


class Times(FlatMapFunction):
    def flat_map(self, value):
        yield from [value] * value


def power(exponent):
    return lambda value: value**exponent


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
numbers = env.from_collection([1, 2, 3], Types.INT())
numbers.flat_map(Times(), Types.INT()).map(Counting("first"), Types.STRING()).map(
    str.title, Types.STRING()
).print()
numbers.map(power(3), Types.INT()).map(Counting("cubes"), Types.STRING()).print("cubes")
env.execute("first job")

print("between the jobs")
env.from_collection([5]).map(power(2)).map(Counting("second")).print("second")
env.execute("second job")
