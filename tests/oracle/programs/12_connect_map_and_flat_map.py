"""Streams of two types under one CoMapFunction and one CoFlatMapFunction."""

from pyflink.common import Types
from pyflink.datastream import CoFlatMapFunction, CoMapFunction, StreamExecutionEnvironment


class Tell(CoMapFunction):
    def map1(self, value):
        return f"number {value}"

    def map2(self, value):
        return f"{value[0]} is {value[1]}"


class Some(CoFlatMapFunction):
    def flat_map1(self, value):
        for _ in range(value % 3):
            yield value, "left"

    def flat_map2(self, value):
        if value[1]:
            yield len(value[0]), "right"


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
numbers = env.from_collection([4, 5, 6, 7], Types.INT())
facts = env.from_collection(
    [("rain", True), ("snow", False), ("sunshine", True)], Types.TUPLE([Types.STRING(), Types.BOOLEAN()])
)
both = numbers.connect(facts)
both.map(Tell(), Types.STRING()).print()
both.flat_map(Some(), Types.TUPLE([Types.INT(), Types.STRING()])).print()
env.execute()
