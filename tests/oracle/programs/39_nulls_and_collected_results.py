"""Nulls as records and fields; results brought to the program by execute_and_collect; a flat map that gives nothing."""

from pyflink.common import Row, Types
from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
values = env.from_collection([1, None, "two", [3, None], {"four": None}, (5.5, None), b"six", True])
with values.map(lambda value: [value, type(value).__name__]).execute_and_collect() as results:
    for value, name in results:
        print("collected", name, value)

rows = env.from_collection(
    [Row(1, None), Row(None, "x"), Row(3, "y")], Types.ROW([Types.INT(), Types.STRING()])
)
with rows.filter(lambda row: row[0] is not None).execute_and_collect() as results:
    for row in results:
        print("row", row, row[0], row[1])

for number in (
    env.from_collection(range(5)).flat_map(lambda n: [n, n * n] if n % 2 else []).execute_and_collect()
):
    print("number", number)

rows.print("declared")
values.filter(lambda value: not isinstance(value, bytes)).print("undeclared")
env.execute()
