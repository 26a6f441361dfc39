"""A partitioner of one's own decides which subtask gets a record."""

from pyflink.common import Types
from pyflink.datastream import MapFunction, Partitioner, StreamExecutionEnvironment


class ByLength(Partitioner):
    def partition(self, key, num_partitions):
        return key % num_partitions


class Where(MapFunction):
    def open(self, runtime_context):
        self.index = runtime_context.get_index_of_this_subtask()
        self.parallelism = runtime_context.get_number_of_parallel_subtasks()

    def map(self, value):
        return f"{value} in {self.index} of {self.parallelism}"


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
words = env.from_collection(["a", "bb", "ccc", "dddd", "eeeee", "ffffff"], Types.STRING())
words.partition_custom(ByLength(), len).map(Where(), Types.STRING()).set_parallelism(3).print("class")
words.partition_custom(lambda key, count: count - 1 if key == "a" else 0, lambda word: word).map(
    Where(), Types.STRING()
).print("lambda")
words.broadcast().map(Where(), Types.STRING()).print("broadcast")
env.execute()
