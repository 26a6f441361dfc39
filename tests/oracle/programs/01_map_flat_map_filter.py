"""Plain transformations, with functions, lambdas and classes; unicode; one record may give none or many."""

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import FilterFunction, FlatMapFunction, MapFunction


class Split(FlatMapFunction):
    def flat_map(self, value):
        for word in value.split():
            if word != "skip":
                yield word


class Longer(FilterFunction):
    def __init__(self, length):
        self.length = length

    def filter(self, value):
        return len(value) > self.length


class Number(MapFunction):
    def open(self, runtime_context):
        self.seen = 0

    def map(self, value):
        self.seen += 1
        return self.seen, value


LINES = ["schön ist die Welt", "skip", "", "日本語 text émoji 🚀🚀🚀", "a bb ccc"]

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
words = env.from_collection(LINES, Types.STRING()).flat_map(Split(), Types.STRING())
words.filter(Longer(2)).map(Number(), Types.TUPLE([Types.INT(), Types.STRING()])).print()
words.filter(lambda word: word.isascii()).map(str.upper, Types.STRING()).print()
words.flat_map(lambda word: list(word)[:2]).map(lambda letter: "letter " + letter).print()
env.execute()
