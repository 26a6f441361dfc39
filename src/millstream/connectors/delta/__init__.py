"""Delta Lake tables as sinks.

::

    columns.py      a table's types and those of rows
    table.py        a table by its log: opened, made, looked at, added to
    writer.py       what a writer has to know of it; the rest is in connectors/staged_parquet.py
    committer.py    one commit of the table for each checkpoint
    sink.py         what programs call
"""
