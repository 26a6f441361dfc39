"""JDBC's URLs, and what connection options may be."""

from __future__ import annotations

import pickle

import pytest

from millstream.base.errors import ConfigurationError, NotSupportedError
from millstream.common import Types
from millstream.connectors.jdbc.databases import open_database
from millstream.connectors.jdbc.urls import parse_url
from millstream.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcExecutionOptions, JdbcSink


def options(url, driver=None, user=None, password=None):
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(url)
    if driver:
        builder.with_driver_name(driver)
    if user:
        builder.with_user_name(user).with_password(password)
    return builder.build()


@pytest.mark.parametrize(
    ("url", "kind", "hosts", "database"),
    [
        ("jdbc:postgresql://db.example:6543/shop", "postgresql", (("db.example", 6543),), "shop"),
        ("jdbc:postgresql://a:1,b/shop", "postgresql", (("a", 1), ("b", None)), "shop"),
        ("jdbc:postgresql:shop", "postgresql", (("localhost", None),), "shop"),
        ("jdbc:postgresql://[::1]:5432/shop", "postgresql", (("::1", 5432),), "shop"),
        ("postgresql://host/shop", "postgresql", (("host", None),), "shop"),
        ("jdbc:mysql://host/shop%20two", "mysql", (("host", None),), "shop two"),
        ("jdbc:mariadb://host:3307/shop?useSSL=false", "mysql", (("host", 3307),), "shop"),
        ("jdbc:sqlite:/tmp/shop.db", "sqlite", (), "/tmp/shop.db"),
        ("sqlite:////tmp/shop.db", "sqlite", (), "/tmp/shop.db"),
        ("oracle+oracledb://host:1521/?service_name=x", "oracle", (("host", 1521),), None),
    ],
)
def test_url_is_taken_apart(url, kind, hosts, database):
    found = parse_url(options(url))
    assert (found.kind, found.hosts, found.database) == (kind, hosts, database)


def test_options_come_before_what_the_url_says():
    url = "jdbc:postgresql://host/db?user=ann&password=a%26b&currentSchema=etl,public&ssl=false"
    assert (parse_url(options(url)).user, parse_url(options(url)).password) == ("ann", "a&b")
    assert parse_url(options(url, user="bob", password="c")).user == "bob"
    assert open_database(options(url))._parameters() == {"options": "-c search_path=etl,public"}


@pytest.mark.parametrize(
    "url",
    [
        "shop",
        "jdbc:oracle:thin:@host:1521:x",
        "jdbc:sqlite::memory:",
        "jdbc:postgresql://host:port/secret",
        "jdbc:postgresql://host/db?sslfactory=secret",
        "jdbc:mysql://a,b/db?password=secret",
        "jdbc:nothing://host/secret",
    ],
)
def test_url_that_is_none_is_refused_without_showing_what_may_be_secret(url):
    with pytest.raises(ConfigurationError) as caught:
        open_database(options(url))
    assert caught.value.hint and "secret" not in str(caught.value)


def test_driver_of_another_database_is_explained():
    with pytest.raises(ConfigurationError, match="is for databases of the kind mysql"):
        parse_url(options("jdbc:postgresql://host/db", "com.mysql.cj.jdbc.Driver"))
    parse_url(options("jdbc:postgresql://host/db", "org.postgresql.Driver"))
    parse_url(options("jdbc:postgresql://host/db", "com.p6spy.engine.spy.P6SpyDriver"))


def test_options_show_what_they_are_but_no_secret():
    made = options("jdbc:postgresql://host/db?password=s3cret", "org.postgresql.Driver", "ann", "s3cret")
    assert made.get_db_url() == "jdbc:postgresql://host/db?password=s3cret"
    assert (made.get_driver_name(), made.get_user_name(), made.get_password()) == (
        "org.postgresql.Driver",
        "ann",
        "s3cret",
    )
    sink = JdbcSink.sink("INSERT INTO t VALUES (?)", Types.ROW([Types.INT()]), made)
    for thing in (made, parse_url(made), open_database(made), sink, sink._settings):
        assert "s3cret" not in f"{thing} {thing!r}"
    assert pickle.loads(pickle.dumps(sink))._settings == sink._settings


def test_options_without_url_are_refused():
    with pytest.raises(ConfigurationError, match="no URL"):
        JdbcConnectionOptions.JdbcConnectionOptionsBuilder().build()


def test_execution_options_have_flinks_defaults():
    defaults = JdbcExecutionOptions.defaults()
    assert (defaults.get_batch_size(), defaults.get_batch_interval_ms(), defaults.get_max_retries()) == (
        5000,
        0,
        3,
    )
    made = (
        JdbcExecutionOptions.builder()
        .with_batch_size(7)
        .with_batch_interval_ms(8)
        .with_max_retries(9)
        .build()
    )
    assert (made.get_batch_size(), made.get_batch_interval_ms(), made.get_max_retries()) == (7, 8, 9)
    with pytest.raises(ConfigurationError, match="batch_size"):
        JdbcExecutionOptions.builder().with_batch_size(-1)


def test_sinks_that_cannot_be_are_refused_where_they_are_declared():
    database = options("jdbc:sqlite:/tmp/nowhere.db")
    row = Types.ROW_NAMED(["id"], [Types.INT()])
    with pytest.raises(ConfigurationError, match="2 parameters, and its records 1 fields"):
        JdbcSink.sink("INSERT INTO t VALUES (?, ?, '?')", row, database)
    with pytest.raises(ConfigurationError, match="no fields"):
        JdbcSink.sink("INSERT INTO t VALUES (?)", Types.INT(), database)
    with pytest.raises(ConfigurationError, match="must be SQL"):
        JdbcSink.sink(" ", row, database)
    with pytest.raises(ConfigurationError, match="not JdbcConnectionOptions"):
        JdbcSink.sink("INSERT INTO t VALUES (?)", row, "jdbc:sqlite:/tmp/nowhere.db")
    with pytest.raises(ConfigurationError, match="no JdbcExecutionOptions"):
        JdbcSink.sink("INSERT INTO t VALUES (?)", row, database, 5)
    with pytest.raises(ConfigurationError, match="are not named"):
        JdbcSink.table("t").build_at_least_once(database)
    with pytest.raises(ConfigurationError, match="not among the columns"):
        JdbcSink.table("t").with_columns("a").with_key_columns("id").build_at_least_once(database)
    with pytest.raises(ConfigurationError, match="no fields of the records"):
        JdbcSink.table("t").with_type_info(row).with_columns("a").build_at_least_once(database)
    with pytest.raises(NotSupportedError, match="single records"):
        JdbcSink.sink("INSERT INTO t VALUES (?)", row, database).invoke(1)
