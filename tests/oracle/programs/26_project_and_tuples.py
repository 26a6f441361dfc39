"""Projections and how tuples, nested ones too, print; undeclared tuples print as Python has them."""

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

KIND = Types.TUPLE(
    [Types.STRING(), Types.INT(), Types.TUPLE([Types.DOUBLE(), Types.BOOLEAN()]), Types.LONG()]
)
RECORDS = [("x", 1, (0.5, True), 10), ("", -2, (1e6, False), 2**62), ("a,b", 0, (-0.0, True), -1)]

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
stream = env.from_collection(RECORDS, KIND)
stream.print("all")
stream.project(3, 0).print("3,0")
stream.project(2).print("2")
stream.map(lambda record: record).print("undeclared")
stream.map(lambda record: (record[0], [record[1]], {"nested": record[2]})).print("python")
env.execute()
