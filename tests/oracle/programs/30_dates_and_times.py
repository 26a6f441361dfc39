"""Dates, times, timestamps and instants: what functions see, and how they print."""

import datetime

from pyflink.common import Row, Types
from pyflink.datastream import StreamExecutionEnvironment

KIND = Types.TUPLE([Types.SQL_DATE(), Types.SQL_TIME(), Types.SQL_TIMESTAMP()])
RECORDS = [
    (
        datetime.date(2024, 2, 29),
        datetime.time(23, 59, 59),
        datetime.datetime(2024, 2, 29, 12, 30, 1, 250000),
    ),
    (datetime.date(1970, 1, 1), datetime.time(0, 0), datetime.datetime(1999, 12, 31, 23, 0)),
]

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
records = env.from_collection(RECORDS, KIND)
records.map(lambda r: (r[0] + datetime.timedelta(days=1)).isoformat(), Types.STRING()).print("next day")
records.map(
    lambda r: f"{type(r[0]).__name__} {type(r[1]).__name__} {type(r[2]).__name__}", Types.STRING()
).print("types")
records.map(lambda r: r[2] - datetime.timedelta(hours=1)).print("undeclared")
records.print("declared")
records.map(lambda r: Row(r[0], r[2]), Types.ROW([Types.SQL_DATE(), Types.SQL_TIMESTAMP()])).print("row")
records.key_by(lambda r: r[0].year, Types.INT()).reduce(lambda a, b: a).map(
    lambda r: r[2].year, Types.INT()
).print("year")
env.execute()
