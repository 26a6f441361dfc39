"""The job of `changes_kills.py`: a table of PostgreSQL and its changes, to another table, exactly once.

It is run by `millstream run`; its argument, JSON, says where the tables are.
"""

import json
import sys

from millstream.common import WatermarkStrategy
from millstream.datastream import StreamExecutionEnvironment
from millstream.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcSink
from millstream.datastream.connectors.postgres import PostgresChangeSource

settings = json.loads(sys.argv[1])
changes = (
    PostgresChangeSource.builder()
    .set_url(settings["url"])
    .set_tables("accounts")
    .set_slot_name("kills")
    .set_split_size(1_000)
    .build()
)
connection = (
    JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
    .with_url(settings["jdbc_url"])
    .with_user_name(settings["user"])
    .with_password(settings["password"])
    .build()
)
sink = (
    JdbcSink.table("copies")
    .with_columns(*settings["columns"])
    .with_key_columns("id")
    .build_exactly_once(connection)
)
env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
rows = env.from_source(changes, WatermarkStrategy.no_watermarks(), "changes").uid("changes")
# All changes of a row go one way, whichever subtask read them.
rows.key_by(lambda row: row.id).sink_to(sink).uid("copies")
env.execute("copying changes")
