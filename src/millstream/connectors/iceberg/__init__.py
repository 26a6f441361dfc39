"""Iceberg tables as sinks.

::

    columns.py      a table's types and those of rows
    table.py        a table by its catalog: opened, made, looked at, added to
    sink.py         what programs call; its writer and committer. Files are written by connectors/staged_parquet.py
"""
