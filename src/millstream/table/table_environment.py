"""Where programs of the Table API and SQL begin, under PyFlink's name (`pyflink.table.table_environment`)."""

from millstream.table.environment import TableEnvironment
from millstream.table.stream_table_environment import StreamTableEnvironment

__all__ = ["StreamTableEnvironment", "TableEnvironment"]
