"""Delta Lake tables as sources and sinks.

::

    columns.py      a table's types and those of rows
    table.py        a table by its log: opened, made, looked at, added to
    writer.py       what a writer has to know of it; the rest is in connectors/staged_parquet.py
    committer.py    one commit of the table for each checkpoint
    sink.py         what programs call
    source.py       what programs call; what is read by rows is in connectors/lake
    history.py      which files a version has, and what each commit adds, removes or changes
    log.py          commits, read as the protocol has them
    files.py        the rows of a table in its data files, without those that were deleted
"""
