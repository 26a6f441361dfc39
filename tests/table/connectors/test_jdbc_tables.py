"""Tables of databases, against what sqlite3 finds in them."""

from __future__ import annotations

import sqlite3

import pytest

from millstream.base.errors import ConfigurationError


@pytest.fixture
def database(tmp_path):
    path = tmp_path / "shop.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, city TEXT)")
        connection.executemany(
            "INSERT INTO customers VALUES (?, ?, ?)", [(1, "ann", "Rome"), (2, "bo", None), (3, "cy", "Oslo")]
        )
        connection.execute("CREATE TABLE counts (word TEXT PRIMARY KEY, n BIGINT)")
        connection.execute("CREATE TABLE log (word TEXT, n BIGINT)")
    connection.close()
    return path


def declare(tables, database, name, columns, extra=""):
    tables.execute_sql(
        f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'jdbc', 'url' = 'jdbc:sqlite:{database}', "
        f"'table-name' = '{name}'{extra})"
    )


def content(database, query):
    connection = sqlite3.connect(database)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def test_rows_are_read_with_the_columns_asked_for(tables, rows, database):
    declare(tables, database, "customers", "id INT, name STRING, city STRING, PRIMARY KEY (id) NOT ENFORCED")
    assert rows("SELECT * FROM customers") == [(1, "ann", "Rome"), (2, "bo", None), (3, "cy", "Oslo")]
    assert rows("SELECT city FROM customers WHERE id = 3") == [("Oslo",)]


def test_rows_are_read_in_parts(tables, rows, database):
    extra = (
        ", 'scan.partition.column' = 'id', 'scan.partition.num' = '2', 'scan.partition.lower-bound' = '1', "
        "'scan.partition.upper-bound' = '3'"
    )
    declare(tables, database, "customers", "id INT, name STRING, city STRING", extra)
    assert sorted(rows("SELECT id FROM customers")) == [(1,), (2,), (3,)]


def test_with_a_primary_key_rows_are_replaced(tables, database):
    declare(tables, database, "counts", "word STRING, n BIGINT, PRIMARY KEY (word) NOT ENFORCED")
    insert = "INSERT INTO counts SELECT w, COUNT(*) FROM (VALUES ('a'), ('b'), ('a')) AS t (w) GROUP BY w"
    tables.execute_sql(insert).wait()
    tables.execute_sql(insert).wait()
    assert sorted(content(database, "SELECT * FROM counts")) == [("a", 2), ("b", 1)]


def test_without_a_primary_key_rows_are_appended_and_updates_refused(tables, database):
    declare(tables, database, "log", "word STRING, n BIGINT")
    tables.execute_sql("INSERT INTO log VALUES ('a', 1), ('a', 1)").wait()
    assert content(database, "SELECT * FROM log") == [("a", 1), ("a", 1)]
    with pytest.raises(ValueError, match="update"):
        tables.execute_sql("INSERT INTO log SELECT word, COUNT(*) FROM log GROUP BY word")


def test_rows_are_looked_up_by_key(tables, rows, database):
    declare(tables, database, "customers", "id INT, name STRING, city STRING", ", 'lookup.cache' = 'PARTIAL'")
    tables.execute_sql(
        "CREATE TEMPORARY VIEW orders AS SELECT *, PROCTIME() AS p FROM (VALUES (10, 1), (11, 9), (12, 3)) AS t(o, c)"
    )
    query = (
        "SELECT {hint} o, name FROM orders {} JOIN customers FOR SYSTEM_TIME AS OF orders.p "
        "ON orders.c = customers.id"
    )
    assert sorted(rows(query.format("", hint=""))) == [(10, "ann"), (12, "cy")]
    assert sorted(rows(query.format("LEFT", hint=""))) == [(10, "ann"), (11, None), (12, "cy")]
    hint = (
        "/*+ LOOKUP('table' = 'customers', 'output-mode' = 'allow_unordered', 'capacity' = '3', 'timeout' = '60 s', "
        "'retry-predicate' = 'lookup_miss', 'retry-strategy' = 'fixed_delay', 'fixed-delay' = '1 ms', "
        "'max-attempts' = '2') */"
    )
    assert sorted(rows(query.format("LEFT", hint=hint))) == [(10, "ann"), (11, None), (12, "cy")]


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        (", 'scan.partition.num' = '2'", "only some"),
        (", 'lookup.cache' = 'ALL'", "none, partial"),
        (", 'tabel' = 'x'", "'tabel'"),
        (", 'sink.max-retries' = 'often'", "whole number"),
    ],
)
def test_option_of_a_database_that_does_not_fit_is_told(tables, database, extra, words):
    declare(tables, database, "customers", "id INT", extra)
    with pytest.raises(ConfigurationError, match=words):
        tables.execute_sql("SELECT * FROM customers")
