"""Tumbling and sliding count windows; what does not fill a window is not told."""

from pyflink.common import Types
from pyflink.datastream import ProcessWindowFunction, StreamExecutionEnvironment


class Tell(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield f"{key} {[value for _, value in elements]}"


RECORDS = [("ab"[number % 3 == 0], number) for number in range(17)]

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
keyed = env.from_collection(RECORDS, Types.TUPLE([Types.STRING(), Types.INT()])).key_by(
    lambda r: r[0], Types.STRING()
)
keyed.count_window(4).process(Tell(), Types.STRING()).print("tumbling")
keyed.count_window(4, 2).process(Tell(), Types.STRING()).print("sliding")
keyed.count_window(3).reduce(lambda one, other: (one[0], one[1] + other[1])).print("reduce")
env.execute()
