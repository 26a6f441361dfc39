"""sum, min, max keep the other fields of the first record; min_by, max_by keep a whole record, the earlier on ties."""

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

RECORDS = [
    ("a", 5, "1st"),
    ("b", 2, "2nd"),
    ("a", 9, "3rd"),
    ("a", 5, "4th"),
    ("b", 2, "5th"),
    ("a", 9, "6th"),
    ("b", -4, "7th"),
]

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
stream = env.from_collection(RECORDS, Types.TUPLE([Types.STRING(), Types.INT(), Types.STRING()]))
keyed = stream.key_by(lambda record: record[0], Types.STRING())
keyed.sum(1).print("sum")
keyed.min(1).print("min")
keyed.max(1).print("max")
keyed.min_by(1).print("min_by")
keyed.max_by(1).print("max_by")
env.execute()
