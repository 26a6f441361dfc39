"""State that would expire in an hour, of every kind and with every option, behaves like other state until then."""

from pyflink.common import Time, Types
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)


def expiring(descriptor, read_too):
    builder = StateTtlConfig.new_builder(Time.hours(1))
    if read_too:
        builder.update_ttl_on_read_and_write().return_expired_if_not_cleaned_up().cleanup_full_snapshot()
    else:
        builder.update_ttl_on_create_and_write().never_return_expired().cleanup_incrementally(10, True)
    descriptor.enable_time_to_live(builder.build())
    return descriptor


class Keep(KeyedProcessFunction):
    def open(self, runtime_context):
        self.last = runtime_context.get_state(expiring(ValueStateDescriptor("last", Types.INT()), True))
        self.all = runtime_context.get_list_state(expiring(ListStateDescriptor("all", Types.INT()), False))
        self.by_parity = runtime_context.get_map_state(
            expiring(MapStateDescriptor("by parity", Types.STRING(), Types.INT()), True)
        )
        self.total = runtime_context.get_reducing_state(
            expiring(ReducingStateDescriptor("total", lambda a, b: a + b, Types.INT()), False)
        )

    def process_element(self, value, ctx):
        before = self.last.value()
        self.last.update(value)
        self.all.add(value)
        parity = "odd" if value % 2 else "even"
        self.by_parity.put(parity, (self.by_parity.get(parity) or 0) + 1)
        self.total.add(value)
        yield f"{before} {list(self.all)} {sorted(self.by_parity.items())} {self.total.get()}"


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
stream = env.from_collection([1, 2, 3, 10, 11, 20, 12], Types.INT())
stream.key_by(lambda value: value // 10).process(Keep(), Types.STRING()).print()
env.execute()
