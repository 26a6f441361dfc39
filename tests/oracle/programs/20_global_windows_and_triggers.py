"""Global windows: count triggers, purging or not, and a trigger of one's own with state."""

from pyflink.common import Types
from pyflink.datastream import ProcessWindowFunction, StreamExecutionEnvironment
from pyflink.datastream.state import ReducingStateDescriptor
from pyflink.datastream.window import CountTrigger, GlobalWindows, PurgingTrigger, Trigger, TriggerResult


class Above(Trigger):
    """Fires when the values since the last firing add up to a limit, and purges at a negative value."""

    def __init__(self, limit):
        self.limit = limit
        self.total = ReducingStateDescriptor("total", lambda a, b: a + b, Types.LONG())

    def on_element(self, element, timestamp, window, ctx):
        if element[1] < 0:
            return TriggerResult.PURGE
        total = ctx.get_partitioned_state(self.total)
        total.add(element[1])
        if total.get() >= self.limit:
            total.clear()
            return TriggerResult.FIRE
        return TriggerResult.CONTINUE

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_merge(self, window, ctx):
        pass

    def clear(self, window, ctx):
        ctx.get_partitioned_state(self.total).clear()


class Tell(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield f"{key} {[value for _, value in elements]}"


RECORDS = [
    ("a", 1),
    ("b", 5),
    ("a", 2),
    ("a", 9),
    ("b", 6),
    ("a", -1),
    ("a", 4),
    ("b", 12),
    ("a", 8),
    ("b", 1),
    ("a", 3),
]

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
keyed = env.from_collection(RECORDS, Types.TUPLE([Types.STRING(), Types.INT()])).key_by(
    lambda r: r[0], Types.STRING()
)
keyed.window(GlobalWindows.create()).trigger(CountTrigger.of(2)).process(Tell(), Types.STRING()).print(
    "count"
)
keyed.window(GlobalWindows.create()).trigger(PurgingTrigger.of(CountTrigger.of(2))).process(
    Tell(), Types.STRING()
).print("purging")
keyed.window(GlobalWindows.create()).trigger(Above(10)).process(Tell(), Types.STRING()).print("above")
env.execute()
