"""Value state of three kinds in one function, cleared and set again, and the current key."""

from pyflink.common import Types
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import ValueStateDescriptor


class Average(KeyedProcessFunction):
    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.DOUBLE()))
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value, ctx):
        key, number = value
        if number < 0:
            self.total.clear()
            self.count.clear()
            yield f"{ctx.get_current_key()} reset after {self.last.value()}"
            return
        self.total.update((self.total.value() or 0.0) + number)
        self.count.update((self.count.value() or 0) + 1)
        before = self.last.value()
        self.last.update({"number": number, "key": key})
        yield f"{key} mean {self.total.value() / self.count.value():.3f} before {before}"


RECORDS = [("a", 1.0), ("b", 10.0), ("a", 2.0), ("a", -1.0), ("b", 20.5), ("a", 7.0), ("c", -1.0), ("a", 8.0)]

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
stream = env.from_collection(RECORDS, Types.TUPLE([Types.STRING(), Types.DOUBLE()]))
stream.key_by(lambda record: record[0]).process(Average(), Types.STRING()).print()
env.execute()
