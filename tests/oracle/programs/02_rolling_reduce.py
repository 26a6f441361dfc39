"""A rolling reduce gives a result for each record; by a lambda and by a ReduceFunction, on two keys."""

from pyflink.common import Types
from pyflink.datastream import ReduceFunction, StreamExecutionEnvironment


class Concatenate(ReduceFunction):
    def reduce(self, value1, value2):
        return value1[0], value1[1] + value2[1], max(value1[2], value2[2])


RECORDS = [("a", "x", 3), ("b", "y", 1), ("a", "z", 7), ("a", "w", 5), ("b", "v", 0), ("c", "u", 2)]

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
stream = env.from_collection(RECORDS, Types.TUPLE([Types.STRING(), Types.STRING(), Types.INT()]))
stream.key_by(lambda record: record[0], Types.STRING()).reduce(Concatenate()).print()
stream.map(lambda record: record[2]).key_by(lambda value: value % 2).reduce(lambda a, b: a * 10 + b).print(
    "digits"
)
env.execute()
