"""Numbers of all types, as they print: floats like Java's, big integers, decimals, bounds."""

from decimal import Decimal

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
doubles = [
    0.1,
    1.0,
    -0.0,
    1e7,
    9999999.0,
    1e-3,
    1e-4,
    1.5e300,
    123456789.125,
    1 / 3,
    float("inf"),
    float("-inf"),
    float("nan"),
    5e-324,
]
env.from_collection(doubles, Types.DOUBLE()).print("double")
env.from_collection([0.5, 1e10, 3.25, -2.0], Types.FLOAT()).print("float")
env.from_collection([2**63 - 1, -(2**63), 0], Types.LONG()).print("long")
env.from_collection([2**31 - 1, -(2**31)], Types.INT()).print("int")
env.from_collection([32767, -32768], Types.SHORT()).print("short")
env.from_collection([127, -128], Types.BYTE()).print("byte")
env.from_collection([True, False], Types.BOOLEAN()).print("boolean")
decimals = [Decimal("1.10"), Decimal("-123456789.000000001"), Decimal("0.5")]
env.from_collection(decimals, Types.BIG_DEC()).map(lambda d: d * 2, Types.BIG_DEC()).map(
    lambda d: f"{d:.3f}"
).print("decimal")
env.from_collection([2**100, -(3**80), 7]).map(lambda n: n * n).print("undeclared")
env.from_collection(decimals).key_by(lambda d: d > 0).reduce(lambda a, b: a + b).print("sum")
env.execute()
