"""Databases as sinks: PostgreSQL, MySQL and MariaDB, SQLite, and what else SQLAlchemy knows.

::

    options.py, urls.py      what a program says: which database, how rows are batched
    statements.py            `?` of JDBC as drivers of Python write it
    database.py              what differs between databases: the contract; postgres.py, mysql.py, alchemy.py: the kinds
    tables.py                a table's columns, checked at the start; how rows come into it
    rows.py                  records as rows of values, a batch at a time
    link.py                  a connection that comes back
    work.py                  what is done with a batch of rows: a statement, an append, an upsert
    writer.py                at least once: batches, written in the slot
    staging.py, stages.py,
      commits.py             exactly once: staged in the database, published by the driver with a marker row
    sink.py                  what programs call
"""
