"""A longer graph: counts of words in two branches, united, redistributed in every way, and folded at the end."""

from pyflink.common import Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import MapStateDescriptor

TEXT = (
    "Habe nun ach Philosophie Juristerei und Medizin und leider auch Theologie durchaus studiert mit heißem "
    "Bemühn Da steh ich nun ich armer Tor und bin so klug als wie zuvor"
)
PAIR = Types.TUPLE([Types.STRING(), Types.INT()])


class Zero(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return 0


class Best(KeyedProcessFunction):
    def open(self, runtime_context):
        self.counts = runtime_context.get_map_state(MapStateDescriptor("counts", Types.STRING(), Types.INT()))

    def process_element(self, value, ctx):
        word, count = value
        self.counts.put(word, max(count, self.counts.get(word) or 0))
        ctx.timer_service().register_event_time_timer(100)

    def on_timer(self, timestamp, ctx):
        ranked = sorted(self.counts.items(), key=lambda pair: (-pair[1], pair[0]))
        yield f"{ctx.get_current_key()}: {ranked[:3]}"


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
stamped = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Zero())
words = (
    env.from_collection(TEXT.split(" "), Types.STRING()).assign_timestamps_and_watermarks(stamped).rebalance()
)
ones = words.map(lambda word: (word.lower(), 1), PAIR)
short = ones.filter(lambda pair: len(pair[0]) < 4).name("short").disable_chaining()
long = (
    ones.filter(lambda pair: len(pair[0]) >= 4)
    .shuffle()
    .map(lambda pair: (pair[0][:4], pair[1]), PAIR)
    .rescale()
)
counted = short.union(long).key_by(lambda pair: pair[0], Types.STRING()).sum(1)
counted.key_by(lambda pair: len(pair[0]), Types.INT()).process(Best(), Types.STRING()).print()
counted.filter(lambda pair: pair[1] >= 2).map(lambda pair: pair[0], Types.STRING()).print("twice")
env.execute()
