"""Iceberg tables as sources and sinks.

::

    columns.py      a table's types and those of rows
    table.py        a table by its catalog: opened, made, looked at, added to
    partitions.py   how rows go to partitions
    library.py      pyiceberg, which is optional
    sink.py         what programs call; its writer and committer. Files are written by connectors/staged_parquet.py
    source.py       what programs call; what is read by rows is in connectors/lake
    history.py      which files a snapshot has, and which each of them appended
    files.py        the rows of a table in its data files, without those that were deleted
"""
