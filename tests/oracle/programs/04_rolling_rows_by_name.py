"""Rolling aggregates of named rows, by field name; floats."""

from pyflink.common import Row, Types
from pyflink.datastream import StreamExecutionEnvironment

READING = Types.ROW_NAMED(["sensor", "value", "at"], [Types.STRING(), Types.DOUBLE(), Types.LONG()])
READINGS = [
    Row(sensor="s1", value=20.5, at=1),
    Row(sensor="s2", value=-3.25, at=2),
    Row(sensor="s1", value=19.0, at=3),
    Row(sensor="s2", value=-3.25, at=4),
    Row(sensor="s1", value=30.125, at=5),
]

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
keyed = env.from_collection(READINGS, READING).key_by(lambda reading: reading["sensor"], Types.STRING())
keyed.sum("value").print("sum")
keyed.max("value").print("max")
keyed.min_by("value").print("min_by")
keyed.max_by("value").map(lambda row: f"{row.sensor} at {row.at}: {row.value}", Types.STRING()).print()
env.execute()
