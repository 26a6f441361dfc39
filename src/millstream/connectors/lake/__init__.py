"""What sources and sinks of tables of files (Iceberg, Delta) have in common.

::

    storage.py       options of object stores as the libraries of the formats have them
    conditions.py    which rows are read
    table_file.py    a data file of a table, as a split
    open_file.py     data files and logs, where they are
    enumerator.py    which files there are, and which come: asks a `TableHistory`
    records.py       the rows of a data file, with exact positions
    reader.py        reads them in a subtask
    builder.py       what builders of the sources share
"""
