"""Spark as a sink: whatever its `DataFrameWriter` can write, catalogues and other systems' connectors too.

::

    columns.py      which rows a DataFrame can hold
    ledger.py       which checkpoints have been written
    committer.py    one DataFrame for each checkpoint
    sink.py         what programs call

Nothing here imports pyspark: the program's session is asked what to do. DataFrames as sources are in
`connectors.columns.spark`.
"""
