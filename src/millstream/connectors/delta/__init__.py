"""Delta Lake tables as sinks.

::

    columns.py      a table's types and those of rows
    table.py        a table by its log: opened, made, looked at, added to
    files.py        the Parquet file of one partition while it is written, and what the driver is told of it
    writer.py       the files of one subtask
    committer.py    one commit of the table for each checkpoint
    sink.py         what programs call
"""
