"""Two keyed streams share state; what came is told by an event-time timer at the end."""

from pyflink.common import Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import KeyedCoProcessFunction, OutputTag, StreamExecutionEnvironment
from pyflink.datastream.state import ListStateDescriptor, MapStateDescriptor

ALONE = OutputTag("alone", Types.STRING())


class Stamp(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[2]


class Match(KeyedCoProcessFunction):
    def open(self, runtime_context):
        self.orders = runtime_context.get_list_state(ListStateDescriptor("orders", Types.LONG()))
        self.payments = runtime_context.get_map_state(
            MapStateDescriptor("payments", Types.LONG(), Types.LONG())
        )

    def process_element1(self, value, ctx):
        self.orders.add(value[1])
        ctx.timer_service().register_event_time_timer(5000)
        return []

    def process_element2(self, value, ctx):
        self.payments.put(value[1], ctx.timestamp())
        ctx.timer_service().register_event_time_timer(5000)
        ctx.timer_service().register_event_time_timer(value[2])
        return []

    def on_timer(self, timestamp, ctx):
        key = ctx.get_current_key()
        if timestamp < 5000:
            yield f"{key} payment at {timestamp}"
            return
        payments = dict(self.payments.items())
        for order in sorted(self.orders):
            if order in payments:
                yield f"{key} order {order} paid at {payments.pop(order)}"
            else:
                yield ALONE, f"{key} order {order} unpaid"
        for payment in sorted(payments):
            yield ALONE, f"{key} payment {payment} for nothing"


RECORD = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])
ORDERS = [("ann", 3, 10), ("bob", 1, 20), ("ann", 2, 30), ("cyd", 9, 40)]
PAYMENTS = [("ann", 2, 1100), ("bob", 7, 1200), ("cyd", 9, 1300), ("ann", 3, 1300), ("dan", 1, 900)]

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Stamp())
orders = env.from_collection(ORDERS, RECORD).assign_timestamps_and_watermarks(strategy)
payments = env.from_collection(PAYMENTS, RECORD).assign_timestamps_and_watermarks(strategy)
matched = (
    orders.connect(payments)
    .key_by(lambda order: order[0], lambda payment: payment[0], Types.STRING())
    .process(Match(), Types.STRING())
)
matched.print()
matched.get_side_output(ALONE).print("alone")
env.execute()
